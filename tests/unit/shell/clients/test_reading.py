"""Who sends little never waits for those who send much (docs/adr/0033)."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from fedq.core.ids import ConnectionId
from fedq.core.limits import (
    KIB,
    PUT_OFF_BYTES_MAX,
    PUT_OFF_PIECE_BYTES_MAX,
    READ_BYTES_PER_TURN_MAX,
    SHORT_READ_BYTES_MAX,
    TURN_BYTES_MAX,
)
from fedq.shell.clients.reading import Reading

READ_BYTES = 250 * KIB


@dataclass(eq=False)
class Someone:
    """A client."""

    connection: ConnectionId
    log: list[tuple[str, int]]
    is_held: bool = False
    put_off: bytes = b""
    last_pass: int = -1
    bytes_taken: int = 0
    took_s: float = 0.0
    heard: bytes = b""
    all_heard: list[bytes] = field(default_factory=list)

    def hold(self, is_held: bool) -> None:
        self.is_held = is_held

    def on_all_heard(self) -> None:
        self.all_heard.append(self.heard)


class Room:
    """Clients, and a node that only notes what it hears."""

    def __init__(self, count: int) -> None:
        self.log: list[tuple[str, int]] = []
        self.clients = [Someone(ConnectionId(number), self.log) for number in range(count)]
        self.full_turns = 0
        self.reading = Reading(self._feed, self._on_bytes)

    def _on_bytes(self, connection: ConnectionId, data: bytes) -> None:
        self.log.append(("heard", len(data)))
        self.clients[connection].heard += data

    def _feed(self, method: Callable[..., bool | None], *args: object) -> None:
        if method(*args):
            self.full_turns += 1

    def read(self, number: int, size: int, filling: bytes = b"x") -> None:
        """So much comes of one of them."""
        self.reading.on_read(self.clients[number], filling * size)

    def next_pass(self) -> int:
        """The pass ends; what the next one has heard before anything new comes."""
        before = self.bytes_heard
        self.reading.end_pass()
        return self.bytes_heard - before

    def is_held(self, number: int) -> bool:
        return self.clients[number].is_held

    @property
    def bytes_heard(self) -> int:
        return sum(len(client.heard) for client in self.clients)


def test_the_first_pass_of_a_burst_hears_as_much_as_any_other() -> None:
    room = Room(40)
    for number in range(40):
        room.read(number, READ_BYTES)
    assert room.bytes_heard <= TURN_BYTES_MAX + READ_BYTES
    assert room.reading.bytes_put_off == 40 * READ_BYTES - room.bytes_heard
    passes = 1
    while room.reading.bytes_put_off:
        assert 0 < room.next_pass() <= TURN_BYTES_MAX + READ_BYTES
        passes += 1
    assert passes <= 10
    assert all(len(client.heard) == READ_BYTES for client in room.clients)
    assert not any(client.is_held for client in room.clients)


def test_who_sends_little_is_heard_in_a_pass_that_is_full() -> None:
    room = Room(40)
    for number in range(39):
        room.read(number, READ_BYTES)
    room.read(39, SHORT_READ_BYTES_MAX)
    assert len(room.clients[39].heard) == SHORT_READ_BYTES_MAX


def test_a_pass_is_full_when_it_has_taken_long_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little it was: it may be 122,000 channels in 1.6 MB."""
    hours = iter(range(1_000))
    monkeypatch.setattr("fedq.shell.clients.reading.perf_counter", lambda: 3_600.0 * next(hours))
    room = Room(10)
    for number in range(10):
        room.read(number, SHORT_READ_BYTES_MAX + 1)
    heard = [number for number in range(10) if room.clients[number].heard]
    assert heard == [0]
    for passes in range(1, 10):
        room.next_pass()
        assert len([1 for client in room.clients if client.heard]) == 1 + passes


def test_what_was_put_off_is_heard_in_pieces_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of 250 KiB may be 21,000 recoveries, whose work is 80 ms."""
    hours = iter(range(1_000))
    monkeypatch.setattr("fedq.shell.clients.reading.perf_counter", lambda: 3_600.0 * next(hours))
    room = Room(3)
    for number in range(3):
        room.read(number, READ_BYTES, b"%d" % number)
    for number in (1, 2, 1, 2):
        before = len(room.clients[number].heard)
        room.next_pass()
        assert len(room.clients[number].heard) == before + PUT_OFF_PIECE_BYTES_MAX, "in turn"
    while room.reading.bytes_put_off:
        room.next_pass()
    for number, client in enumerate(room.clients):
        assert client.heard == b"%d" % number * READ_BYTES
        assert not client.is_held
        assert len(client.all_heard) == (number > 0)


def test_short_reads_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that is paced pays for no clock."""
    monkeypatch.setattr("fedq.shell.clients.reading.perf_counter", None)
    room = Room(1)
    room.read(0, SHORT_READ_BYTES_MAX)
    assert room.bytes_heard == SHORT_READ_BYTES_MAX


def test_those_that_are_held_go_before_what_is_read_now() -> None:
    room = Room(11)
    for number in range(10):
        room.read(number, READ_BYTES)
    waiting = [number for number in range(10) if not room.clients[number].heard]
    assert waiting
    room.next_pass()
    assert room.clients[waiting[0]].heard
    room.read(10, READ_BYTES)
    assert not room.clients[10].heard, "the pass is full of those that waited"


def test_what_comes_behind_something_put_off_waits_behind_it() -> None:
    room = Room(8)
    for number in range(8):
        room.read(number, READ_BYTES)
    assert room.is_held(7)
    room.read(7, 10, b"y")
    while room.is_held(7):
        room.next_pass()
    assert room.clients[7].heard == READ_BYTES * b"x" + 10 * b"y"
    assert room.clients[7].all_heard[-1] == room.clients[7].heard


def test_one_client_has_its_share_of_a_pass() -> None:
    room = Room(1)
    room.read(0, READ_BYTES)
    assert not room.is_held(0)
    room.read(0, READ_BYTES_PER_TURN_MAX - READ_BYTES)
    assert room.is_held(0)
    room.next_pass()
    assert not room.is_held(0)


def test_a_turn_that_is_full_does_not_wait_for_the_event_loop() -> None:
    room = Room(16)
    for number in range(16):
        room.read(number, TURN_BYTES_MAX // 16)
    assert room.full_turns == 1


def test_what_is_forgotten_is_not_heard() -> None:
    room = Room(8)
    for number in range(8):
        room.read(number, READ_BYTES)
    room.reading.forget(room.clients[7])
    for _ in range(3):
        room.next_pass()
    assert not room.clients[7].heard
    assert not room.reading.bytes_put_off


def test_not_more_than_the_bound_is_put_off() -> None:
    count = PUT_OFF_BYTES_MAX // READ_BYTES + 20
    room = Room(count)
    for number in range(count):
        room.read(number, READ_BYTES)
    assert room.reading.bytes_put_off <= PUT_OFF_BYTES_MAX + READ_BYTES
    assert room.bytes_heard == count * READ_BYTES - room.reading.bytes_put_off
