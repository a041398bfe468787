"""What a node shows of itself to people and tools: plain values, read-only.

`fedq.node.views.overview.overview(node)` gives an `Overview` of a living node; the admin floor
reads this, and `access_overview`. All values are copies or immutable: whoever holds one cannot
disturb the node.

Invariants:
* what the cluster map says (members, queues, fragments) is the asked node's own copy, at
  `NodeOverview.map_version`; what only a primary knows is in `LocalFragment`;
* reading one item costs time in proportion to that item, never to the whole map, except
  `queue_keys`, which walks over the queues once, and copies of names and numbers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from fedq.core.ids import (
    ConnectionId,
    Epoch,
    FragmentId,
    Incarnation,
    MapVersion,
    NodeId,
    QueueKey,
)
from fedq.node.records.message_counts import MessageCounts
from fedq.node.records.unserved import Awaited
from fedq.node.views.alarm_view import NO_ALARM, AlarmOverview
from fedq.node.views.storage_types import CopyOverview, FragmentCause
from fedq.wiring.cluster_map.policy_book import Standing

Item = TypeVar("Item")


class MemberState(Enum):
    """Whether the cluster counts on a member."""

    UP = "up"
    DOWN = "down"
    #: Configured as a peer, but the cluster map has never heard of it.
    ABSENT = "absent"


class Readiness(Enum):
    """Whether new clients should come to a node, and why not: the words are for people."""

    READY = "serves its clients"
    FENCED = "waits for contact with a majority of the nodes"
    CLOSED = "lets no clients in yet: it has not joined, or the cluster is new and not complete"
    DRAINED = "is drained: others take its clients"
    FULL = "takes no further clients: it is low on memory, or has as many as it may"
    STOPPING = "stops"


@dataclass(frozen=True, slots=True)
class ScrubOverview:
    """What reading the journal again has come to, since the node's start."""

    passes: int = 0
    #: 0: none has come to its end.
    last_pass_unix_ms: int = 0
    #: The segment that is being read; 0: none is.
    segment: int = 0
    #: Of the pass under way, or the last one.
    pass_bytes: int = 0
    segments_with_rot: int = 0
    messages_mended: int = 0
    messages_lost: int = 0


@dataclass(frozen=True, slots=True)
class NodeOverview:
    """What one node alone knows of itself."""

    node: NodeId
    incarnation: Incarnation
    zone: str
    #: The Raft leader this node believes in; None while it knows of none.
    leader: NodeId | None
    map_version: MapVersion
    #: Without it the node confirms and delivers nothing.
    lease_held: bool
    stopping: bool
    #: Since the first turn.
    uptime_ms: int
    connections: int
    channels: int
    #: Consumers of this node's own clients.
    consumers: int
    private_queues: int
    #: Messages in memory, of primaries, backups and private queues.
    memory_bytes: int
    #: In segments that are still needed.
    journal_bytes: int
    journal_segments: int
    #: Of these bytes, as far as the last checkpoint has found: dead ones.
    journal_dead_bytes: int = 0
    #: What is wrong with it that only it knows: sentences without a subject.
    troubles: tuple[str, ...] = ()
    #: What is worth knowing of it beside that: as these.
    notes: tuple[str, ...] = ()
    #: Since its start.
    failed_logins: int = 0
    #: Messages that lengths of exclusive queues cost them, owners that had to leave for them, and
    #: messages that wait there.
    exclusive_dropped: int = 0
    slow_closed: int = 0
    exclusive_waiting: int = 0
    scrub: ScrubOverview = ScrubOverview()
    alarms: AlarmOverview = NO_ALARM
    counts: MessageCounts = field(default_factory=MessageCounts)
    #: Why it lets no clients in, with or without a lease: a sentence; "": it does.
    closed: str = ""


@dataclass(frozen=True, slots=True)
class TrafficOverview:
    """What came to a fragment and went since its primary leads it."""

    published: int = 0
    #: Handed out to nodes or to basic.get; and of these, again.
    handed_out: int = 0
    handed_again: int = 0
    acknowledged: int = 0


@dataclass(frozen=True, slots=True)
class Staying:
    """Copies on a drained node that no other one could have."""

    copies: int
    #: Copies that the first of these is wanted in.
    replicas: int
    #: The queue of the first.
    queue: QueueKey


class MemberRole(Enum):
    """What a node is in the cluster, by its roster and its log."""

    #: The log counts it.
    VOTER = "voter"
    #: It follows the log, and does everything but vote.
    OBSERVER = "observer"
    #: It is to vote, and the log does not count it yet, or it has not come up.
    JOINING = "joining"


