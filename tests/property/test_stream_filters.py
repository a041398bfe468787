"""Readers of a stream with any filters, on any node, against a plain list of what was published.

Publishes, acknowledgements and failovers come in any order: each reader gets, in order and once,
just what it asked for.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import BasicAck, BasicConsume, BasicConsumeOk, BasicQos, BasicQosOk
from fedq.amqp.values import FieldTable, TableValue
from tests.examples import examples
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.streams.test_reading import declared

#: What a message says, and a reader may ask for; None: nothing.
VALUES = st.sampled_from([None, "a", "b", "c", ""])
BATCHES = st.lists(VALUES, min_size=1, max_size=12)
#: On which node, which values, whether those without one, from which offset on, with what prefetch.
READERS = st.tuples(
    st.sampled_from(["n2", "n3"]),
    st.lists(st.sampled_from(["a", "b", "", "zz"]), min_size=1, max_size=3) | st.none(),
    st.booleans(), st.integers(0, 20), st.sampled_from([1, 3, 100]),
)  # fmt: skip
STEPS = st.lists(BATCHES | READERS | st.sampled_from(["read", "kill"]), min_size=4, max_size=14)


class Reader:
    """A client with one reader; what it got."""

    def __init__(
        self, client: Client, wanted: list[str] | None, unfiltered: bool, offset: int, prefetch: int
    ) -> None:
        self.client = client
        self.wanted = wanted
        self.unfiltered = unfiltered
        self.offset = offset
        self.got: list[str] = []
        client.ask(BasicQos(prefetch_count=prefetch), BasicQosOk)
        table: FieldTable = {"x-stream-offset": offset, "x-stream-match-unfiltered": unfiltered}
        if wanted is not None:
            table["x-stream-filter"] = [*wanted]
        client.ask(BasicConsume("s", "r", arguments=table), BasicConsumeOk)

    def expected(self, published: list[str | None]) -> list[str]:
        """The numbers of what it is to get."""
        return [
            str(number)
            for number, value in enumerate(published)
            if number >= self.offset
            and (
                self.wanted is None
                or (self.unfiltered if value is None else value in self.wanted)
            )
        ]  # fmt: skip

    def read(self) -> bool:
        """Takes and acknowledges what has come."""
        found = self.client.deliveries()
        self.got += found
        if found:
            self.client.send(BasicAck(0, True))
        return bool(found)


@given(STEPS)
@settings(max_examples=examples(40), deadline=None)
def test_each_reader_gets_what_it_asked_for(steps: list[object]) -> None:
    cluster = Cluster(3)
    declared(cluster)
    publisher = cluster.client("n2")
    published: list[str | None] = []
    readers: list[Reader] = []
    for step in steps:
        if isinstance(step, list):
            _publish(publisher, len(published), step)
            published += step
        elif isinstance(step, tuple):
            if cluster.primary_of("s") == "n1":
                name, wanted, unfiltered, offset, prefetch = step
                client = cluster.client(name)
                # Offsets of the next reign are far beyond.
                offset = min(offset, len(published))
                readers.append(Reader(client, wanted, unfiltered, offset, prefetch))
        elif step == "read":
            for reader in readers:
                reader.read()
        elif cluster.primary_of("s") == "n1":
            cluster.pass_ms(200)
            cluster.kill("n1")
            cluster.wait_for(lambda: cluster.primary_of("s") != "n1")
    cluster.pass_ms(300)
    while sum(reader.read() for reader in readers):
        cluster.pass_ms(100)
    for reader in readers:
        assert reader.got == reader.expected(published)


def _publish(client: Client, number: int, values: list[str | None]) -> None:
    frames: list[bytes] = []
    for place, value in enumerate(values, number):
        said: TableValue = {} if value is None else {"x-stream-filter-value": value}
        data = encode_properties({"delivery_mode": 2, "headers": said})
        frames.append(publish(1, "", "s", str(place).encode(), data))
    client.write(b"".join(frames))
    client.cluster.settle()
