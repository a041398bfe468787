"""The header `x-death`: what happened to a message so far, one entry per queue and reason.

Input is the header as it stands on the wire, from whoever published the message: an entry may hold
anything, and be of any size. Output is the header with one more death. Entries go out as they came
in, to the byte; of the one that happened again only the count is written anew. The newest
is first; the oldest go when there is no room.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from fedq.amqp.values import (
    Encoded,
    FieldTable,
    Long,
    TableValue,
    decode_encoded,
    decode_encoded_table,
    encode_value,
    encoded_items,
)
from fedq.core.limits import DEATHS_MAX

#: A count goes no further.
_COUNT_MAX: Final = (1 << 63) - 1


class Death(NamedTuple):
    """One entry: what it says, and how it stands on the wire."""

    queue: TableValue
    reason: TableValue
    encoded: Encoded


def deaths_of(headers: Mapping[str, TableValue]) -> list[Death]:
    """The entries of encoded headers, newest first; what is no table is none."""
    header = headers.get("x-death")
    if not isinstance(header, Encoded):
        return []
    deaths: list[Death] = []
    for item in encoded_items(header, DEATHS_MAX):
        entry = decode_encoded(item)
        if isinstance(entry, dict):
            deaths.append(Death(entry.get("queue"), entry.get("reason"), item))
    return deaths


def with_death(deaths: list[Death], death: FieldTable, room: int) -> Encoded | None:
    """The header with one more death; `None` where `room`, in bytes, does not hold even that one.

    The entry of the same queue and reason counts it; without one it gets an entry of its own.
    """
    same = (death["queue"], death["reason"])
    before = next((d for d in deaths if (d.queue, d.reason) == same), None)
    newest = _first(death) if before is None else _again(before.encoded)
    if len(newest) > room:
        # Copies of the publish make their list as long as the headers.
        newest = _first({**death, "routing-keys": []})
    if len(newest) > room:
        return None
    items = [newest]
    size = len(newest)
    for other in deaths:
        if other is not before:
            size += len(other.encoded)
            if size > room or len(items) == DEATHS_MAX:
                break
            items.append(other.encoded)
    return encode_value(list(items))


def _first(death: FieldTable) -> Encoded:
    return encode_value({"count": Long(1), **death})


def _again(entry: Encoded) -> Encoded:
    """The entry of a death with a higher count."""
    fields, _ = decode_encoded_table(entry, 1)
    found = fields.get("count")
    count = decode_encoded(found) if isinstance(found, Encoded) else None
    fields["count"] = Long(min(count + 1, _COUNT_MAX) if isinstance(count, int) else 2)
    return encode_value(fields)
