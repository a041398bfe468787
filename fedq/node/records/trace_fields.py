"""The fields of an event of a trace, and the line that they become (docs/adr/0079).

Inputs: positions, what is numbered beside them, routes of messages. Outputs: fields, lines.
"""

from collections.abc import Mapping
from typing import TypeAlias

import orjson

from fedq.core import trace_records
from fedq.core.message import split_route
from fedq.core.ranges import Range

#: A line's fields.
Fields: TypeAlias = dict[str, object]
#: What stands beside positions, one for each: the names of fields, and their first numbers.
Beside: TypeAlias = Mapping[str, int]


def beside_of(ranges: list[Range] | None, beside: Beside) -> Fields:
    """The fields for positions, and what stands beside them."""
    if ranges is None:
        return {}
    fields: Fields = {"positions": ranges}
    if beside:
        count = sum([last - first + 1 for first, last in ranges])
        for name, number in beside.items():
            fields[name] = [(number, number + count - 1)]
    return fields


def names_of(route: bytes) -> tuple[str, str]:
    """Exchange and routing key, as they can be shown."""
    exchange, key = split_route(route)
    return _shown(exchange), _shown(key)


def _shown(text: str) -> str:
    data = text.encode("utf-8", "surrogateescape")
    return text if text.isascii() else data.decode("utf-8", "replace")


def line_of(fields: Fields) -> bytes:
    """An event as a line of a batch."""
    try:
        return orjson.dumps(fields)
    except TypeError:
        # Texts that are no UTF-8, which only this form can say.
        return trace_records.line(fields)
