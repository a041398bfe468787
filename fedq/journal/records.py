"""The one encoding of queue events, on disk and between nodes.

A *record* is one batch of events of one fragment. The primary encodes it once; the same bytes go to
its journal, to its backups and into their journals. Inputs: positions, messages (as encoded by
`fedq.core.message`), ranges. Outputs: bytes; and from bytes, slotted records with ready lists.
All numbers are big-endian:

    length u32 | crc32 u32 | version u8 | kind u8 | fragment i64 | reign u64 | payload

*Length* counts what follows the checksum, and the checksum covers just that. Payloads by kind
(n* stands for a table of n entries):

    ENQUEUE  first position u64 | flags u8 | incarnation u64 | first number u64 | n u32 |
             node length u8 | node | (message length u32)* | messages
    COPY     n u32 | m u32 | (position u64)* | (message length u32)* |
             m * (node length u8 | node | incarnation u64 | number u64) | messages
    SETTLE   event u64 | n u32 | (first u64, last u64)*
    RESET    base u64
    KEEP     base u64 | n u32 | (first u64, last u64)*
    DROP     nothing
    NOTE     event u64 | what u8 | n u32 | (position u64)* | (value u64)*
    GROUP    records, one behind the other; none of them a group
    SEEN     event u64 | epoch u64 | n u32 | (first u64, last u64)*
    STANDING segment u64 | event u64 | whole u8 | m u32 |
             m * (node length u8 | node | incarnation u64 | number u64)
    LIVE     segment u64 | n u32 | (first u64, last u64)*
    CHECKPOINT  segment u64
    READERS  event u64 | whole u8 | n u32 | n * (name length u8 | name | position u64)
    PUBLISHERS event u64 | kind u8 | n u32 |
             n * (name length u8 | name | highest u64 | m u8 | m * (first u64, last u64))

A COPY of nothing says that the copy is whole: what a KEEP began is complete. STANDING, LIVE and
CHECKPOINT are a checkpoint (`fedq.journal.checkpoints`): a node's own, never another one's.

A *note* is a number that goes with a message: when it expires, how often it came back. The notes
of an ENQUEUE or COPY stand right behind it, in one GROUP with it: a torn write must not keep the
message and lose when it expires.

Invariants: what was encoded decodes to equal values (`fedq.journal.decoding`); no record is longer
than `limits.RECORD_BYTES_MAX` (a longer batch becomes several records; a group is refused).
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from zlib import crc32

from fedq.core import limits
from fedq.core.ids import FragmentId, Origin
from fedq.core.ranges import Range, split_ranges
from fedq.journal.events import PublisherMark, Standing

VERSION = 1

KIND_ENQUEUE = 1
KIND_COPY = 2
KIND_SETTLE = 3
KIND_RESET = 4
KIND_KEEP = 5
KIND_DROP = 6
KIND_NOTE = 7
KIND_GROUP = 8
#: 9 is a mark (`fedq.journal.marks`).
KIND_SEEN = 10
KIND_STANDING = 11
KIND_LIVE = 12
KIND_CHECKPOINT = 13
KIND_READERS = 14
KIND_PUBLISHERS = 15

#: When the message expires, in Unix milliseconds.
NOTE_EXPIRES: Final = 1
#: How often it came back from a consumer.
NOTE_RETURNS: Final = 2
#: Why it is dead (`fedq.core.policy.DEATHS`): it is kept until its dead-lettering is committed.
NOTE_DEAD: Final = 3
#: Until when it is delayed, in Unix milliseconds.
NOTE_DUE: Final = 4
#: When it came, in twice the Unix milliseconds, of some messages of a stream (docs/adr/0061); odd:
#: of some behind it, before the next one of which this is noted, it was noted and is no more.
NOTE_CAME: Final = 5
#: For which reader of a queue it is reserved, and as of which batch
#: (`fedq.fragments.singly.queue_readers`, docs/adr/0107).
NOTE_RESERVED: Final = 6
NOTES: Final = (
    NOTE_EXPIRES, NOTE_RETURNS, NOTE_DEAD, NOTE_DUE, NOTE_CAME, NOTE_RESERVED,
)  # fmt: skip
#: Those that change while the message lives. The others come with it and stay as they are.
NOTES_THAT_CHANGE: Final = (NOTE_RETURNS, NOTE_DEAD, NOTE_RESERVED)

FLAG_RESENT = 0x01

FRAME = struct.Struct(">II")
HEAD = struct.Struct(">BBqQ")
ENQUEUE_HEAD = struct.Struct(">QBQQIB")
_WHOLE_ENQUEUE_HEAD = struct.Struct(">BBqQQBQQIB")
COPY_HEAD = struct.Struct(">II")
ORIGIN_TAIL = struct.Struct(">QQ")
RANGES_HEAD = struct.Struct(">QI")
_ONE_RANGE = struct.Struct(">BBqQQIQQ")
BASE = struct.Struct(">Q")
NOTE_HEAD = struct.Struct(">QBI")
SEEN_HEAD = struct.Struct(">QQI")
STANDING_HEAD = struct.Struct(">QQBI")
READERS_HEAD = struct.Struct(">QBI")
PUBLISHERS_HEAD = struct.Struct(">QBI")
PUBLISHER_TAIL = struct.Struct(">QB")

#: What every record begins with, up to its payload.
RECORD_BYTES_MIN = FRAME.size + HEAD.size


def encode_enqueue(
    fragment: FragmentId,
    reign: int,
    first_position: int,
    origin: Origin,
    first_number: int,
    messages: Sequence[bytes],
    resent: bool = False,
    bytes_max: int = limits.RECORD_BYTES_MAX,
) -> bytes:
    """Messages at `first_position`, `first_position + 1`, … as one record (see `Enqueue`)."""
    count = len(messages)
    assert count > 0, "an enqueue record holds at least one message"
    node = origin.node.encode()
    head = _WHOLE_ENQUEUE_HEAD.pack(
        VERSION,
        KIND_ENQUEUE,
        fragment,
        reign,
        first_position,
        FLAG_RESENT if resent else 0,
        origin.incarnation,
        first_number,
        count,
        len(node),
    )
    lengths = struct.pack(f">{count}I", *map(len, messages))
    record = _framed_parts([head, node, lengths, *messages], bytes_max)
    if record is not None:
        return record
    half = _half_of(count, bytes_max)
    return encode_enqueue(
        fragment, reign, first_position, origin, first_number, messages[:half], resent, bytes_max
    ) + encode_enqueue(
        fragment,
        reign,
        first_position + half,
        origin,
        first_number + half,
        messages[half:],
        resent,
        bytes_max,
    )


def encode_copy(
    fragment: FragmentId,
    reign: int,
    positions: Sequence[int],
    messages: Sequence[bytes],
    origins: Mapping[Origin, int],
    bytes_max: int = limits.RECORD_BYTES_MAX,
) -> bytes:
    """Messages at explicit ascending positions and an origins table (see `Copy`).

    Both may be empty: a record with origins only is a note of how far their publishes got; one
    with neither says that what is here is whole (see `encode_whole`).
    """
    count = len(positions)
    assert count == len(messages), "each position needs its message"
    parts = [
        HEAD.pack(VERSION, KIND_COPY, fragment, reign),
        COPY_HEAD.pack(count, len(origins)),
        struct.pack(f">{count}Q", *positions),
        struct.pack(f">{count}I", *map(len, messages)),
    ]
    parts += _origin_rows(origins)
    parts += messages
    record = _framed_parts(parts, bytes_max)
    if record is not None:
        return record
    half = _half_of(count, bytes_max)
    return encode_copy(
        fragment, reign, positions[:half], messages[:half], {}, bytes_max
    ) + encode_copy(fragment, reign, positions[half:], messages[half:], origins, bytes_max)


def _origin_rows(origins: Mapping[Origin, int]) -> list[bytes]:
    rows: list[bytes] = []
    for origin, number in origins.items():
        node = origin.node.encode()
        rows += (bytes((len(node),)), node, ORIGIN_TAIL.pack(origin.incarnation, number))
    return rows


def encode_whole(fragment: FragmentId, reign: int) -> bytes:
    """A record that a copy is complete (see `encode_keep`), or that `reign` has begun with it."""
    return encode_copy(fragment, reign, [], [], {})


def encode_settle(
    fragment: FragmentId, reign: int, event: int, ranges: Sequence[Range],
    bytes_max: int = limits.RECORD_BYTES_MAX,
) -> bytes:  # fmt: skip
    """A record that the messages in these inclusive ranges are gone, by event number `event`."""
    return _encode_ranges(KIND_SETTLE, fragment, reign, event, ranges, bytes_max)


def encode_keep(fragment: FragmentId, reign: int, base: int, dropped: Sequence[Range]) -> bytes:
    """A record that begins an incremental copy: forget `dropped`; events after `base` follow."""
    return _encode_ranges(KIND_KEEP, fragment, reign, base, dropped, limits.RECORD_BYTES_MAX)


def encode_reset(fragment: FragmentId, reign: int, base: int) -> bytes:
    """A record that begins a whole copy: forget everything; events after `base` follow."""
    return _framed(HEAD.pack(VERSION, KIND_RESET, fragment, reign) + BASE.pack(base))


def encode_drop(fragment: FragmentId, reign: int = 0) -> bytes:
    """A record that the fragment is gone from this node."""
    return _framed(HEAD.pack(VERSION, KIND_DROP, fragment, reign))


def encode_note(
    fragment: FragmentId, reign: int, event: int, what: int, values: Mapping[int, int],
    bytes_max: int = limits.RECORD_BYTES_MAX,
) -> bytes:  # fmt: skip
    """What is known of the messages at these positions, by event number `event` (see `Note`)."""
    assert what in NOTES, f"there is no note {what}"
    count = len(values)
    body = b"".join(
        (
            HEAD.pack(VERSION, KIND_NOTE, fragment, reign),
            NOTE_HEAD.pack(event, what, count),
            struct.pack(f">{count}Q", *values),
            struct.pack(f">{count}Q", *values.values()),
        )
    )
    if len(body) <= bytes_max:
        return _framed(body)
    half, pairs = _half_of(count, bytes_max), list(values.items())
    return encode_note(fragment, reign, event, what, dict(pairs[:half]), bytes_max) + encode_note(
        fragment, reign, event, what, dict(pairs[half:]), bytes_max
    )


def encode_seen(
    fragment: FragmentId, reign: int, event: int, epoch: int, ranges: Sequence[Range]
) -> bytes:
    """What was seen, by event number `event`; at most `limits.SEEN_RANGES_MAX` (see `Seen`)."""
    assert len(ranges) <= limits.SEEN_RANGES_MAX
    flat = [position for both_ends in ranges for position in both_ends]
    return _framed(
        HEAD.pack(VERSION, KIND_SEEN, fragment, reign)
        + SEEN_HEAD.pack(event, epoch, len(ranges))
        + struct.pack(f">{len(flat)}Q", *flat)
    )


def encode_readers(
    fragment: FragmentId, reign: int, event: int, whole: bool, places: Mapping[str, int]
) -> bytes:
    """Where named readers go on, as of event `event` (see `Readers`)."""
    assert len(places) <= limits.STREAM_NAMES_MAX or not whole
    parts = [
        HEAD.pack(VERSION, KIND_READERS, fragment, reign),
        READERS_HEAD.pack(event, whole, len(places)),
    ]
    for name, position in places.items():
        data = name.encode()
        parts += (bytes((len(data),)), data, BASE.pack(position))
    return _framed(b"".join(parts))


def encode_publishers(
    fragment: FragmentId, reign: int, event: int, kind: int, marks: Mapping[str, PublisherMark]
) -> bytes:
    """What was taken of publishers with names, as of event `event` (see `Publishers`)."""
    assert len(marks) <= limits.PUBLISHERS_KNOWN_MAX
    parts = [
        HEAD.pack(VERSION, KIND_PUBLISHERS, fragment, reign),
        PUBLISHERS_HEAD.pack(event, kind, len(marks)),
    ]
    for name, (highest, refused) in marks.items():
        data = name.encode()
        tail = PUBLISHER_TAIL.pack(highest, len(refused) >> 4)
        parts += (bytes((len(data),)), data, tail, refused)
    return _framed(b"".join(parts))


def encode_standing(standing: Standing) -> bytes:
    """Where a fragment stands (see `Standing`)."""
    head = STANDING_HEAD.pack(
        standing.segment, standing.event, standing.whole, len(standing.origins)
    )
    kind = HEAD.pack(VERSION, KIND_STANDING, standing.fragment, standing.reign)
    return _framed(b"".join([kind, head, *_origin_rows(standing.origins)]))


def encode_live(
    fragment: FragmentId, reign: int, segment: int, ranges: Sequence[Range],
    bytes_max: int = limits.RECORD_BYTES_MAX,
) -> bytes:  # fmt: skip
    """The messages in these inclusive ranges are alive (see `Live`)."""
    parts = split_ranges(ranges, limits.LIVE_RECORD_MESSAGES_MAX)
    return b"".join(
        [_encode_ranges(KIND_LIVE, fragment, reign, segment, part, bytes_max) for part in parts]
    )


def encode_checkpoint(segment: int) -> bytes:
    """The checkpoint begun at this segment is complete (see `Checkpoint`)."""
    return _framed(HEAD.pack(VERSION, KIND_CHECKPOINT, 0, 0) + BASE.pack(segment))


def encode_group(
    fragment: FragmentId, reign: int, records: bytes, bytes_max: int = limits.RECORD_BYTES_MAX
) -> bytes:
    """Encoded records of this fragment as one (see `Group`); groups among them are dissolved in it.

    Raises `ValueError` if they are longer than a record may be: a group is never divided.
    """
    head = HEAD.pack(VERSION, KIND_GROUP, fragment, reign)
    record = _framed_parts([head, *_ungrouped(records)], bytes_max)
    if record is None:
        raise ValueError(
            f"a group of {len(records)} bytes exceeds the {bytes_max} bytes of a "
            "record; refuse such a transaction before it is encoded"
        )
    return record


def _ungrouped(records: bytes) -> Iterator[bytes]:
    """The records, with those of a group in its place."""
    at = taken = 0
    while at < len(records):
        body_at = at + FRAME.size
        end = body_at + FRAME.unpack_from(records, at)[0]
        if records[body_at + 1] == KIND_GROUP:
            yield records[taken:at]
            yield records[body_at + HEAD.size : end]
            taken = end
        at = end
    # The very bytes, if they may be long: compiled, a slice of all of them is a copy.
    yield records[taken:] if taken else records


def encode_with_notes(
    fragment: FragmentId,
    reign: int,
    records: bytes,
    event: int,
    notes: Mapping[int, Mapping[int, int]],
) -> bytes:
    """Encoded records and the notes (by kind) about their messages, so that no crash parts them.

    Without notes the records stay as they are. Raises `ValueError` like `encode_group`.
    """
    behind = [
        encode_note(fragment, reign, event, what, values)
        for what, values in notes.items()
        if values
    ]
    return encode_group(fragment, reign, b"".join((records, *behind))) if behind else records


def _encode_ranges(
    kind: int, fragment: FragmentId, reign: int, number: int, ranges: Sequence[Range],
    bytes_max: int,
) -> bytes:  # fmt: skip
    count = len(ranges)
    if count == 1:
        first, last = ranges[0]
        return _framed(_ONE_RANGE.pack(VERSION, kind, fragment, reign, number, 1, first, last))
    flat = [position for both_ends in ranges for position in both_ends]
    body = b"".join(
        (
            HEAD.pack(VERSION, kind, fragment, reign),
            RANGES_HEAD.pack(number, count),
            struct.pack(f">{2 * count}Q", *flat),
        )
    )
    if len(body) <= bytes_max:
        return _framed(body)
    half = _half_of(count, bytes_max)
    return _encode_ranges(kind, fragment, reign, number, ranges[:half], bytes_max) + _encode_ranges(
        kind, fragment, reign, number, ranges[half:], bytes_max
    )


def _framed(body: bytes) -> bytes:
    return FRAME.pack(len(body), crc32(body)) + body


def _framed_parts(parts: list[bytes], bytes_max: int) -> bytes | None:
    """A whole record of a body in parts; None: the body is longer than `bytes_max`.

    A long body is copied once, others twice, which costs less than a look at each part.
    """
    if len(parts[-1]) < limits.LONG_RECORD_BYTES_MIN:
        body = b"".join(parts)
        return _framed(body) if len(body) <= bytes_max else None
    size = sum(map(len, parts))
    if size > bytes_max:
        return None
    checksum = 0
    for part in parts:
        checksum = crc32(part, checksum)
    return b"".join([FRAME.pack(size, checksum), *parts])


def _half_of(count: int, bytes_max: int) -> int:
    """Where to divide a batch that is too long for one record."""
    if count < 2:
        raise ValueError(
            f"one entry alone exceeds the {bytes_max} bytes of a record; "
            "refuse such a message before it is encoded"
        )
    return count // 2
