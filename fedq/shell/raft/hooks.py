"""What the Raft log's parts ask of each other: the machine it drives, the voter, and its turns."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from fedq.core.ids import NodeId
from fedq.shell.raft.compaction import Pieces
from fedq.shell.raft.snapshot import SnapshotError
from fedq.shell.raft.voters import VoterSet
from fedq.shell.raft.wire import RaftMessage


class LogMachine(Protocol):
    """What the log drives: the cluster map. None of these may raise: that stops the node."""

    def knows(self, command: bytes) -> bool:
        """Whether the machine understands a command that another voter wants in the log."""

    @property
    def takes_commands(self) -> bool:
        """Whether it has room for another command now; if not, it has soon."""

    def on_committed(self, command: bytes) -> None:
        """Takes the next command of the log; each once per process life, in log order."""

    def freeze(self) -> Pieces:
        """The whole state after the last `on_committed` or `on_snapshot`.

        The next ones do not change what comes of it, and its pieces may be made in another thread.
        """

    def read_snapshot(self, data: bytes) -> object:
        """What `on_snapshot` takes; for any thread. ValueError if it cannot be restored."""

    def on_snapshot(self, read: object) -> None:
        """Replaces the whole state (at start, or when this voter was too far behind)."""

    def on_leader(self, leader: NodeId | None) -> None:
        """Takes note whom this voter now believes to lead; None at first."""

    @property
    def wanted_voters(self) -> tuple[NodeId, ...] | None:
        """The nodes that should vote, in ascending order; None: those that do.

        Looked at while leading.
        """

    def on_voters(self, voters: tuple[NodeId, ...]) -> None:
        """Takes note who votes, by the next entry of the log; as `on_committed`."""


class Taken(NamedTuple):
    """A leader's snapshot that was read, and is on disk beside this voter's own."""

    number: int
    term: int
    #: What the machine made of it.
    read: object
    #: Who voted then; None: the log had not named anybody.
    voters: VoterSet | None


class Voter(Protocol):
    """One voter of a Raft group, without wires, disks or a clock of its own."""

    @property
    def leader(self) -> NodeId | None:
        """The voter that this one believes to lead; None if it knows of none."""

    @property
    def term(self) -> int:
        """The current Raft term."""

    @property
    def applied(self) -> int:
        """The index of the newest entry that the machine has."""

    @property
    def committed(self) -> int:
        """The index of the newest entry known to be committed."""

    @property
    def is_learner(self) -> bool:
        """Whether this voter may have forgotten what it promised."""

    @property
    def voters(self) -> VoterSet:
        """The voters, by the newest entry of this node's log that says so."""

    def knows(self, peer: NodeId) -> bool:
        """Whether the node is one that this one gives its log to, or follows."""

    def know(self, peer: NodeId) -> None:
        """Gives the log to one more node from now on, which follows it, whether it votes or not."""

    def forget(self, peer: NodeId) -> bool:
        """Has nothing to do with a node any more; False: it votes, so it stays."""

    def become_learner(self) -> None:
        """Makes this voter a learner: what it promised may not be in its files."""

    def found_nothing(self) -> None:
        """Founds no cluster for a while: there is one that this node may have been of.

        Nor does it begin to lead alone. If it votes in a log that nothing was ever said in, it
        learns first. Raises `OSError` if its disk does not take that.
        """

    def is_connected(self, peer: NodeId) -> bool:
        """Whether frames may be sent to the peer."""

    def connected(self, peer: NodeId) -> None:
        """Takes note that frames may be sent to the peer from now on."""

    def disconnected(self, peer: NodeId) -> None:
        """Takes note that the stream to the peer broke."""

    def frame_lost(self, peer: NodeId) -> None:
        """Takes note that a frame to the peer was lost."""

    def handle(self, peer: NodeId, message: RaftMessage) -> None:
        """Takes a message of the peer."""

    def append(self, commands: Sequence[bytes]) -> None:
        """Puts commands into the log and sends it on; only while leading."""

    def step(self) -> None:
        """Takes a step: elections, commits, application, heartbeats, as they are due."""

    def on_read(self, taken: Taken | SnapshotError) -> None:
        """Takes the snapshot that `VoterHooks.read` was asked for, or what is wrong with it."""

    def has_more_to_do(self) -> bool:
        """Whether another step would get further without any frame or time in between."""

    def hand_over(self) -> bool:
        """Asks the best follower to lead; False if none is up to date."""


class VoterHooks(Protocol):
    """What a voter may call while it steps."""

    def post(self, peer: NodeId, message: RaftMessage) -> None:
        """Sends a message at the end of the turn, after the sync."""

    def apply(self, command: bytes) -> bool:
        """Applies the next committed command; false: the machine has room in a later turn only."""

    def encoded_snapshot(self) -> bytes:
        """A snapshot that ends with the first entry kept, or later."""

    def on_voting(self) -> None:
        """Takes note that this voter votes like any other from now on."""

    def wanted_voters(self) -> tuple[NodeId, ...] | None:
        """As `LogMachine.wanted_voters`."""

    def on_voters(self, voters: tuple[NodeId, ...]) -> None:
        """Hands the machine the next committed set of voters."""

    def on_new_set(self, voters: VoterSet) -> None:
        """Takes note that the newest set in the log is another one; committed it may not be.

        What is promised from now on counts with it: it is to be remembered on disk before.
        """

    def read(self, encoded: bytes) -> None:
        """Has a leader's snapshot read beside the loop; `Voter.on_read` hears in a later turn."""

    def install(self, taken: Taken) -> None:
        """Installs a leader's snapshot in the place of the machine's state and of the log."""
