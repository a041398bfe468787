"""The one encoding of a message, from publish to delivery.

A message is a single `bytes`: it is built once when its content is complete, and the same object
is stored, journalled, sent to backups and proxies, and sliced into delivery frames.

    flags u8 | route length u16 | properties length u32 | route | properties | body

*Route* is the exchange and the routing key as two AMQP short strings, just as `basic.publish`
carried them and as `basic.deliver` wants them. *Properties* are the property flags and list of
the content header, undecoded.
"""

import struct
from typing import Final

#: delivery-mode 2.
FLAG_PERSISTENT: Final = 0x01
#: It has an `expiration` that is a number of milliseconds.
FLAG_EXPIRES: Final = 0x02
#: It has a `priority`.
FLAG_PRIORITY: Final = 0x04
#: Its headers hold `CC` or `BCC`: it may have more than one routing key.
FLAG_COPIES: Final = 0x08
#: It has a `user_id`.
FLAG_USER: Final = 0x10
#: Consumers may have seen it already, by another way: it is delivered as such. Set by the broker.
FLAG_SEEN: Final = 0x20
#: It came through a delaying exchange: `x-delay` says when it becomes visible. Set by the broker.
FLAG_DELAYED: Final = 0x40
#: A dead letter that no consumer rejected: it must not go round. Set by the broker.
FLAG_DIED: Final = 0x80
# Flags of publishes only, which no message is stored with: beyond what a byte holds.
#: Its `expiration` means nothing: it is refused.
FLAG_BAD_EXPIRATION: Final = 0x100
#: Its `reply_to` is the direct reply-to pseudo queue, which is replaced.
FLAG_DIRECT_REPLY: Final = 0x200
#: Its headers name its publisher, or a sequence of one (docs/adr/0078).
FLAG_NAMED: Final = 0x400

#: Flags of publishes that need a look of their own before they are routed.
FLAGS_OF_NOTE: Final = (
    FLAG_COPIES | FLAG_USER | FLAG_DIRECT_REPLY | FLAG_BAD_EXPIRATION | FLAG_NAMED
)

_HEAD: Final = struct.Struct(">BHI")
HEAD_SIZE: Final = _HEAD.size
_unpack_head: Final = _HEAD.unpack_from


def encode(flags: int, route: bytes, properties: bytes, body: bytes | bytearray) -> bytes:
    """One message from its parts; see the module's docstring for the layout."""
    head = _HEAD.pack(flags & 0xFF, len(route), len(properties))
    return b"".join((head, route, properties, body))


def encode_pieces(
    flags: int, route: bytes, properties: bytes, pieces: list[bytes | bytearray]
) -> bytes:
    """As `encode`, with a body in pieces, which is copied once."""
    head = _HEAD.pack(flags & 0xFF, len(route), len(properties))
    return b"".join([head, route, properties, *pieces])


def is_persistent(message: bytes) -> bool:
    """Whether the publisher asked for delivery-mode 2."""
    return message[0] & FLAG_PERSISTENT != 0


def with_flag(message: bytes, flag: int) -> bytes:
    """The message with one more flag."""
    return b"%c%b" % (message[0] | flag, message[1:])


def split(message: bytes) -> tuple[bytes, bytes, bytes]:
    """(route, properties, body) of an encoded message."""
    _, route_size, properties_size = _unpack_head(message)
    properties_at = HEAD_SIZE + route_size
    body_at = properties_at + properties_size
    return message[HEAD_SIZE:properties_at], message[properties_at:body_at], message[body_at:]


def split_lean(message: bytes) -> tuple[bytes, bytes, memoryview]:
    """As `split`; the body where it is, not a copy."""
    _, route_size, properties_size = _unpack_head(message)
    properties_at = HEAD_SIZE + route_size
    body_at = properties_at + properties_size
    body = memoryview(message)[body_at:]
    return message[HEAD_SIZE:properties_at], message[properties_at:body_at], body


def body_size(message: bytes) -> int:
    """The bytes of the body; 0 for what stands for a message that is elsewhere (no bytes)."""
    if not message:
        return 0
    _, route_size, properties_size = _unpack_head(message)
    return len(message) - HEAD_SIZE - int(route_size) - int(properties_size)


def head_size(message: bytes) -> int:
    """The bytes of all but the body."""
    return len(message) - body_size(message)


def route_of(message: bytes) -> bytes:
    """The two short strings exchange and routing key."""
    return message[HEAD_SIZE : HEAD_SIZE + ((message[1] << 8) | message[2])]


def make_route(exchange: str, routing_key: str) -> bytes:
    """The route of an exchange and key, at most 255 bytes each; the inverse of `split_route`."""
    name = exchange.encode("utf-8", "surrogateescape")
    key = routing_key.encode("utf-8", "surrogateescape")
    return b"%c%b%c%b" % (len(name), name, len(key), key)


def split_route(route: bytes) -> tuple[str, str]:
    """(exchange, routing key) of a route; undecodable bytes are kept as surrogates."""
    size = route[0]
    exchange = route[1 : 1 + size].decode("utf-8", "surrogateescape")
    return exchange, route[2 + size :].decode("utf-8", "surrogateescape")
