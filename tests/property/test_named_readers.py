"""Named readers of a stream against a plain list: what each name got, whoever read for it.

Readers of two names come and go on any node; nodes die and come back. A name gets everything, in
order, never with a gap; one of its readers at a time; and without faults nothing comes again that
was acknowledged.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicQos,
    BasicQosOk,
)
from tests.examples import examples
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.streams.test_reading import declared

NAMES = ["a", "b"]
#: A reader of that name begins on that node, with that prefetch; the n-th one acknowledges some of
#: what it has, or goes; so many messages come; a node dies and comes back; time passes.
STEPS = st.lists(
    st.tuples(
        st.just("begin"), st.sampled_from(["n1", "n2", "n3"]), st.sampled_from(NAMES),
        st.sampled_from([1, 3, 50]),
    )
    | st.tuples(st.just("ack"), st.integers(0, 5), st.integers(1, 10))
    | st.tuples(st.sampled_from(["cancel", "hang up"]), st.integers(0, 5))
    | st.tuples(st.just("publish"), st.integers(1, 10))
    | st.tuples(st.just("restart"), st.sampled_from(["n1", "n2", "n3"]))
    | st.tuples(st.just("wait"), st.sampled_from([50, 600])),
    min_size=5, max_size=16,
)  # fmt: skip


class Reader:
    """One reader of a name."""

    def __init__(self, client: Client, name: str, prefetch: int) -> None:
        self.client = client
        self.name = name
        #: Numbers of messages that it has not acknowledged, by the tags before them.
        self.held: list[int] = []
        self.acknowledged = 0
        client.ask(BasicQos(prefetch_count=prefetch), BasicQosOk)
        table = {"x-fedq-consumer-name": name, "x-stream-offset": "first"}
        client.ask(BasicConsume("s", "r", arguments={**table}), BasicConsumeOk)


class Readers:
    """All readers, and what their names are owed."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.readers: list[Reader] = []
        #: Behind the highest number that a name got, and that it acknowledged.
        self.got = dict.fromkeys(NAMES, 0)
        self.done = dict.fromkeys(NAMES, 0)
        self.is_calm = True

    def look(self) -> None:
        """Takes what has come: in order, without a gap, and for one reader of a name."""
        for reader in self.readers:
            for body in reader.client.deliveries():
                number = int(body)
                if reader.held:
                    assert number == reader.held[-1] + 1
                assert number <= self.got[reader.name]
                assert number >= self.done[reader.name] or not self.is_calm
                self.got[reader.name] = max(self.got[reader.name], number + 1)
                reader.held.append(number)

    def acknowledge(self, reader: Reader, count: int) -> None:
        """The reader acknowledges the first of what it has."""
        settled, reader.held = reader.held[:count], reader.held[count:]
        if settled and not reader.client.lost:
            reader.acknowledged += len(settled)
            reader.client.send(BasicAck(reader.acknowledged, True))
            self.done[reader.name] = max(self.done[reader.name], settled[-1] + 1)

    def end(self, reader: Reader, how: str) -> None:
        """The reader goes."""
        self.readers.remove(reader)
        if how == "cancel" and not reader.client.lost:
            reader.client.ask(BasicCancel("r"), BasicCancelOk)
        reader.client.hang_up()


@given(STEPS)
@settings(max_examples=examples(30), deadline=None)
def test_a_name_gets_everything_in_order(steps: list[tuple[object, ...]]) -> None:
    cluster = Cluster(3)
    declared(cluster)
    readers, published = Readers(cluster), 0
    for step in steps:
        match step:
            case ("begin", str(node), str(name), int(prefetch)):
                readers.readers.append(Reader(cluster.client(node), name, prefetch))
            case ("ack", int(which), int(count)) if which < len(readers.readers):
                readers.acknowledge(readers.readers[which], count)
            case ("cancel" | "hang up" as how, int(which)) if which < len(readers.readers):
                readers.end(readers.readers[which], how)
            case ("publish", int(count)):
                _publish(cluster, published, count)
                published += count
            case ("restart", str(node)):
                readers.is_calm = False
                cluster.kill(node)
                cluster.pass_ms(4_000)
                cluster.start(node)
                cluster.pass_ms(4_000)
            case ("wait", int(duration_ms)):
                cluster.pass_ms(duration_ms)
        cluster.pass_ms(100)
        readers.look()
        readers.readers = [each for each in readers.readers if not each.client.lost]
    for name in NAMES:
        readers.readers.append(Reader(cluster.client("n1"), name, 50))
    cluster.wait_for(lambda: _all_done(readers, published), 20_000)


def _all_done(readers: Readers, published: int) -> bool:
    readers.look()
    for reader in readers.readers:
        readers.acknowledge(reader, len(reader.held))
    readers.cluster.pass_ms(50)
    return all(done == published for done in readers.done.values())


def _publish(cluster: Cluster, first: int, count: int) -> None:
    client = cluster.client("n2")
    client.publish("s", *[str(number) for number in range(first, first + count)])
    cluster.pass_ms(200)
    client.hang_up()
