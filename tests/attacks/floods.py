"""Many connections that each send as much as is taken of them, of frames as small as there are."""

import time
from typing import Final

from fedq.amqp import method_types as m
from fedq.amqp.methods import encode_method
from fedq.core.limits import MIB
from tests.attacks.attacker import Attacker
from tests.attacks.stage import AMPLE, AMPLE_GROWTH, Stage, attack

CONNECTIONS: Final = 40
CHANNELS: Final = 2_047
LASTS_S: Final = 5.0
HEARTBEAT: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"


def _flood(stage: Stage, words: bytes, unsettled: int = 0) -> None:
    """Each connection's socket is full of this, again and again.

    Each has so many messages that it does not settle, and reads what comes.
    """
    attackers = [Attacker(stage.address) for _ in range(CONNECTIONS)]
    for number, attacker in enumerate(attackers):
        attacker.open_channels(1)
        if unsettled:
            queue = f"again {number}"
            attacker.call(1, m.QueueDeclare(queue, exclusive=True), m.QueueDeclareOk)
            attacker.publish(1, queue, b"again", unsettled)
            attacker.call(1, m.BasicConsume(queue, "c"), m.BasicConsumeOk)
            attacker.wait(m.BasicDeliver, unsettled)
        attacker.socket.setblocking(False)
    data = memoryview(words * (MIB // len(words)))
    sent = [0] * CONNECTIONS
    until = time.monotonic() + LASTS_S
    while time.monotonic() < until:
        for at, attacker in enumerate(attackers):
            if unsettled:
                attacker.skip()
            try:
                sent[at] += attacker.socket.send(data[sent[at] % len(data) :])
            except BlockingIOError:
                continue
    assert sum(sent) > CONNECTIONS * MIB // (64 if unsettled else 8), "hardly anything was taken"
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


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def recoveries_of_many_connections(stage: Stage) -> None:
    """40 connections want what they have not settled again and again, which is nothing."""
    _flood(stage, encode_method(1, m.BasicRecoverAsync(True)))


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def recoveries_that_deliver_again(stage: Stage) -> None:
    """40 connections want ten messages again and again, and read them."""
    _flood(stage, encode_method(1, m.BasicRecoverAsync(True)), unsettled=10)


@attack("H4", more=AMPLE, growth_bytes=AMPLE_GROWTH)
def channels_of_many_connections_at_once(stage: Stage) -> None:
    """60 connections open all their channels, 122,820, in one write of each, three times."""
    opens = b"".join(encode_method(number, m.ChannelOpen()) for number in range(1, CHANNELS + 1))
    for _ in range(3):
        attackers = [Attacker(stage.address) for _ in range(60)]
        for attacker in attackers:
            attacker.socket.sendall(opens)
        for attacker in attackers:
            attacker.wait(m.ChannelOpenOk, CHANNELS)
        for attacker in attackers:
            attacker.hang_up()
