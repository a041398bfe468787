"""What a node knows of its clients: plain records that the flows of `fedq.node` work on.

No decisions here. Who changes what is said in each flow's docstring.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from fedq.amqp.commands import Publishes, Request, Settles
from fedq.amqp.connection import Connection
from fedq.amqp.filtering import StreamFilter
from fedq.amqp.method_types import Method
from fedq.channels.confirms import ConfirmWindow
from fedq.channels.unacked import Part, UnackedWindow
from fedq.core.ids import ConnectionId, FragmentId, MapVersion, QueueKey
from fedq.core.limits import DELIVERY_BYTES_PER_TURN_MAX
from fedq.fragments.fragment import Fragment
from fedq.node.records.named_readers import Member
from fedq.proxy.hub import NO_LIMIT, Hub
from fedq.wiring.routing.route import Route


class Committer(Protocol):
    """Waits for publishes to be committed, as channels and others do."""

    def on_committed(self) -> None:
        """Takes note that its publishes are committed, or were refused, wherever they went."""


#: The owner of a confirm group.
Owner: TypeAlias = "Channel | Committer"
#: Not spread: the first fragment is chosen.
FIRST_FRAGMENT: Final = -1
#: A place in a stream, for those who ask for the same.
Place: TypeAlias = tuple[int, StreamFilter | None]


class Cursor:
    """Where a reader is in a fragment of its stream."""

    __slots__ = ("consumer", "named", "next", "wanted")

    def __init__(
        self, consumer: "Consumer", position: int, wanted: StreamFilter | None = None,
        named: Member | None = None,
    ) -> None:  # fmt: skip
        self.consumer = consumer
        #: The position of what it gets next, or before that.
        self.next = position
        #: What it asks for; None: everything.
        self.wanted = wanted
        #: What goes with its name; None: it has none.
        self.named = named

    @property
    def waits(self) -> bool:
        """Whether another one with its name is being served, or is to be."""
        named = self.named
        return named is not None and (not named.is_served or named.yields)

    @property
    def place(self) -> "Place":
        """Where it is, and what it asks for: who has the same one gets the same."""
        return self.next, self.wanted


class Consumer:
    """One basic.consume."""

    __slots__ = (
        "awake", "channel", "cursors", "frame_bytes_max", "head", "hub", "limit", "no_ack",
        "priority", "queue", "route_size", "tag", "ticket", "unacked",
    )  # fmt: skip

    def __init__(
        self, channel: "Channel", tag: str, queue: QueueKey, no_ack: bool, limit: int,
        priority: int = 0,
    ) -> None:  # fmt: skip
        # What a fan-out looks at comes first, for all of it is cold then (ADR 0030).
        self.channel = channel
        #: How its deliveries begin, up to their tag, when a route has this size (`fan_out`), and
        #: how large a frame may be.
        self.route_size = -1
        self.head = b""
        self.frame_bytes_max = 0
        self.tag = tag
        self.queue = queue
        self.no_ack = no_ack
        #: Prefetch count in force when it began; 0: none (RabbitMQ's per-consumer meaning).
        self.limit = limit
        self.priority = priority
        #: Its place among all consumers of the queue, on all nodes; 0 before it is admitted.
        self.ticket = 0
        self.unacked = 0
        #: The consumers of its queue, as long as it is one of them; its mark of the round robin.
        self.hub: Hub[Consumer] | None = None
        self.awake = False
        #: Its places in a stream, by fragment; such a consumer is not one of a hub's.
        self.cursors: dict[FragmentId, Cursor] | None = None

    @property
    def group(self) -> "Channel | None":
        """The consumers that share one allowance: those of a channel with a global prefetch."""
        return self.channel if self.channel.prefetch_global else None

    def free(self) -> int:
        """How many more messages it takes now."""
        channel = self.channel
        client = channel.client
        if not client.writable or not channel.flow:
            return 0
        if client.delivered_bytes >= DELIVERY_BYTES_PER_TURN_MAX:
            return 0
        if self.no_ack:
            return NO_LIMIT
        free = self.limit - self.unacked if self.limit else NO_LIMIT
        if channel.prefetch_global:
            free = min(free, channel.prefetch_global - channel.unacked_count)
        return free


class Channel:
    """One open channel of a client."""

    __slots__ = (
        "backlog", "client", "closed", "confirms", "consumers", "flow", "got", "is_named",
        "last_queue", "leaving", "notices", "number", "prefetch", "prefetch_global", "reply_queue",
        "shut", "sticky", "tags_made", "transaction", "unacked", "waiting", "wanted",
    )  # fmt: skip

    def __init__(self, client: "Client", number: int) -> None:
        # What a fan-out looks at comes first.
        self.client = client
        self.number = number
        #: channel.flow: whether the client wants deliveries.
        self.flow = True
        self.unacked: UnackedWindow[Consumer | None] = UnackedWindow()
        #: How many of those were not consumed, but got.
        self.got = 0
        self.closed = False
        #: The client is done with it; only what it sent before still takes effect.
        self.leaving = False
        self.consumers: dict[str, Consumer] = {}
        self.confirms: ConfirmWindow[Owner] | None = None
        #: After tx.select: what waits for the commit.
        self.transaction: Transaction | None = None
        #: The queue behind its consumer of direct replies.
        self.reply_queue: QueueKey | None = None
        self.prefetch = 0
        self.prefetch_global = 0
        #: Which fragment of a queue this channel's publishes go to (P4).
        self.sticky: dict[QueueKey, FragmentId] = {}
        #: It has published under a name: all it publishes goes to first fragments (ADR 0078).
        self.is_named = False
        #: The name an empty queue name stands for (specification: last declared on the channel).
        self.last_queue = ""
        self.tags_made = 0
        #: What the client is told once its request is answered.
        self.notices: list[Method] | None = None
        #: A request waits for the cluster; what comes after it waits in `backlog`.
        self.waiting = False
        self.backlog: deque[Publishes | Settles | Request] | None = None
        #: Fragments that hand out nothing while what it had returns to them, piece by piece.
        self.shut: dict[FragmentId, Fragment] | None = None
        #: Its consumers, which are many, are being woken.
        self.wanted: Wanted | None = None

    @property
    def spread(self) -> int:
        """By what a fragment is chosen for its publishes, where there is a choice."""
        return FIRST_FRAGMENT if self.is_named else self.client.connection

    @property
    def unacked_count(self) -> int:
        """How many deliveries count against a global prefetch.

        Those of basic.get do not, nor those that a transaction settles, until its commit.
        """
        held = len(self.unacked) - self.got
        return held + self.transaction.settled if self.transaction is not None else held

    def parts(self) -> list[Part["Consumer | None"]]:
        """The channel's deliveries, also those settled only if its transaction commits."""
        found = self.unacked.parts()
        if self.transaction is not None:
            found += [part for part, _ in self.transaction.settles]
        return found


