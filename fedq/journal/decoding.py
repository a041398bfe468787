"""Records from bytes: the inverse of `fedq.journal.records`, where the layout is written down.

Inputs: bytes from a disk or a peer, of which nothing is believed. Outputs: records, or
`CorruptRecord` with the place where there is none. Invariants: no bytes raise anything else, and a
lying length or count costs no memory; damage is told apart from a record that is whole but not
understood (`ForeignRecord`), which no reader may take for a torn write, and of these one that a
newer release has written (`NewerRecord`), which no reader may cut away; an `Outline` has been
checked like the record whose messages it spares to take out.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, pairwise
from typing import NamedTuple, TypeAlias, TypeVar
from zlib import crc32

from fedq.core import limits
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.message import HEAD_SIZE as MESSAGE_BYTES_MIN
from fedq.core.ranges import Range
from fedq.core.ranges import count as count_of
from fedq.journal.events import (
    ALL,
    OWN,
    SOME,
    SURE,
    Checkpoint,
    Copy,
    Drop,
    Enqueue,
    Group,
    Keep,
    Live,
    Note,
    PublisherMark,
    Publishers,
    Readers,
    Record,
    Reset,
    Seen,
    Settle,
    Single,
    Standing,
)
from fedq.journal.records import (
    BASE,
    COPY_HEAD,
    ENQUEUE_HEAD,
    FLAG_RESENT,
    FRAME,
    HEAD,
    KIND_CHECKPOINT,
    KIND_COPY,
    KIND_DROP,
    KIND_ENQUEUE,
    KIND_GROUP,
    KIND_KEEP,
    KIND_LIVE,
    KIND_NOTE,
    KIND_PUBLISHERS,
    KIND_READERS,
    KIND_RESET,
    KIND_SEEN,
    KIND_SETTLE,
    KIND_STANDING,
    NOTE_HEAD,
    NOTES,
    ORIGIN_TAIL,
    PUBLISHER_TAIL,
    PUBLISHERS_HEAD,
    RANGES_HEAD,
    READERS_HEAD,
    SEEN_HEAD,
    STANDING_HEAD,
    VERSION,
)

R = TypeVar("R")
_Decoder: TypeAlias = Callable[[bytes, int, int, FragmentId, int], Single]


class CorruptRecord(Exception):
    """Bytes that are no whole record, from `offset` of the data on: damaged, or cut off."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(f"no valid record at byte {offset}: {reason}")
        self.offset = offset
        self.reason = reason


class ForeignRecord(CorruptRecord):
    """The checksum holds, yet this version of fedq cannot read the record. Never a torn write."""


class NewerRecord(ForeignRecord):
    """A record, or something in it, that only a newer release knows."""


class _NewerContent(ValueError):
    """Content that only a newer release knows; the reader does not know where its record begins."""


class Outline(NamedTuple):
    """An `Enqueue`, or a `Copy` at consecutive positions, whose messages are not taken out.

    They still lie in the bytes that it came in. A copy has no origin, and no numbers.
    """

    first_position: int
    origin: Origin | None
    first_number: int
    resent: bool
    #: The messages lie one behind the other in `data`, from `at` on.
    data: bytes
    at: int
    lengths: tuple[int, ...]

    @property
    def last_position(self) -> int:
        """The position of the last message; also the record's last event number."""
        return self.first_position + len(self.lengths) - 1

    @property
    def last_number(self) -> int:
        """The origin's number of the last message."""
        return self.first_number + len(self.lengths) - 1

    def messages(self, first: int = 0) -> list[bytes]:
        """The messages, but for the `first` ones."""
        return _cut(self.data, self.at + sum(self.lengths[:first]), self.lengths[first:])

    def flags(self) -> bytes:
        """The first byte of each message."""
        starts = accumulate(self.lengths[:-1], initial=self.at)
        return bytes(map(self.data.__getitem__, starts))


def outlines(data: bytes, fragment: FragmentId) -> list[Record | Outline]:
    """Every record of the data, which are a fragment's; enqueues and most copies as outlines.

    Raises `CorruptRecord` if there is damage, or a record of another fragment.
    """
    found: list[Record | Outline] = []
    offset, end = 0, len(data)
    while offset < end:
        opened = _open(data, offset, end)
        if opened.fragment != fragment:
            raise ForeignRecord(offset, f"it is of fragment {opened.fragment}")
        if opened.kind == KIND_ENQUEUE:
            found.append(_checked(_outline, data, offset, opened))
        elif opened.kind == KIND_COPY:
            found.append(_checked(_outline_of_copy, data, offset, opened))
        else:
            record = _record(data, offset, opened)
            if any(isinstance(each, OWN) for each in tracked([record])):
                raise ForeignRecord(offset, "a checkpoint is of the node that writes it")
            found.append(record)
        offset = opened.end
    return found


