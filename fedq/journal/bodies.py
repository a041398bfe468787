"""Messages out of a stretch of a segment, as it was read from the disk.

Inputs: the bytes of a place (`fedq.journal.places`), of which nothing is believed; whose messages
are wanted, and at which positions. Outputs: the messages by position, and what could not be read.
Invariants:

* No bytes raise anything, and a lying length or count costs no memory.
* Each record of the fragment is checked as a whole before anything is taken out of it. Records of
  others, and marks, are stepped over by their length alone. So one whose head has rotted is not
  missed here, but its messages are missing from the answer: whoever asked for them sees that.
* Behind a record that cannot be read the next one is where its length says, if something whole is
  there; else one goes on with the next mark, where its number is known (`fedq.journal.marks`), and
  without one nothing more counts. No record is ever looked for among the bytes of another one, for
  these may be what a client sent, and that may look like a record; it cannot guess that number.
* Messages are cut out in runs, and only those that are wanted.
"""

import struct
from typing import Final
from zlib import crc32

from fedq.core import limits
from fedq.core.ids import FragmentId
from fedq.core.message import HEAD_SIZE as MESSAGE_BYTES_MIN
from fedq.journal.decoding import end_of
from fedq.journal.marks import Mark, next_mark
from fedq.journal.records import (
    COPY_HEAD,
    ENQUEUE_HEAD,
    FRAME,
    HEAD,
    KIND_COPY,
    KIND_ENQUEUE,
    KIND_GROUP,
    VERSION,
)

#: A frame and a head at once.
_OPENING: Final = struct.Struct(">IIBBqQ")
_FRAME_BYTES: Final[int] = FRAME.size
_HEAD_BYTES: Final[int] = HEAD.size
_OPENING_BYTES: Final[int] = _FRAME_BYTES + _HEAD_BYTES
_ENQUEUE_BYTES: Final[int] = ENQUEUE_HEAD.size
_COPY_BYTES: Final[int] = COPY_HEAD.size
#: Reasons told of one stretch at most.
_REASONS_MAX: Final = 16

_unpack_opening: Final = _OPENING.unpack_from
_unpack_enqueue: Final = ENQUEUE_HEAD.unpack_from
_unpack_copy: Final = COPY_HEAD.unpack_from


def messages_in(
    data: bytes, fragment: FragmentId, first: int, last: int, mark: Mark | None = None
) -> tuple[dict[int, bytes], list[str]]:
    """The messages of the fragment at positions from `first` to `last` in the data, ascending.

    Transient ones are among them. Of two at the same position the later one counts. The second
    value says what could not be read, with the place in the data. `mark`: one of the segment that
    the data is of: behind damage one goes on with the next.
    """
    wanted = _Wanted(fragment, first, last, mark)
    wanted.take(data, 0, len(data), False)
    found = wanted.found
    if not wanted.is_ascending:
        found = {position: found[position] for position in sorted(found)}
    return found, wanted.reasons


