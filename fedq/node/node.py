"""The node: every machine wired together, without I/O. (Interface; the body follows.)"""

from dataclasses import dataclass, field

from fedq.core.ids import ConnectionId, Incarnation, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.journal.recovery import Recovered
from fedq.node.outbox import NodeOut


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What a node knows before it has heard anything; times in milliseconds."""

    node: NodeId
    #: Counts the starts of the process on this data directory; from 1.
    incarnation: Incarnation
    #: Every voter with its peer address "host:port"; contains the node itself.
    peers: dict[NodeId, str]
    #: "host:port" where clients reach this node.
    amqp_address: str
    zone: str = ""
    #: User name -> password (plain; users move into the map with the access issue).
    users: dict[str, str] = field(default_factory=lambda: {"guest": "guest"})
    seed: int = 0
    heartbeat_ms: int = 100
    lease_ms: int = 700
    suspect_ms: int = 1_800
    backup_stall_ms: int = 1_500
    replace_backup_ms: int = 5_000
    #: Remote publishes of this node to one queue before it asks for a fragment of its own.
    fragment_threshold: int = 1_000


class Node:
    """One node of the federation; see `fedq.node.outbox` for the driver's contract."""

    def __init__(self, settings: NodeSettings, recovered: Recovered) -> None:
        """`recovered`: what `fedq.journal.recovery` read from the data directory."""
        self.out = NodeOut()

    # --- turns ---
    def begin_turn(self, now_ms: int) -> None: ...
    def end_turn(self) -> None: ...

    # --- clients ---
    def on_connected(self, connection: ConnectionId, address: str, is_loopback: bool) -> None: ...
    def on_bytes(self, connection: ConnectionId, data: bytes) -> None: ...
    def on_writable(self, connection: ConnectionId, writable: bool) -> None: ...
    def on_disconnected(self, connection: ConnectionId) -> None: ...

    # --- peers ---
    def on_link_up(self, peer: NodeId) -> None:
        """A stream to the peer was opened: frames handed over from now on may arrive."""

    def on_link_down(self, peer: NodeId, refused: bool) -> None:
        """The stream to the peer broke, or could not be opened.

        `refused`: its host answered that nobody listens there, which is proof that the process
        is gone; repeated at each failed attempt.
        """

    def on_peer(self, frame: PeerFrame) -> None: ...

    # --- the Raft log ---
    def on_committed(self, command: bytes) -> None:
        """The next command of the log, in log order, each exactly once per process life.

        After a restart, commands since the last snapshot come again (the map was restored)."""

    def on_leader(self, leader: NodeId | None) -> None:
        """Whom this node now believes to be the Raft leader."""

    def snapshot(self) -> bytes:
        """The whole cluster map, for the log's compaction."""
        return b""

    def on_snapshot(self, data: bytes) -> None:
        """Replaces the whole cluster map (start, or a follower too far behind)."""

    # --- the journal ---
    def on_synced(self, number: int) -> None: ...
    def on_journal_failed(self, reason: str) -> None: ...

    # --- time ---
    def on_tick(self) -> None:
        """Called about every 50 ms of the clock given to `begin_turn`."""

    def stop(self) -> None:
        """Begins a clean stop: clients get connection.close 320; `stopped` turns true."""
