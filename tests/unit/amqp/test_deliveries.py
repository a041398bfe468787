"""What a broker sends once for each message, decoded as a client would."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from fedq.amqp.content import NO_PROPERTIES, Body, encode_properties
from fedq.amqp.deliveries import (
    ack_frame,
    append_deliveries,
    deliver_prefix,
    deliver_suffix,
    nack_frame,
    pack_tag,
)
from fedq.amqp.methods import BasicAck, BasicDeliver, BasicGetOk, BasicNack, BasicReturn
from fedq.amqp.rare_contents import append_delivery, append_get_ok, return_frames
from fedq.amqp.strings import encode_short_string
from fedq.core.message import encode, make_route
from tests.unit.amqp.wire import Content, contents_of, frames_of
from tests.unit.node.injection import Injected, Injector, calls_of

PROPERTIES = encode_properties({"content_type": "text/plain", "delivery_mode": 2})
SMALL = encode(1, make_route("orders", "new"), PROPERTIES, b"hello")
EMPTY = encode(0, make_route("", "q"), NO_PROPERTIES, b"")
LARGE = encode(0, make_route("e", "k" * 255), PROPERTIES, bytes(range(256)) * 40)


def test_a_delivery_byte_by_byte() -> None:
    parts: list[Body] = []
    append_deliveries(parts, 3, "c1", 258, [SMALL], None, 4_096)
    assert parts == [
        b"\x01\x00\x03\x00\x00\x00\x1b\x00\x3c\x00\x3c\x02c1\0\0\0\0\0\0\x01\x02\x00"
        b"\x06orders\x03new\xce"
        b"\x02\x00\x03\x00\x00\x00\x1a\x00\x3c\x00\x00\0\0\0\0\0\0\0\x05" + PROPERTIES + b"\xce"
        b"\x03\x00\x03\x00\x00\x00\x05hello\xce"
    ]


@pytest.mark.parametrize("tag", ["c1", encode_short_string("c1")])
def test_deliveries_of_all_shapes(tag: str | bytes) -> None:
    parts: list[Body] = []
    messages = [SMALL, SMALL, EMPTY, LARGE, LARGE, SMALL, EMPTY]
    append_deliveries(parts, 3, tag, 10, messages, {1, 3}, 4_096)
    contents = contents_of(b"".join(parts), 4_096)
    assert [each.method for each in contents] == [
        BasicDeliver("c1", 10, False, "orders", "new"),
        BasicDeliver("c1", 11, True, "orders", "new"),
        BasicDeliver("c1", 12, False, "", "q"),
        BasicDeliver("c1", 13, True, "e", "k" * 255),
        BasicDeliver("c1", 14, False, "e", "k" * 255),
        BasicDeliver("c1", 15, False, "orders", "new"),
        BasicDeliver("c1", 16, False, "", "q"),
    ]
    assert [len(each.body) for each in contents] == [5, 5, 0, 10_240, 10_240, 5, 0]
    assert contents[4].body == bytes(range(256)) * 40
    assert [each.properties for each in contents[1:4]] == [PROPERTIES, NO_PROPERTIES, PROPERTIES]


@pytest.mark.parametrize("size", [4_087, 4_088, 4_089, 8_176, 8_177])
def test_bodies_around_the_frame_size(size: int) -> None:
    parts: list[Body] = []
    message = encode(0, make_route("e", "k"), NO_PROPERTIES, bytes(size))
    append_deliveries(parts, 1, "t", 1, [message, message], None, 4_096)
    assert [len(each.body) for each in contents_of(b"".join(parts), 4_096)] == [size, size]


def test_no_messages_are_no_part() -> None:
    parts: list[Body] = []
    append_deliveries(parts, 1, "t", 1, [], None, 4_096)
    assert parts == []


@pytest.mark.parametrize("message", [SMALL, EMPTY, LARGE])
@pytest.mark.parametrize("redelivered", [False, True])
def test_one_message_for_many_consumers(message: bytes, redelivered: bool) -> None:
    suffix = deliver_suffix(2, message, redelivered, 4_096)
    for tag, number in (("a", 1), ("consumer-2", 77)):
        prefix = deliver_prefix(2, tag)
        shared = prefix.head((message[1] << 8) | message[2]) + pack_tag(number) + suffix
        parts: list[Body] = []
        append_deliveries(parts, 2, tag, number, [message], [0] if redelivered else None, 4_096)
        assert shared == b"".join(parts)


def test_get_ok() -> None:
    parts: list[Body] = [b""]
    append_get_ok(parts, 4, 9, True, LARGE, 3, 4_096)
    assert contents_of(b"".join(parts), 4_096) == [
        Content(4, BasicGetOk(9, True, "e", "k" * 255, 3), PROPERTIES, bytes(range(256)) * 40)
    ]


def test_returns() -> None:
    parts: list[Body] = []
    return_frames(parts, 4, 312, "NO_ROUTE", SMALL, 4_096)
    return_frames(parts, 4, 312, "x" * 300, EMPTY, 4_096)
    assert contents_of(b"".join(parts), 4_096) == [
        Content(4, BasicReturn(312, "NO_ROUTE", "orders", "new"), PROPERTIES, b"hello"),
        Content(4, BasicReturn(312, "x" * 255, "", "q"), NO_PROPERTIES, b""),
    ]


def test_confirms() -> None:
    frames = frames_of(ack_frame(1, 2, True) + ack_frame(1, 3, False) + nack_frame(2, 4, True))
    assert [(frame.channel, frame.method) for frame in frames] == [
        (1, BasicAck(2, True)), (1, BasicAck(3, False)), (2, BasicNack(4, True, False))
    ]  # fmt: skip


def test_properties_beyond_a_consumers_frame_size_stay_whole() -> None:
    """Only bodies can be cut; RabbitMQ sends such a header, too."""
    headers = encode_properties({"headers": {"long": "h" * 20_000}})
    parts: list[Body] = []
    append_deliveries(parts, 1, "c", 1, [encode(0, b"\0\0", headers, bytes(9_000))], None, 4_096)
    frames = frames_of(b"".join(parts), 1 << 17)
    assert [frame.kind for frame in frames] == [1, 2, 3, 3, 3]
    assert frames[1].payload[12:] == headers
    assert max(len(frame.payload) + 8 for frame in frames if frame.kind == 3) == 4_096


@pytest.mark.parametrize("size", [0, 64 * 1024, 64 * 1024 + 1, 1 << 20])
def test_what_goes_out_singly_is_the_same_and_a_long_body_is_not_copied(size: int) -> None:
    """So clients that do not read have nothing of their own of it, however many they are."""
    body = bytes(range(256)) * (size // 256) + bytes(size % 256)
    message = encode(0, b"\x01e\x01k", NO_PROPERTIES, body)
    run: list[Body] = []
    append_deliveries(run, 3, "c", 7, [message], {0: None}, 4_096)
    apart: list[Body] = []
    append_delivery(apart, 3, "c", 7, message, True, 4_096)
    assert b"".join(apart) == b"".join(run)
    got: list[Body] = []
    append_get_ok(got, 3, 7, False, message, 0, 4_096)
    for parts in (apart, got):
        own = sum(len(part) for part in parts if isinstance(part, bytes))
        assert own < 200 + size // 400 if size > 64 * 1024 else own > size


@pytest.mark.parametrize("size", [5, 100_000])
@pytest.mark.parametrize("what", [append_get_ok, append_delivery, return_frames])
def test_whatever_fails_no_part_of_a_content_goes_out(what: Callable[..., None], size: int) -> None:
    """What is said next, as that the connection ends, would stand in the middle of it."""
    message = encode(0, b"\x01e\x01k", NO_PROPERTIES, bytes(size))
    arguments: dict[Callable[..., None], tuple[object, ...]] = {
        append_get_ok: (4, 9, True, message, 3, 4_096),
        append_delivery: (3, "c", 7, message, True, 4_096),
        return_frames: (4, 312, "NO_ROUTE", message, 4_096),
    }

    def run(injector: Injector) -> list[Body]:
        parts: list[Body] = []
        with suppress(Injected), injector.watching():
            what(parts, *arguments[what])
        return parts

    whole = b"".join(run(Injector()))
    assert len(contents_of(whole, 4_096)) == 1
    calls = calls_of(run)
    assert calls > 1
    for at in range(1, calls + 1):
        assert run(Injector(at)) == [], at
