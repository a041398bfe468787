"""Content headers and property lists."""

import pytest

from fedq.amqp.content import (
    NO_PROPERTIES,
    content_frames,
    decode_header,
    decode_properties,
    encode_properties,
    expiration_of,
    headers_of,
    message_flags,
    priority_of,
)
from fedq.amqp.values import TableValue
from fedq.core.errors import FRAME_ERROR, SYNTAX_ERROR, UNEXPECTED_FRAME, ConnectionViolation
from fedq.core.message import (
    FLAG_BAD_EXPIRATION,
    FLAG_COPIES,
    FLAG_DIRECT_REPLY,
    FLAG_EXPIRES,
    FLAG_PERSISTENT,
    FLAG_PRIORITY,
    FLAG_USER,
    encode,
    make_route,
)

ALL: dict[str, TableValue] = {
    "content_type": "text/plain", "content_encoding": "utf-8",
    "headers": {"n": 1, "deep": {"a": []}},
    "delivery_mode": 2, "priority": 9, "correlation_id": "c", "reply_to": "r", "expiration": "100",
    "message_id": "m", "timestamp": 1_700_000_000, "type": "t", "user_id": "guest", "app_id": "a",
    "cluster_id": "old",
}  # fmt: skip


def test_all_properties_go_out_and_come_back() -> None:
    data = encode_properties(ALL)
    assert data[:2] == b"\xff\xfc"
    assert decode_properties(data) == ALL
    assert headers_of(data) == ALL["headers"]
    assert message_flags(data) == FLAG_PERSISTENT | FLAG_PRIORITY | FLAG_EXPIRES | FLAG_USER
    message = encode(message_flags(data), make_route("", "q"), data, b"body")
    assert (expiration_of(message), priority_of(message)) == (100, 9)


def test_a_property_list_byte_by_byte() -> None:
    data = encode_properties({"delivery_mode": 2, "content_type": "a/b"})
    assert data == b"\x90\x00\x03a/b\x02"


@pytest.mark.parametrize("mode", [0, 1, 3, 255])
def test_only_delivery_mode_2_is_persistent(mode: int) -> None:
    assert message_flags(encode_properties({**ALL, "delivery_mode": mode})) & FLAG_PERSISTENT == 0


@pytest.mark.parametrize(
    ("properties", "flags"),
    [
        ({"headers": {"CC": ["a"]}}, FLAG_COPIES),
        ({"headers": {"BCC": ["a"], "x": 1}}, FLAG_COPIES),
        ({"headers": {"cc": ["a"]}}, 0),
        ({"reply_to": "amq.rabbitmq.reply-to"}, FLAG_DIRECT_REPLY),
        ({"reply_to": "amq.rabbitmq.reply-to.x"}, 0),
        ({"correlation_id": "amq.rabbitmq.reply-to"}, 0),
        ({"expiration": "0"}, FLAG_EXPIRES),
        ({"expiration": "4294967296"}, FLAG_EXPIRES),
        ({"expiration": "315360000000"}, FLAG_EXPIRES),
        ({"expiration": "1" + "0" * 15}, FLAG_BAD_EXPIRATION),
        ({"expiration": "-1"}, FLAG_BAD_EXPIRATION),
        ({"expiration": ""}, FLAG_BAD_EXPIRATION),
        ({"expiration": "1.5"}, FLAG_BAD_EXPIRATION),
        ({"user_id": "x"}, FLAG_USER),
    ],
)
def test_what_needs_a_look_is_flagged(properties: dict[str, TableValue], flags: int) -> None:
    assert message_flags(encode_properties(properties)) == flags


def test_no_properties_are_two_zero_octets() -> None:
    assert encode_properties({}) == NO_PROPERTIES
    assert decode_properties(NO_PROPERTIES) == {}
    assert headers_of(NO_PROPERTIES) == {}
    assert message_flags(NO_PROPERTIES) == 0


def test_odd_bytes_in_texts_are_kept() -> None:
    data = b"\x00\x80\x02\xff\xfe"
    assert message_flags(data) == 0
    assert encode_properties(decode_properties(data)) == data


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x80", b"\x80\x00", b"\x80\x00\x05abc", b"\x00\x01", b"\x00\x02", b"\x00\x00\x00",
        b"\x10\x00", b"\x00\x40\x00\x00", b"\x20\x00\x00\x00\x00\x09",
        b"\x20\x00\x00\x00\x00\x02\x01k",
        encode_properties(ALL)[:-1], encode_properties(ALL) + b"\x00",
    ],
)  # fmt: skip
def test_malformed_lists_are_a_syntax_error_of_the_publish(data: bytes) -> None:
    with pytest.raises(ConnectionViolation) as caught:
        message_flags(data)
    assert caught.value.reply_code == SYNTAX_ERROR


@pytest.mark.parametrize(
    "properties",
    [
        {"prio": 1},
        {"priority": 256},
        {"priority": "9"},
        {"timestamp": -1},
        {"type": "x" * 256},
        {"headers": 1},
    ],
)
def test_what_is_not_a_property_is_not_written(properties: dict[str, TableValue]) -> None:
    with pytest.raises(ValueError, match=r"property|must be|short string"):
        encode_properties(properties)


def test_a_header_tells_size_and_properties() -> None:
    payload = b"\x00\x3c\x00\x00" + (5).to_bytes(8, "big") + b"\x10\x00\x02"
    assert decode_header(payload) == (5, b"\x10\x00\x02")


@pytest.mark.parametrize(
    ("payload", "reply_code"),
    [
        (b"", FRAME_ERROR),
        (b"\x00\x3c\x00\x00" + bytes(9), FRAME_ERROR),
        (bytes(14), UNEXPECTED_FRAME),
        (b"\x00\x3c\x00\x01" + bytes(10), UNEXPECTED_FRAME),
    ],
)
def test_headers_of_other_classes_are_refused(payload: bytes, reply_code: int) -> None:
    with pytest.raises(ConnectionViolation) as caught:
        decode_header(payload)
    assert caught.value.reply_code == reply_code


def test_bodies_are_split_at_the_frame_size() -> None:
    data = content_frames(3, NO_PROPERTIES, b"0123456789", 12)
    body = b"".join(
        b"\x03\x00\x03\x00\x00\x00" + bytes((len(part),)) + part + b"\xce"
        for part in (b"0123", b"4567", b"89")
    )
    assert data.endswith(NO_PROPERTIES + b"\xce" + body)
    assert content_frames(3, NO_PROPERTIES, b"", 12).count(b"\xce") == 1
