"""Queues with priorities on disk alone: when more of them may be read."""

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.policy import QueuePolicy
from fedq.fragments.fragment import Fragment
from fedq.fragments.upkeep.stowing import stow
from fedq.fragments.upkeep.stowing_ranked import may_read
from tests.property.test_policy_model import message_of

TAKER = NodeId("ann")
CLIENT = Origin(NodeId("ben"), Incarnation(1))


def test_no_more_is_read_for_who_holds_messages_while_memory_is_full() -> None:
    fragment = Fragment(
        FragmentId(1), 1, durable=True, recording=True, policy=QueuePolicy(max_priority=5)
    )
    delayed = message_of((1, None, 1, 1_000_000), 0, 2)
    plain = [message_of((12, None, n % 3, 0), n, 2) for n in range(1, 400)]
    fragment.publish(CLIENT, 1, [delayed, *plain])
    taken = fragment.take(TAKER, 7)
    stow(fragment, fragment.last, 0, 0, 1_000, 512)
    assert fragment.stowed_count
    # One by one between others, they are not worth a run each.
    assert fragment.in_flight is None
    assert may_read(fragment, False)
    assert not may_read(fragment, True)
    fragment.settle(TAKER, taken.positions)
    assert may_read(fragment, True), "what is not due yet is nobody's"
