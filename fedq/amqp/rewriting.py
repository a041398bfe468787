"""Messages that a broker has to change: headers added or taken away, a new route, a death.

Everything else passes a broker as the bytes it came in (`fedq.core.message`); what is here costs
a decoding and an encoding, and happens to few. Header values that are not concerned go out as
they came in, to the byte.
"""

from collections.abc import Mapping
from typing import Final

from fedq.amqp.content import decode_kept_properties, encode_properties, headers_of, message_flags
from fedq.amqp.deaths import deaths_of, with_death
from fedq.amqp.values import (
    Encoded,
    FieldTable,
    Long,
    TableValue,
    Timestamp,
    decode_encoded,
)
from fedq.core.limits import FRAME_BYTES_MAX, HEADER_OVERHEAD_BYTES
from fedq.core.message import (
    FLAG_COPIES,
    FLAG_DELAYED,
    FLAG_DIED,
    FLAG_SEEN,
    encode,
    is_persistent,
    make_route,
    split,
    split_route,
    with_flag,
)


def with_properties(message: bytes, changes: Mapping[str, TableValue]) -> bytes:
    """The message with some properties set, or (None) taken away."""
    route, properties, body = split(message)
    return _encode(message, route, {**decode_kept_properties(properties), **changes}, body)


def with_headers(message: bytes, changes: Mapping[str, TableValue]) -> bytes:
    """The message with some headers set."""
    route, properties, body = split(message)
    kept = decode_kept_properties(properties)
    return _encode(message, route, {**kept, "headers": {**_headers(kept), **changes}}, body)


def with_headers_sorted(message: bytes, changes: Mapping[str, TableValue]) -> bytes:
    """The message with some headers set, all of them sorted by name.

    A message whose properties have no room for that is left as it is.
    """
    route, properties, body = split(message)
    kept = decode_kept_properties(properties)
    headers = {**_headers(kept), **changes}
    kept["headers"] = {name: headers[name] for name in sorted(headers, key=_bytes_of)}
    data = encode_properties(kept)
    if len(data) > PROPERTIES_WRITTEN_BYTES_MAX:
        return message
    return encode(message[0], route, data, body)


def without_header(message: bytes, name: str) -> bytes:
    """The message without a header."""
    route, properties, body = split(message)
    kept = decode_kept_properties(properties)
    headers = _headers(kept)
    headers.pop(name, None)
    changed = _encode(message, route, {**kept, "headers": headers}, body)
    # What the broker knows of it stays true.
    return with_flag(changed, message[0] & (FLAG_SEEN | FLAG_DELAYED | FLAG_DIED))


def delay_of(message: bytes) -> int:
    """The header `x-delay` in milliseconds; 0 for none that means anything."""
    delay = headers_of(split(message)[1]).get("x-delay", 0)
    if isinstance(delay, int) and not isinstance(delay, bool) and 0 < delay <= DELAY_MS_MAX:
        return delay
    return 0


#: The longest property list that the broker writes: its header fits into the frames it offers.
PROPERTIES_WRITTEN_BYTES_MAX: Final = FRAME_BYTES_MAX - HEADER_OVERHEAD_BYTES
#: The name of the header, and the letter and length of its value.
_DEATH_OVERHEAD: Final = 13

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
    kept = decode_kept_properties(properties)
    headers = _headers(kept)
    death: FieldTable = {
        "reason": reason,
        "queue": queue,
        "time": Timestamp(time_s),
        "exchange": from_exchange,
        "routing-keys": [own_key, *_texts(_value(headers.get("CC")))],
    }
    if "expiration" in kept:
        death["original-expiration"] = kept.pop("expiration")
    deaths = deaths_of(headers)
    headers.pop("x-death", None)
    if key is not None:
        headers.pop("CC", None)
    told = {**_first_death(death), **headers}
    kept["headers"] = told
    room = PROPERTIES_WRITTEN_BYTES_MAX - len(encode_properties(kept)) - _DEATH_OVERHEAD
    header = with_death(deaths, death, room)
    # Without room for it there is none for the first death, either.
    kept["headers"] = headers if header is None else {**told, "x-death": header}
    return _encode(message, make_route(exchange, own_key if key is None else key), kept, body)


def stripped_letter(
    message: bytes, reason: str, queue: str, exchange: str, key: str | None, time_s: int
) -> bytes:
    """A dead letter with the body alone, for a message that cannot be made one with its headers."""
    route, _, body = split(message)
    from_exchange, own_key = split_route(route)
    death: FieldTable = {
        "count": Long(1), "reason": reason, "queue": queue, "time": Timestamp(time_s),
        "exchange": from_exchange, "routing-keys": [own_key],
    }  # fmt: skip
    properties: FieldTable = {
        "delivery_mode": 2 if is_persistent(message) else 1, "headers": {"x-death": [death]},
    }  # fmt: skip
    to = make_route(exchange, own_key if key is None else key)
    return _encode(message, to, properties, body)


def _first_death(death: FieldTable) -> FieldTable:
    """The headers that tell of a message's first death, and stay."""
    return {f"x-first-death-{name}": death[name] for name in ("reason", "queue", "exchange")}


def cycled_queues(message: bytes) -> dict[str, None]:
    """The queues that a dead letter comes back to without any consumer having rejected it.

    Such a message would go round for ever: it is dropped (RabbitMQ's rule). Whoever rejects
    decides to send it round; then it goes on.
    """
    deaths = deaths_of(_headers(decode_kept_properties(split(message)[1])))
    cycled: dict[str, None] = {}
    for death in deaths:
        if death.reason == "rejected":
            break
        if isinstance(death.queue, str):
            cycled[death.queue] = None
    return cycled


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
    """What queues get of a publish with copies: nobody sees who else got it by `BCC`."""
    return without_header(message, "BCC") if message[0] & FLAG_COPIES else message


def _texts(value: TableValue) -> list[str]:
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


# --- pieces --------------------------------------------------------------------------------------


def _value(encoded: TableValue) -> TableValue:
    """What a header says that is kept as it came."""
    return decode_encoded(encoded) if isinstance(encoded, Encoded) else encoded


def _bytes_of(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _headers(kept: Mapping[str, TableValue]) -> FieldTable:
    headers = kept.get("headers")
    return dict(headers) if isinstance(headers, dict) else {}


def _encode(
    message: bytes, route: bytes, properties: Mapping[str, TableValue], body: bytes
) -> bytes:
    present = {name: value for name, value in properties.items() if value is not None}
    data = encode_properties(present)
    return encode(message_flags(data), route, data, body)
