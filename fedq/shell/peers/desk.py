"""The desk for streams: which process of a name is let in, if its settings are the same.

Inputs: who introduces itself on a stream, who answered at a peer's own address, who was heard.
Output: whether a stream is admitted, or why not. Shared by both ends of all streams of a node.

Two processes of one name (a copied directory, a name given twice) must not take each other's place
again and again, and the older must not be disturbed. So the process whose stream was admitted owns
the name as long as it is heard, and another one is let in

* when the owner has been silent for as long as makes a node suspect; or
* when it answers at the address that the configuration has for the peer: two cannot listen there.

A caller that is refused while the owner goes on speaking for so long is told for good: it ends.

Nobody of another cluster is let in, whatever its name is. A node learns that it is the one that
does not belong here if most of the nodes say so; it ends, before it has changed anything.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

from fedq.core.ids import NodeId
from fedq.core.versions import misfit
from fedq.shell.peers.hello import Hello, Process
from fedq.shell.peers.proof import PeerProof

#: The setting that must be the same as long as a node belongs to no cluster.
PEERS: Final = "peers"
#: Who says something goes on saying it if no longer than this passes in between: who is dialled is
#: dialled again within a second or so.
_GOES_ON_S: Final = 10.0
#: Characters of a name that an unknown caller gives which are shown.
_SHOWN: Final = 32


class Refusal(NamedTuple):
    """Why a stream is not admitted."""

    sentence: str
    #: The caller should end, because another process of its name lives.
    is_final: bool = False
    #: Time alone does not help: somebody has to change something.
    is_lasting: bool = False


class _Owner:
    __slots__ = ("heard_s", "process")

    def __init__(self, process: Process, now_s: float) -> None:
        self.process = process
        self.heard_s = now_s


class PeerDesk:
    """Admits streams and calls; see the module's docstring."""

    __slots__ = (
        "_answering", "_callers", "_clock", "_dismissed", "_foreign", "_owners", "_past", "_proof",
        "_suspect_s", "_tell", "belongs_to", "cluster_version", "directory_of", "forgotten",
        "hello", "is_current",
        "known_of", "neighbours", "on_address", "on_behind", "on_cluster", "on_foreign",
    )  # fmt: skip

    def __init__(
        self,
        hello: Hello,
        suspect_s: float,
        clock: Callable[[], float],
        tell: Callable[[str, str], None],
        past: Collection[tuple[int, str]] = (),
        proof: PeerProof | None = None,
    ) -> None:
        """`hello`: this node's own. `tell(subject, sentence)` hears what operators should know.

        `proof`: with certificates, whoever answers has to prove its name, too.
        """
        self.hello = hello
        self._proof = proof
        #: The starts that this node's data directory has seen, this one among them.
        self._past = {*past, (int(hello.process.incarnation), hello.process.start)}
        #: The newest process of a node that is known here; set by whoever knows.
        self.known_of: Callable[[NodeId], tuple[int, str]] = lambda _: (0, "")
        #: Called when a peer knows a process of this node that its data directory does not.
        self.on_behind: Callable[[], None] = lambda: None
        #: What the cluster speaks, as this node's map has it.
        self.cluster_version: Callable[[], int] = lambda: 0
        #: Whether this node's map is the cluster's, and not one of a while ago.
        self.is_current: Callable[[], bool] = lambda: True
        #: The name of the cluster that this node's data directory belongs to.
        self.belongs_to: Callable[[], str] = lambda: ""
        #: Called with a sentence when this node does not belong here, as most nodes say.
        self.on_foreign: Callable[[str], None] = lambda _: None
        #: Called with where a peer that was let in says it is to be dialled.
        self.on_address: Callable[[NodeId, str], None] = lambda *_: None
        #: Called when somebody's data directory belongs to a cluster, and this node's to none, or
        #: to the same one at a time when it did not know the caller.
        self.on_cluster: Callable[[], None] = lambda: None
        #: The data directory of a node that was let into the running cluster; "": not known.
        self.directory_of: Callable[[NodeId], str] = lambda _: ""
        #: What a node hears that was taken out of the cluster; None: it was not.
        self.forgotten: Callable[[NodeId], str | None] = lambda _: None
        #: The other nodes of the cluster, as they are at any time.
        self.neighbours: Collection[NodeId] = ()
        #: The nodes that go on saying that this one was taken out: since when, and when last.
        self._dismissed: dict[NodeId, tuple[float, float]] = {}
        #: The nodes that said so last, and to which one.
        self._foreign: dict[NodeId, str] = {}
        self._suspect_s = suspect_s
        self._clock = clock
        self._tell = tell
        self._owners: dict[NodeId, _Owner] = {}
        #: Who answered last at each peer's own address.
        self._answering: dict[NodeId, Process] = {}
        #: Since when another process than the owner has been calling, the last one of each name.
        self._callers: dict[NodeId, tuple[Process, float]] = {}

    def judge(self, hello: Hello) -> Refusal | None:
        """Whether the stream of a caller that has proven its name is admitted."""
        unfit = self.unfit(hello)
        if unfit is not None:
            return Refusal(unfit, is_lasting=True)
        peer, process, now_s = hello.node, hello.process, self._clock()
        owner = self._owners.get(peer)
        if (
            owner is None
            or owner.process == process
            or self._answering.get(peer) == process
            or now_s - owner.heard_s >= self._suspect_s
        ):
            self._owners[peer] = _Owner(process, now_s)
            if hello.reached_at:
                self.on_address(peer, hello.reached_at)
            return None
        caller = self._callers.get(peer)
        if caller is None or caller[0] != process:
            caller = self._callers[peer] = (process, now_s)
        if owner.heard_s - caller[1] < self._suspect_s:
            return Refusal(f"another process of {peer} was here a moment ago: wait")
        sentence = (
            f"two processes call themselves {peer!r}: number {owner.process.incarnation}, which is "
            f"served, and number {process.incarnation}, which is refused: only one may have the "
            "name. Stop one of them, or give it a name and a data directory of its own"
        )
        self._tell(f"name {peer}", sentence)
        return Refusal(sentence, is_final=True)

    def unfit(self, hello: Hello) -> str | None:
        """Why the other node's process and this one cannot be of one cluster; None: they can."""
        return (
            self._misfit(hello) or self._foreigner(hello) or self.misplaced(hello)
            or self._differing(hello)
        )  # fmt: skip

    def misplaced(self, hello: Hello) -> str | None:
        """Why a process is not the node of its name that was let in; None: it may be.

        Who was forgotten would take its successor's place. Nobody is judged by a map that may be
        one of a while ago.
        """
        known = self.directory_of(hello.node)
        if not known or not hello.directory or known == hello.directory or not self.is_current():
            return None
        sentence = (
            f"node '{hello.node}' of this cluster has another data directory than process "
            f"{hello.process.incarnation} of that name, which was taken out of the cluster, or "
            "never was of it: give that one an empty data directory, a name of its own, and "
            "`join` in its configuration"
        )
        self._tell(f"directory {hello.node}", sentence)
        return sentence

    def unfit_to_join(self, hello: Hello) -> str | None:
        """Why a node that asks to join cannot be of this node's cluster; None: it can.

        Nothing is noted of it: anybody may ask, under any name.
        """
        cluster, mine = max(self.cluster_version(), hello.cluster), self.belongs_to()
        sentence = misfit(hello.node, hello.speaks, cluster, self.hello.speaks)
        if sentence is not None:
            return sentence
        if hello.belongs_to and hello.belongs_to != mine:
            return (
                f"the data directory of {hello.node} belongs to cluster {hello.belongs_to}, and "
                f"this is cluster {mine}: to join it the node needs an empty data directory"
            )
        theirs = {**hello.agreed, PEERS: self.hello.agreed.get(PEERS, "")}
        return self._difference(hello.node, theirs)

    def _foreigner(self, hello: Hello) -> str | None:
        """Whether the other node's data directory is of another cluster, in a sentence."""
        mine, theirs = self.belongs_to(), hello.belongs_to
        if not mine or not theirs or mine == theirs:
            self._foreign.pop(hello.node, None)
            return None
        sentence = (
            f"the data directory of {hello.node} belongs to cluster {theirs}, that of "
            f"{self.hello.node} to cluster {mine}: nodes of two clusters have one another's "
            "addresses. Give the one that does not belong here its own data directory, or an "
            "empty one"
        )
        self._tell(f"cluster {hello.node}", sentence)
        owner = self._owners.get(hello.node)
        if owner is not None and self._clock() - owner.heard_s < self._suspect_s:
            # The node of that name in this cluster is there: whoever calls is in the wrong place.
            return sentence
        self._foreign[hello.node] = theirs
        agree = sum(1 for name in self._foreign.values() if name == theirs)
        nodes = sorted({self.hello.node, *self.neighbours})
        if 2 * agree > len(nodes):
            self.on_foreign(
                f"this data directory belongs to cluster {mine}, and most of the nodes "
                f"{', '.join(nodes)} to cluster {theirs}: give this node its own data directory, "
                "or an empty one. No message in it was touched"
            )
        return sentence

    def _misfit(self, hello: Hello) -> str | None:
        """Why the other node's release cannot work with this one, or with the cluster."""
        cluster = max(self.cluster_version(), hello.cluster)
        sentence = misfit(hello.node, hello.speaks, cluster, self.hello.speaks)
        if sentence is not None:
            self._tell(f"release {hello.node}", sentence)
        return sentence

    def _differing(self, hello: Hello) -> str | None:
        """What the other node's configuration has that must be the same and is not."""
        theirs = hello.agreed
        if self.belongs_to() and self.belongs_to() == hello.belongs_to:
            # They have founded it, or were let in: its map says who is of it.
            theirs = {**theirs, PEERS: self.hello.agreed.get(PEERS, "")}
        sentence = self._difference(hello.node, theirs)
        if sentence is not None:
            self._tell(f"settings {hello.node}", sentence)
        return sentence

    def _difference(self, node: NodeId, theirs: Mapping[str, str]) -> str | None:
        """What this node and another one, which has these settings, must share and do not."""
        mine = self.hello.agreed
        what = "; ".join(
            f"{key} is {mine.get(key, 'unknown')!r} at {self.hello.node} and "
            f"{theirs.get(key, 'unknown')!r} at {node}"
            for key in sorted({**mine, **theirs})
            if mine.get(key, "") != theirs.get(key, "")
        )
        if not what:
            return None
        return (
            f"the configurations of {self.hello.node} and {node} differ in what must be the same "
            f"on all nodes: {what}. Correct the wrong file and start its node again"
        )

    def answered(self, hello: Hello) -> None:
        """Notes that this process listens at the peer's own address: any other of it does not.

        What it knows of this node may show that the data directory here is an older copy.
        """
        self._answering[hello.node] = hello.process
        self._dismissed.pop(hello.node, None)
        number, start = hello.known
        if start and (number, start) not in self._past:
            self.on_behind()

    def note_cluster(self, hello: Hello) -> str | None:
        """Notes that the data directory of a caller, which may be no peer, belongs to a cluster.

        Whoever has an empty one may have been of it, and must not found another one beside it.
        Whoever has one of the same cluster, which does not know the caller, may have an older copy,
        and must not lead with it, alone. Returns a sentence about that if the caller is no peer.
        """
        mine, theirs = self.belongs_to(), hello.belongs_to
        is_peer = hello.node in self.neighbours or hello.node == self.hello.node
        if not theirs or (mine and (mine != theirs or is_peer)):
            return None
        if mine and self.forgotten(hello.node) is not None:
            return None
        self.on_cluster()
        if is_peer:
            return None
        me, caller = self.hello.node, f"node {hello.node[:_SHOWN]!r} of cluster {theirs[:_SHOWN]!r}"
        if mine:
            sentence = (
                f"{caller} calls, and the data directory of {me}, which belongs to that cluster, "
                f"does not know it: it may be an older copy. If {me} is alone it leads nothing as "
                "long as it is called so after its start"
            )
        else:
            sentence = (
                f"{caller} calls, and {me} is of no cluster yet: it may have been of that one, and "
                "founds none as long as it is called so"
            )
        sentence += (
            f". If {me} is of that cluster let others forget it (`fedq cluster forget {me}`), and "
            "start it with an empty data directory and `join` in its file; if it is not stop who "
            "calls, or correct the address that it has"
        )
        self._tell("callers of a cluster", sentence)
        return sentence

    def dismissed_by(self, peer: NodeId, sentence: str) -> None:
        """Notes that a peer says that this node was taken out of the cluster.

        Who is behind may be wrong about it: what counts is what most of them go on saying. Each is
        dialled again within seconds; whoever was not heard to say so for longer says so no more.
        """
        now_s = self._clock()
        since_s, last_s = self._dismissed.get(peer, (now_s, now_s))
        if now_s - last_s > _GOES_ON_S:
            since_s = now_s
        self._dismissed[peer] = (since_s, now_s)
        long = [
            node for node, (since_s, last_s) in self._dismissed.items()
            if now_s - last_s <= _GOES_ON_S and now_s - since_s >= self._suspect_s
        ]  # fmt: skip
        if 2 * len(long) > len(self.neighbours):
            self.on_foreign(sentence)

    def asking(self) -> Hello:
        """What this node says first in one call."""
        mine = self._introduction()
        return mine if self._proof is None else self._proof.asking(mine)

    def _introduction(self) -> Hello:
        return self.hello._replace(cluster=self.cluster_version(), belongs_to=self.belongs_to())

    def answer_to(self, caller: Hello) -> Hello:
        """The answer to a caller that is let in."""
        answer = self._introduction()._replace(known=self.known_of(caller.node))
        return answer if self._proof is None else self._proof.proven(caller, answer)

    def doubt(self, asked: Hello, answer: Hello, peer: NodeId) -> str | None:
        """Why the answer to what was asked is not believed to be the peer's; None: it is."""
        doubt = None if self._proof is None else self._proof.doubt(asked, answer, peer)
        if doubt is None:
            return None
        sentence = (
            f"the address of {peer} is answered by somebody else: {doubt}. Nothing is sent there; "
            "correct `peers` or the certificates, or find out who listens there"
        )
        self._tell(f"proof {peer}", sentence)
        return sentence

    def heard(self, peer: NodeId, process: Process) -> bool:
        """Notes that something came on an admitted stream; False: another process was let in."""
        owner = self._owners.get(peer)
        if owner is None or owner.process != process:
            return False
        owner.heard_s = self._clock()
        return True


def agreed_settings(voters: Collection[NodeId], lease_ms: int, suspect_ms: int) -> dict[str, str]:
    """What must be the same on all nodes, by the keys of the configuration.

    `voters`: those who found a cluster; nobody of a node that joins one.
    """
    timing = {"timing.lease_ms": str(lease_ms), "timing.suspect_ms": str(suspect_ms)}
    return {PEERS: ", ".join(sorted(voters)), **timing} if voters else timing
