"""Publishes on the wire, taken apart frame by frame."""

from fedq.amqp.frames import scan_frame
from fedq.amqp.methods import BasicPublish, decode_method
from fedq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, HEADER_PAYLOAD

#: Route, whether it is mandatory, property list, body.
Parsed = tuple[tuple[str, str], bool, bytes, bytes]


def parsed(data: bytes, frame_bytes_max: int) -> list[Parsed]:
    """All publishes in the data, which has nothing else."""
    found: list[Parsed] = []
    at, left = 0, 0
    route, is_mandatory, properties, body = ("", ""), False, b"", b""
    while at < len(data):
        each = scan_frame(data, at, frame_bytes_max)
        assert each is not None, "whole frames"
        kind, channel, start, end = each
        assert channel == 1
        assert end - start + 8 <= frame_bytes_max
        payload, at = data[start:end], end + 1
        if kind == FRAME_METHOD:
            method = decode_method(payload)
            assert isinstance(method, BasicPublish)
            assert not left
            route = (method.exchange, method.routing_key)
            is_mandatory = method.mandatory
            continue
        if kind == FRAME_HEADER:
            left, body = int.from_bytes(payload[4:12], "big"), b""
            properties = payload[HEADER_PAYLOAD:]
        else:
            assert kind == FRAME_BODY
            body += payload
            left -= len(payload)
        if not left:
            found.append((route, is_mandatory, properties, body))
    return found
