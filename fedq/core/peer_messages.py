"""What nodes say to each other, as plain values.

`protos/peer.proto` gives each one its form on the wire (`fedq.shell.peers.codec` translates).
All but the heartbeat travel on a *link*: a numbered, acknowledged, ordered stream between two
members that survives broken connections (`fedq.proxy.links`), so no machine has to
think about lost, repeated or overtaking messages. A link starts anew when the cluster map says
that one of the two went down; then each machine starts over from the map.

Each message is about a batch. Positions are ascending unless stated otherwise. `reign` fences: a
message of another reign than the receiver's is stale and dropped.
"""

from typing import Final, NamedTuple, TypeAlias

from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId, QueueKey
from fedq.core.mending_messages import Bodies as Bodies
from fedq.core.mending_messages import BodiesWanted as BodiesWanted
from fedq.core.publish_messages import NamedRun as NamedRun
from fedq.core.publish_messages import PublishAtomic as PublishAtomic
from fedq.core.publish_messages import PublishBatch as PublishBatch
from fedq.core.publish_messages import PublishDone as PublishDone
from fedq.core.quiet_messages import Quiesce as Quiesce
from fedq.core.quiet_messages import Quiesced as Quiesced
from fedq.core.ranges import Range
from fedq.core.reader_messages import ReadAs as ReadAs
from fedq.core.reader_messages import ReadTurn as ReadTurn
from fedq.core.suspects import LastWords

# --- consuming from a fragment held elsewhere -----------------------------------------------


class Watch(NamedTuple):
    """The sender now has this many consumers for the fragment's queue; 0 ends the interest.

    Credit that it gave before is void.
    """

    fragment: FragmentId
    reign: int
    consumers: int
    #: Its consumer is the only one the queue may have.
    exclusive: bool
    #: The lowest ticket of its consumers; 0: none.
    ticket: int
    #: How many of them have nothing: they are not to wait for their neighbours (ADR 0039).
    idle: int = 0


class Offer(NamedTuple):
    """The fragment has messages that nobody took; credit will be served at once."""

    fragment: FragmentId
    reign: int


class Credit(NamedTuple):
    """The sender takes messages on through number `through` of those that it is ever delivered.

    They are counted in `Deliver`s from the `Attach` on, with credit that came back (`CreditBack`).
    `once`: give back what cannot be served now.
    """

    fragment: FragmentId
    reign: int
    through: int
    once: bool
    #: The priority of the best consumer that all its credit is for.
    level: int


class CreditBack(NamedTuple):
    """Credit of the receiver that is void, so much: the fragment is empty."""

    fragment: FragmentId
    reign: int
    amount: int


class Deliver(NamedTuple):
    """Messages for the receiver's consumers; they stay its own until settled."""

    fragment: FragmentId
    reign: int
    positions: list[int]
    #: Those of `positions` that were delivered before.
    redelivered: list[int]
    messages: list[bytes]


class ReadStream(NamedTuple):
    """The sender wants to read a stream from a position on (READ_FROM), or to know where to begin.

    Answered by `StreamPart`; what is not there yet, when it is.
    """

    fragment: FragmentId
    reign: int
    #: READ_FROM, or one of the kinds of `fedq.wiring.cluster_map.stream_arguments`.
    kind: int
    #: The position, or the number that belongs to the kind.
    value: int
    #: So many messages at most.
    amount: int
    #: The number of a question with a filter, which with an amount of 0 is taken back; 0: without.
    request: int = 0
    #: The filter (`fedq.amqp.filtering`).
    values: tuple[bytes, ...] = ()
    unfiltered: bool = False


class StreamPart(NamedTuple):
    """Messages of a stream for the receiver's readers, or where (`next`) one of them begins.

    Without messages it says that none up to `next` has what was asked for.
    """

    fragment: FragmentId
    reign: int
    #: As they stand in the question.
    kind: int
    value: int
    #: The position at which to go on.
    next: int
    positions: list[int]
    messages: list[bytes]
    #: The number of the question.
    request: int = 0


#: What is read from a position on.
READ_FROM: Final = 0


class Get(NamedTuple):
    """The sender wants one message for a basic.get; answered by `Got`."""

    request: int
    fragment: FragmentId
    reign: int


