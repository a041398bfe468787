"""Many connections that each send as much as is taken of them, of frames as small as there are."""

import time
from typing import Final

from fedq.amqp import method_types as m
from fedq.amqp.methods import encode_method
from fedq.core.limits import MIB
from tests.attacks.attacker import Attacker
from tests.attacks.stage import AMPLE, AMPLE_GROWTH, Stage, attack

CONNECTIONS: Final = 40
LASTS_S: Final = 5.0
HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def _flood(stage: Stage, words: bytes) -> None:
    """Each connection's socket is full of this, again and again."""
    attackers = [Attacker(stage.address) for _ in range(CONNECTIONS)]
    for attacker in attackers:
        attacker.open_channels(1)
        attacker.socket.setblocking(False)
    data = memoryview(words * (MIB // len(words)))
    sent = [0] * CONNECTIONS
    until = time.monotonic() + LASTS_S
    while time.monotonic() < until:
        for at, attacker in enumerate(attackers):
            try:
                sent[at] += attacker.socket.send(data[sent[at] % len(data) :])
            except BlockingIOError:
                continue
    assert sum(sent) > CONNECTIONS * MIB // 8, "hardly anything was taken"
    for attacker in attackers:
        attacker.hang_up()


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def heartbeats_of_many_connections(stage: Stage) -> None:
    """40 connections send nothing but heartbeats."""
    _flood(stage, HEARTBEAT)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def acknowledgements_of_nothing_of_many_connections(stage: Stage) -> None:
    """40 connections acknowledge all that they have, which is nothing."""
    _flood(stage, encode_method(1, m.BasicAck(0, True)))
