"""Methods on the wire, compared with bytes written by hand."""

import pytest

from fedq.amqp.methods import (
    BasicNack,
    ConnectionOpen,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    decode_method,
    encode_method,
    ids_of,
    name_of,
)
from fedq.core.errors import NOT_IMPLEMENTED, SYNTAX_ERROR, ConnectionViolation

DECLARE = QueueDeclare("q", False, True, False, True, False, {"x": True})
DECLARE_PAYLOAD = b"\x00\x32\x00\x0a\x00\x00\x01q\x0a\x00\x00\x00\x04\x01xt\x01"


def test_a_method_frame_byte_by_byte() -> None:
    frame = b"\x01\x00\x07\x00\x00\x00\x11" + DECLARE_PAYLOAD + b"\xce"
    assert encode_method(7, DECLARE) == frame
    assert decode_method(DECLARE_PAYLOAD) == DECLARE


def test_neighbouring_bits_share_an_octet() -> None:
    declare = ExchangeDeclare("e", "topic", True, False, True, False, True)
    payload = encode_method(1, declare)[7:-1]
    assert payload == b"\x00\x28\x00\x0a\x00\x00\x01e\x05topic\x15\x00\x00\x00\x00"
    assert decode_method(payload) == declare
    assert encode_method(1, BasicNack(258, False, True))[11:] == b"\0\0\0\0\0\0\x01\x02\x02\xce"


def test_what_reserved_fields_hold_is_ignored() -> None:
    payload = b"\x00\x0a\x00\x28\x01/\x03abc\x01"
    assert decode_method(payload) == ConnectionOpen("/")


def test_names_and_ids_are_those_of_the_specification() -> None:
    assert name_of(QueueDeclareOk("q", 1, 2)) == "queue.declare-ok"
    assert ids_of(QueueDeclareOk("q", 1, 2)) == (50, 11)


@pytest.mark.parametrize(
    ("payload", "code", "text"),
    [
        (b"", SYNTAX_ERROR, "too short"),
        (b"\x00\x32\x00", SYNTAX_ERROR, "too short"),
        (b"\x00\x32\x00\x63", NOT_IMPLEMENTED, "method 50.99"),
        (b"\x01\x00\x00\x0a", NOT_IMPLEMENTED, "method 256.10"),
        (DECLARE_PAYLOAD + b"\x00", SYNTAX_ERROR, "queue.declare: bytes follow"),
        (DECLARE_PAYLOAD[:-1], SYNTAX_ERROR, "queue.declare: "),
        (DECLARE_PAYLOAD[:8], SYNTAX_ERROR, "queue.declare: arguments are missing"),
        (DECLARE_PAYLOAD[:5], SYNTAX_ERROR, "queue.declare: arguments are missing"),
        (DECLARE_PAYLOAD[:6], SYNTAX_ERROR, "queue.declare: a short string is missing"),
        (b"\x00\x32\x00\x0a\x00\x00\x01\xff\x0a\x00\x00\x00\x00", SYNTAX_ERROR, "not UTF-8"),
    ],
)
def test_faults_get_their_reply_code(payload: bytes, code: int, text: str) -> None:
    with pytest.raises(ConnectionViolation, match=text) as caught:
        decode_method(payload)
    assert caught.value.reply_code == code


def test_a_fault_names_the_method() -> None:
    with pytest.raises(ConnectionViolation) as caught:
        decode_method(DECLARE_PAYLOAD[:-1])
    assert (caught.value.class_id, caught.value.method_id) == (50, 10)


def test_names_beyond_255_bytes_are_not_written() -> None:
    with pytest.raises(ValueError, match="256 bytes"):
        encode_method(1, QueueBind("q" * 256, "e", "k"))
