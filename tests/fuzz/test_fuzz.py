"""Every decoder that faces the network: what was found stays fixed, and some is looked for anew.

Deterministic: kept inputs, and mutations from fixed seeds. `python -m tests.fuzz` looks for more.
"""

import sys
import tracemalloc
from collections.abc import Callable
from functools import partial
from random import Random
from types import FrameType

import pytest

from fedq.amqp.connection import Connection
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    BasicPublish,
    ConnectionClose,
    ConnectionStartOk,
    encode_method,
)
from fedq.amqp.values import FieldTable, encode_table
from fedq.core import limits
from fedq.core.errors import ConnectionViolation
from tests.fuzz import corpus, engine
from tests.fuzz.mutation import mutate
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS
from tests.unit.amqp import wire

#: Mutations of each target; a few seconds for all of them. Whole nodes take longer.
MUTATIONS = 400
MUTATIONS_OF_SLOW = 40
SEEDS = (1, 2)

each_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def stock_of(target: Target) -> list[bytes]:
    return [*target.seeds(), *corpus.kept(target.name)]


@each_target
def test_kept_inputs_keep_the_promises(target: Target) -> None:
    for data in stock_of(target):
        target.run(data)


@each_target
@pytest.mark.parametrize("seed", SEEDS)
def test_mutations_keep_the_promises(target: Target, seed: int) -> None:
    def fail(data: bytes, error: Exception) -> None:
        raise AssertionError(f"{target.name}: {data.hex()}") from error

    enough = MUTATIONS_OF_SLOW if target.is_slow else MUTATIONS
    engine.by_chance(target, stock_of(target), seed, lambda count: count >= enough, fail)


def calls_of(run: Callable[[bytes], None], data: bytes) -> int:
    """How many calls of Python functions the input costs: work that no clock disturbs."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run(data)
    finally:
        sys.setprofile(before)
    return count


@each_target
def test_work_is_bounded_by_the_length_of_the_input(target: Target) -> None:
    rng, stock = Random(7), stock_of(target)
    inputs = list(stock)
    for _ in range(0 if target.is_slow else 60):
        data = rng.choice(stock)
        # Many times over: what costs more than its length shows in long inputs.
        for _ in range(6):
            data = mutate(data, rng, target.shape, stock)
        inputs.append((data * 8)[: target.bytes_max])
    for data in inputs:
        calls = calls_of(target.run, data)
        assert calls <= target.calls + target.calls_per_byte * len(data), data.hex()


def memory_of(action: Callable[[], object]) -> int:
    """The most bytes that were held at any time during the action."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# --- what an announcement may cost ----------------------------------------------------------------


def nested(letter: bytes, depth: int) -> bytes:
    """Tables or arrays in each other, with lengths that fit."""
    data = b""
    for _ in range(depth):
        key = b"\x01k" if letter == b"F" else b""
        data = key + letter + len(data).to_bytes(4, "big") + data
    return len(data).to_bytes(4, "big") + data


@pytest.mark.parametrize("letter", [b"F", b"A"])
def test_deep_tables_are_refused_before_they_cost_anything(letter: bytes) -> None:
    bomb = nested(letter, 5_000)
    start_ok = encode_method(0, ConnectionStartOk({}, "PLAIN", b"", "en_US"))
    server = Connection(wire.settings(), now_ms=0, is_loopback=True)
    server.receive(PROTOCOL_HEADER, 0)
    wire.written(server)
    payload = start_ok[7:11] + bomb[: limits.HANDSHAKE_FRAME_BYTES_MAX - 100]
    frame = b"\x01\x00\x00" + len(payload).to_bytes(4, "big") + payload + b"\xce"
    assert memory_of(lambda: server.receive(frame, 0)) < 20 * limits.HANDSHAKE_FRAME_BYTES_MAX
    ((_, close),) = wire.methods(server)
    assert isinstance(close, ConnectionClose)
    assert close.reply_code == 502


def test_announced_sizes_cost_nothing() -> None:
    for head in (
        b"\x01\x00\x00\x00\x00\x3f\xf0",
        b"\x01\x00\x00\x7f\xff\xff\xff",
        b"\x08\x00\x00\xff\xff\xff\xff",
    ):
        server = Connection(wire.settings(), now_ms=0, is_loopback=True)
        server.receive(PROTOCOL_HEADER, 0)
        assert memory_of(partial(server.receive, head, 0)) < 4_096
    server = wire.opened()
    publish = encode_method(1, BasicPublish("", "k"))
    header = b"\x02\x00\x01\x00\x00\x00\x0e\x00\x3c\x00\x00"
    announced = header + limits.BODY_BYTES_MAX.to_bytes(8, "big") + b"\x00\x00\xce"
    assert memory_of(lambda: server.receive(publish + announced, 0)) < 8_192


def test_many_tiny_frames_before_login_leave_nothing_behind() -> None:
    server = Connection(wire.settings(), now_ms=0, is_loopback=True)
    server.receive(PROTOCOL_HEADER, 0)
    wire.written(server)
    beats = b"\x08\x00\x00\x00\x00\x00\x00\xce" * 2_000

    def flood() -> None:
        for _ in range(20):
            assert server.receive(beats, 0) == []

    assert memory_of(flood) < 2 * len(beats)
    assert not server.closed


def test_a_login_that_fails_leaves_nothing_of_its_table() -> None:
    properties: FieldTable = {f"{n}": [None] * 20 for n in range(150)}
    assert len(encode_table(properties)) < limits.HANDSHAKE_FRAME_BYTES_MAX
    server = Connection(wire.settings(), now_ms=0, is_loopback=False)
    server.receive(PROTOCOL_HEADER, 0)
    capabilities: FieldTable = {"capabilities": {"authentication_failure_close": True}}
    frame = wire.start_ok({**properties, **capabilities}, "PLAIN", b"\0guest\0guest")
    held = memory_held(lambda: server.receive(frame, 0))
    assert held < 8_192, "the connection waits for close-ok, and holds nothing meanwhile"
    assert not server.closed


def memory_held(action: Callable[[], object]) -> int:
    """Bytes that are held after the action and were not before."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_violations_are_what_the_targets_accept() -> None:
    """A target that broke would be found: the harness itself is tried on one that does."""

    def broken(data: bytes) -> None:
        if b"\xff" in data:
            raise ConnectionViolation(502, "not caught")

    found: list[bytes] = []
    target = Target("broken", broken, lambda: [bytes(20)])
    engine.by_chance(
        target, [bytes(20)], 1, lambda count: count >= 500, lambda d, _: found.append(d)
    )
    assert found
    assert all(b"\xff" in data for data in found)
