"""What the Raft log's parts ask of each other: the machine it drives, the voter, and its turns."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from fedq.core.ids import NodeId
from fedq.shell.raft.compaction import Pieces
from fedq.shell.raft.snapshot import SnapshotError
from fedq.shell.raft.wire import RaftMessage


class LogMachine(Protocol):
    """What the log drives: the cluster map. None of these may raise: that stops the node."""

    def knows(self, command: bytes) -> bool:
        """Whether the machine understands a command that another voter wants in the log."""

    @property
    def takes_commands(self) -> bool:
        """Whether it has room for another command now; if not, it has soon."""

    def on_committed(self, command: bytes) -> None:
        """The next command of the log; each once per process life, in log order."""

    def freeze(self) -> Pieces:
        """The whole state after the last `on_committed` or `on_snapshot`: the next ones do not
        change what comes of it, and its pieces may be made in another thread."""

    def read_snapshot(self, data: bytes) -> object:
        """What `on_snapshot` takes; for any thread. ValueError if it cannot be restored."""

    def on_snapshot(self, read: object) -> None:
        """Replaces the whole state (at start, or when this voter was too far behind)."""

    def on_leader(self, leader: NodeId | None) -> None:
        """Whom this voter now believes to lead; None at first."""


class Taken(NamedTuple):
    """A leader's snapshot that was read, and is on disk beside this voter's own."""

    number: int
    term: int
    #: What the machine made of it.
    read: object


class Voter(Protocol):
    """One voter of a Raft group, without wires, disks or a clock of its own."""

    @property
    def leader(self) -> NodeId | None: ...
    @property
    def term(self) -> int: ...
    @property
    def applied(self) -> int: ...
    @property
    def committed(self) -> int: ...
    @property
    def is_learner(self) -> bool: ...
    def become_learner(self) -> None: ...
    def is_connected(self, peer: NodeId) -> bool: ...
    def connected(self, peer: NodeId) -> None: ...
    def disconnected(self, peer: NodeId) -> None: ...
    def frame_lost(self, peer: NodeId) -> None: ...
    def handle(self, peer: NodeId, message: RaftMessage) -> None: ...
    def append(self, commands: Sequence[bytes]) -> None:
        """Puts commands into the log and sends it on; only while leading."""

    def step(self) -> None:
        """Elections, commits, application, heartbeats: what is due."""

    def on_read(self, taken: Taken | SnapshotError) -> None:
        """The snapshot that `VoterHooks.read` was asked for, or what is wrong with it."""

    def has_more_to_do(self) -> bool:
        """Whether another step would get further without any frame or time in between."""

    def hand_over(self) -> bool:
        """Asks the best follower to lead; False if none is up to date."""


class VoterHooks(Protocol):
    """What a voter may call while it steps."""

    def post(self, peer: NodeId, message: RaftMessage) -> None:
        """Sends a message at the end of the turn, after the sync."""

    def apply(self, command: bytes) -> bool:
        """The next committed command; false: the machine has room for it in a later turn only."""

    def encoded_snapshot(self) -> bytes:
        """A snapshot that ends with the first entry kept, or later."""

    def on_voting(self) -> None:
        """From now on this voter votes like any other."""

    def read(self, encoded: bytes) -> None:
        """Has a leader's snapshot read beside the loop; `Voter.on_read` hears in a later turn."""

    def install(self, taken: Taken) -> None:
        """A leader's snapshot takes the place of the machine's state and of the log."""
