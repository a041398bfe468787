"""What leaves memory of a queue with priorities, however these are mixed."""

from fedq.amqp.content import encode_properties
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.message import FLAG_PERSISTENT, FLAG_PRIORITY, encode, make_route
from fedq.core.policy import QueuePolicy
from fedq.fragments.fragment import Fragment
from fedq.fragments.upkeep.stowing import stow
from fedq.fragments.upkeep.stowing_ranked import may_read
from tests.property.test_policy_model import message_of

TAKER = NodeId("ann")
ORIGIN = Origin(NodeId("n1"), Incarnation(1))
#: As a node does it.
PIECE, KEEP = 2_048, 1_000


def stow_all(fragment: Fragment) -> None:
    while stow(fragment, fragment.last, KEEP, 0, PIECE):
        pass
    fragment.check()


def test_some_of_a_low_priority_far_apart_do_not_keep_others_in_memory() -> None:
    policy = QueuePolicy(max_priority=9)
    fragment = Fragment(FragmentId(1), 1, durable=True, recording=False, policy=policy)
    low, high = [
        encode(
            FLAG_PERSISTENT | FLAG_PRIORITY, make_route("", "q"),
            encode_properties({"delivery_mode": 2, "priority": rank}), b"x" * 60,
        )
        for rank in (0, 9)
    ]  # fmt: skip
    number = 1
    for _ in range(PIECE + 500):
        fragment.publish(ORIGIN, number, [low], False, 0)
        # Those of the higher priority that came between them are consumed.
        number, fragment.last = number + 1, fragment.last + 600
    fragment.publish(ORIGIN, number, [high] * 5_000, False, 0)
    stow_all(fragment)
    assert fragment.fresh.stowed_count > 4_500
    # What is next stays in memory.
    assert fragment.take(NodeId("n1"), 1).messages == [high]


def test_no_more_is_read_for_who_holds_much_while_memory_is_full() -> None:
    policy = QueuePolicy(max_priority=5)
    fragment = Fragment(FragmentId(1), 1, durable=True, recording=True, policy=policy)
    delayed = message_of((1, None, 1, 1_000_000), 0, 2)
    plain = [message_of((12, None, n % 3, 0), n, 2) for n in range(1, 8_000)]
    fragment.publish(ORIGIN, 1, [delayed, *plain])
    some = fragment.take(TAKER, 7)
    stow(fragment, fragment.last, 0, 0, 1_000, 512)
    assert fragment.stowed_count
    # One by one between others, they are not worth a run each.
    assert fragment.in_flight is None
    assert may_read(fragment, True), "whoever acknowledges in batches waits for more"
    much = fragment.take(TAKER, 2_400)
    assert len(much.messages) == 2_400
    assert may_read(fragment, False)
    assert not may_read(fragment, True)
    fragment.settle(TAKER, [*some.positions, *much.positions])
    assert may_read(fragment, True), "what is not due yet is nobody's"
