"""What a simulated cluster of many nodes is made of: its hosts, its network's books, subscribers.

Inputs: virtual time, as everywhere in `tests.sim`. Outputs: what each subscriber got, which
publishes crossed to which node, and what turns cost in processor time (the only thing here that is
not the same in every run).
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.core.ids import NodeId
from fedq.core.message import split
from fedq.core.peer_messages import PeerFrame, Relay
from fedq.core.seeds import Rng
from fedq.shell.peers.codec import encode_frame
from tests.sim.client_connection import ClientConnection, Content, Refusal, make_properties
from tests.sim.cluster import Cluster
from tests.sim.node_host import Host
from tests.sim.plan import Plan
from tests.sim.world import MS, World, between

EXCHANGE = "news"
#: Frames of which the bytes are counted: one of so many.
_WEIGHED_EVERY = 97


@dataclass(slots=True)
class Book:
    """What was published, and where it crossed to."""

    #: Topic of each publish, by its number.
    topics: list[int] = field(default_factory=list)
    confirmed: dict[int, None] = field(default_factory=dict)
    #: (publish, node) -> how often it crossed to that node.
    crossed: Counter[tuple[int, NodeId]] = field(default_factory=Counter)
    frames: int = 0
    weighed: int = 0
    weighed_bytes: int = 0

    def note(self, target: NodeId, frames: list[PeerFrame]) -> None:
        """Takes note of frames for a node."""
        for frame in frames:
            self.frames += 1
            if not self.frames % _WEIGHED_EVERY:
                self.weighed += 1
                self.weighed_bytes += len(encode_frame(frame))
            for message in frame.messages:
                if isinstance(message, Relay):
                    for each in message.messages:
                        self.crossed[int(split(each)[2]), target] += 1


class TimedHost(Host):
    """A host that knows what its turns cost in processor time, in nanoseconds."""

    spent_ns = 0
    longest_ns = 0
    timed_turns = 0

    def _turn(self) -> None:
        begun = time.thread_time_ns()
        super()._turn()
        took = time.thread_time_ns() - begun
        self.spent_ns += took
        self.timed_turns += 1
        self.longest_ns = max(self.longest_ns, took)

    def forget_times(self) -> None:
        """Begins to count anew."""
        self.spent_ns = self.longest_ns = self.timed_turns = 0


class LargeCluster(Cluster):
    """A cluster whose network keeps books; those beyond the plan's nodes join it."""

    def __init__(self, world: World, plan: Plan) -> None:
        self.book = Book()
        super().__init__(world, plan)

    def _host(self, name: NodeId) -> Host:
        return TimedHost(self.world, name, self._disk(name), self._build, self)

    def send_frames(self, source: NodeId, target: NodeId, frames: list[PeerFrame]) -> None:
        """Frames of a turn for another node, of which the book takes note."""
        self.book.note(target, frames)
        super().send_frames(source, target, frames)


class Opening:
    """A client that opens a connection and a channel and goes through some calls, one by one.

    `goes_to` names the host for each attempt; one that is lost is tried again somewhat later.
    """

    def __init__(self, world: World, random: Rng, goes_to: Callable[[], Host | None]) -> None:
        self.world = world
        self.random = random
        self.host: Host | None = None
        #: It has done all its calls, on the connection it has.
        self.ready = False
        self.refusals: list[Refusal] = []
        self.attempts = 0
        self._goes_to = goes_to
        self._connection: ClientConnection | None = None
        self._left: list[tuple[Method, type[Method]]] = []

    def start(self, within_us: int) -> None:
        """Connects within so much time."""
        self.world.after(between(self.random, 0, within_us), self._connect)

    def _connect(self) -> None:
        host = self._goes_to()
        if host is None:
            self.start(200 * MS)
            return
        self.attempts += 1
        self.host = host
        self._left = [(ChannelOpen(), ChannelOpenOk), *self.calls()]
        self._connection = ClientConnection(self.world, self.random, host, self)

    def calls(self) -> list[tuple[Method, type[Method]]]:
        """What it asks for, each with its answer."""
        raise NotImplementedError

    def on_ready(self) -> None:
        """All calls are answered."""

    # --- of the connection -----------------------------------------------------------------------

    def on_open(self) -> None:
        self._ask()

    def _ask(self) -> None:
        assert self._connection is not None
        self._connection.send(1, self._left[0][0])

    def on_method(self, channel: int, method: Method) -> None:
        if self._left and isinstance(method, self._left[0][1]):
            del self._left[0]
            if self._left:
                self._ask()
            else:
                self.ready = True
                self.on_ready()
        elif isinstance(method, BasicAck):
            self.on_ack(method)

    def on_ack(self, method: BasicAck) -> None:
        """A publish is confirmed."""

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        """A delivery."""

    def on_channel_closed(self, refusal: Refusal) -> None:
        self._lose(refusal)

    def on_lost(self, reason: str, refusal: Refusal | None) -> None:
        self._lose(refusal)

    def _lose(self, refusal: Refusal | None) -> None:
        if refusal is not None:
            self.refusals.append(refusal)
        if self._connection is not None:
            self._connection.close()
        self.ready, self._connection, self.host = False, None, None
        self.start(300 * MS)


