"""What a client does not read, and what it does not finish (findings H1, H2)."""

from fedq.amqp import method_types as m
from fedq.amqp.methods import encode_method
from fedq.core.limits import MIB
from tests.attacks.attacker import Attacker, message
from tests.attacks.stage import Stage, attack

QUEUE = "attacked"


@attack("H1", is_quick=True)
def one_message_is_fetched_again_and_again(stage: Stage) -> None:
    """200 times basic.get and basic.reject(requeue) of one message of 4 MiB, nothing read."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(1)
        attacker.call(1, m.QueueDeclare(QUEUE), m.QueueDeclareOk)
        attacker.publish(1, QUEUE, bytes(4 * MIB))
        attacker.confirm(1)
        pairs = [
            encode_method(1, m.BasicGet(QUEUE)) + encode_method(1, m.BasicReject(tag, True))
            for tag in range(1, 201)
        ]
        attacker.send_bytes(b"".join(pairs), reads=False)
        _others_go_on(stage)


@attack("H1")
def returned_messages_are_not_read(stage: Stage) -> None:
    """100 MiB of mandatory messages that nobody wants; they come back, and are not read."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(1)
        publish = message(1, "nobody", bytes(MIB)).replace(
            encode_method(1, m.BasicPublish("", "nobody")),
            encode_method(1, m.BasicPublish("", "nobody", mandatory=True)),
        )
        for _ in range(100):
            attacker.send_bytes(publish, reads=False)
        _others_go_on(stage)


@attack("H2", is_quick=True)
def bodies_are_never_finished(stage: Stage) -> None:
    """Six channels send all but the last byte of a message of 100 MiB each."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(6)
        for channel in range(1, 7):
            publish = message(channel, QUEUE, bytes(100 * MIB))
            attacker.send_bytes(publish[:-2], reads=False)
        _others_go_on(stage)


def _others_go_on(stage: Stage) -> None:
    """Another client is served meanwhile."""
    with Attacker(stage.address) as other:
        other.open_channels(1)
        other.call(1, m.QueueDeclare("other", exclusive=True), m.QueueDeclareOk)
