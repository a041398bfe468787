"""What can be taken now, of messages in runs, on disk alone, and kept singly."""

import pytest

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.fragments.fragment import Fragment
from fedq.fragments.runs.fresh import RUNS_COUNTED_MAX, Fresh
from fedq.fragments.runs.runs import Run
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


def test_what_is_not_committed_behind_some_on_disk_takes_nothing_away() -> None:
    """Before, a long queue with named publishers had nothing at hand while it got more."""
    made = Fragment(FragmentId(1), 1, durable=True, recording=True)
    published(made, 1, 20)
    committed = made.safe = made.last
    made.fresh.stow(committed, keep=4 * len(message("10")))
    at_hand = made.at_hand
    assert 0 < at_hand < 20
    published(made, 21, 60)
    assert made.safe < made.last
    assert made.at_hand == at_hand
    assert len(made.take(ANN, 100).positions) == at_hand
    assert made.at_hand == 0


class _Counting(list[Run]):
    """A list of runs that counts how many of them are looked at."""

    looks = 0

    def __getitem__(self, index: int) -> Run:  # type: ignore[override]
        self.looks += 1
        return super().__getitem__(index)


@pytest.mark.parametrize("total", [100, 200, 20_000])
def test_a_count_up_to_a_position_looks_at_some_runs_however_many_there_are(total: int) -> None:
    """As in a queue with named publishers, where much is not committed yet."""
    line = Fresh()
    for position in range(total):
        # No two of them join.
        line.add(2 * position, [b"m", b"n"][: 1 + position % 2], bool(position % 2))
    runs = line._runs = _Counting(line._runs)
    for stop in (0, 1, 2, 3, 4, total, total + 1, 2 * total - 3, 2 * total, 3 * total):
        exact = sum(min(1 + n % 2, max(0, stop - 2 * n)) for n in range(total))
        runs.looks = 0
        found = line.at_hand_before(stop)
        assert runs.looks <= 2 * RUNS_COUNTED_MAX + 1
        assert min(exact, RUNS_COUNTED_MAX) <= found <= exact
        if total <= RUNS_COUNTED_MAX or stop > 2 * total - RUNS_COUNTED_MAX:
            assert found == exact
