"""Content headers and property lists (AMQP 0-9-1 clause 4.2.6).

A property list is kept as the bytes a publisher sent (`fedq.core.message`). It is checked once
when it arrives, by `message_flags`; so decoding it later cannot fail. Properties in Python are a
dict of those that are present, under the specification's names with underscores.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from fedq.amqp.named_publishes import (
    PUBLISHER,
    SEQUENCE,
    KnownBy,
    likely_place,
    place_of_sequence,
    without_sequence,
)
from fedq.amqp.spec import (
    BASIC,
    BASIC_PUBLISH,
    END,
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_OVERHEAD,
    HEADER_IDS,
    HEADER_PAYLOAD,
    ids_bytes,
)
from fedq.amqp.strings import encode_short_string
from fedq.amqp.values import (
    FieldTable,
    TableValue,
    decode_encoded_table,
    decode_table,
    encode_table,
)
from fedq.core.errors import FRAME_ERROR, SYNTAX_ERROR, UNEXPECTED_FRAME, ConnectionViolation
from fedq.core.limits import KIB, PROPERTIES_BYTES_MAX
from fedq.core.message import (
    FLAG_BAD_EXPIRATION,
    FLAG_COPIES,
    FLAG_DIRECT_REPLY,
    FLAG_EXPIRES,
    FLAG_NAMED,
    FLAG_PERSISTENT,
    FLAG_PRIORITY,
    FLAG_USER,
    split,
)

#: Property lists without any property.
NO_PROPERTIES: Final = b"\x00\x00"

#: Bit of the property flags, name, and domain, in wire order.
_PROPERTIES: Final = (
    (0x8000, "content_type", "shortstr"),
    (0x4000, "content_encoding", "shortstr"),
    (0x2000, "headers", "table"),
    (0x1000, "delivery_mode", "octet"),
    (0x0800, "priority", "octet"),
    (0x0400, "correlation_id", "shortstr"),
    (0x0200, "reply_to", "shortstr"),
    (0x0100, "expiration", "shortstr"),
    (0x0080, "message_id", "shortstr"),
    (0x0040, "timestamp", "longlong"),
    (0x0020, "type", "shortstr"),
    (0x0010, "user_id", "shortstr"),
    (0x0008, "app_id", "shortstr"),
    (0x0004, "cluster_id", "shortstr"),
)
_NAMES: Final = frozenset(name for _, name, _ in _PROPERTIES)
_BEFORE_HEADERS: Final = (0x8000, 0x4000)
_BETWEEN_PRIORITY_AND_TIMESTAMP: Final = (0x0400, 0x0200, 0x0100, 0x0080)
_AFTER_TIMESTAMP: Final = (0x0020, 0x0010, 0x0008, 0x0004)
_REPLY_TO: Final = 0x0200
_EXPIRATION: Final = 0x0100
_PERSISTENT_MODE: Final = 2
#: A body beyond this goes out as parts that look at it.
LONG_BYTES: Final = 64 * KIB
#: A body, or a part of one where it is; what connections write.
Body: TypeAlias = bytes | memoryview

#: The pseudo queue of RabbitMQ's direct reply-to.
DIRECT_REPLY_TO: Final = "amq.rabbitmq.reply-to"
_DIRECT_REPLY_TO: Final = DIRECT_REPLY_TO.encode()
#: The longest time to live, as in RabbitMQ: ten years.
EXPIRATION_MS_MAX: Final = 315_360_000_000

#: How many different property lists are remembered as checked, and how long one may be.
CHECKED_MAX: Final = 64
CHECKED_BYTES_MAX: Final = 512

_FRAME_HEAD: Final = struct.Struct(">BHI")
_HEADER_HEAD: Final = struct.Struct(">BHIIQ")
_HEADER: Final = ids_bytes(BASIC)
#: What a content header takes at the least: a property list has two bytes.
_HEADER_PAYLOAD_MIN: Final = HEADER_PAYLOAD + 2


def message_flags(properties: bytes) -> int:
    """Checks a property list and tells its flags for `fedq.core.message`.

    Raises `ConnectionViolation` 502 for a list that does not hold what its flags announce.
    """
    try:
        flags, end = _walk(properties)
    except ConnectionViolation as violation:
        text = f"basic.publish: the property list is malformed: {violation.text}"
        raise ConnectionViolation(violation.reply_code, text, BASIC, BASIC_PUBLISH) from None
    except IndexError:
        end = -1
    if end != len(properties):
        text = "basic.publish: the property list does not hold what its flags announce"
        raise ConnectionViolation(SYNTAX_ERROR, text, BASIC, BASIC_PUBLISH)
    return flags


def checked_flags(properties: bytes, checked: dict[KnownBy, int]) -> int:
    """The message flags of a publish's properties; `checked` remembers those of a connection.

    Most publishers send the same few lists over and over. Raises as `message_flags` does, and
    `ConnectionViolation` 501 for a list that is too long.
    """
    flags = checked.get(properties)
    if flags is not None:
        return flags
    known_by: KnownBy = properties
    place = likely_place(properties)
    if place >= 0:
        # Lists of a publisher with a name differ in the number alone.
        known_by = without_sequence(properties, place)
        flags = checked.get(known_by)
        if flags is not None:
            return flags
    if len(properties) > PROPERTIES_BYTES_MAX:
        text = (
            f"basic.publish: a property list of {len(properties)} bytes: at most "
            f"{PROPERTIES_BYTES_MAX}; send what is large in the body"
        )
        raise ConnectionViolation(FRAME_ERROR, text, BASIC, BASIC_PUBLISH)
    flags = message_flags(properties)
    if place >= 0 and place_of_sequence(properties) != place:
        known_by = properties
    if len(properties) <= CHECKED_BYTES_MAX:
        if len(checked) >= CHECKED_MAX:
            checked.clear()
        checked[known_by] = flags
    return flags


def _walk(properties: bytes) -> tuple[int, int]:
    """(message flags, where the list ends); the length is for the caller to compare."""
    present = properties[0] << 8 | properties[1]
    if present & 3:
        raise ConnectionViolation(SYNTAX_ERROR, "flags beyond those of class basic are set")
    at = 2
    flags = FLAG_USER if present & 0x0010 else 0
    for bit in _BEFORE_HEADERS:
        if present & bit:
            at += 1 + properties[at]
    if present & 0x2000:
        headers, at = decode_table(properties, at)
        if "CC" in headers or "BCC" in headers:
            flags |= FLAG_COPIES
        if PUBLISHER in headers or SEQUENCE in headers:
            flags |= FLAG_NAMED
    if present & 0x1000:
        flags |= FLAG_PERSISTENT if properties[at] == _PERSISTENT_MODE else 0
        at += 1
    if present & 0x0800:
        flags |= FLAG_PRIORITY
        at += 1
    for bit in _BETWEEN_PRIORITY_AND_TIMESTAMP:
        if present & bit:
            end = at + 1 + properties[at]
            flags |= _flag_of_text(bit, properties[at + 1 : end])
            at = end
    if present & 0x0040:
        at += 8
    for bit in _AFTER_TIMESTAMP:
        if present & bit:
            at += 1 + properties[at]
    return flags, at


def _flag_of_text(bit: int, text: bytes) -> int:
    if bit == _REPLY_TO:
        return FLAG_DIRECT_REPLY if text == _DIRECT_REPLY_TO else 0
    if bit != _EXPIRATION:
        return 0
    if text.isdigit() and len(text) <= 20 and int(text) <= EXPIRATION_MS_MAX:
        return FLAG_EXPIRES
    return FLAG_BAD_EXPIRATION


def decode_header(payload: bytes) -> tuple[int, bytes]:
    """(body size, property list) of a content header frame's payload.

    Raises `ConnectionViolation` 501 when it is cut short, and 505 when it is not of class basic.
    The property list is not checked: that is `message_flags`.
    """
    if len(payload) < _HEADER_PAYLOAD_MIN:
        text = f"a content header has {_HEADER_PAYLOAD_MIN} bytes at least"
        raise ConnectionViolation(FRAME_ERROR, text, BASIC, BASIC_PUBLISH)
    if payload[:4] != _HEADER:
        text = f"a content header must name class {BASIC} (basic) and weight 0"
        raise ConnectionViolation(UNEXPECTED_FRAME, text, BASIC, BASIC_PUBLISH)
    return int.from_bytes(payload[4:HEADER_PAYLOAD], "big"), payload[HEADER_PAYLOAD:]


def decode_properties(properties: bytes) -> dict[str, TableValue]:
    """The properties of a checked list. Text that is not UTF-8 is kept as surrogates."""
    return _decode(properties, as_came=False)


def decode_kept_properties(properties: bytes) -> dict[str, TableValue]:
    """As `decode_properties`, with each header as it came (`Encoded`), to be encoded again."""
    return _decode(properties, as_came=True)


def _decode(properties: bytes, *, as_came: bool) -> dict[str, TableValue]:
    present = properties[0] << 8 | properties[1]
    at = 2
    found: dict[str, TableValue] = {}
    for bit, name, domain in _PROPERTIES:
        if not present & bit:
            continue
        if domain == "shortstr":
            end = at + 1 + properties[at]
            found[name] = properties[at + 1 : end].decode("utf-8", "surrogateescape")
            at = end
        elif domain == "octet":
            found[name] = properties[at]
            at += 1
        elif domain == "longlong":
            found[name] = int.from_bytes(properties[at : at + 8], "big")
            at += 8
        elif as_came:
            found[name], at = decode_encoded_table(properties, at)
        else:
            found[name], at = decode_table(properties, at)
    return found


def expiration_of(message: bytes) -> int:
    """The time to live of a message with `FLAG_EXPIRES`, in milliseconds."""
    return int(str(decode_properties(split(message)[1])["expiration"]))


def priority_of(message: bytes) -> int:
    """The priority of a message with `FLAG_PRIORITY`."""
    priority = decode_properties(split(message)[1])["priority"]
    # internal: the message has the flag that says so, set when its list was checked.
    assert isinstance(priority, int), "priority is an octet"
    return priority


def headers_of(properties: bytes) -> FieldTable:
    """The `headers` alone of a checked list; empty when there are none."""
    if not properties[0] & 0x20:
        return {}
    at = 2
    for bit in _BEFORE_HEADERS:
        if properties[0] << 8 & bit:
            at += 1 + properties[at]
    return decode_table(properties, at)[0]


def encode_properties(properties: Mapping[str, TableValue]) -> bytes:
    """A property list; `ValueError` for an unknown name or a value beyond its domain."""
    unknown = [name for name in properties if name not in _NAMES]
    if unknown:
        raise ValueError(f"not a property of class basic: {unknown[0]}")
    present = 0
    pieces: list[bytes] = []
    for bit, name, domain in _PROPERTIES:
        if name not in properties:
            continue
        present |= bit
        pieces.append(_encode_property(name, domain, properties[name]))
    return present.to_bytes(2, "big") + b"".join(pieces)


def _encode_property(name: str, domain: str, value: TableValue) -> bytes:
    if domain == "shortstr" and isinstance(value, str):
        return encode_short_string(value)
    if domain == "table" and isinstance(value, dict):
        return encode_table(value)
    size = {"octet": 1, "longlong": 8}.get(domain, 0)
    if size and isinstance(value, int) and 0 <= value < 1 << 8 * size:
        return int(value).to_bytes(size, "big")
    raise ValueError(f"{name} must be a {domain}, not {value!r}")


def content_frames(channel: int, properties: bytes, body: Body, frame_bytes_max: int) -> bytes:
    """Header frame and body frames; no body frame for an empty body."""
    head = _content_head(channel, len(properties), len(body))
    return b"".join([head, properties, END, *body_frames(channel, body, frame_bytes_max)])


def content_parts(
    channel: int, properties: bytes, body: Body, frame_bytes_max: int
) -> Sequence[Body]:
    """As `content_frames`, in parts; a long body is looked at, not copied.

    So who does not read it holds no memory of his own: the message has its bytes only once.
    """
    if len(body) <= LONG_BYTES:
        return (content_frames(channel, properties, body, frame_bytes_max),)
    head = _content_head(channel, len(properties), len(body))
    return (head, properties, END, *body_frames(channel, body, frame_bytes_max))


def _content_head(channel: int, properties_size: int, body_size: int) -> bytes:
    """The header frame up to the property list."""
    size = HEADER_PAYLOAD + properties_size
    return _HEADER_HEAD.pack(FRAME_HEADER, channel, size, HEADER_IDS, body_size)


def body_frames(channel: int, body: Body, frame_bytes_max: int) -> list[Body]:
    """The pieces of the body frames, each frame at most `FRAME_BYTES_MAX` with its overhead.

    A long body is looked at, not copied.
    """
    size = len(body)
    chunk = frame_bytes_max - FRAME_OVERHEAD
    if size > chunk:
        body = memoryview(body)
    pieces: list[Body] = []
    for at in range(0, size, chunk):
        part = body[at : at + chunk] if size > chunk else body
        pieces += (_FRAME_HEAD.pack(FRAME_BODY, channel, len(part)), part, END)
    return pieces
