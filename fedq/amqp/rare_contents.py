"""Contents that go out one at a time: basic.get-ok, basic.return, and long deliveries.

Input are encoded messages (`fedq.core.message`); output are whole frames, appended to the parts of
a connection, long bodies where they are. What goes out in runs is in `fedq.amqp.deliveries`.

Invariant: all of a content is appended, or, if anything fails, nothing of it: what is said next
must not stand in the middle of one.
"""

import struct
from typing import Final

from fedq.amqp.content import Body, content_parts
from fedq.amqp.deliveries import deliver_prefix
from fedq.amqp.spec import END, FRAME_END, FRAME_METHOD, GET_OK_IDS, RETURN_IDS
from fedq.amqp.strings import cut_short_string, encode_short_string
from fedq.core.message import split_lean

_GET_OK_HEAD: Final = struct.Struct(">BHIIQB")
_DELIVER_TAIL: Final = struct.Struct(">QB")
_COUNT_END: Final = struct.Struct(">IB")
_RETURN_HEAD: Final = struct.Struct(">BHIIH")


def append_get_ok(
    parts: list[Body],
    channel: int,
    delivery_tag: int,
    redelivered: bool,
    message: bytes,
    message_count: int,
    frame_bytes_max: int,
) -> None:
    """Appends basic.get-ok with its content; `message_count` messages are left in the queue."""
    route, properties, body = split_lean(message)
    content = content_parts(channel, properties, body, frame_bytes_max)
    parts += (
        _GET_OK_HEAD.pack(
            FRAME_METHOD, channel, 17 + len(route), GET_OK_IDS, delivery_tag, redelivered
        ),
        route,
        _COUNT_END.pack(min(message_count, 0xFFFFFFFF), FRAME_END),
        *content,
    )


def append_delivery(
    parts: list[Body],
    channel: int,
    consumer_tag: str | bytes,
    delivery_tag: int,
    message: bytes,
    redelivered: bool,
    frame_bytes_max: int,
) -> None:
    """Appends basic.deliver with its content."""
    route, properties, body = split_lean(message)
    head = deliver_prefix(channel, consumer_tag).head(len(route))
    content = content_parts(channel, properties, body, frame_bytes_max)
    parts += (head, _DELIVER_TAIL.pack(delivery_tag, redelivered), route, END, *content)


def return_frames(
    parts: list[Body],
    channel: int,
    reply_code: int,
    reply_text: str,
    message: bytes,
    frame_bytes_max: int,
) -> None:
    """Appends basic.return with its content; the text is cut to what a short string holds."""
    route, properties, body = split_lean(message)
    text = encode_short_string(cut_short_string(reply_text))
    content = content_parts(channel, properties, body, frame_bytes_max)
    parts += (
        _RETURN_HEAD.pack(
            FRAME_METHOD, channel, 6 + len(text) + len(route), RETURN_IDS, reply_code
        ),
        text,
        route,
        END,
        *content,
    )
