"""Names that clients may invent, one for each message (docs/adr/0078)."""

from typing import Final

from fedq.amqp import method_types as m
from fedq.amqp.values import FieldTable, Long
from tests.attacks.attacker import Attacker, message
from tests.attacks.stage import Stage, attack

QUEUES: Final = 20
NAMES: Final = 3_000


@attack("H5", is_quick=True)
def a_publisher_with_a_long_name_for_each_message(stage: Stage) -> None:
    """3,000 names of 255 bytes, each in 20 queues, and no two messages of one in a row."""
    with Attacker(stage.address) as attacker:
        attacker.open_channels(1)
        attacker.call(1, m.ExchangeDeclare("attacked", "fanout"), m.ExchangeDeclareOk)
        for number in range(QUEUES):
            queue = f"attacked {number}"
            attacker.call(1, m.QueueDeclare(queue, durable=True), m.QueueDeclareOk)
            attacker.call(1, m.QueueBind(queue, "attacked"), m.QueueBindOk)
        words: list[bytes] = []
        for number in range(NAMES):
            headers: FieldTable = {
                "x-fedq-publisher": f"{number:0255d}", "x-fedq-sequence": Long(2 * number + 1)
            }  # fmt: skip
            properties: FieldTable = {"headers": headers, "delivery_mode": 2}
            words.append(message(1, "", b"", "attacked", properties))
        attacker.send_bytes(b"".join(words), reads=False)
        attacker.confirm(1)
