"""Runs of publishes: from frames to encoded messages, sorted into runs of one route.

Input: bytes of a client. Output: runs (`PublishRun`) in order, and where they end. Neighbours of
one route and the same bits are one run, so that whoever takes it routes once.

Taken is only what is wholly there and wholly regular, with one body frame at most; everything else
goes frame by frame through the connection, where errors are told. So a run never has to explain a
fault, and both ways must give the same result.

The compiled twin is `publishes.pyx`.
"""

import struct
from typing import Final

from fedq.amqp.content import checked_flags
from fedq.amqp.named_publishes import KnownBy
from fedq.amqp.spec import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_METHOD,
    HEADER_IDS,
    PUBLISH_IDS,
)
from fedq.core.errors import ConnectionViolation
from fedq.core.message import FLAGS_OF_NOTE, encode

#: A publish: the message, its route, and bits: 0 = mandatory, 1 = immediate, and above them those
#: of the message's FLAGS_OF_NOTE, so that whoever takes runs of equal bits meets them alone.
Publish = tuple[bytes, bytes, int]
#: Messages of one route and the same bits, in order: the route, the bits, and the messages.
PublishRun = tuple[bytes, int, list[bytes]]

_FRAME_HEAD: Final = struct.Struct(">BHI")
_PUBLISH_HEAD: Final = struct.Struct(">BHIIHB")
_HEADER_HEAD: Final = struct.Struct(">BHIIQ")

#: The smallest publish: a method frame of 17 bytes and a header frame of 22.
_PUBLISH_BYTES_MIN: Final = 39


def add_publish(batch: list[PublishRun], publish: Publish) -> None:
    """Appends one publish: to the last run, or as the first of a new one."""
    message, route, bits = publish
    _run_of(batch, route, bits).append(message)


def _run_of(batch: list[PublishRun], route: bytes, bits: int) -> list[bytes]:
    """The messages of the run that a publish continues or begins."""
    if batch:
        last_route, last_bits, messages = batch[-1]
        if last_bits == bits and last_route == route:
            return messages
    messages = []
    batch.append((route, bits, messages))
    return messages


def take_publishes(
    data: bytes, at: int, frame_bytes_max: int, checked: dict[KnownBy, int], batch: list[PublishRun]
) -> int:
    """Takes publishes of at most one body frame each, from `at` on, all of one channel.

    Adds them to `batch` and returns where it stopped: in front of the first frame that is not the
    regular, complete beginning of such a publish. `checked`: see `checked_flags`.
    """
    size = len(data)
    starts_with, flags_of = data.startswith, checked.get
    channel = -1
    # A publisher repeats itself: when all bytes up to the body are those of the publish before,
    # they need not be understood again, and its message differs only in the body, which is last.
    front = lead = b""
    messages: list[bytes] = []
    body_size = 0
    while True:
        if front and starts_with(front, at):
            body_at = at + len(front)
            stop = body_at + body_size
            if stop >= size or data[stop] != FRAME_END:
                break
            messages.append(lead + data[body_at:stop])
            at = stop + 1
            continue
        found = _publish_at(data, at, frame_bytes_max)
        if found is None or (channel >= 0 and found[0] != channel):
            break
        channel, end, properties_end, body_at, body_size = found
        properties = data[end + 20 : properties_end]
        flags = flags_of(properties)
        if flags is None:
            try:
                flags = checked_flags(properties, checked)
            except ConnectionViolation:
                break  # Found and told again, with its frames, on the way frame by frame.
        route = data[at + 13 : end - 1]
        messages = _run_of(batch, route, data[end - 1] & 3 | flags & FLAGS_OF_NOTE)
        front, lead = data[at:body_at], encode(flags, route, properties, b"")
        stop = body_at + body_size
        messages.append(lead + data[body_at:stop])
        at = stop + 1
    return at


def _publish_at(data: bytes, at: int, payload_max: int) -> tuple[int, int, int, int, int] | None:
    """(channel, end of the method, end of the properties, start of the body, its size), or `None`.

    Ends are where the 0xCE of a frame is. Without a body its start is the end of the properties.
    """
    size = len(data)
    if size - at < _PUBLISH_BYTES_MIN:
        return None
    kind, channel, length, ids, _, exchange_size = _PUBLISH_HEAD.unpack_from(data, at)
    end = at + 7 + length
    key_at = at + 14 + exchange_size
    if (
        ids != PUBLISH_IDS or kind != FRAME_METHOD
        or end + 23 > size or key_at >= end or key_at + data[key_at] + 2 != end
        or data[end] != FRAME_END
    ):  # fmt: skip
        return None
    kind, number, length, ids, body_size = _HEADER_HEAD.unpack_from(data, end + 1)
    properties_end = end + 8 + length
    if (
        kind != FRAME_HEADER or number != channel or ids != HEADER_IDS
        or not 14 <= length <= payload_max
        or properties_end >= size or data[properties_end] != FRAME_END
    ):  # fmt: skip
        return None
    if not body_size:
        return channel, end, properties_end, properties_end, 0
    if properties_end + 8 > size:
        return None
    kind, number, length = _FRAME_HEAD.unpack_from(data, properties_end + 1)
    stop = properties_end + 8 + length
    if (
        kind != FRAME_BODY or number != channel or length != body_size
        or length > payload_max or stop >= size or data[stop] != FRAME_END
    ):  # fmt: skip
        return None
    return channel, end, properties_end, properties_end + 8, body_size
