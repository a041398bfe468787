"""Numbers of fragments that operators set, in the map: what comes, what may go, what is refused."""

from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED
from fedq.core.ids import FragmentId, MapVersion, NodeId, QueueKey
from fedq.wiring.cluster_map.copies import is_surplus, why_kept
from fedq.wiring.cluster_map.operations import AddFragment, DeleteQueue
from fedq.wiring.cluster_map.operations_copies import RetireIdle, ShapeChanged, ShapeQueue
from fedq.wiring.cluster_map.operations_moves import DrainNode
from tests.unit.wiring.maps import Wired, queue

ORDERS = QueueKey("/", "orders")
FIXED = '{"x-fedq-fragments":2}'


def wired(arguments: str = "", fragments: int = 1) -> Wired:
    cluster = Wired("a", "b", "c")
    cluster.ok(queue("orders", "a", arguments=arguments, fragments=fragments))
    return cluster


def shape(fragments: int) -> ShapeQueue:
    return ShapeQueue("/", "orders", fragments)


def primaries(cluster: Wired) -> list[str]:
    known = cluster.map
    return [str(known.fragments[each].primary) for each in known.queues[ORDERS].fragments]


def retire(cluster: Wired, fragment: FragmentId) -> RetireIdle:
    info = cluster.map.fragments[fragment]
    return RetireIdle(fragment, info.epoch, MapVersion(cluster.map.version))


def test_a_queue_grows_to_one_fragment_for_each_node_at_most() -> None:
    cluster = wired()
    assert cluster.ok(shape(2)) == 1
    assert len(primaries(cluster)) == 2
    assert cluster.last.changes[0] == ShapeChanged("shapes", ORDERS)
    assert cluster.ok(shape(2)) == 0
    cluster.ok(DrainNode(NodeId("c"), False))
    cluster.ok(shape(5))
    assert len(primaries(cluster)) == len(set(primaries(cluster))) <= 3
    assert cluster.map.shapes == {ORDERS: 5}
    assert cluster.map.is_fixed(ORDERS)


def test_the_last_fragments_of_a_queue_that_shrinks_may_go_and_no_others() -> None:
    cluster = wired(FIXED, 2)
    cluster.ok(shape(3))
    one, two, three = cluster.map.queues[ORDERS].fragments
    assert cluster.refused(retire(cluster, three))[0] == PRECONDITION_FAILED
    cluster.ok(shape(2))
    assert [is_surplus(cluster.map, cluster.map.fragments[each]) for each in (one, two, three)] == [
        False, False, True,
    ]  # fmt: skip
    assert "an operator has set their number to 2" in why_kept(
        cluster.map, cluster.map.fragments[two]
    )
    assert cluster.refused(retire(cluster, two))[0] == PRECONDITION_FAILED
    cluster.ok(retire(cluster, three))
    assert cluster.map.queues[ORDERS].fragments == [one, two]
    cluster.ok(shape(1))
    cluster.ok(retire(cluster, two))
    assert cluster.refused(retire(cluster, one))[0] == PRECONDITION_FAILED


def test_as_many_as_its_traffic_asks_for_is_so_whatever_was_declared() -> None:
    cluster = wired(FIXED, 2)
    assert cluster.map.is_fixed(ORDERS)
    cluster.ok(shape(0))
    assert not cluster.map.is_fixed(ORDERS)
    _, two = cluster.map.queues[ORDERS].fragments
    assert why_kept(cluster.map, cluster.map.fragments[two]) == ""
    assert not is_surplus(cluster.map, cluster.map.fragments[two]), "its traffic keeps it"
    cluster.ok(AddFragment("/", "orders", NodeId("c")))
    assert len(primaries(cluster)) == 3


def test_clients_may_declare_it_with_the_old_number_and_with_the_new_one() -> None:
    cluster = wired(FIXED, 2)
    three = '{"x-fedq-fragments":3}'
    assert cluster.refused(queue("orders", "a", arguments=three))[0] == PRECONDITION_FAILED
    cluster.ok(shape(3))
    for arguments in (FIXED, three, ""):
        assert cluster.ok(queue("orders", "b", arguments=arguments)) == 0
    other = '{"x-fedq-fragments":3,"x-max-length":1}'
    assert cluster.refused(queue("orders", "b", arguments=other))[0] == PRECONDITION_FAILED


def test_a_queue_that_is_gone_takes_its_number_with_it() -> None:
    cluster = wired()
    cluster.ok(shape(3))
    cluster.ok(DeleteQueue("/", "orders"))
    assert cluster.map.shapes == {}
    cluster.ok(queue("orders", "a"))
    assert not cluster.map.is_fixed(ORDERS)


def test_streams_and_queues_that_are_not_there_are_refused() -> None:
    cluster = wired()
    cluster.ok(queue("log", "a", arguments='{"x-queue-type":"stream"}'))
    code, text = cluster.refused(ShapeQueue("/", "log", 3))
    assert code == PRECONDITION_FAILED
    assert "each routing key has its own, and its order there" in text
    assert cluster.refused(ShapeQueue("/", "no", 3))[0] == NOT_FOUND
    assert cluster.map.shapes == {}
