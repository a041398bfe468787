"""Ends in rows: connections, channels, consumers and queues, opened anew at once."""

import socket
import time
from typing import Final

from fedq.amqp import method_types as m
from fedq.amqp.methods import encode_method
from tests.attacks.attacker import Attacker
from tests.attacks.crowds import crowd, hang_up, login
from tests.attacks.stage import AMPLE, AMPLE_GROWTH, Stage, attack

LASTS_S: Final = 5.0
#: So often in one write.
ROUNDS: Final = 300


def _rounds(methods: list[m.Method]) -> bytes:
    return b"".join(encode_method(1, method) for method in methods)


def _goes_on(stage: Stage, words: bytes, answer: type, connections: int = 3) -> None:
    """Several clients send that again and again; each waits for the last answer of a write."""
    attackers = [Attacker(stage.address) for _ in range(connections)]
    until = time.monotonic() + LASTS_S
    for attacker in attackers:
        attacker.open_channels(2)
    while time.monotonic() < until:
        for attacker in attackers:
            attacker.send_bytes(words * ROUNDS)
        for attacker in attackers:
            attacker.confirm(2)
            assert not attacker.is_closed, attacker.last.get(m.ConnectionClose)
            assert attacker.came[answer]
    for attacker in attackers:
        attacker.hang_up()


@attack("C1", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def channels_are_closed_and_opened(stage: Stage) -> None:
    """300 channels with auto-delete queues and consumers close in one write, and open again."""
    numbers = range(1, ROUNDS + 1)
    opens = b"".join(encode_method(number, m.ChannelOpen()) for number in numbers)
    words = b"".join(
        encode_method(number, method)
        for number in numbers
        for method in (
            m.QueueDeclare(f"fleeting {number}", auto_delete=True),
            m.BasicConsume(f"fleeting {number}", "c"),
            m.ChannelClose(200, "", 0, 0),
        )
    )
    attackers = [Attacker(stage.address) for _ in range(3)]
    until = time.monotonic() + LASTS_S
    rounds = 0
    while time.monotonic() < until:
        rounds += 1
        for attacker in attackers:
            attacker.send_bytes(opens + words)
        for attacker in attackers:
            attacker.wait(m.ChannelCloseOk, rounds * ROUNDS)
            assert not attacker.is_closed, attacker.last.get(m.ConnectionClose)
    for attacker in attackers:
        attacker.hang_up()


@attack("C1", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def consumers_are_cancelled_and_begun(stage: Stage) -> None:
    """basic.cancel of the last consumer of an exclusive auto-delete queue, 300 in a write."""
    words = _rounds(
        [
            m.QueueDeclare("", exclusive=True, auto_delete=True),
            m.QueueBind("", "amq.topic", "a.b"),
            m.BasicConsume("", "c"),
            m.BasicCancel("c"),
        ]
    )
    _goes_on(stage, words, m.BasicCancelOk)


@attack("C1", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def exclusive_queues_are_deleted_and_declared(stage: Stage) -> None:
    """queue.delete of an exclusive queue with bindings and a consumer, 300 in a write."""
    words = _rounds(
        [
            m.QueueDeclare("", exclusive=True),
            m.QueueBind("", "amq.fanout", ""),
            m.BasicConsume("", "c", no_wait=True),
            m.QueueDelete(""),
        ]
    )
    _goes_on(stage, words, m.QueueDeleteOk)


@attack("C1", nodes=3, more=AMPLE, growth_bytes=AMPLE_GROWTH)
def shared_queues_are_deleted_and_declared(stage: Stage) -> None:
    """The same with a queue of all nodes: each round is two changes of the map."""
    words = _rounds([m.QueueDeclare("shared"), m.QueueDelete("shared")])
    _goes_on(stage, words, m.QueueDeleteOk)


@attack("C1", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def connections_are_closed_and_opened(stage: Stage) -> None:
    """200 connections at a time open, have a queue of their own, and close, all in one write."""
    words = login() + b"".join(
        encode_method(1, method)
        for method in (
            m.ChannelOpen(),
            m.QueueDeclare("", exclusive=True),
            m.BasicConsume("", "c"),
            m.QueueDeclare("fleeting", auto_delete=True),
            m.BasicConsume("fleeting", "d"),
        )
    )
    words += encode_method(0, m.ConnectionClose(200, "", 0, 0))
    until = time.monotonic() + LASTS_S
    while time.monotonic() < until:
        hang_up(crowd(stage.address, [words] * 200, m.ConnectionCloseOk, channel=0))


@attack("C1", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def closes_without_a_connection(stage: Stage) -> None:
    """Hundreds of connection.close and channel.close in one write, before and after the open."""
    close = encode_method(0, m.ConnectionClose(200, "", 0, 0))
    ends = close * 300 + encode_method(1, m.ChannelClose(200, "", 0, 0)) * 300
    until = time.monotonic() + LASTS_S
    while time.monotonic() < until:
        sockets: list[socket.socket] = []
        for number in range(100):
            one = socket.create_connection(stage.address, timeout=5)
            one.sendall((login() if number % 2 else login()[:8]) + ends)
            sockets.append(one)
        hang_up(sockets)
