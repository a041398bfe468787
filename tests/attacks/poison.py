"""Single messages that are odd in a way that a node must survive (finding C1)."""

from fedq.amqp import method_types as m
from fedq.amqp.values import FieldTable, Timestamp
from tests.attacks.attacker import Attacker
from tests.attacks.stage import Stage, attack

QUEUE = "attacked"
GRAVE = "grave"


@attack("C1", is_quick=True)
def a_death_that_cannot_be_counted(stage: Stage) -> None:
    """A dead letter with an `x-death` whose count is no signed 64-bit number; then a restart."""
    arguments: FieldTable = {
        "x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": GRAVE,
    }  # fmt: skip
    with Attacker(stage.address) as attacker:
        attacker.open_channels(1)
        attacker.call(1, m.QueueDeclare(GRAVE, durable=True), m.QueueDeclareOk)
        declare = m.QueueDeclare(QUEUE, durable=True, arguments=arguments)
        attacker.call(1, declare, m.QueueDeclareOk)
        attacker.send(1, m.BasicConsume(GRAVE, "undertaker"))
        headers: FieldTable = {"x-death": [{"count": Timestamp(2**64 - 1)}]}
        attacker.publish(1, QUEUE, b"odd", properties={"headers": headers, "delivery_mode": 2})
        attacker.wait(m.BasicDeliver)
