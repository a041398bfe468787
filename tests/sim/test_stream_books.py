"""What the books of a stream in several fragments find, and what they let pass."""

import pytest

from fedq.core.message import make_route
from fedq.wiring.routing.partitions import partition_of
from tests.sim.checkers import Ledger
from tests.sim.stream_books import Reading, StreamBooks, key_of
from tests.sim.streams import StreamPlan, StreamPublisherPlan
from tests.sim.world import Trace, World

SENDER = StreamPublisherPlan(messages=20, burst=1, gap_us=1, body_bytes=10, persistent=1.0)
COUNT = 20


def books_of(fragments: int = 3) -> StreamBooks:
    """Books of some messages, all confirmed."""
    plan = StreamPlan(2, 0, 20, (SENDER,), (), fragments)
    books = StreamBooks(Ledger(World(1, Trace())), plan)
    for number in range(COUNT):
        books.confirmed(books.publish(number, "p#1", body(number)))
    return books


def body(number: int) -> bytes:
    return b"%d:0123456789" % number


def places() -> list[tuple[int, int, int]]:
    """Fragment, offset and number of each message."""
    nexts: dict[int, int] = {}
    found: list[tuple[int, int, int]] = []
    for number in range(COUNT):
        fragment = partition_of(make_route("x", key_of(number)), 3)
        found.append((fragment, nexts.get(fragment, 0), number))
        nexts[fragment] = nexts.get(fragment, 0) + 1
    return found


def begin(books: StreamBooks, name: str = "") -> Reading:
    reading = books.begins(f"r#{len(books.books[0].readers)}", "first", name, "")
    reading.begun(0)
    return reading


def read(books: StreamBooks, reading: Reading, *numbers: int, acknowledges: bool = True) -> None:
    """It gets these messages, and acknowledges them."""
    for fragment, offset, number in places():
        if number in numbers:
            books.delivered(reading, fragment, offset, body(number))
            if acknowledges:
                books.acknowledged(reading, fragment)


def problems(books: StreamBooks) -> list[str]:
    last = begin(books)
    read(books, last, *range(COUNT))
    books.finish(last)
    assert last.count == COUNT
    return books.ledger.problems


def test_who_reads_all_is_right_and_those_with_a_name_may_share() -> None:
    books = books_of()
    read(books, begin(books), *range(COUNT))
    first, second = begin(books, "x"), begin(books, "x")
    read(books, first, *range(10))
    read(books, second, *range(10, COUNT))
    assert problems(books) == []


def test_a_message_elsewhere_than_its_key_says_is_found() -> None:
    books = books_of()
    fragment = partition_of(make_route("x", key_of(0)), 3)
    books.delivered(begin(books), (fragment + 1) % 3, 0, body(0))
    assert "which nobody sent" in books.ledger.problems[0]


@pytest.mark.parametrize("fragment", [None, 3, -1, "1"])
def test_a_fragment_that_is_none_is_found(fragment: object) -> None:
    books = books_of()
    books.delivered(begin(books), fragment, 0, body(0))
    assert "came from fragment" in books.ledger.problems[0]


def test_a_stream_in_one_has_no_numbers() -> None:
    books = books_of(0)
    reading = begin(books)
    books.delivered(reading, None, 0, body(0))
    assert books.ledger.problems == []
    books.delivered(reading, 0, 1, body(1))
    assert "came from fragment" in books.ledger.problems[0]


def test_a_fragment_in_two_hands_and_what_comes_to_both_are_found() -> None:
    books = books_of()
    first, second = begin(books, "x"), begin(books, "x")
    read(books, first, *range(10), acknowledges=False)
    read(books, second, *range(10, COUNT))
    assert any("reads" in each for each in books.ledger.problems)
    books = books_of()
    first, second = begin(books, "x"), begin(books, "x")
    read(books, first, *range(COUNT))
    read(books, second, 5)
    assert any("got" in each and "did" in each for each in books.ledger.problems)


def test_a_member_that_goes_leaves_what_it_had_to_others() -> None:
    books = books_of()
    first, second = begin(books, "x"), begin(books, "x")
    read(books, first, *range(10), acknowledges=False)
    first.end()
    read(books, second, *range(COUNT))
    assert problems(books) == []


def test_what_a_name_missed_is_found() -> None:
    books = books_of()
    read(books, begin(books, "x"), *range(19))
    assert any("did not see" in each for each in problems(books))
