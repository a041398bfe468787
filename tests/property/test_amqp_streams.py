"""A connection gives the same commands however its bytes arrive, and survives any bytes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.commands import Closed, Command
from fedq.amqp.connection import CLOSE_MS, Connection
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import ChannelOpen, ConnectionClose, encode_method
from fedq.core import limits
from tests.examples import examples
from tests.property import amqp_strategies as random
from tests.unit.amqp import wire
from tests.unit.amqp.wire import frames_of, handshake, merged, opened, written

OPENING = handshake(frame_max=random.FRAME_MAX) + b"".join(
    encode_method(channel, ChannelOpen()) for channel in (1, 2, 3)
)


def connection() -> Connection:
    return Connection(wire.settings(), now_ms=0, is_loopback=True)


def outcome(chunks: list[bytes]) -> tuple[list[Command], bytes, bool]:
    """All that a connection makes of its input."""
    server = connection()
    commands = [command for chunk in chunks for command in server.receive(chunk, 0)]
    return merged(commands), written(server), server.closed


@given(random.client_streams, st.data())
@settings(max_examples=examples(60))
def test_any_chunking_gives_the_same(stream: bytes, drawn: st.DataObject) -> None:
    data = OPENING + stream
    whole = outcome([data])
    assert not any(isinstance(command, Closed) for command in whole[0])
    assert outcome(drawn.draw(random.chunkings(data))) == whole


@given(random.client_streams)
@settings(max_examples=examples(15))
def test_byte_by_byte_gives_the_same(stream: bytes) -> None:
    data = OPENING + stream
    assert outcome([data[at : at + 1] for at in range(len(data))]) == outcome([data])


@given(random.client_streams, st.data())
@settings(max_examples=examples(100))
def test_damaged_streams_give_the_same_in_any_chunking(stream: bytes, drawn: st.DataObject) -> None:
    damaged = bytearray(stream or b"\x00")
    for at, octet in drawn.draw(
        st.lists(st.tuples(st.integers(0, len(damaged) - 1), st.integers(0, 255)), max_size=3)
    ):
        damaged[at] = octet
    data = OPENING + bytes(damaged)
    # As text: damage makes a number of a table that is not even equal to itself (IEEE 754, NaN).
    assert repr(outcome(drawn.draw(random.chunkings(data)))) == repr(outcome([data]))


@given(
    st.sampled_from([b"", PROTOCOL_HEADER, OPENING]), st.lists(st.binary(max_size=300), max_size=8)
)
@settings(max_examples=examples(150))
def test_garbage_closes_with_a_code_at_the_latest_in_time(
    opening: bytes, garbage: list[bytes]
) -> None:
    server = connection()
    server.receive(opening, 0)
    already = len(written(server))
    assert already or not opening
    commands = [command for chunk in garbage for command in server.receive(chunk, 0)]
    output = written(server)
    closed = [command for command in commands if isinstance(command, Closed)]
    assert len(closed) <= 1
    if closed:
        assert commands[-1] is closed[0]
        if output not in (b"", PROTOCOL_HEADER):
            last = frames_of(output)[-1].method
            assert isinstance(last, ConnectionClose)
            assert last.reply_code in (501, 502, 503, 504, 505, 530, 540)
        server.tick(CLOSE_MS)
        assert server.closed
    elif opening != OPENING:
        assert any(isinstance(each, Closed) for each in server.tick(limits.HANDSHAKE_MS))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 255), st.binary(max_size=40))))
@settings(max_examples=examples(150))
def test_well_framed_garbage_never_raises(frames: list[tuple[int, int, bytes]]) -> None:
    server = opened(channels=3, frame_max=random.FRAME_MAX)
    for channel, kind, payload in frames:
        head = bytes((kind % 5, 0, channel % 5)) + len(payload).to_bytes(4, "big")
        server.receive(head + payload + b"\xce", 0)
    frames_of(written(server))
