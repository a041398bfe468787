"""What can be taken now, of messages in runs, on disk alone, and kept singly."""

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.fragments.fragment import Fragment
from fedq.fragments.singly.ready import COUNTED_MAX
from fedq.fragments.upkeep.stowing import fill
from tests.unit.journal.samples import message

CLIENT = Origin(NodeId("client"), Incarnation(1))
ANN = NodeId("ann")


def published(made: Fragment, first: int, last: int, singly: bool = False) -> None:
    """Persistent messages; what was sent again is kept singly."""
    messages = [message(f"{number}") for number in range(first, last + 1)]
    made.publish(CLIENT, first, messages, resent=singly)


def takeable(made: Fragment) -> int:
    """How many are handed out; they come back."""
    taken = made.take(ANN, 100_000)
    made.requeue(ANN, taken.positions)
    return len(taken.positions)


def test_what_stands_behind_some_on_disk_is_not_at_hand() -> None:
    made = Fragment(FragmentId(1), 1, durable=True, recording=True)
    published(made, 1, 10)
    bodies = dict(made.messages)
    published(made, 11, 13, singly=True)
    published(made, 14, 20)
    made.fresh.stow(made.last, keep=1)
    assert made.fresh.at_hand == 1
    assert made.at_hand == 1
    assert takeable(made) == 1
    # It is kept singly now, in front of all.
    assert made.at_hand == 1
    assert not made.must_read
    fill(made, bodies)
    assert made.at_hand == takeable(made) == 13
    made.check()


def test_of_many_some_are_told_and_all_are_taken() -> None:
    made = Fragment(FragmentId(1), 1, durable=True, recording=True)
    many = 5 * COUNTED_MAX
    published(made, 1, many, singly=True)
    published(made, many + 1, many + 20)
    made.fresh.stow(made.last, keep=0)
    published(made, many + 21, many + 30, singly=True)
    taken = 0
    while made.at_hand:
        assert made.at_hand <= many - taken
        taken += len(made.take(ANN, made.at_hand).positions)
    assert taken == many
    assert made.must_read
    # They come back in one go, and some are gone meanwhile.
    positions = [position for position in made.messages if made.unacked.get(position) == ANN]
    made.requeue(ANN, positions)
    made.settle(ANN, positions[: COUNTED_MAX + 50])
    assert 0 < made.at_hand <= many - COUNTED_MAX - 50
    assert takeable(made) == many - COUNTED_MAX - 50
    made.check()