class _Wanted:
    """What is looked for, and what was found of it."""

    __slots__ = (
        "_first", "_fragment", "_last", "_mark", "_top", "found", "is_ascending", "reasons",
    )  # fmt: skip

    def __init__(self, fragment: FragmentId, first: int, last: int, mark: Mark | None) -> None:
        self._fragment = fragment
        self._mark = mark
        self._first = first
        self._last = last
        self._top = -1
        self.found: dict[int, bytes] = {}
        self.is_ascending = True
        self.reasons: list[str] = []

    def take(self, data: bytes, at: int, end: int, in_group: bool) -> None:
        """Takes what is wanted out of the records from `at` up to `end`."""
        fragment: int = self._fragment
        while at < end:
            if at + _OPENING_BYTES > end:
                self._cannot_read(at, "cut off within its head")
                return
            length: int
            checksum: int
            version: int
            kind: int
            whose: int
            length, checksum, version, kind, whose, _ = _unpack_opening(data, at)
            body_at = at + _FRAME_BYTES
            stop = body_at + length
            if not _HEAD_BYTES <= length <= limits.RECORD_BYTES_MAX or stop > end:
                self._cannot_read(at, f"a length of {length} bytes is impossible")
                at = self._behind(data, at, end, in_group)
                continue
            if whose == fragment:
                if crc32(memoryview(data)[body_at:stop]) != checksum:
                    self._cannot_read(at, "its checksum does not match")
                    if stop < end and end_of(data, stop) is None:
                        self._cannot_read(stop, "nothing says where the next record begins")
                        at = self._behind(data, at, end, in_group)
                        continue
                elif version != VERSION:
                    self._cannot_read(at, f"record version {version} is unknown here")
                else:
                    self._take_one(data, at, stop, kind, in_group)
            elif in_group:
                self._cannot_read(at, f"a record of fragment {whose} in a group of {fragment}")
            at = stop

    def _behind(self, data: bytes, at: int, end: int, in_group: bool) -> int:
        """Where to go on behind a byte from which on nothing says where records begin."""
        mark = self._mark
        if mark is None or in_group:
            return end
        found = next_mark(data, at, mark.segment, mark.nonce)
        return found[0] if found is not None else end

    def _take_one(self, data: bytes, at: int, stop: int, kind: int, in_group: bool) -> None:
        """Takes what is wanted out of a record of the fragment, which is whole."""
        content = at + _OPENING_BYTES
        try:
            if kind == KIND_ENQUEUE:
                self._take_run(data, content, stop)
            elif kind == KIND_COPY:
                self._take_copies(data, content, stop)
            elif kind == KIND_GROUP:
                if in_group:
                    raise ValueError("a group in a group")
                self.take(data, content, stop, True)
        except (ValueError, struct.error) as error:
            self._cannot_read(at, f"its content contradicts itself: {error}")

    def _take_run(self, data: bytes, at: int, stop: int) -> None:
        """Takes messages at consecutive positions."""
        begin: int
        count: int
        node_size: int
        begin, _, _, _, count, node_size = _unpack_enqueue(data, at)
        low, high = max(begin, self._first), min(begin + count - 1, self._last)
        if low > high:
            return
        at += _ENQUEUE_BYTES + node_size
        lengths = _lengths(data, at, stop, count)
        at += 4 * count
        if at + sum(lengths) != stop:
            raise ValueError("its messages do not end where it does")
        skipped = low - begin
        at += sum(lengths[:skipped])
        if low <= self._top:
            self.is_ascending = False
        self._top = high
        found = self.found
        position = low
        for length in lengths[skipped : high - begin + 1]:
            end = at + length
            found[position] = data[at:end]
            position += 1
            at = end

    def _take_copies(self, data: bytes, at: int, stop: int) -> None:
        """Takes messages at positions that the record names."""
        count: int
        count, _ = _unpack_copy(data, at)
        if not count:
            return
        table_at = at + _COPY_BYTES
        lengths_at = table_at + 8 * count
        lengths = _lengths(data, lengths_at, stop, count)
        positions: tuple[int, ...] = struct.unpack_from(f">{count}Q", data, table_at)
        # They are at the end; the origins before them do not matter here.
        at = stop - sum(lengths)
        if at < lengths_at + 4 * count:
            raise ValueError("its messages do not fit")
        for position, length in zip(positions, lengths, strict=True):
            if self._first <= position <= self._last:
                if position <= self._top:
                    self.is_ascending = False
                self._top = position
                self.found[position] = data[at : at + length]
            at += length

    def _cannot_read(self, at: int, why: str) -> None:
        if len(self.reasons) < _REASONS_MAX:
            self.reasons.append(f"byte {at}: {why}")


def _lengths(data: bytes, at: int, stop: int, count: int) -> tuple[int, ...]:
    """The lengths of so many messages; checked first, so a lie costs no memory."""
    if at + 4 * count > stop:
        raise ValueError(f"a table of {count} entries does not fit")
    lengths: tuple[int, ...] = struct.unpack_from(f">{count}I", data, at)
    if min(lengths) < MESSAGE_BYTES_MIN:
        raise ValueError("a message is shorter than its own head")
    return lengths
