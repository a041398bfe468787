"""Blocks of publishes and runs of acknowledgements are what the plain encoders make."""

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.content import decode_header, decode_properties
from fedq.amqp.deliveries import ack_frame
from fedq.amqp.frames import scan_frame
from fedq.amqp.methods import BasicPublish, decode_method
from fedq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from fedq.bench.blocks import AckRun, Block, Shape
from tests.unit.bench.streams import number_of


def shapes(count: int = 256) -> list[Shape]:
    """Messages of many sizes to many keys."""
    chance = random.Random(1)
    return [
        Shape("ex", "k" * chance.randrange(1, 9), chance.randrange(16, 80)) for _ in range(count)
    ]


def read(data: bytes) -> list[tuple[str, str, int, int, int, bytes]]:
    """(exchange, key, number, time, size, padding) of each publish in the data."""
    found = []
    at = 0
    while at < len(data):
        cut = [scan_frame(data, at, 131_072)]
        for _ in range(2):
            assert cut[-1] is not None
            cut.append(scan_frame(data, cut[-1][3] + 1, 131_072))
        frames = [each for each in cut if each is not None]
        assert [kind for kind, *_ in frames] == [FRAME_METHOD, FRAME_HEADER, FRAME_BODY]
        method, header, body = (data[start:end] for _, _, start, end in frames)
        publish = decode_method(method)
        assert isinstance(publish, BasicPublish)
        size, _ = decode_header(header)
        assert size == len(body)
        number, time_ns = struct.unpack_from("<QQ", body)
        found.append((publish.exchange, publish.routing_key, number, time_ns, size, body[16:]))
        at = frames[-1][3] + 1
    return found


@given(st.integers(0, 2**40), st.integers(1, 600), st.integers(0, 2**63))
def test_a_block_gives_the_messages_asked_for(sequence: int, count: int, time_ns: int) -> None:
    given_shapes = shapes()
    block = Block(3, given_shapes, is_persistent=False)
    room = block.room(sequence, count)
    assert 1 <= room <= count
    found = read(block.take(sequence, count, time_ns))
    assert len(found) == room
    for offset, (exchange, key, number, stamped_ns, size, _) in enumerate(found):
        shape = given_shapes[(sequence + offset) % 256]
        assert (exchange, key, size) == shape
        assert number == number_of(sequence + offset, producer=3)
        assert stamped_ns == time_ns


def test_consecutive_takes_cover_everything() -> None:
    block = Block(0, shapes(), is_persistent=False)
    numbers: list[int] = []
    while len(numbers) < 1_000:
        numbers += [found[2] for found in read(block.take(len(numbers), 37, 5))]
    assert numbers == list(range(len(numbers)))


def test_a_round_may_have_65536_messages() -> None:
    block = Block(1, shapes(65_536), is_persistent=False)
    assert block.room(65_530, 100) == 6
    assert [found[2] for found in read(block.take(65_530, 100, 1))] == [
        number_of(65_530 + offset, 1) for offset in range(6)
    ]


def test_bodies_differ() -> None:
    block = Block(0, [Shape("", "q", 64)] * 256, is_persistent=False)
    paddings = {found[5] for found in read(block.take(0, 256, 0))}
    assert len(paddings) > 200


@pytest.mark.parametrize("is_persistent", [True, False])
def test_persistence_is_in_the_properties(is_persistent: bool) -> None:
    data = Block(0, shapes(), is_persistent).take(0, 1, 0)
    method = scan_frame(data, 0, 131_072)
    assert method is not None
    header = scan_frame(data, method[3] + 1, 131_072)
    assert header is not None
    _, properties = decode_header(data[header[2] : header[3]])
    assert decode_properties(properties) == ({"delivery_mode": 2} if is_persistent else {})


@given(st.integers(1, 2**33), st.integers(0, 700))
def test_acknowledgements_are_single_ones(first: int, count: int) -> None:
    wanted = b"".join(ack_frame(5, first + at, multiple=False) for at in range(count))
    assert AckRun(5).take(first, count) == wanted