@dataclass(frozen=True, slots=True)
class MemberOverview:
    """A member as the cluster map has it (or, if absent there, as the configuration has it)."""

    node: NodeId
    state: MemberState
    incarnation: Incarnation
    zone: str
    #: "host:port" each.
    peer_address: str
    amqp_address: str
    #: Whether it is drained, and if so whether its clients are to leave.
    drained: bool | None = None
    role: MemberRole = MemberRole.VOTER
    #: What it speaks of what nodes say to each other, oldest and newest; 0: it has not said so.
    speaks: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class ClusterOverview:
    """The cluster as this node's copy of the map has it."""

    era: int
    #: Ordered by node; contains the node itself.
    members: tuple[MemberOverview, ...]
    queues: int
    fragments: int
    #: Fragments whose primary is down (or has lost its memory).
    fragments_unavailable: int
    #: Fragments with a live primary and fewer copies in sync than min(replicas, members up).
    fragments_short: int
    #: Nodes with fragments of which they have the only copy in sync, though more are wanted, and
    #: how many.
    alone: tuple[tuple[NodeId, int], ...] = ()
    #: Fragments that wait for a node that is down, by the nodes that have their copies in sync.
    awaited: tuple[Awaited, ...] = ()
    #: Fragments that are to be led by another node.
    moves: int = 0
    #: Of drained nodes: copies that no other node could have, and some of their queues.
    staying: Mapping[NodeId, "Staying"] = field(default_factory=dict)
    #: Fragments of which a node alone has a copy in sync and up: though more are wanted; and as no
    #: more are.
    only_copies: Mapping[NodeId, int] = field(default_factory=dict)
    single_copies: Mapping[NodeId, int] = field(default_factory=dict)
    #: What the cluster speaks of what nodes say to each other; 0: nothing yet.
    version: int = 0
    #: How many fragments each node leads, and how many copies it holds, these among them.
    leads: Mapping[NodeId, int] = field(default_factory=dict)
    copies: Mapping[NodeId, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FragmentOverview:
    """A fragment as the cluster map has it."""

    fragment: FragmentId
    primary: NodeId
    #: Assigned copies without the primary, in sync or joining.
    backups: tuple[NodeId, ...]
    #: Copies that hold everything confirmed, with the primary.
    in_sync: tuple[NodeId, ...]
    epoch: Epoch
    reign: int
    cause: FragmentCause = FragmentCause.DECLARED
    #: The node that is to lead it; None: it is to stay where it is.
    moves_to: NodeId | None = None


@dataclass(frozen=True, slots=True)
class QueueOverview:
    """A shared queue as the cluster map has it."""

    key: QueueKey
    durable: bool
    auto_delete: bool
    #: The declaration's arguments as a JSON object ("" or "{}": none).
    arguments: str
    #: Copies wanted for each fragment.
    replicas: int
    fragments: tuple[FragmentOverview, ...]


@dataclass(frozen=True, slots=True)
class LocalFragment:
    """A fragment whose primary this node is."""

    fragment: FragmentId
    reign: int
    #: Publishes are confirmed and messages delivered: this node is hot and holds its lease.
    serving: bool
    ready: int
    unacknowledged: int
    #: Of its messages, in memory.
    bytes_held: int
    #: Of a queue with a single active consumer: the node that has it.
    active: NodeId | None = None
    traffic: TrafficOverview = TrafficOverview()


@dataclass(frozen=True, slots=True)
class NamedReaderOverview:
    """A name that a stream, or a queue, keeps a place for, in one of its fragments."""

    name: str
    #: Where its reader goes on; of a queue, the batch up to which all is settled.
    offset: int
    #: How many messages are there from that on; of a queue, how many are reserved.
    lag: int
    #: The node of the reader that is served; None: nobody reads.
    node: NodeId | None


@dataclass(frozen=True, slots=True)
class ConnectionOverview:
    """A client connection of this node."""

    connection: ConnectionId
    client_address: str
    #: "" before authentication.
    user: str
    #: "" before connection.open.
    vhost: str
    #: What the client calls itself in its client-properties; "" if nothing.
    client_name: str
    channels: int
    consumers: int
    unacknowledged: int
    #: Held back from publishing.
    blocked: bool


@dataclass(frozen=True, slots=True)
class ChannelOverview:
    """A channel of a client of this node."""

    connection: ConnectionId
    number: int
    user: str
    vhost: str
    consumers: int
    unacknowledged: int
    #: Publishes, and settlements, that wait for tx.commit.
    uncommitted: int
    acks_uncommitted: int
    unconfirmed: int
    #: Of each new consumer, and of all together; 0: none.
    prefetch: int
    prefetch_global: int
    confirms: bool
    transacts: bool
    flow: bool


@dataclass(frozen=True, slots=True)
class ConsumerOverview:
    """A consumer of a client of this node."""

    queue: QueueKey
    connection: ConnectionId
    channel: int
    tag: str
    no_ack: bool
    #: 0: none.
    prefetch: int
    priority: int
    #: None: it is the only one here that may be, and only the queue's primary knows.
    active: bool | None


@dataclass(frozen=True, slots=True)
class SubscriberOverview:
    """An exclusive queue of this node, and what waits there for its owner."""

    queue: QueueKey
    connection: ConnectionId
    user: str
    ready: int
    #: Of all its messages, in memory.
    bytes_held: int
    #: Messages that its length cost it.
    dropped: int
    consumers: int
    #: Its owner's socket takes nothing more for now.
    is_stuck: bool

    @property
    def is_slow(self) -> bool:
        """Whether something waits, or was dropped."""
        return self.ready > 0 or self.dropped > 0


class ClientPlace(NamedTuple):
    """Where a page begins: at this connection, this channel, behind this consumer tag or queue."""

    connection: int = 0
    channel: int = 0
    tag: str = ""


class ClientPage(NamedTuple, Generic[Item]):
    """A part of a list, and where the next one begins; None: there is none."""

    items: list[Item]
    next_place: ClientPlace | None


class TallyOverview(Protocol):
    """The cluster's totals, put together over some fragments at a time."""

    def add(self, fragments: Iterable[FragmentId]) -> None:
        """Adds those of some fragments that are still there."""

    def found(self) -> ClusterOverview:
        """The cluster as it is, with the totals of what was added."""


#: Policies are looked for on behalf of lists until that came to so much work: some 10 ms.
LOOK_WORK_MAX: Final = 2_000


class Overview(Protocol):
    """A cheap view on a living node: each method reads the present state."""

    def node(self) -> NodeOverview:
        """The node itself."""

    def readiness(self) -> Readiness:
        """Whether new clients should come to it."""

    def process(self) -> tuple[NodeId, Incarnation]:
        """The node's name, and which of its processes this is."""

    def fragment_ids(self) -> list[FragmentId]:
        """All fragments of the map, in any order: a copy of their numbers."""

    def cluster_tally(self) -> TallyOverview:
        """The cluster's members and totals, to be put together over some fragments at a time."""

    def members(self) -> Sequence[MemberOverview]:
        """All members without totals, ordered by node."""

    def queue_keys(self) -> list[QueueKey]:
        """All shared queues, in order."""

    def queue_names(self) -> list[QueueKey]:
        """All shared queues, in any order: a copy of the names alone."""

    def queue(self, key: QueueKey) -> QueueOverview | None:
        """One shared queue; None: the map has no such queue."""

    def standings(self, keys: Sequence[QueueKey]) -> Sequence[Standing]:
        """The policies of the first of these queues, of one at least: of as many as cost little."""

    def local_fragments(self, key: QueueKey) -> Sequence[LocalFragment]:
        """The fragments of the queue whose primary this node is."""

    def copies(self, key: QueueKey) -> Sequence[CopyOverview]:
        """What this node has of the queue's fragments, in memory and on its disk."""

    def named_readers(self, fragment: FragmentId) -> Sequence[NamedReaderOverview]:
        """The named readers of a stream's fragment that this node serves, by name."""

    def local_consumers(self, key: QueueKey) -> int:
        """How many consumers of the queue belong to clients of this node."""

    def connections(self, limit: int) -> Sequence[ConnectionOverview]:
        """The first `limit` client connections, oldest first (`node().connections`: the total)."""

    def connection_page(
        self, vhost: str | None, begin: ClientPlace, most: int
    ) -> ClientPage[ConnectionOverview]:
        """A page of at most so many connections that begins there; `vhost` None: of all."""

    def channel_page(
        self, vhost: str | None, begin: ClientPlace, most: int
    ) -> ClientPage[ChannelOverview]:
        """A page of at most so many channels that begins there."""

    def consumer_page(
        self, vhost: str | None, begin: ClientPlace, most: int
    ) -> ClientPage[ConsumerOverview]:
        """A page of at most so many consumers that begins there."""

    def subscriber_page(
        self, vhost: str | None, begin: ClientPlace, most: int, slow: bool
    ) -> ClientPage[SubscriberOverview]:
        """A page of at most so many exclusive queues that begins there; `slow`: of those alone."""
