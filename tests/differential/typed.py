"""Properties of messages as text that keeps the types of the wire, for comparing.

Input: a property list as it came. Output: `name=value` pieces. Values in tables are written with
their type's letter, since a client in a typed language notices whether a count is `I` or `l`.
Times in `x-death` differ between any two runs: they are written as `T:now`.
"""

import struct
from typing import Final

from fedq.amqp.content import decode_properties
from fedq.amqp.strings import decode_short_string

_SIZES: Final = {
    "b": ">b", "B": ">B", "s": ">h", "u": ">H", "I": ">i", "i": ">I", "l": ">q", "L": ">q",
    "f": ">f", "d": ">d", "t": ">?", "T": ">Q",
}  # fmt: skip
#: What lies between the flags and the table `headers`: content type and content encoding.
_BEFORE_HEADERS: Final = (0x80, 0x40)


def properties_text(properties: bytes) -> str:
    """The properties in wire order."""
    pieces = [
        f"{name}={value!r}"
        for name, value in decode_properties(properties).items()
        if name != "headers"
    ]
    if properties[0] & 0x20:
        at = 2
        for bit in _BEFORE_HEADERS:
            if properties[0] & bit:
                at += 1 + properties[at]
        pieces.append(f"headers={_table(properties, at)[0]}")
    return " ".join(pieces)


def _table(data: bytes, at: int) -> tuple[str, int]:
    """A table, ordered by name: the order on the wire means nothing."""
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    at += 4
    fields: dict[str, str] = {}
    while at < end:
        name, at = decode_short_string(data, at)
        value, at = _value(data, at)
        fields[name] = "T:now" if name == "time" and value.startswith("T:") else value
    return "{" + ", ".join(f"{name}={fields[name]}" for name in sorted(fields)) + "}", end


def _value(data: bytes, at: int) -> tuple[str, int]:
    letter = chr(data[at])
    at += 1
    if letter in _SIZES:
        form = struct.Struct(_SIZES[letter])
        return f"{letter}:{form.unpack_from(data, at)[0]}", at + form.size
    if letter == "V":
        return "V", at
    if letter == "F":
        return _table(data, at)
    if letter == "D":
        return f"D:{data[at : at + 5].hex()}", at + 5
    end = at + 4 + int.from_bytes(data[at : at + 4], "big")
    if letter != "A":
        return f"{letter}:{data[at + 4 : end]!r}", end
    at += 4
    values: list[str] = []
    while at < end:
        value, at = _value(data, at)
        values.append(value)
    return "[" + ", ".join(values) + "]", end