class Got(NamedTuple):
    """One message for a basic.get (as with `Deliver`), or none: the fragment is empty."""

    request: int
    fragment: FragmentId
    reign: int
    positions: list[int]
    redelivered: list[int]
    messages: list[bytes]
    #: Messages left that wait for a taker.
    ready: int


class Settle(NamedTuple):
    """What became of deliveries: gone for good, or back to their old places in the queue."""

    fragment: FragmentId
    reign: int
    acknowledged: list[int]
    requeued: list[int]
    #: Gone for good, and dead: they go to the queue's dead-letter exchange, if it has one.
    rejected: list[int]
    #: Back without any consumer having seen them.
    unseen: list[int]
    #: How many of the sender's consumers have nothing now.
    idle: int = 0


class Attach(NamedTuple):
    """The deliveries of an old primary that the sender's consumers still hold, for a new one."""

    fragment: FragmentId
    reign: int
    consumers: int
    exclusive: bool
    ticket: int
    held: list[Range]
    #: How many of the consumers have nothing.
    idle: int = 0


# --- replication ----------------------------------------------------------------------------


class ReplicaOffer(NamedTuple):
    """A backup's copy holds these positions and asks to be brought up to date."""

    fragment: FragmentId
    reign: int
    #: Names the copy to be made; never used twice by one process.
    copy: int
    held: list[Range]


class ReplicaWanted(NamedTuple):
    """Word to a backup that fell behind: it is sent nothing more until it offers its copy again."""

    fragment: FragmentId
    reign: int


class CopyQuery(NamedTuple):
    """No copy in sync has its memory: what does the receiver's disk hold? Asked by the leader.

    Answered by `CopyWorth`, for the same epoch.
    """

    fragment: FragmentId
    epoch: int


class CopyWorth(NamedTuple):
    """What the sender's copy of a fragment is worth, see `fedq.wiring.failover.worth`."""

    fragment: FragmentId
    epoch: int
    whole: bool
    last: int
    live: int
    digest: int


class CopyStart(NamedTuple):
    """The copy begins: forget `dropped`; live records follow from after `base`.

    `origins` is a journal record without messages: which publishes the primary knew at `base`.
    It replaces what the backup believes: of a dropped publish it must not think that it has it.
    """

    fragment: FragmentId
    reign: int
    #: Of the offer that this answers. An answer to an earlier offer is stale.
    copy: int
    base: int
    dropped: list[Range]
    origins: bytes


class CopyChunk(NamedTuple):
    """Old messages as journal records, newest chunk first; numbered from 1; the last is `done`."""

    fragment: FragmentId
    reign: int
    number: int
    done: bool
    records: bytes


class Replicate(NamedTuple):
    """Live journal records, whose events follow directly on event `previous`, up to `last`."""

    fragment: FragmentId
    reign: int
    previous: int
    last: int
    records: bytes


class ReplicaAck(NamedTuple):
    """The backup holds every event up to `through`, on disk where that was asked for.

    `copied` is the number of the last copy chunk that it holds likewise.
    """

    fragment: FragmentId
    reign: int
    through: int
    copied: int


# --- wiring ---------------------------------------------------------------------------------


class MapApplied(NamedTuple):
    """The sender has applied the cluster map up to this version."""

    version: MapVersion
    #: What it has come to by then (`fedq.wiring.cluster_map.digest`); 0: it does not say.
    digest: int = 0


class InterestItem(NamedTuple):
    """A binding that some private queue of the sender has; arguments as a JSON text ("" = none)."""

    exchange: QueueKey
    routing_key: str
    arguments: str


class Interest(NamedTuple):
    """What the sender's private queues newly want and no longer want to hear."""

    number: int
    #: This is all there is: what the receiver believed before is void.
    whole: bool
    added: list[InterestItem]
    removed: list[InterestItem]
    #: Exchanges with too many keys to name: send everything.
    everything: list[QueueKey]
    #: Exchanges for which that is over; their items, if any, are in `added`.
    selective: list[QueueKey]
    #: Too much for one message: further ones with the same number follow, and it holds with the
    #: last of them.
    more: bool = False


class InterestDone(NamedTuple):
    """The receiver's interest up to `number` is in force at the sender."""

    number: int


class Tally(NamedTuple):
    """How many connections and channels a user, or a virtual host, has at the sender."""

    #: One of the two is empty.
    user: str
    vhost: str
    connections: int
    channels: int


