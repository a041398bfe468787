"""A life knows what came to its subscriber, and tables of lives say no more and no less."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.bench.blocks import PRODUCER_SHIFT
from loadtests.locust.lives import NOTHING, Book, End, Life, Tables

SECOND = 1_000_000_000


def test_what_comes_in_order_leaves_no_trace() -> None:
    life = Life(0, publishers=2)
    life.take([7, 8, 9])
    life.take([10])
    life.take([1 << PRODUCER_SHIFT, 11])
    assert (life.first, life.due) == ([7, 0], [12, 1])
    assert (life.gaps, life.repeats, life.disorder) == ([], 0, 0)


def test_a_hole_a_repeat_and_a_late_one_are_told_apart() -> None:
    life = Life(0, publishers=1)
    life.take([0, 1, 5])
    assert life.gaps == [(0, 2, 5)]
    life.take([3])
    assert (life.gaps, life.disorder, life.repeats) == ([(0, 2, 3), (0, 4, 5)], 1, 0)
    life.take([3, 1])
    assert (life.disorder, life.repeats) == (1, 2)


def test_messages_of_nobody_who_is_known_do_not_belong_here() -> None:
    life = Life(0, publishers=1)
    life.take([5 << PRODUCER_SHIFT])
    assert (life.repeats, life.first) == (1, [NOTHING])


@given(st.permutations(range(8)), st.lists(st.integers(0, 7), max_size=4))
def test_every_message_is_due_lost_repeated_or_late_exactly_once(
    order: list[int], again: list[int]
) -> None:
    """Whatever the order: nothing is in a gap in the end, and each repeat counts."""
    life = Life(0, publishers=1)
    for number in [0, *(each + 1 for each in order)]:
        life.take([number])
    for number in again:
        life.take([number + 1])
    assert (life.gaps, life.due, life.repeats) == ([], [9], len(again))
    assert (life.disorder == 0) == (order == sorted(order))


def test_lives_that_agree_are_one_row_however_many_they_are() -> None:
    book = Book()
    lives = [Life(SECOND, publishers=1) for _ in range(500)]
    for life in lives:
        book.begin(life)
        life.take([3, 4])
    book.end(lives[0], End.CLOSED, 9 * SECOND)
    book.end(lives[1], End.BROKEN, 9 * SECOND)
    tables = book.tables()
    assert book.live == 498
    assert dict(tables.heads) == {(0, 3, 10): 500}
    assert dict(tables.tails) == {
        (0, 5, 0, "live"): 498, (0, 5, 90, "closed"): 1, (0, 5, 90, "broken"): 1,
    }  # fmt: skip


def test_what_slow_ones_miss_is_counted_apart() -> None:
    book = Book()
    life = Life(0, publishers=1, is_slow=True)
    book.begin(life)
    life.take([0, 10])
    tables = book.tables()
    assert tables.sums["slow missed"] == 9
    assert not tables.gaps
    assert not tables.tails


def test_tables_survive_their_way_to_the_master() -> None:
    book = Book()
    for number in range(3):
        life = Life(number * SECOND, publishers=1)
        book.begin(life)
        if number:
            life.take([number, number + 2])
    tables = book.tables()
    again = Tables.unpacked(tables.packed())
    assert again.packed() == tables.packed()
    again.merge(tables)
    assert again.sums["lives live"] == 6
