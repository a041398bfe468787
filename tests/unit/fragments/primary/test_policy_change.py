"""A fragment whose policy changes: what was promised, and what was refused, before."""

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.policy import PLAIN, REJECT_PUBLISH, QueuePolicy
from fedq.fragments.fragment import Fragment
from tests.unit.journal.samples import message

ORIGIN = Origin(NodeId("a"), Incarnation(1))


def fragment(policy: QueuePolicy) -> Fragment:
    return Fragment(FragmentId(1), 1, durable=True, recording=True, policy=policy)


def test_what_was_refused_is_not_confirmed_once_the_policy_has_gone() -> None:
    here = fragment(QueuePolicy(max_length=0, overflow=REJECT_PUBLISH))
    here.refuse(ORIGIN, 1, 2)
    here.out.owed.clear()
    here.change_policy(PLAIN)
    # The answer was lost: both come again, and nobody has them.
    here.publish(ORIGIN, 1, [message("1"), message("2")], resent=True)
    assert here.out.owed[-1].refused == (1, 2)
    assert here.ready_count == 0


def test_bytes_that_did_not_count_are_counted_when_they_do() -> None:
    here, bodies = fragment(PLAIN), [message("x" * size) for size in (1, 20, 300)]
    here.publish(ORIGIN, 1, bodies)
    assert here.change_policy(QueuePolicy(max_bytes=1_000)) == 3
    assert here.ready_bytes == 321
    taken = here.take(NodeId("n"), 1)
    here.requeue(NodeId("n"), taken.positions)
    here.change_policy(PLAIN)
    here.publish(ORIGIN, 4, [message("y" * 7)])
    here.change_policy(QueuePolicy(max_bytes=1_000))
    assert here.ready_bytes == 328
    here.check()
