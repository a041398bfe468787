"""The programs that use a run's stream: who declares it, publishes to it, reads it."""

from collections.abc import Sequence

from fedq.amqp.content import decode_properties, encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from fedq.amqp.values import FieldTable
from tests.sim.actors import Actor, Declaring, Script
from tests.sim.checkers import Ledger
from tests.sim.client_connection import Content
from tests.sim.confirming import BurstPublisher, Numbers
from tests.sim.node_host import Host
from tests.sim.stream_books import Reading, StreamBooks, key_of
from tests.sim.stream_retention import Published
from tests.sim.streams import (
    EXCHANGE,
    NAME,
    ReaderPlan,
    StreamPlan,
    StreamPublisherPlan,
    value_of,
)
from tests.sim.world import MS, World, between


class StreamSetup(Declaring):
    """Declares the stream, however often it takes."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], plan: StreamPlan
    ) -> None:
        super().__init__(world, ledger, hosts, "stream")
        self.plan = plan

    def _declare(self) -> Script[None]:
        declare = QueueDeclare(NAME, durable=True, arguments=self.plan.arguments())
        yield from self.call(declare, QueueDeclareOk)
        if self.plan.fragments:
            exchange = ExchangeDeclare(EXCHANGE, "fanout", durable=True)
            yield from self.call(exchange, ExchangeDeclareOk)
            yield from self.call(QueueBind(NAME, EXCHANGE, ""), QueueBindOk)


class StreamPublisher(BurstPublisher[Published]):
    """Publishes to the stream."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], name: str, book: StreamBooks,
        plan: StreamPublisherPlan, numbers: Numbers, setup: StreamSetup,
    ) -> None:  # fmt: skip
        super().__init__(world, ledger, hosts, name, plan, numbers)
        self.book = book
        self.plan = plan
        self.setup = setup
        self.keeps_pace = setup.plan.max_age_s > 0

    def is_ready(self) -> bool:
        return self.setup.done

    def send(self, count: int) -> None:
        connection, plan = self.connection, self.plan
        assert connection is not None
        parts: list[bytes] = []
        for _ in range(count):
            number = self.numbers.take()
            self.sent += 1
            body = b"%d:" % number + bytes([number % 251]) * plan.body_bytes
            sent = self.book.publish(number, self.label, body)
            lasts = self.random.random() < plan.persistent
            headers: FieldTable = {"x-stream-filter-value": value_of(number)}
            properties = encode_properties(
                {"headers": headers, "delivery_mode": 2 if lasts else 1, "message_id": str(number)}
            )
            way = (EXCHANGE, key_of(number)) if self.setup.plan.fragments else ("", NAME)
            parts.append(self.message(sent, *way, properties, body))
        connection.write(b"".join(parts))

    def returned(self, body: bytes) -> None:
        self.ledger.broken(f"P6: {body[:12]!r} was returned, and the stream is there")

    def answered(self, sent: Published, is_confirmed: bool) -> None:
        if is_confirmed:
            self.book.confirmed(sent)
        elif self.ledger.faultless:
            self.ledger.broken(f"a publish to the stream was turned away: {sent.number}")


class StreamReader(Actor):
    """Reads the stream until it is told to stop, over as many connections as it takes."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], name: str, book: StreamBooks,
        plan: ReaderPlan, setup: StreamSetup,
    ) -> None:  # fmt: skip
        super().__init__(world, ledger, hosts, name)
        self.book = book
        self.plan = plan
        self.setup = setup
        self.reader: Reading | None = None
        self._unacked = 0

    def script(self) -> Script[None]:
        yield from self.sessions(lambda: self.setup.done, self.goes_on, self._read)
        self._end_reader()

    def _read(self) -> Script[None]:
        plan = self.plan
        start, before = plan.start, self.reader
        self._end_reader()
        if before is not None and before.count and plan.resumes and not plan.name:
            start = before.readers[0].offsets[-1] + 1
        self._unacked = 0
        yield from self.call(BasicQos(prefetch_count=plan.prefetch), BasicQosOk)
        reader = self.reader = self.book.begins(self.label, start, plan.name, plan.wanted)
        self.note(f"reads from {start!r}")
        arguments: FieldTable = {"x-stream-offset": start}
        if plan.name:
            arguments["x-fedq-consumer-name"] = plan.name
        if plan.wanted:
            arguments["x-stream-filter"] = list(plan.wanted)
        consume = BasicConsume(NAME, "reader", arguments=arguments)
        yield from self.call(consume, BasicConsumeOk)
        reader.begun(self.world.now_us)
        while self.goes_on():
            yield 100 * MS
            if plan.vanish and not self.calm and self.random.random() < plan.vanish:
                yield between(self.random, 0, 5) * MS
                self.drop()
                return
        yield from self.leave()

    #: Readers stay until the end.
    calm = False

    def _end_reader(self) -> None:
        if self.reader is not None:
            self.reader.end()

    def drop(self) -> None:
        self._end_reader()
        super().drop()

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        if not isinstance(method, BasicDeliver) or self.reader is None:
            super().on_content(method, properties, body)
            return
        headers = decode_properties(properties)["headers"]
        assert isinstance(headers, dict)
        offset = headers["x-stream-offset"]
        assert isinstance(offset, int)
        fragment = headers.get("x-fedq-fragment")
        self.note(f"reads {offset} {body[:12]!r}")
        self.book.delivered(self.reader, fragment, offset, body)
        self._unacked += 1
        if self._unacked > self.plan.prefetch:
            self.ledger.broken(f"{self.label}: {self._unacked} unacknowledged, prefetch "
                               f"{self.plan.prefetch}")  # fmt: skip
        label, tag, reading = self.label, method.delivery_tag, self.reader
        self.world.after(
            self.plan.work_us, lambda: self._acknowledge(label, tag, reading, fragment)
        )

    def _acknowledge(self, label: str, tag: int, reading: Reading, fragment: object) -> None:
        if self.label == label and self.connection is not None:
            self._unacked -= 1
            self.book.acknowledged(reading, fragment)
            self.connection.send(1, BasicAck(tag))

    def on_lost(self, reason: str, refusal: object) -> None:
        self._end_reader()
        super().on_lost(reason, refusal)  # type: ignore[arg-type]  # it is handed on


class LastReader(StreamReader):
    """Reads all there is, when everything is at rest."""

    def __init__(
        self, world: World, ledger: Ledger, hosts: Sequence[Host], book: StreamBooks,
        setup: StreamSetup, name: str = "last-reader",
    ) -> None:  # fmt: skip
        plan = ReaderPlan("first", prefetch=50, work_us=0)
        super().__init__(world, ledger, hosts, name, book, plan, setup)
        self.count: int | None = None

    def script(self) -> Script[None]:
        yield from self.connect()
        declared = yield from self.call(QueueDeclare(NAME, passive=True), QueueDeclareOk)
        self.count = declared.message_count
        yield from self._read()

    @property
    def has_all(self) -> bool:
        """Whether it got as many as there are."""
        got = self.reader.count if self.reader is not None else 0
        if self.count is not None and got > self.count:
            self.ledger.broken(f"the stream has {self.count} messages, {got} came")
        return self.count == got
