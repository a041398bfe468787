"""A stream in three fragments against as many plain lists, one for what its keys lead to.

Messages come from any node, also while another one is dead; readers come and go on any node, with
a name that they share or without one; nodes die and come back. A message is in the fragment of its
key, behind those before it there. Who reads without a name gets each list from its beginning, once.
Those with the name get all of each list, without a gap; without faults no fragment is in two hands,
and nothing comes again that was acknowledged.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.content import decode_properties
from fedq.amqp.methods import BasicAck, BasicConsume, BasicConsumeOk, BasicQos, BasicQosOk
from fedq.amqp.values import FieldTable
from fedq.core.message import make_route
from fedq.wiring.routing.partitions import partition_of
from tests.examples import examples
from tests.unit.amqp.wire import Content
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.streams.test_parted import parted, put

COUNT = 3
NODES = st.sampled_from(["n1", "n2", "n3"])
#: Messages with these keys come from that node; a reader begins there, with a name or without, with
#: that prefetch; the n-th one acknowledges some of what it has, or goes; a node dies, meanwhile
#: messages come elsewhere, and it comes back; time passes.
STEPS = st.lists(
    st.tuples(st.just("publish"), NODES, st.text("abcdefgh", min_size=1, max_size=6))
    | st.tuples(st.just("begin"), NODES, st.booleans(), st.sampled_from([1, 4, 50]))
    | st.tuples(st.just("ack"), st.integers(0, 5), st.integers(1, 10))
    | st.tuples(st.just("go"), st.integers(0, 5))
    | st.tuples(st.just("fail"), NODES, st.text("abcdefgh", max_size=6))
    | st.tuples(st.just("wait"), st.sampled_from([50, 600])),
    min_size=5, max_size=16,
)  # fmt: skip


class Reader:
    """One reader."""

    def __init__(self, client: Client, is_named: bool, prefetch: int) -> None:
        self.client = client
        self.is_named = is_named
        #: What it has not acknowledged, and how much it has.
        self.held: list[tuple[int, int]] = []
        self.acknowledged = 0
        #: What it gets next of each fragment, if it has no name.
        self.next = [0] * COUNT
        client.ask(BasicQos(prefetch_count=prefetch), BasicQosOk)
        table: FieldTable = {"x-stream-offset": "first"}
        if is_named:
            table["x-fedq-consumer-name"] = "app"
        client.ask(BasicConsume("s", "r", arguments=table), BasicConsumeOk)


class World:
    """The cluster, its readers, and what they are owed."""

    def __init__(self) -> None:
        self.cluster = Cluster(3)
        parted(self.cluster, COUNT)
        self.readers: list[Reader] = []
        #: How many messages each fragment has; and behind what those with the name got of each, and
        #: acknowledged.
        self.published = [0] * COUNT
        self.got = [0] * COUNT
        self.done = [0] * COUNT
        self.is_calm = True

    def publish(self, node: str, keys: str) -> None:
        """Messages come, a burst for each key."""
        client = self.cluster.client(node)
        for key in keys:
            fragment = partition_of(make_route("", key), COUNT)
            number = self.published[fragment]
            self.published[fragment] += 2
            put(client, key, f"{fragment}:{number}", f"{fragment}:{number + 1}")
        self.cluster.pass_ms(200)

    def look(self) -> None:
        """Takes what has come."""
        for reader in self.readers:
            said, reader.client.said = reader.client.said, []
            for content in said:
                if isinstance(content, Content):
                    self._take(reader, content)
        self.readers = [each for each in self.readers if not each.client.lost]
        if self.is_calm:
            hands = [(fragment, r) for r in self.readers if r.is_named for fragment, _ in r.held]
            assert len({fragment for fragment, _ in hands}) == len(dict.fromkeys(hands))

    def _take(self, reader: Reader, content: Content) -> None:
        headers: Any = decode_properties(content.properties)["headers"]
        fragment, number = map(int, content.body.decode().split(":"))
        assert headers["x-fedq-fragment"] == fragment
        if not reader.is_named:
            assert number == reader.next[fragment]
            reader.next[fragment] += 1
        else:
            mine = [held for where, held in reader.held if where == fragment]
            assert not mine or number == mine[-1] + 1
            assert number <= self.got[fragment]
            assert number >= self.done[fragment] or not self.is_calm
            self.got[fragment] = max(self.got[fragment], number + 1)
        reader.held.append((fragment, number))

    def acknowledge(self, reader: Reader, count: int) -> None:
        """The reader acknowledges the first of what it has."""
        settled, reader.held = reader.held[:count], reader.held[count:]
        if settled and not reader.client.lost:
            reader.acknowledged += len(settled)
            reader.client.send(BasicAck(reader.acknowledged, True))
            for fragment, number in settled if reader.is_named else ():
                self.done[fragment] = max(self.done[fragment], number + 1)

    def fail(self, node: str, keys: str) -> None:
        """A node dies; what comes then waits for the next one that serves its fragment."""
        self.is_calm = False
        self.cluster.kill(node)
        self.publish("n1" if node == "n2" else "n2", keys)
        self.cluster.pass_ms(4_000)
        self.cluster.start(node)
        self.cluster.pass_ms(4_000)

    def all_done(self) -> bool:
        """Everybody acknowledges and goes on; whether all have all."""
        self.look()
        for reader in self.readers:
            self.acknowledge(reader, len(reader.held))
        self.cluster.pass_ms(50)
        alone = [each for each in self.readers if not each.is_named]
        return self.done == self.published and all(each.next == self.published for each in alone)


@given(STEPS)
@settings(max_examples=examples(25), deadline=None)
def test_each_fragment_is_a_list(steps: list[tuple[object, ...]]) -> None:
    world = World()
    for step in steps:
        match step:
            case ("publish", str(node), str(keys)):
                world.publish(node, keys)
            case ("begin", str(node), bool(is_named), int(prefetch)):
                world.readers.append(Reader(world.cluster.client(node), is_named, prefetch))
            case ("ack", int(which), int(count)) if which < len(world.readers):
                world.acknowledge(world.readers[which], count)
            case ("go", int(which)) if which < len(world.readers):
                world.readers.pop(which).client.hang_up()
            case ("fail", str(node), str(keys)):
                world.fail(node, keys)
            case ("wait", int(duration_ms)):
                world.cluster.pass_ms(duration_ms)
        world.cluster.pass_ms(100)
        world.look()
    for is_named in (True, False):
        world.readers.append(Reader(world.cluster.client("n1"), is_named, 50))
    world.cluster.wait_for(world.all_done, 20_000)
