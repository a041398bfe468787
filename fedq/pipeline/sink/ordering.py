"""Rows in an order that only their content decides, and a hash over all of them (docs/adr/0081).

Input: rows in any order. Output: the same ones, sorted by front and body, as often as they are
wanted; and their hash, which is the same for the same rows, however they came. What is more than a
bound in memory goes to files, as sorted runs that are merged.
"""

import hashlib
import pickle
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from types import TracebackType
from typing import IO, Final, NamedTuple, Self

from fedq.pipeline.sink.encoding import Front

#: Rows that are kept in memory, with what each costs there.
SORT_BYTES_MAX: Final = 128 * 1024 * 1024
#: What a row costs beside its bytes: an object and two references.
_ROW_BYTES: Final = 56
#: Rows that go from one hand to the next at a time, at most: in number, and in bytes.
ROWS_MAX: Final = 1_024
ROWS_BYTES_MAX: Final = 256 * 1024
_HASH_BYTES: Final = 16


class Rows(NamedTuple):
    """Rows of one front, in order."""

    front: Front
    bodies: Sequence[bytes]


class Sorter:
    """Sorts rows by their content; a context manager, since it may hold files."""

    def __init__(self, bytes_max: int = SORT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._groups: dict[Front, list[bytes]] = {}
        self._size = 0
        self._files: list[IO[bytes]] = []
        self._is_sorted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        while self._files:
            self._files.pop().close()

    def add(self, rows: Rows) -> None:
        """Takes rows in; before the first are taken out."""
        assert not self._is_sorted, "all rows come before the first is taken out"
        group = self._groups.get(rows.front)
        if group is None:
            group = self._groups[rows.front] = []
            self._size += _ROW_BYTES + sum(map(len, rows.front))
        group += rows.bodies
        self._size += _ROW_BYTES * len(rows.bodies) + sum(map(len, rows.bodies))
        if self._size > self._bytes_max:
            self._spill()

    def rows(self) -> Iterator[Rows]:
        """The rows in order."""
        if not self._is_sorted:
            self._is_sorted = True
            for group in self._groups.values():
                group.sort()
        if not self._files:
            yield from self._in_memory()
            return
        runs = [_read(file) for file in self._files]
        yield from _joined(merge(*map(_singly, [*runs, self._in_memory()])))

    def digest(self) -> str:
        """The hash over all rows, in hexadecimal."""
        content, shape = hashlib.blake2b(digest_size=_HASH_BYTES), hashlib.blake2b(digest_size=32)
        front: Front | None = None
        for rows in self.rows():
            if rows.front != front:
                front = rows.front
                # No length is as large, so that a front is not taken for lengths.
                shape.update(b"\xff" * 8)
                for part in (front.exchange.encode(), front.routing_key.encode(), front.properties):
                    shape.update(len(part).to_bytes(8, "little") + part)
            # Whatever their cuts are: lengths and bytes of all rows in a row.
            shape.update(array("Q", map(len, rows.bodies)).tobytes())
            content.update(b"".join(rows.bodies))
        content.update(shape.digest())
        return content.hexdigest()

    def _in_memory(self) -> Iterator[Rows]:
        for front in sorted(self._groups):
            yield from pieces_of(Rows(front, self._groups[front]))

    def _spill(self) -> None:
        """Writes what is in memory to a file, sorted."""
        for group in self._groups.values():
            group.sort()
        # Closed with the sorter; it has no name, so nothing is left whatever happens.
        file = tempfile.TemporaryFile(prefix="fedq-sink-")  # noqa: SIM115
        self._files.append(file)
        for rows in self._in_memory():
            pickle.dump((tuple(rows.front), rows.bodies), file, protocol=5)
        self._groups, self._size = {}, 0


def pieces_of(rows: Rows) -> Iterator[Rows]:
    """Rows in pieces of a bounded size."""
    bodies = rows.bodies
    at = 0
    while at < len(bodies):
        piece = bodies[at : at + ROWS_MAX]
        size = sum(map(len, piece))
        while size > ROWS_BYTES_MAX and len(piece) > 1:
            piece = piece[: len(piece) // 2]
            size = sum(map(len, piece))
        yield Rows(rows.front, piece)
        at += len(piece)


def _read(file: IO[bytes]) -> Iterator[Rows]:
    """What a file has; it was written by this very process."""
    file.seek(0)
    end = file.seek(0, 2)
    file.seek(0)
    while file.tell() < end:
        front, bodies = pickle.load(file)
        yield Rows(Front(*front), bodies)


def _singly(runs: Iterable[Rows]) -> Iterator[tuple[Front, bytes]]:
    for front, bodies in runs:
        for body in bodies:
            yield front, body


def _joined(rows: Iterable[tuple[Front, bytes]]) -> Iterator[Rows]:
    """Rows that follow each other with the same front, together."""
    front: Front | None = None
    bodies: list[bytes] = []
    size = 0
    for each, body in rows:
        if each != front or len(bodies) >= ROWS_MAX or size > ROWS_BYTES_MAX:
            if front is not None:
                yield Rows(front, bodies)
            front, bodies, size = each, [], 0
        bodies.append(body)
        size += len(body)
    if front is not None:
        yield Rows(front, bodies)


def by_front(fronts: Iterable[Front], bodies: Iterable[bytes]) -> Iterator[Rows]:
    """Rows as they come, those that follow each other with the same front together."""
    yield from _joined(zip(fronts, bodies, strict=True))
