"""Where segments are read from: their bytes as a whole, or a piece of one.

Inputs: the numbers of segments, places in them. Outputs: bytes. Nothing is kept in memory by a
source, so that files need not be held together.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping


class Source(Mapping[int, bytes]):
    """Segments by number; each is read when it is asked for."""

    @abstractmethod
    def piece(self, number: int, offset: int, length: int) -> bytes:
        """Some bytes of a segment; fewer if it ends before."""

    @abstractmethod
    def index(self, number: int) -> bytes | None:
        """What was written down about a full segment (`fedq.journal.indexes`), if anything."""

    @abstractmethod
    def size(self, number: int) -> int:
        """The bytes of a segment."""


class InMemory(Source):
    """Segments that are in memory."""

    def __init__(self, segments: Mapping[int, bytes]) -> None:
        self._segments = segments

    def __getitem__(self, number: int) -> bytes:
        return self._segments[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def piece(self, number: int, offset: int, length: int) -> bytes:
        """Some bytes of a segment; fewer if it ends before."""
        return self._segments[number][offset : offset + length]

    def index(self, number: int) -> bytes | None:
        """Nothing was written down."""
        return None

    def size(self, number: int) -> int:
        """The bytes of a segment."""
        return len(self._segments[number])
