"""A fragment and its takers, in the words of what consumers and publishers notice."""

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin, first_position
from fedq.core.message import FLAG_SEEN, with_flag
from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.fragments.runs.moves import Taken
from fedq.journal.records import encode_copy
from tests.unit.journal.samples import bodies, message

ONE = FragmentId(1)
CLIENT = Origin(NodeId("client"), Incarnation(1))
ANN, BEN = NodeId("ann"), NodeId("ben")


def fragment(*texts: str) -> Fragment:
    """A fragment in its first reign; its messages are at positions 1, 2, … of that reign."""
    made = Fragment(ONE, 1, durable=True, recording=True)
    if texts:
        made.publish(CLIENT, 1, bodies(*texts))
    return made


def at(*numbers: int, reign: int = 1) -> list[int]:
    return [first_position(reign) + number for number in numbers]


def texts(taken: Taken) -> list[str]:
    return [each[-1:].decode() for each in taken.messages]


def successor(old: Fragment) -> Fragment:
    """The next reign, on a copy that has everything."""
    return Fragment(
        ONE, old.reign + 1, durable=True, recording=True,
        messages=old.messages, origins=old.origins,
    )  # fmt: skip


def test_messages_that_come_back_come_before_newer_ones() -> None:
    made = fragment("a", "b", "c", "d")
    made.take(ANN, 3)
    made.requeue(ANN, at(3))
    made.requeue(ANN, at(1))
    taken = made.take(BEN, 9)
    assert texts(taken) == ["a", "c", "d"]
    assert taken.redelivered == at(1, 3)


def test_what_an_earlier_reign_left_comes_in_its_order_and_marked_before_what_is_new() -> None:
    old = fragment("a", "b", "c", "d")
    old.publish(CLIENT, 5, [with_flag(message("e"), FLAG_SEEN), message("f")])
    old.take(ANN, 2)
    old.settle(ANN, at(2))
    made = successor(old)
    made.publish(CLIENT, 7, bodies("g"))
    taken = made.take(BEN, 9)
    assert texts(taken) == ["a", "c", "d", "e", "f", "g"]
    assert taken.redelivered == taken.positions[:-1]
    made.check()


def test_what_came_back_after_a_failover_is_handed_out_once() -> None:
    """It was ready here when its holder attached: it must not be in the queue twice."""
    made = successor(fragment("a", "b"))
    made.attach(ANN, at(1))
    made.release(ANN)
    assert texts(made.take(BEN, 9)) == ["a", "b"]
    assert made.take(BEN, 9).messages == []


def test_what_came_back_after_a_failover_is_gone_once_when_nobody_acknowledges() -> None:
    made = successor(fragment("a", "b"))
    made.attach(ANN, at(1))
    made.requeue(ANN, at(1))
    assert texts(made.take(BEN, 9, settled=True)) == ["a", "b"]
    assert (dict(made.messages), made.bytes_held) == ({}, 0)
    made.check()


def test_nobody_settles_what_another_holds() -> None:
    made = fragment("a")
    made.take(ANN, 1)
    made.settle(BEN, at(1))
    made.requeue(BEN, at(1))
    assert made.unacked == {at(1)[0]: ANN}


def test_an_acknowledgement_counts_though_its_taker_has_not_attached_yet() -> None:
    made = successor(fragment("a", "b"))
    made.settle(ANN, at(1))
    assert texts(made.take(BEN, 9)) == ["b"]


def test_an_acknowledgement_counts_once_however_often_it_comes() -> None:
    made = fragment("a", "b")
    made.take(ANN, 2)
    made.settle(ANN, [*at(1), *at(1)])
    made.settle(ANN, at(1))
    assert list(made.messages) == at(2)


def test_what_a_taker_lost_on_its_way_comes_back_when_it_attaches() -> None:
    made = fragment("a", "b", "c")
    made.take(ANN, 3)
    made.attach(ANN, at(2))
    taken = made.take(BEN, 9)
    assert (texts(taken), taken.redelivered) == (["a", "c"], at(1, 3))


