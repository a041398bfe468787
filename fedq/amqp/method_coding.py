"""The coding of methods, by the table in `fedq.amqp.spec`; offered as `fedq.amqp.methods`.

Input and output are the named tuples of `fedq.amqp.method_types`. Both directions are here, a
server's and a client's: the simulator's clients speak with the same code.
"""

import struct
from typing import Final, cast

from fedq.amqp import method_types, spec
from fedq.amqp.frames import frame
from fedq.amqp.method_types import Method
from fedq.amqp.spec import FRAME_METHOD, RESERVED, FieldSpec, MethodSpec
from fedq.amqp.strings import (
    decode_long_string,
    decode_short_string,
    encode_long_string,
    encode_short_string,
)
from fedq.amqp.values import FieldTable, TableValue, decode_table, encode_table
from fedq.core.errors import NOT_IMPLEMENTED, SYNTAX_ERROR, ConnectionViolation

_INTEGERS: Final = {
    "octet": struct.Struct(">B"),
    "short": struct.Struct(">H"),
    "long": struct.Struct(">I"),
    "longlong": struct.Struct(">Q"),
}
_EMPTY: Final[dict[str, int | str | bytes | FieldTable]] = {
    "octet": 0, "short": 0, "long": 0, "longlong": 0, "shortstr": "", "longstr": b"", "table": {},
}  # fmt: skip
_IDS: Final = struct.Struct(">HH")


def _class_of(row: MethodSpec) -> type[Method]:
    """The type of a row's method: `queue.declare-ok` is `QueueDeclareOk`, fields as in the row."""
    name = row.name.replace(".", "-").title().replace("-", "")
    found = cast(type[Method], vars(method_types)[name])
    # internal: tables of this module.
    assert found._fields == tuple(each.name for each in row.fields if each.name != RESERVED), name
    return found


_ROW_OF: Final[dict[type[Method], MethodSpec]] = {_class_of(row): row for row in spec.METHODS}
_CLASS_OF: Final[dict[tuple[int, int], type[Method]]] = {
    (row.class_id, row.method_id): found for found, row in _ROW_OF.items()
}


def ids_of(method: Method) -> tuple[int, int]:
    """(class id, method id), as replies to a violation name them."""
    row = _ROW_OF[type(method)]
    return row.class_id, row.method_id


def frame_ids(payload: bytes) -> tuple[int, int]:
    """What a method frame's payload says of itself, known or not; zeros if it is too short."""
    return (0, 0) if len(payload) < _IDS.size else _IDS.unpack_from(payload)


def name_of(method: Method) -> str:
    """`class.method`, as the specification writes it."""
    return _ROW_OF[type(method)].name


def encode_method(channel: int, method: Method) -> bytes:
    """A whole method frame. `ValueError` or `struct.error` for arguments beyond their domain."""
    constant = _CONSTANT.get(type(method))
    if constant is not None:
        return frame(FRAME_METHOD, channel, constant)
    row = _ROW_OF[type(method)]
    ids = _IDS.pack(row.class_id, row.method_id)
    return frame(FRAME_METHOD, channel, ids + _encode_fields(row.fields, method))


def decode_method(payload: bytes) -> Method:
    """The method in a method frame's payload.

    Raises `ConnectionViolation`: 540 for a method that is not in the table, 502 for arguments
    that are malformed, missing, or followed by more bytes.
    """
    if len(payload) < 4:
        raise ConnectionViolation(SYNTAX_ERROR, "a method frame is too short to name a method")
    ids = _IDS.unpack_from(payload)
    found = _CLASS_OF.get(ids)
    if found is None:
        raise ConnectionViolation(
            NOT_IMPLEMENTED, f"method {ids[0]}.{ids[1]} is not AMQP 0-9-1; do not send it", *ids
        )
    row = _ROW_OF[found]
    try:
        arguments, end = _decode_fields(row.fields, payload)
    except ConnectionViolation as violation:
        text = f"{row.name}: {violation.text}"
        raise ConnectionViolation(violation.reply_code, text, *ids) from None
    except (struct.error, IndexError):
        text = f"{row.name}: arguments are missing; send all that the specification lists"
        raise ConnectionViolation(SYNTAX_ERROR, text, *ids) from None
    if end != len(payload):
        text = f"{row.name}: bytes follow its arguments; send only those"
        raise ConnectionViolation(SYNTAX_ERROR, text, *ids)
    return tuple.__new__(found, arguments)


def _encode_fields(fields: tuple[FieldSpec, ...], method: Method) -> bytes:
    pieces: list[bytes] = []
    arguments = iter(method)
    bits = weight = 0
    for kind, name in fields:
        if kind == "bit":
            if name != RESERVED and next(arguments):
                bits |= 1 << weight
            weight += 1
            continue
        if weight:
            pieces.append(bytes((bits,)))
            bits = weight = 0
        pieces.append(_encode_field(kind, _EMPTY[kind] if name == RESERVED else next(arguments)))
    if weight:
        pieces.append(bytes((bits,)))
    return b"".join(pieces)


def _encode_field(kind: str, value: object) -> bytes:
    if kind == "shortstr":
        return encode_short_string(cast(str, value))
    if kind == "longstr":
        return encode_long_string(cast(bytes, value))
    if kind == "table":
        return encode_table(cast(dict[str, TableValue], value))
    return _INTEGERS[kind].pack(value)


def _decode_fields(fields: tuple[FieldSpec, ...], payload: bytes) -> tuple[list[object], int]:
    arguments: list[object] = []
    at = _IDS.size
    weight = 0
    value: object
    for kind, name in fields:
        if kind == "bit":
            # At most seven bits follow each other in any method, so one octet holds them.
            if not weight:
                at += 1
            value = payload[at - 1] >> weight & 1 == 1
            weight += 1
        else:
            weight = 0
            value, at = _decode_field(kind, payload, at)
        if name != RESERVED:
            arguments.append(value)
    return arguments, at


def _decode_field(kind: str, payload: bytes, at: int) -> tuple[object, int]:
    if kind == "shortstr":
        return decode_short_string(payload, at)
    if kind == "longstr":
        return decode_long_string(payload, at)
    if kind == "table":
        return decode_table(payload, at)
    integer = _INTEGERS[kind]
    return integer.unpack_from(payload, at)[0], at + integer.size


#: The payloads of methods that say nothing but their names, as most answers do.
_CONSTANT: Final[dict[type[Method], bytes]] = {
    found: _IDS.pack(row.class_id, row.method_id) + _encode_fields(row.fields, found())
    for found, row in _ROW_OF.items()
    if not found._fields
}
