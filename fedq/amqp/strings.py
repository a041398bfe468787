"""Short and long strings: bytes to Python values and back (AMQP 0-9-1 clause 4.2.5.3).

Decoders take bytes and an offset, return (value, offset behind it), and raise
`ConnectionViolation` 502 for everything malformed. Encoders raise `ValueError` for what has no
form on the wire.
"""

import struct
from typing import Final

from fedq.core import limits
from fedq.core.errors import SYNTAX_ERROR, ChannelViolation, ConnectionViolation

_U32: Final = struct.Struct(">I")


def malformed(what: str) -> ConnectionViolation:
    """The violation that decoders raise."""
    return ConnectionViolation(SYNTAX_ERROR, f"{what}; send well-formed arguments")


def encode_short_string(text: str) -> bytes:
    """Length octet and UTF-8; `ValueError` beyond 255 bytes. Surrogates stand for odd bytes."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) > limits.NAME_BYTES_MAX:
        raise ValueError(f"a short string of {len(data)} bytes: at most {limits.NAME_BYTES_MAX}")
    return b"%c%b" % (len(data), data)


def decode_short_string(data: bytes, at: int) -> tuple[str, int]:
    """A short string, which must be UTF-8: names travel on in JSON and protobuf."""
    if at >= len(data):
        raise malformed("a short string is missing")
    end = at + 1 + data[at]
    if end > len(data):
        raise malformed("a short string is longer than what holds it")
    try:
        return data[at + 1 : end].decode(), end
    except UnicodeDecodeError:
        raise malformed("a short string is not UTF-8") from None


def cut_short_string(text: str) -> str:
    """The text, shortened to what a short string can hold; for sentences, not for names."""
    return text.encode("utf-8", "replace")[: limits.NAME_BYTES_MAX].decode("utf-8", "ignore")


def reason_of(violation: ChannelViolation | ConnectionViolation) -> tuple[int, str, int, int]:
    """What channel.close and connection.close say of a violation."""
    text = cut_short_string(violation.reply_text)
    return violation.reply_code, text, violation.class_id, violation.method_id


def encode_long_string(data: bytes) -> bytes:
    """The encoding of a long string: four length octets and the bytes."""
    return _U32.pack(len(data)) + data


def decode_long_string(data: bytes, at: int) -> tuple[bytes, int]:
    """The bytes of a long string."""
    if at + 4 > len(data):
        raise malformed("a long string is missing")
    end = at + 4 + _U32.unpack_from(data, at)[0]
    if end > len(data):
        raise malformed("a long string is longer than what holds it")
    return data[at + 4 : end], end
