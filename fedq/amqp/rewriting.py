"""Messages that a broker has to change: headers added or taken away, a new route, a death.

Everything else passes a broker as the bytes it came in (`fedq.core.message`); what is here costs
a decoding and an encoding, and happens to few. Header values that are not concerned go out as
they came in, to the byte.
"""

from collections.abc import Mapping
from typing import Final

from fedq.amqp.content import decode_properties, encode_properties, headers_of, message_flags
from fedq.amqp.values import FieldTable, Long, TableValue, Timestamp, decode_encoded_table
from fedq.core.message import FLAG_COPIES, encode, make_route, split, split_route

#: The key of the properties' bytes after content-type and content-encoding.
_HEADERS_BIT: Final = 0x20


def with_properties(message: bytes, changes: Mapping[str, TableValue]) -> bytes:
    """The message with some properties set, or (None) taken away."""
    route, properties, body = split(message)
    return _encode(message, route, {**_kept(properties), **changes}, body)


def with_headers(message: bytes, changes: Mapping[str, TableValue]) -> bytes:
    """The message with some headers set."""
    route, properties, body = split(message)
    kept = _kept(properties)
    return _encode(message, route, {**kept, "headers": {**_headers(kept), **changes}}, body)


def without_header(message: bytes, name: str) -> bytes:
    """The message without a header."""
    route, properties, body = split(message)
    kept = _kept(properties)
    headers = _headers(kept)
    headers.pop(name, None)
    return _encode(message, route, {**kept, "headers": headers}, body)


def delay_of(message: bytes) -> int:
    """The header `x-delay` in milliseconds; 0 for none that means anything."""
    delay = headers_of(split(message)[1]).get("x-delay", 0)
    if isinstance(delay, int) and not isinstance(delay, bool) and 0 < delay <= DELAY_MS_MAX:
        return delay
    return 0


#: The longest delay: that of RabbitMQ's plug-in.
DELAY_MS_MAX: Final = 0xFFFF_FFFF


# --- dead letters --------------------------------------------------------------------------------


def dead_letter(
    message: bytes, reason: str, queue: str, exchange: str, key: str | None, time_s: int
) -> bytes:
    """The message as it goes to the dead-letter exchange, under `key` or (None) its own one.

    What happened is told in the header `x-death` (RabbitMQ's form): one entry per queue and
    reason, newest first, with how often. Its own time to live is over: `expiration` moves there.
    """
    route, properties, body = split(message)
    from_exchange, own_key = split_route(route)
    kept = _kept(properties)
    headers = _headers(kept)
    plain = headers_of(properties)
    death: FieldTable = {
        "reason": reason,
        "queue": queue,
        "time": Timestamp(time_s),
        "exchange": from_exchange,
        "routing-keys": [own_key, *_texts(plain.get("CC"))],
    }
    if "expiration" in kept:
        death["original-expiration"] = kept.pop("expiration")
    headers["x-death"] = _with_death(_deaths(plain), death)
    for name in ("reason", "queue", "exchange"):
        headers.setdefault(f"x-first-death-{name}", death[name])
    if key is not None:
        headers.pop("CC", None)
    kept["headers"] = headers
    return _encode(message, make_route(exchange, own_key if key is None else key), kept, body)


def _with_death(deaths: list[FieldTable], death: FieldTable) -> list[TableValue]:
    """The deaths so far and one more: the entry of its queue and reason comes first."""
    before = next((d for d in deaths if _same_death(d, death)), None)
    others: list[TableValue] = [d for d in deaths if d is not before]
    if before is None:
        return [{"count": Long(1), **death}, *others]
    count = before.get("count")
    counted = Long(count + 1 if isinstance(count, int) else 2)
    return [{**before, "count": counted}, *others]


def _same_death(one: FieldTable, other: FieldTable) -> bool:
    return (one.get("queue"), one.get("reason")) == (other["queue"], other["reason"])


def has_cycled(message: bytes, queue: str) -> bool:
    """Whether a dead letter comes back to a queue without any consumer having rejected it.

    Such a message would go round for ever: it is dropped (RabbitMQ's rule). Whoever rejects
    decides to send it round; then it goes on.
    """
    deaths = _deaths(headers_of(split(message)[1]))
    for index, death in enumerate(deaths):
        if death.get("queue") == queue:
            return all(d.get("reason") != "rejected" for d in deaths[: index + 1])
    return False


def _deaths(headers: FieldTable) -> list[FieldTable]:
    found = headers.get("x-death")
    deaths = [d for d in found if isinstance(d, dict)] if isinstance(found, list) else []
    for death in deaths:
        count = death.get("count")
        if isinstance(count, int):
            death["count"] = Long(count)
    return deaths


# --- copies --------------------------------------------------------------------------------------


def copies_of(message: bytes, name: str) -> list[str] | None:
    """The routing keys in the header `CC` or `BCC`; None if it is no array."""
    found = headers_of(split(message)[1]).get(name, [])
    return _texts(found) if isinstance(found, list) else None


def routing_keys(message: bytes, key: str) -> list[str] | None:
    """All keys of a publish: its own, then its copies'; None where a header makes no sense."""
    keys = [key]
    for name in ("CC", "BCC"):
        copies = copies_of(message, name)
        if copies is None:
            return None
        keys += copies
    return keys


def as_stored(message: bytes) -> bytes:
    """What queues get of a publish with copies: nobody sees who else got it blindly."""
    return without_header(message, "BCC") if message[0] & FLAG_COPIES else message


def _texts(value: TableValue) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


# --- pieces --------------------------------------------------------------------------------------


def _kept(properties: bytes) -> dict[str, TableValue]:
    """The properties, with each header as it came."""
    kept = decode_properties(properties)
    if properties[0] & _HEADERS_BIT:
        at = 2
        for bit in (0x80, 0x40):
            if properties[0] & bit:
                at += 1 + properties[at]
        kept["headers"] = decode_encoded_table(properties, at)
    return kept


def _headers(kept: Mapping[str, TableValue]) -> FieldTable:
    headers = kept.get("headers")
    return dict(headers) if isinstance(headers, dict) else {}


def _encode(
    message: bytes, route: bytes, properties: Mapping[str, TableValue], body: bytes
) -> bytes:
    present = {name: value for name, value in properties.items() if value is not None}
    data = encode_properties(present)
    return encode(message_flags(data), route, data, body)
