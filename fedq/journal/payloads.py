"""What the payloads of records say, by kind: behind `fedq.journal.decoding`, which opens records.

Inputs: bytes of a record whose checksum holds, of which nothing else is believed. Outputs: events,
or an `Outline`; `ValueError`, `struct.error` or `NewerContentError` for what is none. A lying
length or count costs no memory.
"""

import struct
from collections.abc import Callable
from itertools import accumulate
from operator import le, lt
from typing import NamedTuple, TypeAlias

from fedq.core import limits
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.message import HEAD_SIZE as MESSAGE_BYTES_MIN
from fedq.core.ranges import Range
from fedq.core.ranges import count as count_of
from fedq.journal.events import (
    ALL,
    SOME,
    SURE,
    Checkpoint,
    Copy,
    Drop,
    Enqueue,
    Keep,
    Live,
    Note,
    PublisherMark,
    Publishers,
    Readers,
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
    KIND_CHECKPOINT,
    KIND_COPY,
    KIND_DROP,
    KIND_ENQUEUE,
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
)

_Decoder: TypeAlias = Callable[[bytes, int, int, FragmentId, int], Single]


class NewerContentError(ValueError):
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


def _decode_enqueue(data: bytes, at: int, end: int, fragment: FragmentId, reign: int) -> Single:
    outline = outline_of_enqueue(data, at, end, fragment, reign)
    # internal: an enqueue has one.
    assert outline.origin is not None
    return Enqueue(
        fragment, reign, outline.first_position, outline.origin, outline.first_number,
        outline.resent, outline.messages(),
    )  # fmt: skip


def outline_of_enqueue(data: bytes, at: int, end: int, _: FragmentId, __: int) -> Outline:
    """New messages as they lie there."""
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


def outline_of_copy(
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
        raise NewerContentError(f"note {what} is unknown here; run a newer version of fedq")
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
        if refused:
            flat = _table(data, at, end, 2 * refused, "Q")
            starts, stops = flat[::2], flat[1::2]
            if not (all(map(le, starts, stops)) and all(map(lt, stops, starts[1:]))):
                raise ValueError("what was refused does not ascend")
        marks[name] = PublisherMark(highest, bytes(data[at:stop]))
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


DECODERS: dict[int, _Decoder] = {
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
