"""Whether this node's cluster map is the others': digests are compared at equal versions.

Inputs: this map's digest after each command, what members say of theirs. Outputs: whether this node
is `outvoted`, and what an operator should know. A node whose map differs from so many that it does
not agree with a majority of the voters serves nobody any more; the others say whose map it is.
"""

from collections import OrderedDict
from typing import Final

from fedq.core.ids import NodeId
from fedq.core.peer_messages import MapApplied
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.digest import NO_DIGEST

#: Versions whose digests are kept: a member's word is rarely older.
_VERSIONS_MAX: Final = 1_024


class MapDigests:
    """The digests of this node's cluster map, to be compared with its peers'."""

    __slots__ = ("_agrees", "_digests", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._digests: OrderedDict[int, int] = OrderedDict()
        #: What the last comparison with each peer gave.
        self._agrees: dict[NodeId, bool] = {}

    def note(self) -> None:
        """Notes the digest of a new version of the map."""
        self._digests[self.state.map.version] = self.state.map.digest
        if len(self._digests) > _VERSIONS_MAX:
            self._digests.popitem(last=False)

    def compare(self, peer: NodeId, theirs: MapApplied) -> None:
        """Compares this node's map with a peer's at a version that this node has applied."""
        mine = self._digests.get(theirs.version, NO_DIGEST)
        if NO_DIGEST in (mine, theirs.digest):
            return
        agrees = mine == theirs.digest
        if self._agrees.get(peer) != agrees:
            self._agrees[peer] = agrees
            if not agrees:
                self.state.out.story.append(self._sentence(peer, theirs.version))
        self.state.outvoted = self._is_outvoted()
        if not agrees:
            sentence = self._sentence(peer, theirs.version)
            self.state.found[f"map {peer}"] = (sentence, self.state.now_ms)

    def _is_outvoted(self) -> bool:
        """Whether this node's map is not that of a majority."""
        if all(self._agrees.values()):
            return False
        voters = self.state.voters
        agree = [peer for peer, agrees in self._agrees.items() if agrees and peer in voters]
        return 2 * (len(agree) + (self.state.me in voters)) <= len(voters)

    def _sentence(self, peer: NodeId, version: int) -> str:
        return (
            f"the cluster map of {peer} differs from that of {self.state.me} at version {version}: "
            "the one that is not like the others serves nobody; stop it, delete the directory "
            "`raft` in its data directory, and start it again: it gets the map of the others"
        )
