"""Contents that have not come to their ends: counted, bounded, and told of."""

import random
import tracemalloc

import pytest

from fedq.amqp.commands import Begun, Closed, Publishes
from fedq.amqp.connection import Connection
from fedq.amqp.content import NO_PROPERTIES
from fedq.amqp.methods import ChannelClose, ConnectionClose
from fedq.core.errors import NOT_FOUND, ChannelViolation
from fedq.core.message import split
from tests.unit.amqp.wire import methods, opened, publish

KIB = 1024
MIB = 1024 * KIB
ROUTE = b"\x01e\x01k"


def bounded(channels: int = 3) -> Connection:
    """A connection that may have 10 KiB of unfinished bodies."""
    return opened(channels=channels, body_bytes_max=10 * KIB)


def endless(channel: int, size: int) -> bytes:
    """So many bytes, in whole frames, of a body of which one byte more is promised."""
    whole = publish(channel, "e", "k", bytes(size), NO_PROPERTIES, frame_bytes_max=KIB)
    return whole.replace(size.to_bytes(8), (size + 1).to_bytes(8), 1)


def cut(channel: int, size: int, left: int) -> tuple[bytes, bytes]:
    """A publish of so many bytes, without the last ones, and these."""
    whole = publish(channel, "e", "k", bytes(size), NO_PROPERTIES, frame_bytes_max=KIB)
    return whole[:-left], whole[-left:]


def test_what_has_come_of_bodies_and_frames_is_counted_until_they_are_whole() -> None:
    server = bounded()
    assert server.bytes_unfinished() == 0
    begin, end = cut(1, 3 * KIB, 700)
    server.receive(begin, 0)
    assert 3 * KIB - 700 < server.bytes_unfinished() < 3 * KIB
    assert server.contents_unfinished() == 1
    commands = server.receive(end, 0)
    assert isinstance(commands[0], Publishes)
    assert (server.bytes_unfinished(), server.contents_unfinished()) == (0, 0)


def test_what_a_read_leaves_unfinished_is_told_once() -> None:
    server = bounded()
    begin, end = cut(2, 3 * KIB, 1_500)
    assert server.receive(publish(1, "e", "k", b"whole") + begin, 0)[1:] == [Begun(2, ROUTE)]
    assert server.receive(end[:500], 0) == []
    (publishes,) = server.receive(end[500:], 0)
    assert isinstance(publishes, Publishes)
    whole = b"".join(cut(3, 3 * KIB, 1))
    assert [type(command) for command in server.receive(whole, 0)] == [Publishes]


def test_a_body_beyond_the_bound_closes_its_channel() -> None:
    server = bounded()
    server.receive(cut(1, 10 * KIB + 1, 1)[0], 0)
    ((channel, close),) = methods(server)
    assert isinstance(close, ChannelClose)
    assert (channel, close.reply_code) == (1, 311)
    assert server.bytes_unfinished() < KIB


def test_bodies_that_are_too_much_together_end_the_connection() -> None:
    server = bounded()
    commands = []
    for channel in (1, 2, 3):
        commands += server.receive(endless(channel, 5 * KIB), 0)
    assert isinstance(commands[-1], Closed)
    ((_, close),) = methods(server)
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 506
    assert "not complete" in close.reply_text
    assert server.bytes_unfinished() == 0


@pytest.mark.parametrize("left", [1, 2_000])
def test_a_content_that_is_given_up_is_not_counted_any_more(left: int) -> None:
    server = bounded()
    begin, end = cut(1, 5 * KIB, left)
    server.receive(begin, 0)
    server.close_channel(1, ChannelViolation(NOT_FOUND, "no exchange", 60, 40))
    assert server.contents_unfinished() == 0
    assert server.receive(end, 0) == [], "the rest of it is thrown away"
    assert server.bytes_unfinished() == 0


def framed(body: bytes, sizes: list[int]) -> bytes:
    """A publish on channel 1 whose body comes in frames of these sizes, and of the rest."""
    whole = publish(1, "e", "k", b"x", NO_PROPERTIES)[:-9]
    whole, at = whole.replace((1).to_bytes(8), len(body).to_bytes(8)), 0
    for size in [*sizes, len(body) - sum(sizes)]:
        whole += b"\3\0\1" + size.to_bytes(4) + body[at : at + size] + b"\xce"
        at += size
    return whole


@pytest.mark.parametrize("seed", range(5))
def test_a_body_is_whole_in_whatever_frames_it_comes(seed: int) -> None:
    dice = random.Random(seed)
    body = dice.randbytes(300 * KIB)
    sizes: list[int] = []
    while sum(sizes) < len(body) - 60_000:
        sizes.append(dice.choice((0, 1, 7, 900, 4 * KIB, 60_000)))
    server = opened(channels=1)
    data = framed(body, sizes)
    commands = []
    for at in range(0, len(data), 50_000):
        commands += server.receive(data[at : at + 50_000], 0)
    (run,) = [command for command in commands if isinstance(command, Publishes)]
    ((_, _, (message,)),) = run.batch
    assert split(message)[2] == body


@pytest.mark.parametrize(("frame", "most"), [(64 * KIB, 1.03), (5 * KIB, 1.03), (100, 1.2)])
def test_a_body_takes_little_more_than_its_bytes(frame: int, most: float) -> None:
    """Whatever its frames: the memory of a node is reckoned by them."""
    server = opened(channels=1)
    data = framed(bytes(MIB), [frame] * (MIB // frame - 1))[:-3]
    tracemalloc.start()
    try:
        for at in range(0, len(data), 300_000):
            server.receive(data[at : at + 300_000], 0)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held + 10 * KIB + frame > MIB
    assert held < most * server.bytes_unfinished()
