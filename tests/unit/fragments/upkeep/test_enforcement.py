"""What a policy does, and does not, to messages that are in a fragment already."""

import pytest

from fedq.amqp.content import encode_properties, message_flags
from fedq.amqp.values import TableValue
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.limits import DEAD_LETTERS_MAX
from fedq.core.message import FLAG_DELAYED, encode, make_route
from fedq.core.policy import REJECT_PUBLISH, REJECT_PUBLISH_DLX, TOO_LONG, QueuePolicy
from fedq.fragments.fragment import Fragment
from fedq.fragments.singly.holders import DEAD
from fedq.fragments.upkeep.enforcement import trim, visible_count, wake
from fedq.fragments.upkeep.stowing import fill

ORIGIN = Origin(NodeId("a"), Incarnation(1))
ANN = NodeId("ann")


def message(flags: int = 0, **properties: TableValue) -> bytes:
    data = encode_properties(properties)
    return encode(message_flags(data) | flags, make_route("", "q"), data, b"12345")


def fragment(policy: QueuePolicy) -> Fragment:
    return Fragment(FragmentId(1), 1, durable=False, recording=False, policy=policy)


@pytest.mark.parametrize("overflow", [REJECT_PUBLISH, REJECT_PUBLISH_DLX])
def test_a_queue_that_refuses_publishes_loses_nothing_that_comes_back(overflow: str) -> None:
    here = fragment(QueuePolicy(max_length=1, overflow=overflow, dead_letter_exchange=""))
    here.publish(ORIGIN, 1, [message()])
    taken = here.take(ANN, 1)
    here.publish(ORIGIN, 2, [message()])
    here.requeue(ANN, taken.positions)
    trim(here, 100)
    assert here.ready_count == 2
    assert not here.out.dead


def test_what_was_refused_before_it_was_due_is_counted_once() -> None:
    policy = QueuePolicy(max_bytes=8, overflow=REJECT_PUBLISH_DLX, dead_letter_exchange="")
    here = fragment(policy)
    here.publish(ORIGIN, 1, [message(FLAG_DELAYED, headers={"x-delay": 50}), message()])
    here.dead_letter_ready(list(here.messages), TOO_LONG)
    here.check()
    wake(here, 100)
    here.check()
    assert here.ready_count == 0


def test_nobody_counts_what_is_about_to_be_dropped() -> None:
    here = fragment(QueuePolicy(max_length=2))
    here.publish(ORIGIN, 1, [message()] * 5)
    assert visible_count(here) == 2
    trim(here, 100)
    assert here.ready_count == 2


def long_fragment(policy: QueuePolicy, count: int) -> tuple[Fragment, dict[int, bytes]]:
    """A fragment with so many persistent messages, all of them on disk alone; and these."""
    here = Fragment(FragmentId(1), 1, durable=True, recording=True, policy=policy)
    here.publish(ORIGIN, 1, [message(delivery_mode=2)] * count)
    bodies = dict(here.messages)
    here.fresh.stow(here.last, 0)
    return here, bodies


def test_no_more_wait_to_be_dead_letters_than_may_be_on_their_way() -> None:
    """However many were read, and are too many: the others stay as they are."""
    here, bodies = long_fragment(QueuePolicy(max_length=10, dead_letter_exchange="dlx"), 3_000)
    assert trim(here, 10_000) == 0
    fill(here, dict(list(bodies.items())[:2_500]))
    assert trim(here, 10_000) == DEAD_LETTERS_MAX
    assert trim(here, 10_000) == 0
    gone = [here.out.dead.popleft() for _ in range(600)]
    here.settle(DEAD, gone)
    assert trim(here, 10_000) == 600
    assert here.ready_count == 3_000 - DEAD_LETTERS_MAX - 600
    fill(here, bodies)
    assert trim(here, 10_000) == 3_000 - 10 - DEAD_LETTERS_MAX - 600
    here.check()


def test_what_is_too_much_and_goes_nowhere_is_not_read() -> None:
    here, bodies = long_fragment(QueuePolicy(max_length=10), 3_000)
    assert trim(here, 500) == 500
    assert trim(here, 10_000) == 2_490
    here.check()
    assert here.bytes_held == sum(map(len, bodies.values())) // 300
    assert here.dropped == 2_990
