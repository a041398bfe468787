"""Field tables: bytes to Python values and back (AMQP 0-9-1 clause 4.2.5).

The types of field values are RabbitMQ's. What a decoded value is in Python:

    t bool · b B s u I i l L int · f d float · D Decimal · T Timestamp · S str · x bytes
    A list · F dict · V None

`S` that is not UTF-8 becomes `bytes`. Back from Python, an int travels as I or l (a `Long` always
as l), a float as d, bytes as x. `L` is read as signed, which is what clients that send it mean.

Decoders take bytes and an offset, return (value, offset behind it), and raise
`ConnectionViolation` 502 for everything malformed; they recurse at most `limits.TABLE_DEPTH_MAX`
deep. Encoders raise `ValueError` for what has no form on the wire.
"""

import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final, TypeAlias

from fedq.amqp.strings import (
    decode_short_string,
    encode_long_string,
    encode_short_string,
    malformed,
)
from fedq.core import limits

TableValue: TypeAlias = (
    "bool | int | float | Decimal | str | bytes | list[TableValue] | dict[str, TableValue] | None"
)
FieldTable: TypeAlias = dict[str, TableValue]


class Timestamp(int):
    """Whole seconds since 1970 (type T); an int everywhere else."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Timestamp({int(self)})"


class Long(int):
    """A number that goes out in 64 bits (type l), however small: as typed clients expect it."""

    __slots__ = ()


class Encoded(bytes):
    """A field value as it stands on the wire, with its type letter: goes out as it came in."""

    __slots__ = ()


_U32: Final = struct.Struct(">I")
_I32: Final = struct.Struct(">i")
_U64: Final = struct.Struct(">Q")

#: Field types of a fixed size whose value is just the unpacked one.
_FIXED: Final[dict[int, struct.Struct]] = {
    ord(letter): struct.Struct(form)
    for letter, form in {
        "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I",
        "l": ">q", "L": ">q", "f": ">f", "d": ">d",
    }.items()
}  # fmt: skip
_ARRAY: Final = ord("A")
#: The octets of the values that have no length of their own: of all types but S, x, A and F.
_SIZES: Final = {letter: form.size for letter, form in _FIXED.items()} | {
    ord("t"): 1, ord("T"): 8, ord("D"): 5, ord("V"): 0,
}  # fmt: skip


# --- tables, decoding -----------------------------------------------------------------------------


def decode_table(data: bytes, at: int = 0) -> tuple[FieldTable, int]:
    """A field table with its length. Of repeated keys the last one counts."""
    try:
        return _decode_table(data, at, len(data), 1)
    except (struct.error, IndexError):
        raise malformed("a field table ends too early") from None


def decode_encoded_table(data: bytes, at: int) -> tuple[FieldTable, int]:
    """The entries of a well-formed table, each `Encoded`: for tables that change in one place."""
    at, end = _span(data, at, len(data))
    table: FieldTable = {}
    while at < end:
        name, value_at = decode_short_string(data, at)
        at = skip_value(data, value_at)
        table[name] = Encoded(data[value_at:at])
    return table, end


def encoded_items(array: Encoded, count_max: int) -> list[Encoded]:
    """The first items of a well-formed array, as they stand on the wire; none of anything else."""
    items: list[Encoded] = []
    if array[0] != _ARRAY:
        return items
    at, end = _span(array, 1, len(array))
    while at < end and len(items) < count_max:
        start = at
        at = skip_value(array, at)
        items.append(Encoded(array[start:at]))
    return items


def skip_value(data: bytes, at: int) -> int:
    """Where a well-formed value ends that begins at `at`; its content is not looked at."""
    size = _SIZES.get(data[at])
    return at + 1 + size if size is not None else _span(data, at + 1, len(data))[1]


def decode_encoded(value: Encoded) -> TableValue:
    """What a well-formed value says."""
    return _decode_value(value, 0, len(value), 1)[0]


def _span(data: bytes, at: int, limit: int) -> tuple[int, int]:
    """Where the content begins and ends whose four length octets are at `at`."""
    start = at + 4
    end = start + int(_U32.unpack_from(data, at)[0])
    if end > limit:
        raise malformed("a field is longer than the table that holds it")
    return start, end


def _deeper(depth: int) -> None:
    if depth > limits.TABLE_DEPTH_MAX:
        raise malformed(f"a field table is nested deeper than {limits.TABLE_DEPTH_MAX} levels")


def _decode_table(data: bytes, at: int, limit: int, depth: int) -> tuple[FieldTable, int]:
    _deeper(depth)
    at, end = _span(data, at, limit)
    table: FieldTable = {}
    while at < end:
        name, at = decode_short_string(data, at)
        table[name], at = _decode_value(data, at, end, depth)
    if at != end:
        raise malformed("a field table does not end where its length says")
    return table, end


def _decode_array(data: bytes, at: int, limit: int, depth: int) -> tuple[list[TableValue], int]:
    _deeper(depth)
    at, end = _span(data, at, limit)
    values: list[TableValue] = []
    while at < end:
        value, at = _decode_value(data, at, end, depth)
        values.append(value)
    if at != end:
        raise malformed("a field array does not end where its length says")
    return values, end


def _decode_value(data: bytes, at: int, limit: int, depth: int) -> tuple[TableValue, int]:
    letter = data[at]
    at += 1
    if letter == 0x53:  # S
        start, end = _span(data, at, limit)
        text = data[start:end]
        try:
            return text.decode(), end
        except UnicodeDecodeError:
            return text, end
    fixed = _FIXED.get(letter)
    if fixed is not None:
        return fixed.unpack_from(data, at)[0], at + fixed.size
    if letter == 0x74:  # t
        return data[at] != 0, at + 1
    if letter == 0x46:  # F
        return _decode_table(data, at, limit, depth + 1)
    if letter == 0x41:  # A
        return _decode_array(data, at, limit, depth + 1)
    if letter == 0x56:  # V
        return None, at
    if letter == 0x54:  # T
        return Timestamp(_U64.unpack_from(data, at)[0]), at + 8
    if letter == 0x78:  # x
        start, end = _span(data, at, limit)
        return data[start:end], end
    if letter == 0x44:  # D
        return _decimal(data[at], _I32.unpack_from(data, at + 1)[0]), at + 5
    raise malformed(f"field type 0x{letter:02x} is unknown")


def _decimal(scale: int, unscaled: int) -> Decimal:
    # Built from digits: arithmetic would round to the precision of the thread's context.
    digits = tuple(int(digit) for digit in str(abs(unscaled)))
    return Decimal((1 if unscaled < 0 else 0, digits, -scale))


# --- tables, encoding -----------------------------------------------------------------------------


def encode_table(table: Mapping[str, TableValue]) -> bytes:
    """A field table with its length; `ValueError` for what the wire cannot say."""
    return _encode_table(table, 1)


def encode_value(value: TableValue) -> Encoded:
    """A value with its type letter; `ValueError` for what the wire cannot say."""
    return Encoded(_encode_value(value, 1))


def _encode_table(table: Mapping[str, TableValue], depth: int) -> bytes:
    if depth > limits.TABLE_DEPTH_MAX:
        raise ValueError(f"a table nested deeper than {limits.TABLE_DEPTH_MAX} levels")
    pieces: list[bytes] = []
    for name, value in table.items():
        pieces += (encode_short_string(name), _encode_value(value, depth))
    return encode_long_string(b"".join(pieces))


def _encode_array(values: Sequence[TableValue], depth: int) -> bytes:
    if depth > limits.TABLE_DEPTH_MAX:
        raise ValueError(f"an array nested deeper than {limits.TABLE_DEPTH_MAX} levels")
    return encode_long_string(b"".join([_encode_value(value, depth) for value in values]))


def _encode_value(value: TableValue, depth: int) -> bytes:
    if isinstance(value, str):
        # Keys and names of clients that are not UTF-8 are surrogates here, and bytes out there.
        return b"S" + encode_long_string(value.encode("utf-8", "surrogateescape"))
    if isinstance(value, int):
        return _encode_int(value)
    if isinstance(value, dict):
        return b"F" + _encode_table(value, depth + 1)
    if isinstance(value, list):
        return b"A" + _encode_array(value, depth + 1)
    if value is None:
        return b"V"
    if isinstance(value, float):
        return struct.pack(">cd", b"d", value)
    if isinstance(value, Encoded):
        return value
    if isinstance(value, bytes):
        return b"x" + encode_long_string(value)
    if isinstance(value, Decimal):
        return _encode_decimal(value)
    raise ValueError(f"no AMQP type for {type(value).__name__}")


def _encode_int(value: int) -> bytes:
    if isinstance(value, bool):
        return b"t\x01" if value else b"t\x00"
    if isinstance(value, Timestamp):
        if not 0 <= value < 1 << 64:
            raise ValueError(f"{value!r} is not a 64-bit number of seconds")
        return struct.pack(">cQ", b"T", value)
    if -(1 << 31) <= value < 1 << 31 and not isinstance(value, Long):
        return struct.pack(">ci", b"I", value)
    if -(1 << 63) <= value < 1 << 63:
        return struct.pack(">cq", b"l", value)
    raise ValueError(f"{value} does not fit into 64 bits")


def _encode_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
    fits = -(1 << 31) <= unscaled < 1 << 31
    if not fits or not isinstance(exponent, int) or not -255 <= exponent <= 0:
        raise ValueError(f"{value} is not a decimal of 32 bits and at most 255 places")
    return struct.pack(">cBi", b"D", -exponent, unscaled)
