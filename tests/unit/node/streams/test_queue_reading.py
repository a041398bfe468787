"""Queues are read by reservation: the same rows again until they are committed, and never after."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueDeclare,
    QueueDeclareOk,
    QueuePurge,
    QueuePurgeOk,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import FragmentId, QueueKey
from fedq.core.limits import QUEUE_READERS_MAX, RESERVED_MAX
from fedq.core.message import split
from fedq.core.ranges import from_ranges
from fedq.node.records.streams.reservations import (
    DONE,
    ELSEWHERE,
    NAMES_FULL,
    NOT_YET,
    ONE_CONSUMER,
    OVER,
    RELEASE,
    RESERVE,
    RESERVED_FULL,
    SETTLE,
    TAKEN,
    ReaderCall,
    Reserved,
    ReservedPart,
    ReservedRead,
)
from tests.examples import examples
from tests.unit.node.copies.test_long_queues import SMALL, body, filled, stowed
from tests.unit.node.harness import Client, Cluster

KEY = QueueKey("/", "jobs")


def begun(size: int = 1, arguments: FieldTable | None = None) -> tuple[Cluster, Client]:
    """Nodes with a durable queue, and a client with confirms."""
    cluster = Cluster(size)
    client = cluster.client("n1")
    client.ask(QueueDeclare("jobs", durable=True, arguments=arguments or {}), QueueDeclareOk)
    client.ask(ConfirmSelect(), ConfirmSelectOk)
    return cluster, client


def publish(cluster: Cluster, client: Client, *bodies: str) -> None:
    """Publishes persistent messages, and waits until they are confirmed."""
    client.said.clear()
    client.publish("jobs", *bodies)
    acked = {"through": 0}

    def confirmed() -> bool:
        acked["through"] = max(
            [acked["through"], *[s.delivery_tag for s in client.said if isinstance(s, BasicAck)]]
        )
        return acked["through"] > 0

    cluster.wait_for(confirmed)
    cluster.pass_ms(100)


def fragments(cluster: Cluster, queue: QueueKey = KEY) -> list[FragmentId]:
    living = next(host.node for host in cluster.hosts.values() if host.node is not None)
    return list(living.state.map.queues[queue].fragments)


def led(cluster: Cluster, fragment: FragmentId) -> str | None:
    """The node that serves a fragment."""
    for name, host in cluster.hosts.items():
        if host.node is not None and fragment in host.node.state.primaries:
            return str(name)
    return None


@dataclass
class Reader:
    """A reader of one fragment, and the last batch that it has committed."""

    cluster: Cluster
    name: str = "r"
    instance: str = "1"
    begins: bool = True
    committed: int = 0
    queue: QueueKey = KEY

    def call(self, kind: int, through: int, most: int = 100) -> Reserved:
        heard: list[Reserved] = []
        fragment = fragments(self.cluster, self.queue)[0]
        call = ReaderCall(
            kind, fragment, self.name, through, heard.append, instance=self.instance,
            begins=self.begins, most=most,
        )  # fmt: skip
        home = led(self.cluster, fragment)
        if home is None:
            return Reserved(ELSEWHERE)
        host = next(h for n, h in self.cluster.hosts.items() if n == home)
        node = host.node
        host.inbox.append(lambda node: node.streams.queue_reading.on_asked(self.queue, call))
        self.cluster.wait_for(lambda: bool(heard) or host.node is not node)
        if not heard:
            return Reserved(ELSEWHERE)
        if heard[0].verdict == DONE and kind == RESERVE:
            self.begins = False
        return heard[0]

    def insist(self, kind: int, through: int, most: int = 100) -> Reserved:
        """As a client does: until there is an answer that is final."""
        for _ in range(200):
            answer = self.call(kind, through, most)
            if answer.verdict not in (ELSEWHERE, NOT_YET):
                return answer
            self.cluster.pass_ms(100)
        raise AssertionError("never answered")

    def part(self, after: int, through: int, begin: int = 0, size: int = 1 << 20) -> ReservedPart:
        heard: list[ReservedPart] = []
        fragment = fragments(self.cluster, self.queue)[0]
        read = ReservedRead(fragment, self.name, after, through, begin, size, heard.append)

        def answered() -> bool:
            home = led(self.cluster, fragment)
            if home is not None and (not heard or heard[-1].verdict == ELSEWHERE):
                host = next(h for n, h in self.cluster.hosts.items() if n == home)
                host.inbox.append(lambda node: node.streams.queue_reading.on_read(self.queue, read))
            return bool(heard) and heard[-1].verdict != ELSEWHERE

        self.cluster.wait_for(answered, 30_000)
        return heard[-1]

    def read(self, after: int, through: int, size: int = 1 << 20) -> list[str]:
        found: list[str] = []
        begin = 0
        while True:
            part = self.part(after, through, begin, size)
            assert part.verdict == DONE
            assert len(list(from_ranges(part.ranges))) == len(part.messages)
            found += [split(each)[2].decode() for each in part.messages]
            if not part.next:
                return found
            assert part.next > begin
            begin = part.next

    def batch(self, most: int = 100) -> list[str]:
        """Plans, reads and commits a batch, as Spark does."""
        answer = self.insist(RESERVE, self.committed, most)
        assert answer.verdict == DONE
        rows = self.read(self.committed, answer.through) if answer.messages else []
        assert len(rows) == answer.messages
        self.committed = answer.through
        return rows


def gets(client: Client) -> list[str]:
    """All that is ready, one by one."""
    found: list[str] = []
    while True:
        client.send(BasicGet("jobs", no_ack=True))
        client.cluster.wait_for(lambda: client.has(BasicGetEmpty) or bool(client.deliveries()))
        if client.has(BasicGetEmpty):
            client.take(BasicGetEmpty)
            return found
        found += client.deliveries()
        client.said.clear()


def ready(cluster: Cluster) -> int:
    total = 0
    for host in cluster.hosts.values():
        if host.node is not None:
            for primary in host.node.state.primaries.values():
                primary.fragment.check()
                if primary.queue == KEY:
                    total += primary.fragment.ready_count
    return total


def test_a_batch_is_the_same_until_it_is_committed_and_then_gone() -> None:
    cluster, client = begun()
    publish(cluster, client, *"abcde")
    reader = Reader(cluster)
    first = reader.call(RESERVE, 0, 3)
    assert (first.verdict, first.messages) == (DONE, 3)
    assert reader.read(0, first.through) == ["a", "b", "c"]
    # Nobody else gets it; and who asks again gets the same.
    assert ready(cluster) == 2
    assert reader.call(RESERVE, 0, 100) == first
    assert reader.read(0, first.through, size=1) == ["a", "b", "c"]
    second = reader.call(RESERVE, first.through, 100)
    assert second.through == first.through + 1
    assert reader.part(0, first.through).verdict == OVER
    assert reader.read(first.through, second.through) == ["d", "e"]
    assert reader.call(SETTLE, second.through).messages == 2
    assert reader.part(first.through, second.through).verdict == OVER
    empty = reader.call(RESERVE, second.through)
    assert (empty.through, empty.messages) == (second.through, 0)
    fragment = cluster.node("n1").state.primaries[fragments(cluster)[0]].fragment
    assert len(fragment.messages) == 0


@pytest.mark.parametrize("how", ["failover", "restart", "all"])
def test_a_reservation_outlives_nodes(how: str) -> None:
    cluster, client = begun(3 if how != "restart" else 1)
    publish(cluster, client, *"abcdef")
    reader = Reader(cluster)
    answer = reader.call(RESERVE, 0, 4)
    home = led(cluster, fragments(cluster)[0])
    assert home is not None
    if how == "all":
        for name in list(cluster.hosts):
            cluster.kill(name)
        for name in list(cluster.hosts):
            cluster.start(name)
    else:
        cluster.kill(home)
        if how == "restart":
            cluster.start(home)
    cluster.pass_ms(8_000)
    assert reader.read(0, answer.through) == list("abcd")
    assert ready(cluster) == 2
    again = Reader(cluster, instance="2")
    assert again.insist(RESERVE, 0, 100) == answer
    assert again.insist(SETTLE, answer.through).verdict == DONE
    again.committed = answer.through
    assert again.batch() == ["e", "f"]


def test_what_is_reserved_is_not_purged_and_does_not_expire() -> None:
    cluster, client = begun(1, {"x-message-ttl": 1_000, "x-max-length": 3})
    publish(cluster, client, *"abc")
    reader = Reader(cluster)
    answer = reader.call(RESERVE, 0)
    publish(cluster, client, *"defg")
    assert client.ask(QueuePurge("jobs"), QueuePurgeOk).message_count == 3
    cluster.pass_ms(5_000)
    assert reader.read(0, answer.through) == list("abc")


def test_released_messages_are_back_and_their_batch_is_over() -> None:
    cluster, client = begun(3)
    publish(cluster, client, *"abcd")
    reader = Reader(cluster)
    answer = reader.call(RESERVE, 0, 3)
    assert Reader(cluster).call(RELEASE, (1 << 40) - 1).messages == 3
    assert reader.part(0, answer.through).verdict == OVER
    assert reader.call(SETTLE, answer.through).messages == 0
    assert ready(cluster) == 4
    # In a batch of its own, with a number that was not used before, also where another node leads.
    cluster.kill(cluster.primary_of("jobs"))
    cluster.pass_ms(8_000)
    following = reader.insist(RESERVE, 0)
    assert following.through > answer.through
    assert reader.read(0, following.through) == list("abcd")


def test_who_begins_has_the_name_and_the_other_one_hears_it() -> None:
    cluster, client = begun()
    publish(cluster, client, *"ab")
    one, two = Reader(cluster, instance="one"), Reader(cluster, instance="two")
    first = one.call(RESERVE, 0, 1)
    assert two.call(RESERVE, 0, 1) == first
    assert one.call(RESERVE, 0, 1).verdict == TAKEN
    assert one.call(SETTLE, first.through).verdict == TAKEN
    # Readers with other names share the queue.
    assert Reader(cluster, name="other").batch() == ["b"]


def test_bounds_of_names_and_of_what_is_reserved() -> None:
    cluster, client = begun()
    publish(cluster, client, *map(str, range(QUEUE_READERS_MAX + 1)))
    for number in range(QUEUE_READERS_MAX):
        assert Reader(cluster, name=f"r{number}").call(RESERVE, 0, 1).messages == 1
    late = Reader(cluster, name="late")
    assert late.call(RESERVE, 0, 1).verdict == NAMES_FULL
    # One that has nothing reserved makes room.
    assert Reader(cluster, name="r7").call(RELEASE, (1 << 40) - 1).messages == 1
    assert late.call(RESERVE, 0, 1).messages == 1


def test_no_more_is_reserved_than_the_bound() -> None:
    cluster, client = begun()
    for _ in range(3):
        publish(cluster, client, *["x"] * 10_000)
    names = iter("abc")
    for _ in range(RESERVED_MAX // 10_000):
        assert Reader(cluster, name=next(names)).call(RESERVE, 0, 10_000).messages == 10_000
    assert Reader(cluster, name=next(names)).call(RESERVE, 0, 1).verdict == RESERVED_FULL


def test_a_queue_with_one_consumer_alone_is_refused() -> None:
    cluster, _ = begun(1, {"x-single-active-consumer": True})
    assert Reader(cluster).call(RESERVE, 0).verdict == ONE_CONSUMER
    cluster, client = begun()
    client.ask(BasicConsume("jobs", "c", exclusive=True), BasicConsumeOk)
    cluster.pass_ms(100)
    assert Reader(cluster).call(RESERVE, 0).verdict == ONE_CONSUMER


def test_what_is_on_disk_alone_is_read_in_order_and_over_a_restart() -> None:
    cluster = Cluster(1, **SMALL)
    filled(cluster, 300)
    assert stowed(cluster, "n1") > 100
    reader = Reader(cluster, queue=QueueKey("/", "q"))
    rows: list[str] = []
    while len(rows) < 150:
        rows += reader.batch(40)
    # Begun, and read again from the disk.
    answer = reader.insist(RESERVE, reader.committed, 40)
    begun = reader.read(reader.committed, answer.through)
    cluster.kill("n1")
    cluster.start("n1")
    cluster.pass_ms(3_000)
    assert reader.read(reader.committed, answer.through) == begun
    while batch := reader.batch(40):
        rows += batch
    assert rows == [body(number) for number in range(300)]


class Spark:
    """A query with its checkpoint: what is planned and committed, and what was written."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.reader = Reader(cluster)
        self.committed = 0
        self.planned: int | None = None
        self.rows: list[str] | None = None
        self.sink: list[str] = []

    def plan(self, most: int, is_logged: bool) -> None:
        if self.planned is None:
            answer = self.reader.insist(RESERVE, self.committed, most)
            assert answer.verdict == DONE
            if answer.messages and is_logged:
                self.planned = answer.through

    def read(self, size: int) -> None:
        if self.planned is not None:
            found = self.reader.read(self.committed, self.planned, size)
            assert self.rows in (None, found), "a batch that was begun again has other rows"
            self.rows = found

    def commit(self) -> None:
        if self.planned is not None and self.rows is not None:
            self.sink += self.rows
            self.committed, self.planned, self.rows = self.planned, None, None

    def settle(self) -> None:
        assert self.reader.insist(SETTLE, self.committed).verdict == DONE

    def crash(self) -> None:
        """A new process has the checkpoint, and nothing else."""
        self.reader = Reader(self.cluster, instance=f"{self.reader.instance}+")

    def finish(self) -> None:
        """Takes all that is there."""
        before = -1
        while before < len(self.sink):
            before = len(self.sink)
            self.plan(100, True)
            self.read(1 << 20)
            self.commit()
        self.settle()


