"""Words about arguments: types and values as RabbitMQ names them, and what differs of two tables.

Inputs: values of field tables, fresh from a client or back from the cluster map's JSON; outputs:
text for refusals. JSON has fewer types than field tables: integers of all widths are one there,
as they are when RabbitMQ compares them; binaries and decimals have become text.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final

import orjson

#: A value in a refusal is cut to so many characters.
VALUE_CHARACTERS_MAX: Final = 80

_NAMES: Final[dict[type, str]] = {
    type(None): "void",
    bool: "bool",
    float: "double",
    Decimal: "decimal",
    str: "longstr",
    bytes: "binary",
    bytearray: "binary",
    list: "array",
    dict: "table",
}


def type_name(value: object) -> str:
    """The type of a field value, in RabbitMQ's words; the width of an integer is a guess."""
    kind = type(value)
    if kind is int:
        assert isinstance(value, int)
        return "signedint" if -(1 << 31) <= value < 1 << 31 else "long"
    # Of the field values only a timestamp is an integer with a type of its own.
    return _NAMES.get(kind, "timestamp" if isinstance(value, int) else "table")


def value_text(value: object) -> str:
    """A value in a refusal: text as it is, none as "undefined", others as JSON; not too long."""
    if isinstance(value, str):
        text = value
    elif value is None:
        text = "undefined"
    else:
        try:
            text = orjson.dumps(value, default=str).decode()
        except orjson.JSONEncodeError:  # An integer beyond 64 bits, which no field table holds.
            text = str(value)
    return text[:VALUE_CHARACTERS_MAX]


def binary_text(text: str) -> str:
    """A string as Erlang writes a binary."""
    return f'<<"{value_text(text)}">>' if text else "<<>>"


def difference(
    what: str, wanted: Mapping[str, Any], known: Mapping[str, Any], names: Iterable[str]
) -> str | None:
    """How the first of these arguments differs, as RabbitMQ says it; None if none does."""
    for name in names:
        received, current = wanted.get(name, _NONE), known.get(name, _NONE)
        if type_class(received) == type_class(current) and received == current:
            continue
        if received is _NONE or current is _NONE:
            words = f"received {_described(received)} but current is {_described(current)}"
        else:
            words = f"received '{value_text(received)}' but current is '{value_text(current)}'"
        return f"inequivalent arg '{name}' for {what}: {words}"
    return None


class _None:
    """Stands for an argument that is not there; a void one is."""

    __slots__ = ()


_NONE: Final = _None()


def type_class(value: object) -> str:
    """The class of a value's type that counts in comparisons: without the width of an integer."""
    name = type_name(value)
    return "signedint" if name == "long" else name


def _described(value: object) -> str:
    if value is _NONE:
        return "none"
    return f"the value '{value_text(value)}' of type '{type_name(value)}'"