def decode(data: bytes | memoryview, offset: int = 0) -> Iterator[Record]:
    """Every record from `offset` to the end; raises `CorruptRecord` where there is none."""
    whole = bytes(data)
    end = len(whole)
    while offset < end:
        record, offset = decode_at(whole, offset)
        yield record


def scan(data: bytes | memoryview) -> tuple[list[Record], int]:
    """The whole records that the data begins with, and how many bytes they take.

    What follows them is a torn tail. A `ForeignRecord` is no such thing and is raised.
    """
    whole = bytes(data)
    records: list[Record] = []
    offset = 0
    while offset < len(whole):
        try:
            record, offset = decode_at(whole, offset)
        except ForeignRecord:
            raise
        except CorruptRecord:
            break
        records.append(record)
    return records, offset


def decode_at(data: bytes, offset: int) -> tuple[Record, int]:
    """The record at `offset` and the offset after it; raises `CorruptRecord`."""
    opened = _open(data, offset, len(data))
    return _record(data, offset, opened), opened.end


def end_of(data: bytes, offset: int) -> int | None:
    """Where the record at `offset` ends, whatever is in it; None: it is torn, or damaged."""
    start = offset + FRAME.size
    if start + HEAD.size > len(data):
        return None
    length, checksum = FRAME.unpack_from(data, offset)
    if not HEAD.size <= length <= limits.RECORD_BYTES_MAX or start + length > len(data):
        return None
    return start + length if crc32(memoryview(data)[start : start + length]) == checksum else None


def _record(data: bytes, offset: int, opened: "_Opened") -> Record:
    if opened.kind != KIND_GROUP:
        return _single(data, offset, opened)
    records: list[Single] = []
    at = opened.at
    while at < opened.end:
        try:
            inner = _open(data, at, opened.end)
            # Checked here rather than by calling itself: depth must cost a liar more than us.
            if inner.kind == KIND_GROUP or inner.fragment != opened.fragment:
                raise ForeignRecord(at, "a group in a group, or a record of another fragment")
            records.append(_single(data, at, inner))
        except NewerRecord as newer:
            raise NewerRecord(offset, newer.reason) from newer
        except CorruptRecord as error:
            # The group is whole, so what it holds was never torn.
            raise ForeignRecord(offset, f"its content contradicts itself: {error}") from error
        at = inner.end
    return Group(opened.fragment, opened.reign, records)


def tracked(records: Iterable[Record]) -> Iterator[Single]:
    """The records in order, with those of a group in its place."""
    for record in records:
        if isinstance(record, Group):
            yield from record.records
        else:
            yield record


class _Opened(NamedTuple):
    """A record whose checksum holds: its payload begins at `at`."""

    kind: int
    fragment: FragmentId
    reign: int
    at: int
    end: int


def _open(data: bytes, offset: int, stop: int) -> _Opened:
    """The record at `offset`, which must end by `stop`."""
    body_at = offset + FRAME.size
    if body_at > stop:
        raise CorruptRecord(offset, "cut off within its first eight bytes")
    length, checksum = FRAME.unpack_from(data, offset)
    # Zeros, as some file systems leave them behind a torn write, fail here: their CRC is zero too.
    if not HEAD.size <= length <= limits.RECORD_BYTES_MAX:
        raise CorruptRecord(offset, f"a length of {length} bytes is impossible")
    end = body_at + length
    if end > stop:
        raise CorruptRecord(offset, f"{end - stop} of its bytes are missing")
    if crc32(memoryview(data)[body_at:end]) != checksum:
        raise CorruptRecord(offset, "its checksum does not match")
    version, kind, fragment, reign = HEAD.unpack_from(data, body_at)
    if version != VERSION:
        raise NewerRecord(
            offset, f"record version {version} is unknown here; run a newer version of fedq"
        )
    return _Opened(kind, FragmentId(fragment), reign, body_at + HEAD.size, end)


def _single(data: bytes, offset: int, opened: _Opened) -> Single:
    decoder = _DECODERS.get(opened.kind)
    if decoder is None:
        raise NewerRecord(
            offset, f"record kind {opened.kind} is unknown here; run a newer version of fedq"
        )
    return _checked(decoder, data, offset, opened)


def _checked(
    decoder: Callable[[bytes, int, int, FragmentId, int], R],
    data: bytes,
    offset: int,
    opened: _Opened,
) -> R:
    try:
        return decoder(data, opened.at, opened.end, opened.fragment, opened.reign)
    except _NewerContent as newer:
        raise NewerRecord(offset, str(newer)) from newer
    except (ValueError, struct.error) as error:
        raise ForeignRecord(offset, f"its content contradicts itself: {error}") from error


