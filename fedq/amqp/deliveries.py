"""The frames a broker sends for every message: deliver, and ack and nack to a publisher.

Input are encoded messages (`fedq.core.message`); their route and properties go out as they came
in, so nothing is decoded. A body is split by the connection's frame size; an empty body has no
body frame (AMQP 0-9-1 clause 4.2.6).

One message for many consumers: make its `deliver_suffix` once for each channel number, and append
`prefix.head(len(route))`, `pack_tag(tag)` and the suffix to each consumer's parts. Many messages
for one consumer: `append_deliveries`.

What goes out one at a time (get-ok, return) is in `fedq.amqp.rare_contents`. The compiled twin is
`deliveries.pyx`.
"""

import struct
from collections.abc import Container, Sequence
from typing import Final

from fedq.amqp.content import Body, body_frames, content_frames
from fedq.amqp.spec import (
    ACK_IDS,
    DELIVER_IDS,
    END,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_METHOD,
    FRAME_OVERHEAD,
    HEADER_IDS,
    HEADER_PAYLOAD,
    NACK_IDS,
    SETTLING_PAYLOAD,
)
from fedq.amqp.strings import encode_short_string
from fedq.core.message import HEAD_SIZE, split

_METHOD_HEAD: Final = struct.Struct(">BHII")
_DELIVER_TAIL: Final = struct.Struct(">QB")
_SETTLED: Final = struct.Struct(">BHIIQBB")
_HEADER_HEAD: Final = struct.Struct(">BHIIQ")
_BODY_HEAD: Final = struct.Struct(">BHI")

#: A delivery tag as it stands between a prefix's head and a suffix.
pack_tag: Final = struct.Struct(">Q").pack


def _tag_string(consumer_tag: str | bytes) -> bytes:
    if isinstance(consumer_tag, str):
        return encode_short_string(consumer_tag)
    # internal: tags are made by this node, or were decoded by it.
    assert consumer_tag[0] == len(consumer_tag) - 1, "a short string begins with its length"
    return consumer_tag


class DeliverPrefix:
    """The beginning of a consumer's deliveries, up to the delivery tag; kept with the consumer."""

    __slots__ = ("_bytes", "_route_size", "channel", "tag_string")

    def __init__(self, channel: int, tag_string: bytes) -> None:
        self.channel = channel
        self.tag_string = tag_string
        self._route_size = -1
        self._bytes = b""

    def head(self, route_size: int) -> bytes:
        """The bytes for messages with a route of this size (which the frame's size counts)."""
        if route_size != self._route_size:
            size = 4 + len(self.tag_string) + 9 + route_size
            front = _METHOD_HEAD.pack(FRAME_METHOD, self.channel, size, DELIVER_IDS)
            self._bytes = front + self.tag_string
            self._route_size = route_size
        return self._bytes


def deliver_prefix(channel: int, consumer_tag: str | bytes) -> DeliverPrefix:
    """The prefix of a consumer; a tag in bytes is a whole short string, with its length octet."""
    return DeliverPrefix(channel, _tag_string(consumer_tag))


def deliver_suffix(channel: int, message: bytes, redelivered: bool, frame_bytes_max: int) -> bytes:
    """The end of a delivery, behind its tag; the same for all consumers on this channel number."""
    route, properties, body = split(message)
    return b"%c%b%b%b" % (
        redelivered, route, END, content_frames(channel, properties, body, frame_bytes_max),
    )  # fmt: skip


def append_deliveries(
    parts: list[Body],
    channel: int,
    consumer_tag: str | bytes,
    first_tag: int,
    messages: Sequence[bytes],
    redelivered: Container[int] | None,
    frame_bytes_max: int,
) -> None:
    """Appends, as one part, deliveries with the tags `first_tag`, `first_tag + 1` and so on.

    `redelivered` holds the indexes in `messages` of those to mark; `None` means none. Raises
    `ValueError` for what is no encoded message.
    """
    prefix = DeliverPrefix(channel, _tag_string(consumer_tag))
    if isinstance(redelivered, list):
        # A list would be searched from its start for each message.
        redelivered = frozenset(redelivered)
    chunk = frame_bytes_max - FRAME_OVERHEAD
    pack_mark = _DELIVER_TAIL.pack
    pieces: list[Body] = []
    add = pieces.extend
    # Messages resemble each other: when all but the body is as in the message before, so is all
    # that lies around the tag and the body.
    front = head = between = end = b""
    front_size = whole_size = -1
    for index, message in enumerate(messages):
        tag = pack_mark(first_tag + index, redelivered is not None and index in redelivered)
        if len(message) != whole_size or not message.startswith(front):
            if len(message) < HEAD_SIZE:
                raise ValueError(f"{len(message)} bytes are no message")
            route_size = message[1] << 8 | message[2]
            front_size = HEAD_SIZE + route_size + int.from_bytes(message[3:7], "big")
            if len(message) < front_size:
                raise ValueError("a message is shorter than its route and properties")
            front, whole_size = message[:front_size], len(message)
            head = prefix.head(route_size)
            between = _between(channel, message, route_size, front_size, chunk)
            end = END if whole_size > front_size else b""
        if whole_size - front_size > chunk:
            add((head, tag, between))
            pieces += body_frames(channel, message[front_size:], frame_bytes_max)
        else:
            add((head, tag, between, message[front_size:], end))
    if pieces:
        parts.append(b"".join(pieces))


def _between(channel: int, message: bytes, route_size: int, body_at: int, chunk: int) -> bytes:
    """What lies between tag and body: route, header frame and, for one body frame, its head."""
    properties_at = HEAD_SIZE + route_size
    properties = message[properties_at:body_at]
    size = len(message) - body_at
    return b"".join((
        message[HEAD_SIZE:properties_at],
        END,
        _HEADER_HEAD.pack(
            FRAME_HEADER, channel, HEADER_PAYLOAD + len(properties), HEADER_IDS, size
        ),
        properties,
        END + _BODY_HEAD.pack(FRAME_BODY, channel, size) if 0 < size <= chunk else END,
    ))  # fmt: skip


def ack_frame(channel: int, delivery_tag: int, multiple: bool) -> bytes:
    """The frame basic.ack, which to a publisher is a confirm."""
    return _settled_frame(channel, ACK_IDS, delivery_tag, multiple)


def nack_frame(channel: int, delivery_tag: int, multiple: bool) -> bytes:
    """The frame basic.nack, which to a publisher says that its message may be lost."""
    return _settled_frame(channel, NACK_IDS, delivery_tag, multiple)


def _settled_frame(channel: int, ids: int, delivery_tag: int, multiple: bool) -> bytes:
    return _SETTLED.pack(
        FRAME_METHOD, channel, SETTLING_PAYLOAD, ids, delivery_tag, multiple, FRAME_END
    )