class Wanted:
    """What is to be done with all consumers of a channel (`fedq.node.consuming.waking`)."""

    __slots__ = ("again", "grant_anew")

    def __init__(self, grant_anew: Callable[[QueueKey], None] | None) -> None:
        #: From the first one on.
        self.again = True
        #: Makes the credit void that fragments elsewhere have for a queue's consumers.
        self.grant_anew = grant_anew


class Transaction:
    """What a channel has done since tx.select, or the last commit or rollback."""

    __slots__ = ("publishes", "settled", "settles", "size")

    def __init__(self) -> None:
        #: Messages with where they go, in order.
        self.publishes: list[tuple[bytes, Route, bool]] = []
        #: Deliveries, with what is to become of them (one of `fedq.node.records.settling`), and how
        #: many.
        self.settles: list[tuple[Part[Consumer | None], int]] = []
        self.settled = 0
        self.size = 0


class Account:
    """What the clients of a user, or of a virtual host, have here."""

    __slots__ = ("bytes_held", "channels", "connections")

    def __init__(self) -> None:
        self.bytes_held = 0
        self.connections = 0
        self.channels = 0


class Client:
    """One client connection."""

    __slots__ = (
        "address", "bytes_held", "bytes_unfinished", "bytes_waiting", "channels",
        "channels_charged", "connection", "consumers", "delivered_bytes", "early", "gone",
        "is_blocked", "is_heaping", "known_as", "machine", "of_user", "of_vhost", "permitted",
        "place", "private", "publishes", "read_blocks", "transaction_bytes", "turn", "used",
        "user", "vhost", "wake_ms", "writable",
    )  # fmt: skip

    def __init__(
        self, connection: ConnectionId, machine: Connection, address: str, known_as: object
    ) -> None:
        # What a fan-out looks at comes first.
        #: What the driver knows the connection by, so that it need not look it up.
        self.known_as = known_as
        #: Bytes of deliveries in this turn, but for a piece that waits in `NodeOut.fanned`,
        self.delivered_bytes = 0
        #: and where that is, if it is there.
        self.place = 0
        self.writable = True
        self.connection = connection
        self.address = address
        #: Bytes that came before this node had joined the cluster.
        self.early: tuple[bytes, ...] = ()
        #: Why its socket is not read at present.
        self.read_blocks: dict[str, None] | None = None
        self.machine = machine
        self.vhost = ""
        self.user = ""
        self.channels: dict[int, Channel] = {}
        #: Exclusive queues that die with the connection.
        self.private: dict[QueueKey, None] = {}
        #: Exchanges that its user may publish to, as routes begin with them, each with the map
        #: version that said so.
        self.permitted: dict[bytes, MapVersion] = {}
        self.gone = False
        #: When its machine is due.
        self.wake_ms = 0
        #: Whether it has ever published.
        self.publishes = False
        #: What the transactions of its channels hold.
        self.transaction_bytes = 0
        #: What it had done of the work of this turn, the last in which it had something to do.
        self.used = 0
        self.turn = 0
        #: What is charged for it (`fedq.node.records.accounts`): all of it, and parts.
        self.bytes_held = self.bytes_unfinished = self.bytes_waiting = 0
        self.channels_charged = 0
        self.consumers = 0
        #: Commands of what is being read have to wait.
        self.is_heaping = False
        #: It was told that publishers are blocked.
        self.is_blocked = False
        self.of_user: Account | None = None
        self.of_vhost: Account | None = None


def capability(client: Client, name: str) -> bool:
    """Whether the client announced a capability in its client-properties."""
    capabilities = client.machine.client_properties.get("capabilities")
    return isinstance(capabilities, dict) and capabilities.get(name) is True
