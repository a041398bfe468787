"""A run's stream as its fragments: a book for each, and who reads has a reader in each.

Where a message is to be is known by its routing key: found elsewhere, it is one that nobody sent.
"""

from collections.abc import Sequence

from fedq.core.message import make_route
from fedq.wiring.routing.partitions import partition_of
from tests.sim.checkers import Ledger
from tests.sim.stream_book import Reader, StreamBook
from tests.sim.stream_retention import Published
from tests.sim.streams import KEYS, StreamPlan


def key_of(number: int) -> str:
    """The routing key of a message."""
    return f"key{number % KEYS}"


def _number(fragment: object) -> int:
    """The number of a fragment, by what a delivery says; -1: none that could be."""
    if fragment is None:
        return 0
    return fragment if isinstance(fragment, int) else -1


class Reading:
    """One basic.consume: where it is in each fragment."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self.readers = readers

    @property
    def count(self) -> int:
        """How many messages it got."""
        return sum(len(reader.offsets) for reader in self.readers)

    def begun(self, now_us: int) -> None:
        """It heard that it has begun."""
        for reader in self.readers:
            reader.begun_us = now_us

    def end(self) -> None:
        """It has gone."""
        for reader in self.readers:
            reader.is_alive = False


class StreamBooks:
    """See the module's docstring."""

    def __init__(self, ledger: Ledger, plan: StreamPlan) -> None:
        self.ledger = ledger
        self.books = [StreamBook(ledger, plan) for _ in range(max(1, plan.fragments))]

    def publish(self, number: int, label: str, body: bytes) -> Published:
        """A message is about to be sent."""
        part = partition_of(make_route("", key_of(number)), len(self.books))
        return self.books[part].publish(number, label, body)

    def confirmed(self, sent: Published) -> None:
        """It is confirmed."""
        sent.confirmed_us = self.ledger.world.now_us

    def begins(self, label: str, start: str | int, name: str, wanted: str) -> Reading:
        """A reader asks to begin."""
        return Reading([book.begins(label, start, name, wanted) for book in self.books])

    def delivered(self, reading: Reading, fragment: object, offset: int, body: bytes) -> None:
        """A reader got a message."""
        is_alone = len(self.books) == 1
        number = -1 if (fragment is None) != is_alone else _number(fragment)
        if not 0 <= number < len(self.books):
            self.ledger.broken(f"{body[:12]!r} came from fragment {fragment!r}")
            return
        self.books[number].delivered(reading.readers[number], offset, body)

    def acknowledged(self, reading: Reading, fragment: object) -> None:
        """A reader is about to acknowledge a message."""
        reading.readers[_number(fragment)].held -= 1

    def is_read(self, last: Reading) -> bool:
        """Whether all who read still have all that the last reader of all got."""
        return all(
            book.is_read(reader) for book, reader in zip(self.books, last.readers, strict=True)
        )

    def finish(self, last: Reading) -> None:
        """Holds everything against the logs."""
        for book, reader in zip(self.books, last.readers, strict=True):
            book.finish(reader)
