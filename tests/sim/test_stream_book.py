"""What the book of a stream finds, and what it lets pass."""

import pytest

from tests.sim.checkers import Ledger
from tests.sim.stream_book import Reader, StreamBook
from tests.sim.streams import NAME, StreamPlan, StreamPublisherPlan
from tests.sim.world import Trace, World

SENDER = StreamPublisherPlan(messages=10, burst=1, gap_us=1, body_bytes=10, persistent=1.0)


def book_of(count: int = 10, max_bytes: int = 0) -> StreamBook:
    """A book of so many messages, all confirmed."""
    plan = StreamPlan(2, max_bytes, 20, (SENDER,), ())
    book = StreamBook(Ledger(World(1, Trace())), plan)
    for number in range(1, count + 1):
        book.confirmed(book.publish(number, "p#1", body(number)))
    return book


def body(number: int) -> bytes:
    return b"%d:0123456789" % number


def read(book: StreamBook, start: str | int, *numbers: int, shift: int = 1) -> Reader:
    """A reader that gets these messages, each at an offset lower by one."""
    reader = book.begins(f"r#{len(book.readers)}", start)
    reader.begun_us = 0
    for number in numbers:
        book.delivered(reader, number - shift, body(number))
    return reader


def problems(book: StreamBook, last: Reader) -> list[str]:
    book.finish(last)
    return book.ledger.problems


def test_who_reads_all_from_a_place_on_is_right() -> None:
    book = book_of()
    for start, begins in (("first", 1), (4, 5), ("last", 10)):
        read(book, start, *range(begins, 11))
    reader = read(book, "next")
    last = read(book, "first", *range(1, 11))
    assert problems(book, last) == []
    assert book.is_read(last)
    assert NAME
    assert reader.offsets == []


@pytest.mark.parametrize(
    ("start", "numbers", "word"),
    [
        ("first", (1, 2, 4), "did not see"),
        ("first", (2, 3), "missed"),
        (4, (6, 7), "missed"),
        (4, (4, 5), "got offset 3"),
        ("first", (1, 3, 2), "came after"),
        ("first", (1, 1), "came after"),
    ],
)
def test_what_a_reader_misses_or_gets_twice_is_found(
    start: str | int, numbers: tuple[int, ...], word: str
) -> None:
    book = book_of()
    read(book, start, *numbers)
    found = problems(book, read(book, "first", *range(1, 11)))
    assert any(word in each for each in found), found


def test_what_stands_at_an_offset_stays() -> None:
    book = book_of()
    read(book, "first", 1, 2, 3)
    read(book, 1, 3, shift=2)
    assert any("others" in each for each in book.ledger.problems)


def test_what_was_read_and_is_gone_is_found() -> None:
    book = book_of()
    read(book, "first", *range(1, 11))
    found = problems(book, read(book, "first", *range(1, 10)))
    assert any("which is gone" in each for each in found), found
    assert any("confirmed and not in the stream" in each for each in found), found


@pytest.mark.parametrize(
    ("first", "max_bytes", "word"),
    [(4, 900, ""), (4, 9_000, "are left of"), (1, 1, "bytes are there")],
)
def test_what_goes_by_size_is_the_beginning_and_as_much_as_must(
    first: int, max_bytes: int, word: str
) -> None:
    book = book_of(60, max_bytes)
    found = problems(book, read(book, "first", *range(first, 61)))
    assert any(word in each for each in found) if word else not found, found
