"""The book finds what is lost, foreign, doubled, unmarked or out of order, and nothing else."""

import time

import pytest

from tests.powercut.book import Book, Heard, Target, body_of

TARGET = Target("", "queue", ("queue",))


def heard(*numbers: int, redelivered: bool = True) -> list[Heard]:
    return [
        Heard("queue", body_of("target", number), redelivered, number) for number in numbers
    ]  # fmt: skip


@pytest.fixture
def book() -> Book:
    """Five messages: confirmed but for the last; the first was delivered and acknowledged."""
    book = Book()
    for _ in range(5):
        number, _ = book.publish("target", TARGET)
        if number < 5:
            book.confirm(TARGET, number)
    book.deliver(("queue", 1))
    book.acknowledge(("queue", 1))
    book.deliver(("queue", 2))
    return book


@pytest.mark.parametrize("numbers", [(2, 3, 4), (1, 2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_what_may_be_there_is_well(book: Book, numbers: tuple[int, ...]) -> None:
    verdict = book.judge("queue", heard(*numbers), is_alone=True)
    assert verdict.wrong == []
    assert (verdict.owed, verdict.seen) == (3, len(numbers))
    assert verdict.returned == (1 in numbers)


@pytest.mark.parametrize(
    ("messages", "what"),
    [
        (heard(2, 4), "queue: 1 of 3 lost: 3"),
        (heard(2, 3, 4, 6), "never published"),
        ([Heard("queue", b"rot", True, 9), *heard(2, 3, 4)], "b'rot' was never published"),
        ([*heard(2, 3), Heard("queue", b"target 4 ?", True, 9)], "4 has another content"),
        (heard(2, 3, 3, 4), "queue: twice: 3, 3"),
        (heard(2, 4, 3), "queue: out of order: 3"),
        (heard(2, 3, 4, redelivered=False), "2 was delivered before and is not marked"),
    ],
)
def test_what_may_not_be_is_told(book: Book, messages: list[Heard], what: str) -> None:
    (wrong,) = book.judge("queue", messages, is_alone=True).wrong
    assert what in wrong


def test_what_was_acknowledged_and_is_back_is_owed_again(book: Book) -> None:
    assert book.judge("queue", heard(1, 2, 3, 4), is_alone=True).returned == 1
    assert book.owed("queue") == {1: True, 2: True, 3: False, 4: False}
    book.acknowledge(("queue", 1))
    assert book.judge("queue", heard(2, 3, 4), is_alone=True).risen == 0
    risen = book.judge("queue", heard(1, 2, 3, 4), is_alone=True)
    assert (risen.risen, risen.wrong) == (1, ["queue: 1 was acknowledged and gone before"])
    assert not book.judge("queue", heard(1, 2, 3, 4), is_alone=False).wrong


def test_what_came_after_the_cut_did_not_happen(book: Book) -> None:
    ns = time.monotonic_ns()
    book.acknowledge(("queue", 2))
    book.confirm(TARGET, 5)
    number, _ = book.publish("target", TARGET)
    book.rewind(ns)
    assert list(book.owed("queue")) == [2, 3, 4]
    (wrong,) = book.judge("queue", heard(2, 3, 4, number), is_alone=True).wrong
    assert "never published" in wrong
    assert book.publish("target", TARGET)[0] == number + 1, "numbers are used once"
