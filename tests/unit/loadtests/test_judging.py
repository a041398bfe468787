"""Subscribers are owed what was sent while they were there, and whoever lacks it is counted."""

import pytest

from loadtests.locust.judging import Owed, judge
from loadtests.locust.lives import Book, End, Life
from loadtests.locust.sends import Sends

SECOND = 1_000_000_000
GRACE = 5 * SECOND


def sent(count: int) -> dict[int, Sends]:
    """A publisher that sent message `n` at second `n + 1`."""
    sends = Sends()
    sends.sent_ns.extend((number + 1) * SECOND for number in range(count))
    sends.due_ns.extend(sends.sent_ns)
    return {0: sends}


def judged(
    numbers: list[int], since_s: float = 0.0, ended_s: float | None = None, heard_s: float = 60.0,
    sends: dict[int, Sends] | None = None, end: End = End.CLOSED,
) -> Owed:  # fmt: skip
    """What one subscriber with these deliveries was owed, of twenty messages."""
    book = Book()
    life = Life(int(since_s * SECOND), publishers=1)
    book.begin(life)
    if numbers:
        life.take(numbers)
    if ended_s is not None:
        book.end(life, end, int(ended_s * SECOND))
    return judge(book.tables(), sends or sent(20), int(heard_s * SECOND), GRACE)


def test_who_got_everything_lacks_nothing() -> None:
    assert judged(list(range(20))) == Owed(20, 0, 0)


@pytest.mark.parametrize(
    ("numbers", "lost"),
    [
        ([*range(19)], 1),
        ([*range(1, 20)], 1),
        ([*range(5), *range(8, 20)], 3),
        ([], 20),
    ],
    ids=["the last", "the first", "three in the middle", "all"],
)
def test_who_lacks_something_is_found(numbers: list[int], lost: int) -> None:
    assert judged(numbers) == Owed(20, lost, 1)


def test_nobody_is_owed_what_was_sent_before_and_after() -> None:
    # Message 9 was sent at second 10, and 13 at second 14: five before the end.
    assert judged([*range(10, 14)], since_s=10.5, ended_s=19.5) == Owed(4, 0, 0)
    assert judged([*range(11, 14)], since_s=10.5, ended_s=19.5) == Owed(4, 1, 1)
    assert judged([*range(10, 13)], since_s=10.5, ended_s=19.5) == Owed(4, 1, 1)


def test_what_came_although_it_was_not_owed_is_no_fault() -> None:
    assert judged([*range(8, 20)], since_s=10.5, ended_s=19.5).lost == 0


def test_who_was_cut_off_is_owed_what_came_before() -> None:
    assert judged([*range(5)], ended_s=10.5, end=End.BROKEN) == Owed(5, 0, 0)
    assert judged([*range(4)], ended_s=10.5, end=End.BROKEN) == Owed(5, 1, 1)


def test_who_goes_on_is_owed_what_was_sent_before_the_last_report_by_the_grace() -> None:
    assert judged([*range(10)], heard_s=15.5) == Owed(10, 0, 0)
    assert judged([*range(9)], heard_s=15.5) == Owed(10, 1, 1)


def test_nobody_is_owed_what_its_publisher_does_not_know_to_be_taken() -> None:
    sends = sent(20)
    sends[0].unsettled.append((5, 8))
    assert judged([*range(5), *range(8, 20)], sends=sends).lost == 0
    assert judged([*range(5), *range(9, 20)], sends=sends).lost == 1


def test_several_thousand_who_lack_it_are_counted_one_by_one() -> None:
    book = Book()
    for _ in range(3_000):
        life = Life(0, publishers=1)
        book.begin(life)
        life.take(list(range(18)))
    assert judge(book.tables(), sent(20), 60 * SECOND, GRACE) == Owed(60_000, 6_000, 3_000)