class Subscriber(Opening):
    """One that hears a topic through an exclusive queue, and counts what it gets."""

    def __init__(
        self, world: World, random: Rng, goes_to: Callable[[], Host | None], topic: int, book: Book
    ) -> None:
        super().__init__(world, random, goes_to)
        self.topic = topic
        self.book = book
        #: What it got on this connection, and from which publish on it is owed.
        self.got: Counter[int] = Counter()
        self.since = 0

    def calls(self) -> list[tuple[Method, type[Method]]]:
        return [
            (QueueDeclare("", exclusive=True), QueueDeclareOk),
            (QueueBind("", EXCHANGE, f"t{self.topic}"), QueueBindOk),
            (BasicConsume("", "", no_ack=True), BasicConsumeOk),
        ]

    def on_ready(self) -> None:
        self.got = Counter()
        self.since = len(self.book.topics)

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        self.got[int(body)] += 1

    def problems(self) -> list[str]:
        """What it was owed and has not, or has twice; once nothing is under way."""
        found = [f"{self.where} got {each} {n} times" for each, n in self.got.items() if n > 1]
        if self.ready:
            for number in range(self.since, len(self.book.topics)):
                is_owed = number in self.book.confirmed and self.book.topics[number] == self.topic
                if is_owed and not self.got[number]:
                    found.append(f"{self.where} missed {number}")
        return found

    @property
    def where(self) -> str:
        """Which one it is."""
        place = self.host.name if self.host is not None else "nowhere"
        return f"a subscriber of t{self.topic} on {place}"


class Publisher(Opening):
    """One that publishes with confirms; what is unconfirmed when it is cut off nobody is owed."""

    def __init__(
        self, world: World, random: Rng, goes_to: Callable[[], Host | None], book: Book
    ) -> None:
        super().__init__(world, random, goes_to)
        self.book = book
        self._sent: list[int] = []
        self._acknowledged = 0

    def calls(self) -> list[tuple[Method, type[Method]]]:
        declare = ExchangeDeclare(EXCHANGE, "topic", durable=True)
        return [(declare, ExchangeDeclareOk), (ConfirmSelect(), ConfirmSelectOk)]

    def on_ready(self) -> None:
        self._sent, self._acknowledged = [], 0

    def publish(self, topic: int) -> int:
        """Publishes one message of a topic; returns its number."""
        assert self._connection is not None
        number = len(self.book.topics)
        self.book.topics.append(topic)
        self._sent.append(number)
        properties = make_properties(str(number), persistent=False)
        data = self._connection.publish(1, EXCHANGE, f"t{topic}", False, properties, b"%d" % number)
        self._connection.write(data)
        return number

    def on_ack(self, method: BasicAck) -> None:
        acknowledged = max(self._acknowledged, method.delivery_tag)
        if method.multiple:
            numbers: Sequence[int] = self._sent[:acknowledged]
        else:
            numbers = [self._sent[method.delivery_tag - 1]]
        self._acknowledged = acknowledged
        self.book.confirmed.update(dict.fromkeys(numbers))

    @property
    def unconfirmed(self) -> int:
        """How many of this connection's publishes have no confirm yet."""
        return len([number for number in self._sent if number not in self.book.confirmed])


class QueueMaker(Opening):
    """One that declares shared queues, so that there are fragments to fail over."""

    def __init__(
        self, world: World, random: Rng, goes_to: Callable[[], Host | None], names: Sequence[str]
    ) -> None:
        super().__init__(world, random, goes_to)
        self._names = names

    def calls(self) -> list[tuple[Method, type[Method]]]:
        return [(QueueDeclare(name, durable=True), QueueDeclareOk) for name in self._names]
