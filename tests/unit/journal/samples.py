"""What the journal's tests share: short messages, and records made from their decoded form."""

from collections.abc import Sequence
from typing import assert_never

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.message import FLAG_PERSISTENT, encode, make_route
from fedq.journal.events import (
    Checkpoint,
    Copy,
    Drop,
    Enqueue,
    Group,
    Keep,
    Live,
    Note,
    Publishers,
    Readers,
    Record,
    Reset,
    Seen,
    Settle,
    Standing,
)
from fedq.journal.records import (
    encode_checkpoint,
    encode_copy,
    encode_drop,
    encode_enqueue,
    encode_group,
    encode_keep,
    encode_live,
    encode_note,
    encode_publishers,
    encode_readers,
    encode_reset,
    encode_seen,
    encode_settle,
    encode_standing,
)

ONE = FragmentId(1)
TWO = FragmentId(2)
PRIVATE = FragmentId(-7)
NORTH = Origin(NodeId("north"), Incarnation(3))
SOUTH = Origin(NodeId("süd"), Incarnation(1))


def message(body: str, persistent: bool = True) -> bytes:
    """An encoded message."""
    flags = FLAG_PERSISTENT if persistent else 0
    return encode(flags, make_route("", "orders"), b"\x10\x00\x02", body.encode())


def bodies(*texts: str) -> list[bytes]:
    """Persistent messages with these bodies."""
    return [message(text) for text in texts]


def encode_record(record: Record) -> bytes:
    """A record's bytes; the inverse of decoding one."""
    fragment, reign = record.fragment, record.reign
    match record:
        case Enqueue():
            return encode_enqueue(
                fragment,
                reign,
                record.first_position,
                record.origin,
                record.first_number,
                record.messages,
                record.resent,
            )
        case Copy():
            return encode_copy(fragment, reign, record.positions, record.messages, record.origins)
        case Settle():
            return encode_settle(fragment, reign, record.event, record.ranges)
        case Keep():
            return encode_keep(fragment, reign, record.base, record.dropped)
        case Reset():
            return encode_reset(fragment, reign, record.base)
        case Drop():
            return encode_drop(fragment, reign)
        case Note():
            return encode_note(fragment, reign, record.event, record.what, record.values)
        case Readers():
            return encode_readers(fragment, reign, record.event, record.whole, record.places)
        case Publishers():
            return encode_publishers(fragment, reign, record.event, record.kind, record.marks)
        case Seen():
            return encode_seen(fragment, reign, record.event, record.epoch, record.ranges)
        case Standing() | Live() | Checkpoint():
            return _encode_own(record)
        case Group():
            return encode_group(fragment, reign, encode_all(record.records))
        case _:
            assert_never(record)


def encode_all(records: Sequence[Record]) -> bytes:
    """The bytes of a segment that holds these records."""
    return b"".join(map(encode_record, records))


def _encode_own(record: Standing | Live | Checkpoint) -> bytes:
    match record:
        case Standing():
            return encode_standing(record)
        case Live():
            return encode_live(record.fragment, record.reign, record.segment, record.ranges)
        case _:
            return encode_checkpoint(record.segment)