@settings(max_examples=examples(25), deadline=None)
@given(data=st.data())
def test_committed_batches_have_each_message_once_whatever_fails(data: st.DataObject) -> None:
    """A driver, its crashes, another consumer, failovers and restarts, against the book."""
    size = data.draw(st.sampled_from([1, 3]), "nodes")
    priorities: FieldTable = {"x-max-priority": 3}
    cluster, _ = begun(size, data.draw(st.sampled_from([{}, priorities]), "arguments"))
    published: list[str] = []
    acked: list[str] = []
    spark = Spark(cluster)

    def publish_some() -> None:
        bodies = [f"{len(published) + each}" for each in range(5)]
        publisher = cluster.client(_living(cluster)[0])
        publisher.ask(ConfirmSelect(), ConfirmSelectOk)
        publish(cluster, publisher, *bodies)
        published.extend(bodies)

    def kill() -> None:
        if len(_living(cluster)) == size:
            victim = data.draw(st.sampled_from(_living(cluster)), "victim")
            cluster.kill(victim)
            if size == 1:
                cluster.start(victim)
            cluster.pass_ms(8_000)

    def start() -> None:
        for name in sorted({str(each) for each in cluster.hosts} - set(_living(cluster))):
            cluster.start(name)
            cluster.pass_ms(8_000)

    steps: list[Callable[[], None]] = [
        publish_some, kill, start, spark.commit, spark.settle, spark.crash,
        lambda: spark.plan(data.draw(st.integers(1, 8)), data.draw(st.booleans())),
        lambda: spark.read(data.draw(st.sampled_from([1, 1 << 20]))),
        lambda: acked.extend(_consume(cluster, data)),
    ]  # fmt: skip
    for index in data.draw(st.lists(st.integers(0, len(steps) - 1), max_size=25), "steps"):
        steps[index]()
    spark.finish()
    assert sorted(spark.sink + acked, key=int) == published
    assert ready(cluster) == 0


def _living(cluster: Cluster) -> list[str]:
    return [str(name) for name, host in cluster.hosts.items() if host.node is not None]


def _consume(cluster: Cluster, data: st.DataObject) -> list[str]:
    """Another consumer takes some, and acknowledges or gives back all of them."""
    client = cluster.client(data.draw(st.sampled_from(sorted(_living(cluster))), "consumer at"))
    client.ask(BasicQos(prefetch_count=3), BasicQosOk)
    client.send(BasicConsume("jobs", "c"))
    cluster.pass_ms(500)
    bodies = [each.removeprefix("again: ") for each in client.deliveries()]
    if not bodies:
        client.hang_up()
        cluster.pass_ms(200)
        return []
    keeps = data.draw(st.booleans(), "acknowledges")
    if keeps:
        client.send(BasicAck(0, multiple=True))
        cluster.pass_ms(200)
        # What came for those has to be given back with the connection.
        bodies = bodies[:3]
    client.hang_up()
    cluster.pass_ms(500)
    return bodies if keeps else []
