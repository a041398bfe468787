"""What the book of a stream finds, and what it lets pass."""

import pytest

from fedq.core.ids import POSITION_BITS
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


def read(
    book: StreamBook, start: str | int, *numbers: int, shift: int = 1, name: str = "",
    wanted: str = "",
) -> Reader:  # fmt: skip
    """A reader that gets these messages, each at an offset lower by one."""
    reader = book.begins(f"r#{len(book.readers)}", start, name, wanted)
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


def test_what_came_lately_and_is_missed_is_found() -> None:
    book = book_of()
    book.published[7].sent_us = -1_500_000
    for number in range(1, 7):
        book.published[number].sent_us = -3_000_000
    read(book, "2s", *range(5, 11))
    read(book, "1s", *range(8, 11))
    missing = read(book, "2s", *range(8, 11))
    found = problems(book, read(book, "first", *range(1, 11)))
    assert len(found) == 1
    assert missing.describe() in found[0]


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


def test_readers_with_a_name_have_read_all_together() -> None:
    book = book_of()
    read(book, "first", 1, 2, 3, 4, name="x").is_alive = False
    waiting = read(book, "first", name="x")
    read(book, "first", 3, 4, 5, 6, 7, 8, 9, 10, name="x")
    last = read(book, "first", *range(1, 11))
    assert book.is_read(last)
    assert waiting.offsets == []
    assert problems(book, last) == []


def test_a_gap_between_readers_with_a_name_is_found() -> None:
    book = book_of()
    read(book, "first", 1, 2, 3, name="x").is_alive = False
    read(book, "first", 5, 6, 7, 8, 9, 10, name="x")
    last = read(book, "first", *range(1, 11))
    assert any("did not see [3]" in each for each in problems(book, last))


def test_two_readers_with_a_name_at_a_time_are_found() -> None:
    book = book_of()
    read(book, "first", 1, 2, 3, name="x")
    read(book, "first", 4, name="x")
    assert any("reads" in each for each in book.ledger.problems)


def test_a_filter_is_held_to_what_it_wants() -> None:
    book = book_of()
    read(book, "first", 1, 2, 5, 6, 9, 10, wanted="bc")
    last = read(book, "first", *range(1, 11))
    assert book.is_read(last)
    assert problems(book, last) == []
    read(book, "first", 1, 3, wanted="bc")
    assert any("got 3" in each for each in book.ledger.problems)


def test_what_a_filter_left_out_is_found() -> None:
    book = book_of()
    reader = read(book, "first", 1, 2, 9, 10, wanted="bc")
    last = read(book, "first", *range(1, 11))
    assert any("did not see" in each for each in problems(book, last))
    assert reader.wanted


def aged_book(seconds: int) -> StreamBook:
    """A book of a stream with an age: one message every 100 ms, confirmed a millisecond later."""
    plan = StreamPlan(2, 0, 20, (SENDER,), (), max_age_s=seconds)
    book = StreamBook(Ledger(World(1, Trace())), plan)
    for number in range(1, 61):
        sent = book.publish(number, "p#1", body(number))
        sent.sent_us = 100_000 * number
        sent.confirmed_us = sent.sent_us + 1_000
    return book


@pytest.mark.parametrize(("first", "word"), [(1, "too old"), (9, "too old"), (25, ""), (40, "")])
def test_what_stays_beyond_its_age_is_found(first: int, word: str) -> None:
    book = aged_book(3)
    found = problems(book, read(book, "first", *range(first, 61)))
    assert any(word in each for each in found) if word else not found, found


@pytest.mark.parametrize(("at_us", "is_early"), [(6_100_000, True), (9_000_000, False)])
def test_what_goes_before_its_age_is_found(at_us: int, is_early: bool) -> None:
    """A reader from the beginning got 50 first: 49 is gone, and was sent at 4.9 s."""
    book = aged_book(3)
    early = read(book, "first", *range(50, 61))
    early.asked_us = early.seen_us[49] = at_us
    found = problems(book, read(book, "first", *range(50, 61)))
    assert any("did not find" in each for each in found) == is_early, found


@pytest.mark.parametrize(
    ("at_us", "is_fault_near", "is_missed"),
    [(5_500_000, True, False), (5_500_000, False, True), (5_100_000, True, True)],
)
@pytest.mark.parametrize("name", ["", "x"])
def test_what_a_primary_let_go_as_it_died_may_be_there_again(
    at_us: int, is_fault_near: bool, is_missed: bool, name: str
) -> None:
    """A reader got 25 first, and 22 to 24 are there: the last of them was sent at 2.4 s."""
    book = aged_book(3)
    reader = read(book, "first", *range(25, 61), name=name)
    reader.seen_us[24] = at_us
    book.ledger.world.now_us = at_us + 100_000 if is_fault_near else at_us + 3_000_000
    book.ledger.fault_begins()
    last = read(book, "first", *range(22, 61))
    found = problems(book, last)
    word = "did not see" if name else "missed"
    assert any(word in each for each in found) == is_missed, found


@pytest.mark.parametrize(("max_bytes", "is_missed"), [(900, False), (9_000, True)])
def test_what_went_by_size_as_a_primary_died_had_to(max_bytes: int, is_missed: bool) -> None:
    book = book_of(30, max_bytes)
    read(book, "first", *range(1, 11), *range(14, 31))
    book.ledger.fault_begins()
    found = problems(book, read(book, "first", *range(1, 31)))
    assert any("did not see" in each for each in found) == is_missed, found


@pytest.mark.parametrize(("first", "went"), [(1 << POSITION_BITS, False), (7, True)])
def test_a_fragment_to_which_nobody_published_at_first_has_let_nothing_go(
    first: int, went: bool
) -> None:
    book = book_of(10, 9_000)
    last = read(book, "first", *range(1, 11), shift=1 - first)
    found = problems(book, last)
    assert any("that may be kept" in each for each in found) == went, found
