"""What a node knows before it has heard anything. Times in milliseconds."""

from dataclasses import dataclass, field
from typing import Final

from fedq.core import limits
from fedq.core.ids import Incarnation, NodeId
from fedq.core.suspects import Suspect
from fedq.wiring.cluster_map.passwords import COST

#: What part of memory a publish window is, as a shift.
_WINDOW_SHIFT: Final = 4
#: What part of a segment is read, or sent, in one go at most, as a shift.
_PIECE_SHIFT: Final = 3


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Identity, peers and pace of one node."""

    node: NodeId
    #: Counts the starts of the process on this data directory; from 1.
    incarnation: Incarnation
    #: The nodes of the configuration, each with its peer address "host:port"; contains the node
    #: itself. They vote as long as the log names nobody.
    peers: dict[NodeId, str]
    #: "host:port" where clients reach this node.
    amqp_address: str
    zone: str = ""
    #: A new cluster lets clients in once so many members have come up.
    cluster_size: int = 1
    #: Let into a cluster that ran: who votes is in its log alone (docs/adr/0090).
    joins: bool = False
    #: With whom this node promised anything last, as its data directory has it; (): the log never
    #: named any. A log that is lost does not make it one that is alone.
    electing: tuple[NodeId, ...] = ()
    #: Further nodes, of the roster that this node knew last.
    neighbours: tuple[NodeId, ...] = ()
    #: User name -> password of those with which a new cluster begins (`guest` from loopback only).
    users: dict[str, str] = field(default_factory=lambda: {"guest": "guest"})
    #: Log2 of how slow the passwords of these are to verify: see
    #: `fedq.wiring.cluster_map.passwords`.
    password_cost: int = COST
    #: The random id of the data directory.
    directory: str = ""
    #: This start's own random id, and the wall clock when it began: no two processes of a node have
    #: the same, even if their numbers are (docs/adr/0031-who-a-process-is.md).
    start: str = ""
    started_ms: int = 0
    #: The starts before this one on the same data directory, oldest first: number and id.
    past: tuple[tuple[int, str], ...] = ()
    #: The journal may lack what processes of this node before this one had in sync.
    vouched_since: int = 0
    #: What the process before this one failed at, and the sentence about it; "" if it did not.
    suspects: tuple[Suspect, ...] = ()
    last_stop: str = ""
    seed: int = 0
    #: Added to the monotonic clock gives the wall clock, in milliseconds since 1970: what outlives
    #: a process (when a message expires) is told in that.
    unix_offset_ms: int = 0
    heartbeat_ms: int = 100
    #: How long after a heartbeat the leader answered a node may go on serving.
    lease_ms: int = 700
    #: Silence after which the leader declares a member down; longer than any lease can last.
    suspect_ms: int = 1_800
    #: A backup that owes an acknowledgement for so long leaves the in-sync set.
    backup_stall_ms: int = 1_500
    #: How long a lost copy may come back before another node takes its place.
    replace_backup_ms: int = 5_000
    #: How long a voter may be down before an observer votes in its place; 0: for ever.
    replace_voter_ms: int = 300_000
    #: How long a fragment that nobody has in memory waits for copies in sync that are not back.
    revive_wait_ms: int = 5_000
    #: How long clients of a drained node may take to settle what they have under way.
    drain_grace_ms: int = 10_000
    #: How long a clean stop waits for copies of what only this node has, and to hand over.
    stop_wait_ms: int = 10_000
    #: Publishes of this node to a remote fragment before it asks for a fragment of its own.
    fragment_threshold: int = 1_000
    #: So long a fragment had no traffic that is retired (0: none is), and so long it was led here.
    retire_idle_ms: int = limits.RETIRE_IDLE_MS
    retire_age_ms: int = limits.RETIRE_AGE_MS
    #: What the node may hold in memory for messages, clients and other nodes.
    memory_bytes_max: int = limits.NODE_MEMORY_BYTES_MAX
    #: With more in messages, bodies of long queues are on disk alone; 0: three eighths of that.
    stow_bytes_min: int = 0
    #: What a long queue keeps of its beginning, and reads ahead; 0: what memory allows.
    read_ahead_bytes: int = 0
    #: What cannot be read of a disk is found to so many bytes.
    sector_bytes: int = limits.SECTOR_BYTES
    #: For how long a publisher's name is remembered of which nothing is taken.
    publisher_idle_ms_max: int = limits.PUBLISHER_IDLE_MS_MAX
    #: What a turn may do, in units of about a microsecond (`fedq.core.work`).
    work_per_turn: int = limits.WORK_PER_TURN
    #: So many clients may have opened a virtual host; 0: any number.
    connections_max: int = 0
    #: Offered to clients in connection.tune.
    channels_max: int = limits.CHANNELS_MAX
    #: Consumers of one channel, and of all channels of a connection.
    consumers_per_channel_max: int = limits.CONSUMERS_PER_CHANNEL_MAX
    consumers_per_connection_max: int = limits.CONSUMERS_PER_CONNECTION_MAX
    #: What may wait in an exclusive queue, in messages and in bytes of their bodies; 0: anything.
    exclusive_queue_messages: int = limits.EXCLUSIVE_QUEUE_MESSAGES_MAX
    exclusive_queue_bytes: int = 0
    #: Beyond that its owner's connection is closed, or what comes is dropped; else the oldest are.
    exclusive_queue_disconnects: bool = False
    exclusive_queue_keeps_oldest: bool = False
    #: What may wait in all exclusive queues together, and in those of each virtual host, in
    #: messages and in bytes of these with their properties; 0: anything.
    exclusive_total_messages: int = limits.EXCLUSIVE_TOTAL_MESSAGES_MAX
    exclusive_total_bytes: int = 0
    exclusive_vhost_messages: int = 0
    exclusive_vhost_bytes: int = 0
    #: With less free on the disk of its data, publishers wait; 0: nobody looks.
    disk_free_bytes_min: int = 0
    #: A segment of the journal ends when it is longer than this.
    segment_bytes_max: int = limits.SEGMENT_BYTES_MAX
    #: So much of the journal is read and checked in a second; 0: none is. And how long after one
    #: pass began the next one does, at the earliest.
    scrub_bytes_per_second: int = limits.SCRUB_BYTES_PER_SECOND
    scrub_every_ms: int = limits.SCRUB_EVERY_MS
    #: Asked for again while not committed.
    proposal_retry_ms: int = 500
    #: A client's request that the cluster has not answered by then is refused.
    request_timeout_ms: int = 15_000

    @property
    def voters(self) -> tuple[NodeId, ...]:
        """The nodes that vote as long as the log names none."""
        return () if self.joins else tuple(self.peers)

    @property
    def leave_wait_ms(self) -> int:
        """How long a client that leaves a queue waits at most for what goes with it.

        By then those who have the majority have replaced a node that is gone.
        """
        return 2 * self.suspect_ms

    @property
    def share_bytes_max(self) -> int:
        """What one kind of thing that clients make a node hold may take of its memory."""
        return max(self.memory_bytes_max // 4, limits.MIB)

    @property
    def publish_window_bytes(self) -> int:
        """What this node may have unconfirmed at one fragment before its publishers wait.

        Each message is held once more for each copy until then. Were the window as large as memory,
        a disk or a copy that lags for a moment would set off the alarm.
        """
        window = self.memory_bytes_max >> _WINDOW_SHIFT
        return min(limits.PUBLISH_WINDOW_BYTES_MAX, max(window, limits.PUBLISH_WINDOW_BYTES_MIN))

    @property
    def stow_above(self) -> int:
        """How much is held in memory before bodies of long queues leave it."""
        return self.stow_bytes_min or self.memory_bytes_max // 8 * 3

    @property
    def publishers_bytes_max(self) -> int:
        """What the names of publishers take at most, of all fragments that this node leads."""
        return self.memory_bytes_max >> limits.PUBLISHERS_MEMORY_SHIFT

    @property
    def body_bytes_max(self) -> int:
        """The length of the longest message."""
        return min(limits.BODY_BYTES_MAX, self.share_bytes_max)

    def piece_bytes(self, most: int) -> int:
        """What is read, or sent, in one go: `most`, but no more than a part of a segment.

        So that where segments are small, as in tests, there are several pieces of what there is.
        """
        return min(most, 1 + (self.segment_bytes_max >> _PIECE_SHIFT))

    def __post_init__(self) -> None:
        assert self.node in self.peers, "a node is one of its cluster's peers"
        assert self.suspect_ms > 2 * self.lease_ms, "a lease must end before its node is replaced"
        assert self.heartbeat_ms * 3 <= self.lease_ms
