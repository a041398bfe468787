"""The fields of what a tracer notes, as they stand in the lines of traces (docs/adr/0079).

Inputs: positions and what stands beside each of them, clients, routes. Outputs: fields, and lines.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import orjson

from fedq.core import trace_records
from fedq.core.ids import FragmentId
from fedq.core.message import split_route
from fedq.core.ranges import Range, to_ranges
from fedq.node.records.client_state import Channel
from fedq.node.records.tracing.trace_lines import sampled

#: A line's fields.
Fields: TypeAlias = dict[str, object]
#: What stands beside positions, one for each: the names of fields, and their first numbers.
Beside: TypeAlias = Mapping[str, int]
NOTHING: Final[Beside] = {}


def fields_of_positions(ranges: list[Range] | None, beside: Beside) -> Fields:
    """The fields for positions, and what stands beside them."""
    if ranges is None:
        return {}
    fields: Fields = {"positions": ranges}
    if beside:
        count = sum([last - first + 1 for first, last in ranges])
        for name, number in beside.items():
            fields[name] = [(number, number + count - 1)]
    return fields


def fields_of_client(channel: Channel, tag: str) -> Fields:
    """The fields for a client, and its consumer."""
    return {"connection": channel.client.connection, "channel": channel.number, "consumer": tag}


def names_of(route: bytes) -> tuple[str, str]:
    """Exchange and routing key, as they can be shown."""
    exchange, key = split_route(route)
    return _shown(exchange), _shown(key)


def _shown(text: str) -> str:
    if text.isascii():
        return text
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def line_of(fields: Fields) -> bytes:
    """A line of these fields."""
    try:
        return orjson.dumps(fields)
    except TypeError:
        # Texts that are no UTF-8, which only this form can say.
        return trace_records.line(fields)


def sampled_fields(
    sample: int, fragment: FragmentId, ranges: list[Range], beside: Beside,
    redelivered: Sequence[int],
) -> Fields | None:  # fmt: skip
    """The fields for the sampled part of positions; None: nothing of them is."""
    parts = sampled(fragment, ranges, sample)
    if not parts:
        return None
    fields: Fields = {"positions": [(first, last) for first, last, _ in parts]}
    for name, number in beside.items():
        fields[name] = [
            (number + before, number + before + last - first) for first, last, before in parts
        ]
    again = [p for p in redelivered if any(first <= p <= last for first, last, _ in parts)]
    if again:
        fields["redelivered"] = to_ranges(sorted(again))
    return fields
