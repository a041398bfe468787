"""Heartbeats both ways (AMQP 0-9-1 clause 4.2.7)."""

from fedq.amqp.commands import Closed
from fedq.amqp.frames import HEARTBEAT
from tests.unit.amqp.wire import opened, written


def test_the_server_sends_them_at_least_as_often_as_agreed() -> None:
    server = opened(heartbeat=10)
    beats = []
    for now_ms in range(0, 30_001, 50):
        server.receive(HEARTBEAT, now_ms)
        assert server.tick(now_ms) == []
        if written(server) == b"\x08\x00\x00\x00\x00\x00\x00\xce":
            beats.append(now_ms)
    assert beats == [5_000, 10_000, 15_000, 20_000, 25_000, 30_000]


def test_two_silent_intervals_end_the_connection() -> None:
    server = opened(heartbeat=10)
    server.receive(HEARTBEAT, 1_000)
    assert server.tick(20_999) == []
    written(server)
    (command,) = server.tick(21_000)
    assert isinstance(command, Closed)
    assert "nothing heard for 20000 ms" in command.reason
    assert server.closed
    assert written(server) == b""


def test_part_of_a_frame_is_a_sign_of_life() -> None:
    server = opened(heartbeat=10)
    server.receive(b"\x01", 15_000)
    assert server.tick(34_999) == []
    assert len(server.tick(35_000)) == 1


def test_silence_is_excused_while_the_node_does_not_read() -> None:
    server = opened(heartbeat=10)
    server.excuse_silence(19_000)
    assert server.tick(38_000) == []


def test_a_client_may_want_none() -> None:
    server = opened(heartbeat=0)
    assert server.wake_ms is None
    assert server.tick(10_000_000) == []
    assert written(server) == b""


def test_the_next_tick_that_matters_is_known() -> None:
    server = opened(heartbeat=10)
    assert server.wake_ms == 5_000
    server.tick(19_999)
    assert server.wake_ms == 20_000


def test_odd_heartbeats_are_refused() -> None:
    on_a_channel = b"\x08\x00\x01\x00\x00\x00\x00\xce"
    with_payload = b"\x08\x00\x00\x00\x00\x00\x01x\xce"
    for data, reason in ((on_a_channel, "UNEXPECTED_FRAME"), (with_payload, "FRAME_ERROR")):
        (command,) = opened().receive(data, 0)
        assert isinstance(command, Closed)
        assert command.reason.startswith(reason)