class Relay(NamedTuple):
    """Publishes for the receiver's private queues, numbered from `first`."""

    first: int
    vhost: str
    messages: list[bytes]


class RelayDone(NamedTuple):
    """Relayed publishes up to `through` are dealt with; `unmatched` had no queue."""

    through: int
    unmatched: list[int]
    #: Those that a queue's policy turned away.
    refused: list[int]


# --- questions about fragments --------------------------------------------------------------


class Call(NamedTuple):
    """A question or order for a fragment's primary; `verb` is one of the CALL_* numbers."""

    request: int
    fragment: FragmentId
    verb: int


class Reply(NamedTuple):
    """The answer to a `Call`: `ready` messages and `consumers` (CALL_COUNT), purged (CALL_PURGE).

    To CALL_CONSUME…: `ready` is 1 for no; else `consumers` is the new consumer's ticket. To
    CALL_LEFT: nothing.
    """

    request: int
    fragment: FragmentId
    ready: int
    consumers: int


CALL_COUNT = 1
CALL_PURGE = 2
#: May the sender add a consumer, or an exclusive one?
CALL_CONSUME = 3
CALL_CONSUME_ALONE = 4
#: As CALL_COUNT, by a client that declares the queue: it is in use.
CALL_DECLARE = 5
#: The sender's last consumer has left: answered when it is known whether the queue goes with it.
CALL_LEFT = 6

PeerMessage: TypeAlias = (
    PublishBatch
    | PublishAtomic
    | PublishDone
    | Watch
    | Offer
    | Credit
    | CreditBack
    | Deliver
    | Settle
    | Attach
    | ReplicaOffer
    | ReplicaWanted
    | CopyQuery
    | CopyWorth
    | CopyStart
    | CopyChunk
    | Replicate
    | ReplicaAck
    | MapApplied
    | Interest
    | InterestDone
    | Tally
    | Relay
    | RelayDone
    | Call
    | Reply
    | Get
    | Got
    | ReadStream
    | StreamPart
    | ReadAs
    | ReadTurn
    | BodiesWanted
    | Bodies
    | Quiesce
    | Quiesced
)

#: Those that carry messages of clients, and those that carry records of a fragment.
CARRY_MESSAGES: Final = (PublishBatch, PublishAtomic, Deliver, Relay, StreamPart, Bodies)
CARRY_RECORDS: Final = (CopyChunk, Replicate)
#: What a node says to whoever leads a fragment.
TO_PRIMARY: Final = (
    PublishBatch, PublishAtomic, ReplicaOffer, ReplicaAck, Attach, Watch, Credit, Get, Settle, Call,
    ReadStream, ReadAs, Quiesced,
)  # fmt: skip

# --- the envelope ----------------------------------------------------------------------------


class Heartbeat(NamedTuple):
    """Sent at a fixed pace, outside the numbered stream; may be lost."""

    #: The sender's monotonic clock, to be echoed.
    sent_ms: int
    #: The newest `sent_ms` heard from the receiver (0: none).
    echo_ms: int
    #: The sender leads, and a majority answered it lately: its echo extends the receiver's lease.
    leads: bool
    #: The sender is being stopped: it is counted on for nothing new.
    leaving: bool = False
    #: The sender's process: a directory that was put back may have given its number to another one.
    start: str = ""
    #: The sender's disk has owed a sync for longer than anybody should wait.
    stalls: bool = False
    #: The sender takes in no more: its memory, or its disk, is at its bound.
    full: bool = False
    #: Which of them it is; an older release says neither.
    memory_full: bool = False
    disk_low: bool = False


class PeerFrame(NamedTuple):
    """What one node hands to the stream to another in one turn."""

    sender: NodeId
    incarnation: Incarnation
    #: The map versions at which (sender, receiver) came up last; names the link's session.
    session: tuple[int, int]
    #: Number of the first message here within its session (from 1); 0 when there are none.
    first: int
    #: The highest number of the receiver's messages that the sender has taken in order.
    acknowledged: int
    #: The sender's map version: the receiver takes the messages once it has applied it too.
    map_version: MapVersion
    messages: list[PeerMessage]
    heartbeat: Heartbeat | None
    #: The sender keeps much that is not acknowledged, and wants to forget it soon.
    asks: bool = False
    #: The sender has failed and stops: this is the last that is heard of it. Outside the stream.
    last_words: LastWords | None = None
