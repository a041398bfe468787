"""Scratch files: bodies that the journal does not have, for as long as this process lives.

Inputs: messages of a fragment that are to be written, what became of it, below which position a
fragment needs nothing any more. Outputs: `NodeOut.scratch`, `NodeOut.scratch_drops`, and places
(`fedq.journal.places`), read like those of segments, with negative numbers in place of theirs.

A piece is records of copies, with their checksums: several, so that what cannot be read of it is
not all of it. Each fragment has files of its own: what a line has of them goes in its order, so a
file is deleted as a whole, nothing is ever moved, and a queue that nobody drains keeps no other
one's file. Invariants: a place is told once it is written; the number of a file is used once.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final, Protocol

from fedq.core.ids import FragmentId
from fedq.core.limits import MIB
from fedq.journal.places import STRETCH_BYTES, Place
from fedq.journal.records import encode_copy
from fedq.node.outbox import NodeOut, ScratchPiece

#: A file of a fragment that has so many bytes is followed by another one.
FILE_BYTES_MAX: Final = 16 * MIB
#: What may be on its way to the disk at once.
UNDER_WAY_BYTES_MAX: Final = 8 * MIB
#: What a place takes in memory.
_PLACE_BYTES: Final = 240
_BEYOND: Final = 1 << 64


class WriteAnswer(Protocol):
    """What waits for a piece to be written hears one of these, once."""

    def on_written(self, positions: Sequence[int]) -> None:
        """Takes note that these messages are in a scratch file."""

    def on_write_failed(self, reason: str) -> None:
        """Takes note that they are not."""


class _Waiting:
    """A piece on its way to the disk."""

    __slots__ = ("answer", "fragment", "place", "positions")

    def __init__(
        self, fragment: FragmentId, place: Place, positions: Sequence[int], answer: WriteAnswer
    ) -> None:
        self.fragment = fragment
        self.place = place
        self.positions = positions
        self.answer = answer


class _Files:
    """What one fragment has in scratch files."""

    __slots__ = ("begun", "bytes_held", "places", "reach", "size", "used")

    def __init__(self) -> None:
        #: By first position. They overlap where something was read back and written anew, and in a
        #: copy, which has old messages, newest first, and live ones in between.
        self.places: list[Place] = []
        #: Of each, the highest last position of it and of all before it.
        self.reach: list[int] = []
        #: The file that is written to, 0: none is, and how far.
        self.begun = self.size = 0
        #: What its places take.
        self.bytes_held = 0
        #: How many pieces each file has, those on their way among them.
        self.used: dict[int, int] = {}

    def add(self, place: Place) -> None:
        """Adds a place."""
        at = bisect_right(self.places, place.first, key=_first_of)
        self.places.insert(at, place)
        self.reach.insert(at, self.reach[at - 1] if at else 0)
        while at < len(self.reach) and self.reach[at] < place.last:
            self.reach[at] = place.last
            at += 1

    def at(self, position: int) -> list[Place]:
        """All places that the position is in, the last one first."""
        found: list[Place] = []
        at = bisect_right(self.places, position, key=_first_of) - 1
        while at >= 0 and self.reach[at] >= position:
            if self.places[at].last >= position:
                found.append(self.places[at])
            at -= 1
        return found

    def forget_below(self, position: int) -> list[Place]:
        """Forgets the places that have nothing from a position on; returns them."""
        stop = bisect_right(self.places, position, key=_first_of)
        gone = [place for place in self.places[:stop] if place.last < position]
        if gone:
            self.places[:stop] = [place for place in self.places[:stop] if place.last >= position]
            self.reach = list(accumulate([place.last for place in self.places], max))
        return gone


class Scratch:
    """The scratch files of one node."""

    __slots__ = (
        "_file_bytes_max", "_files", "_last_file", "_last_piece", "_out", "_waiting", "bytes_held",
        "bytes_under_way", "index_bytes",
    )  # fmt: skip

    def __init__(self, out: NodeOut, file_bytes_max: int = FILE_BYTES_MAX) -> None:
        """`file_bytes_max`: with so many a file is followed by another one."""
        self._out = out
        self._file_bytes_max = file_bytes_max
        self._files: dict[FragmentId, _Files] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._last_file = self._last_piece = 0
        #: What is on its way to the disk, what is there, and what it takes in memory to know where.
        self.bytes_under_way = self.bytes_held = self.index_bytes = 0

    @property
    def fragments(self) -> list[FragmentId]:
        """Fragments that have something in scratch files, or on its way there."""
        return list(self._files)

    def write(
        self, fragment: FragmentId, positions: Sequence[int], messages: Sequence[bytes],
        answer: WriteAnswer,
    ) -> None:  # fmt: skip
        """Has messages at ascending positions written."""
        data = _records_of(fragment, positions, messages)
        files = self._files.get(fragment)
        if files is None:
            files = self._files[fragment] = _Files()
        if not files.begun or files.size >= self._file_bytes_max:
            self._last_file -= 1
            files.begun, files.size = self._last_file, 0
        place = Place(files.begun, files.size, len(data), positions[0], positions[-1])
        files.size += len(data)
        files.used[files.begun] = files.used.get(files.begun, 0) + 1
        self._last_piece += 1
        self._waiting[self._last_piece] = _Waiting(fragment, place, positions, answer)
        self.bytes_under_way += len(data)
        self._out.scratch.append(ScratchPiece(self._last_piece, place.segment, place.offset, data))

    def on_written(self, piece: int) -> None:
        """Takes note that a piece is written: its place is told from now on."""
        waiting = self._answered(piece)
        if waiting is None:
            return
        files, place = self._files[waiting.fragment], waiting.place
        files.add(place)
        files.bytes_held += place.length
        self.bytes_held += place.length
        self.index_bytes += _PLACE_BYTES
        waiting.answer.on_written(waiting.positions)

    def on_failed(self, piece: int, reason: str) -> None:
        """Takes note that a piece is not written; another file is begun for the next one."""
        waiting = self._answered(piece)
        if waiting is None:
            return
        files = self._files[waiting.fragment]
        if files.begun == waiting.place.segment:
            files.begun = 0
        self._let_go(waiting.fragment, files, [waiting.place])
        waiting.answer.on_write_failed(reason)

    def _answered(self, piece: int) -> _Waiting | None:
        waiting = self._waiting.pop(piece, None)
        if waiting is not None:
            self.bytes_under_way -= waiting.place.length
        return waiting

    def places_of(self, fragment: FragmentId, position: int) -> list[Place]:
        """Where a message may be, the newest first."""
        files = self._files.get(fragment)
        return sorted(files.at(position), key=_newest_first) if files is not None else []

    def bytes_of(self, fragment: FragmentId) -> int:
        """What a fragment has in scratch files, needed or not."""
        files = self._files.get(fragment)
        return files.bytes_held if files is not None else 0

    def all_of(self, fragment: FragmentId) -> list[Place]:
        """All places of a fragment, by their first positions."""
        files = self._files.get(fragment)
        return list(files.places) if files is not None else []

    def forget_below(self, fragment: FragmentId, position: int) -> None:
        """Forgets what a fragment has below a position: it needs nothing of that any more."""
        files = self._files.get(fragment)
        if files is None:
            return
        gone = files.forget_below(position)
        if not gone:
            return
        held = sum([place.length for place in gone])
        files.bytes_held -= held
        self.bytes_held -= held
        self.index_bytes -= len(gone) * _PLACE_BYTES
        self._let_go(fragment, files, gone)

    def forget(self, fragment: FragmentId) -> None:
        """Forgets all that a fragment has in scratch files."""
        self.forget_below(fragment, _BEYOND)

    def _let_go(self, fragment: FragmentId, files: _Files, places: list[Place]) -> None:
        """Has the files deleted in which nothing else is."""
        for place in places:
            files.used[place.segment] -= 1
            if not files.used[place.segment]:
                del files.used[place.segment]
                if files.begun == place.segment:
                    files.begun = 0
                self._out.scratch_drops.append(place.segment)
        if not files.used:
            del self._files[fragment]


def _records_of(fragment: FragmentId, positions: Sequence[int], messages: Sequence[bytes]) -> bytes:
    """Records of messages, about `STRETCH_BYTES` in each."""
    records: list[bytes] = []
    begin = size = 0
    for index, message in enumerate(messages, 1):
        size += len(message)
        if size >= STRETCH_BYTES or index == len(messages):
            part = positions[begin:index], messages[begin:index]
            records.append(encode_copy(fragment, 0, *part, {}))
            begin, size = index, 0
    return b"".join(records)


def _first_of(place: Place) -> int:
    return place.first


def _newest_first(place: Place) -> tuple[int, int]:
    # File numbers descend.
    return place.segment, -place.offset
