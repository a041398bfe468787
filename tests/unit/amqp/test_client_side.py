"""The client's side of a connection: what arrives, in whatever pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp import method_types as m
from fedq.amqp.client_side import CHANNEL, Arrived, ClientSide
from fedq.amqp.content import content_frames, encode_properties
from fedq.amqp.methods import encode_method
from fedq.amqp.spec import FRAME_BODY
from fedq.core.errors import ConnectionViolation

HEARTBEAT = b"\x08\0\0\0\0\0\0\xce"


def a_message(body: bytes) -> bytes:
    """What a broker sends for a `basic.get`, in frames of 20 bytes."""
    method = encode_method(CHANNEL, m.BasicGetOk(1, False, "x", "key", 3))
    properties = encode_properties({"headers": {"a": 1}, "priority": 4})
    return method + content_frames(CHANNEL, properties, body, 28)


def heard(side: ClientSide, data: bytes, piece: int) -> list[Arrived]:
    """All that arrives of some bytes, so many at a time."""
    found = []
    for at in range(0, len(data), piece):
        side.receive(data[at : at + piece])
        while (arrived := side.next()) is not None:
            found.append(arrived)
    return found


@given(st.binary(max_size=90), st.integers(1, 200), st.none() | st.integers(0, 100))
def test_messages_are_whole_however_they_come(body: bytes, piece: int, most: int | None) -> None:
    side = ClientSide("test", "1")
    side.body_bytes_max = most
    ack = encode_method(CHANNEL, m.BasicAck(7))
    found = heard(side, a_message(body) + HEARTBEAT + ack + a_message(b""), piece)
    assert [type(each.method) for each in found] == [m.BasicGetOk, m.BasicAck, m.BasicGetOk]
    assert found[0].body == (body if most is None else body[:most])
    assert found[0].size == len(body)
    assert found[0].properties == {"headers": {"a": 1}, "priority": 4}
    assert found[2].body == b""


def frame(kind: int, payload: bytes) -> bytes:
    """A frame on the channel."""
    return bytes([kind, 0, CHANNEL]) + len(payload).to_bytes(4) + payload + b"\xce"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "bytes"), (b"\1\0\0\0\0\0\0\0", "out of step"),
        (encode_method(CHANNEL, m.BasicGetOk()) + frame(FRAME_BODY, b"x"), "without a header"),
        (a_message(b"ab")[: -len(frame(FRAME_BODY, b"ab"))] + frame(FRAME_BODY, b"abc"), "longer"),
    ],
)  # fmt: skip
def test_what_is_no_amqp_is_refused(said: bytes, text: str) -> None:
    with pytest.raises(ConnectionViolation) as refused:
        heard(ClientSide("test", "1"), said, 1_000)
    assert text in refused.value.text


def test_a_broker_that_wants_longer_frames_gets_those_that_fit() -> None:
    side = ClientSide("test", "1")
    side.opening(m.ConnectionTune(7, 1 << 30, 0), "/")
    assert side.frame_bytes_max == 131_072
    side.opening(m.ConnectionTune(7, 4_096, 0), "/")
    published = side.publish("", "key", {"priority": 1}, b"x" * 10_000)
    assert published.count(b"\xce") >= 5