def _decode_enqueue(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    outline = _outline(data, at, end, fragment, reign)
    # internal: an enqueue has one.
    assert outline.origin is not None
    return Enqueue(
        fragment, reign, outline.first_position, outline.origin, outline.first_number,
        outline.resent, outline.messages(),
    )  # fmt: skip


def _outline(data: bytes, at: int, end: int, _: FragmentId, __: int) -> Outline:
    first, flags, incarnation, number, count, node_size = ENQUEUE_HEAD.unpack_from(data, at)
    node_at = at + ENQUEUE_HEAD.size
    at = node_at + node_size
    node = NodeId(data[node_at:at].decode())
    if count == 0 or flags & ~FLAG_RESENT:
        raise ValueError("no messages, or flags that do not exist")
    lengths = _table(data, at, end, count, "I")
    at += 4 * count
    _check_messages(at, end, lengths)
    origin = Origin(node, Incarnation(incarnation))
    return Outline(first, origin, number, flags & FLAG_RESENT != 0, data, at, lengths)


def _outline_of_copy(
    data: bytes, at: int, end: int, fragment: FragmentId, reign: int
) -> Outline | Single:
    """A copy that can be outlined is: all of its messages stand side by side, and nothing else."""
    count, origin_count = COPY_HEAD.unpack_from(data, at)
    if not count or origin_count:
        return _decode_copy(data, at, end, fragment, reign)
    positions = _table(data, at + COPY_HEAD.size, end, count, "Q")
    if positions != tuple(range(positions[0], positions[0] + count)):
        return _decode_copy(data, at, end, fragment, reign)
    at += COPY_HEAD.size + 8 * count
    lengths = _table(data, at, end, count, "I")
    at += 4 * count
    _check_messages(at, end, lengths)
    return Outline(positions[0], None, 0, False, data, at, lengths)


def _decode_copy(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    count, origin_count = COPY_HEAD.unpack_from(data, at)
    at += COPY_HEAD.size
    positions = _table(data, at, end, count, "Q")
    at += 8 * count
    lengths = _table(data, at, end, count, "I")
    at += 4 * count
    origins, at = _origins(data, at, end, origin_count)
    return Copy(fragment, reign, list(positions), _messages(data, at, end, lengths), origins)


def _origins(data: bytes, at: int, end: int, count: int) -> tuple[dict[Origin, int], int]:
    """A table of origins that begins here, and where it ends."""
    origins: dict[Origin, int] = {}
    for _ in range(count):
        if at >= end:
            raise ValueError("fewer origins than announced")
        node_end = at + 1 + data[at]
        node = NodeId(data[at + 1 : node_end].decode())
        incarnation, number = ORIGIN_TAIL.unpack_from(data, node_end)
        origins[Origin(node, Incarnation(incarnation))] = number
        at = node_end + ORIGIN_TAIL.size
    return origins, at


def _decode_settle(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    event, count = RANGES_HEAD.unpack_from(data, at)
    return Settle(fragment, reign, event, _ranges(data, at + RANGES_HEAD.size, end, count))


def _decode_keep(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    base, count = RANGES_HEAD.unpack_from(data, at)
    return Keep(fragment, reign, base, _ranges(data, at + RANGES_HEAD.size, end, count))


def _decode_reset(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    (base,) = BASE.unpack_from(data, at)
    _expect_end(at + BASE.size, end)
    return Reset(fragment, reign, base)


def _decode_drop(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    _expect_end(at, end)
    return Drop(fragment, reign)


def _decode_note(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    event, what, count = NOTE_HEAD.unpack_from(data, at)
    if what not in NOTES:
        raise _NewerContent(f"note {what} is unknown here; run a newer version of fedq")
    at += NOTE_HEAD.size
    positions = _table(data, at, end, count, "Q")
    values = _table(data, at + 8 * count, end, count, "Q")
    _expect_end(at + 16 * count, end)
    return Note(fragment, reign, event, what, dict(zip(positions, values, strict=True)))


def _decode_seen(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    event, epoch, count = SEEN_HEAD.unpack_from(data, at)
    return Seen(
        fragment, reign, event, epoch, _ranges(data, at + SEEN_HEAD.size, end, count)
    )  # fmt: skip


def _decode_readers(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    event, whole, count = READERS_HEAD.unpack_from(data, at)
    if whole > 1:
        raise ValueError("flags that do not exist")
    at += READERS_HEAD.size
    places: dict[str, int] = {}
    for _ in range(count):
        if at >= end:
            raise ValueError("fewer names than announced")
        name_end = at + 1 + data[at]
        (position,) = BASE.unpack_from(data, name_end)
        places[data[at + 1 : name_end].decode()] = position
        at = name_end + BASE.size
    _expect_end(at, end)
    return Readers(fragment, reign, event, bool(whole), places)


def _decode_publishers(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    event, kind, count = PUBLISHERS_HEAD.unpack_from(data, at)
    if kind not in (SOME, ALL, SURE) or count > limits.PUBLISHERS_KNOWN_MAX:
        raise ValueError("a kind that does not exist, or too many publishers")
    at += PUBLISHERS_HEAD.size
    marks: dict[str, PublisherMark] = {}
    for _ in range(count):
        if at >= end:
            raise ValueError("fewer publishers than announced")
        name_end = at + 1 + data[at]
        name = data[at + 1 : name_end].decode()
        highest, refused = PUBLISHER_TAIL.unpack_from(data, name_end)
        at = name_end + PUBLISHER_TAIL.size
        stop = at + 16 * refused
        if not name or highest > limits.SEQUENCE_MAX or refused > limits.PUBLISHER_REFUSED_MAX:
            raise ValueError("no name, or numbers beyond what they may be")
        if stop > end:
            raise ValueError("fewer ranges than announced")
        ranges = _ranges(data, at, stop, refused)
        if any(one[1] >= other[0] for one, other in pairwise(ranges)):
            raise ValueError("what was refused does not ascend")
        marks[name] = PublisherMark(highest, tuple(ranges))
        at = stop
    _expect_end(at, end)
    return Publishers(fragment, reign, event, kind, marks)


def _decode_standing(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    segment, event, whole, count = STANDING_HEAD.unpack_from(data, at)
    if whole > 1:
        raise ValueError("flags that do not exist")
    origins, at = _origins(data, at + STANDING_HEAD.size, end, count)
    _expect_end(at, end)
    return Standing(fragment, reign, segment, event, bool(whole), origins)


def _decode_live(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    segment, count = RANGES_HEAD.unpack_from(data, at)
    ranges = _ranges(data, at + RANGES_HEAD.size, end, count)
    if count_of(ranges) > limits.LIVE_RECORD_MESSAGES_MAX:
        raise ValueError(f"more than {limits.LIVE_RECORD_MESSAGES_MAX} messages are alive at once")
    return Live(fragment, reign, segment, ranges)


def _decode_checkpoint(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    (segment,) = BASE.unpack_from(data, at)
    _expect_end(at + BASE.size, end)
    return Checkpoint(fragment, reign, segment)


_DECODERS: dict[int, _Decoder] = {
    KIND_ENQUEUE: _decode_enqueue,
    KIND_COPY: _decode_copy,
    KIND_SETTLE: _decode_settle,
    KIND_RESET: _decode_reset,
    KIND_KEEP: _decode_keep,
    KIND_DROP: _decode_drop,
    KIND_NOTE: _decode_note,
    KIND_SEEN: _decode_seen,
    KIND_STANDING: _decode_standing,
    KIND_LIVE: _decode_live,
    KIND_CHECKPOINT: _decode_checkpoint,
    KIND_READERS: _decode_readers,
    KIND_PUBLISHERS: _decode_publishers,
}


def _table(data: bytes, at: int, end: int, count: int, code: str) -> tuple[int, ...]:
    """`count` unsigned numbers of struct type `code`; checked first, so a lie costs no memory."""
    if at + count * struct.calcsize(f">{code}") > end:
        raise ValueError(f"a table of {count} entries does not fit")
    numbers: tuple[int, ...] = struct.unpack_from(f">{count}{code}", data, at)
    return numbers


def _messages(data: bytes, at: int, end: int, lengths: tuple[int, ...]) -> list[bytes]:
    _check_messages(at, end, lengths)
    return _cut(data, at, lengths)


def _check_messages(at: int, end: int, lengths: tuple[int, ...]) -> None:
    _expect_end(at + sum(lengths), end)
    if lengths and min(lengths) < MESSAGE_BYTES_MIN:
        raise ValueError("a message is shorter than its own head")


def _cut(data: bytes, at: int, lengths: tuple[int, ...]) -> list[bytes]:
    messages = []
    for length in lengths:
        stop = at + length
        messages.append(data[at:stop])
        at = stop
    return messages


def _ranges(data: bytes, at: int, end: int, count: int) -> list[Range]:
    flat = _table(data, at, end, 2 * count, "Q")
    _expect_end(at + 16 * count, end)
    ranges = list(zip(flat[::2], flat[1::2], strict=True))
    for first, last in ranges:
        if first > last:
            raise ValueError(f"the range {first}-{last} ends before it begins")
    return ranges


def _expect_end(at: int, end: int) -> None:
    if at != end:
        raise ValueError(f"it should end {abs(end - at)} bytes {'later' if at > end else 'sooner'}")