def test_everything_of_an_earlier_reign_may_have_been_delivered() -> None:
    made = successor(fragment("a"))
    made.publish(CLIENT, 2, bodies("b"))
    taken = made.take(ANN, 9)
    assert (texts(taken), taken.redelivered) == (["a", "b"], at(1))


def test_a_publish_that_is_sent_again_is_taken_once() -> None:
    made = fragment("a", "b")
    made.publish(CLIENT, 2, bodies("b", "c"), resent=True)
    taken = made.take(ANN, 9)
    assert texts(taken) == ["a", "b", "c"]
    assert taken.redelivered == at(3), "a consumer of the old primary may have seen it"


def test_a_publish_that_is_known_is_owed_its_confirm_all_the_same() -> None:
    made = fragment("a", "b")
    made.out.owed.clear()
    made.publish(CLIENT, 1, bodies("a"))
    (owed,) = made.out.owed
    assert (owed.event, owed.origin, owed.through, owed.refused) == (at(2)[0], CLIENT, 1, ())


def test_a_purge_leaves_what_takers_hold() -> None:
    made = fragment("a", "b", "c")
    made.take(ANN, 1)
    assert made.purge(made.last) == 2
    made.requeue(ANN, at(1))
    assert texts(made.take(BEN, 9)) == ["a"]


def test_transient_messages_ask_nothing_of_the_disk() -> None:
    made = fragment()
    made.publish(CLIENT, 1, [message("a", persistent=False)])
    made.take(ANN, 1)
    made.settle(ANN, at(1))
    assert [(r.journal, r.sync) for r in made.out.records] == [(False, False)] * 2


def test_persistent_messages_wait_for_the_disk_and_their_end_does_not() -> None:
    made = fragment("a")
    made.take(ANN, 1, settled=True)
    assert [(r.journal, r.sync) for r in made.out.records] == [(True, True), (True, False)]


def test_a_private_queue_writes_nothing_down() -> None:
    made = Fragment(FragmentId(-1), 0, durable=False, recording=False)
    made.publish_private(bodies("a", "b"))
    taken = made.take(ANN, 1, settled=True)
    assert (texts(taken), taken.positions) == (["a"], [1])
    assert made.out.records == []
    assert made.ready_count == 1


# --- copies --------------------------------------------------------------------------------------


def test_a_copy_repeats_nothing() -> None:
    made = fragment("a", "b")
    (record,) = made.out.records
    copy = Replica(ONE, durable=True)
    for _ in range(2):
        copy.apply(record.data)
    assert copy.in_order() == made.messages
    assert copy.bytes_held == made.bytes_held


def test_half_a_copy_does_not_believe_that_it_has_what_it_lacks() -> None:
    """Were it to lead now, it would take those publishes again rather than lose them."""
    copy = Replica(ONE, durable=True)
    copy.start_copy([], encode_copy(ONE, 1, [], [], {CLIENT: 3}), 1, 0, False)
    assert copy.origins == {}
    copy.apply(encode_copy(ONE, 1, at(1, 2, 3), bodies("a", "b", "c"), {}))
    copy.finish_copy(1)
    assert copy.origins == {CLIENT: 3}


def test_a_copy_that_comes_back_to_front_is_in_order_when_asked() -> None:
    copy = Replica(ONE, durable=True)
    copy.apply(encode_copy(ONE, 1, at(3, 4), bodies("c", "d"), {}))
    copy.apply(encode_copy(ONE, 1, at(1, 2), bodies("a", "b"), {}))
    assert list(copy.in_order()) == at(1, 2, 3, 4)
    assert copy.oldest_persistent() == at(1)[0]


def test_a_message_that_may_have_been_seen_elsewhere_is_marked() -> None:
    made = fragment("a")
    made.publish(CLIENT, 2, [with_flag(message, FLAG_SEEN) for message in bodies("b")])
    assert made.take(NodeId("n1"), 2).redelivered == at(2)
