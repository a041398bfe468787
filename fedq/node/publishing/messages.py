"""What is looked up in a message on its way, and what is marked in it."""

from collections.abc import Callable, Mapping

from fedq.amqp.content import decode_properties
from fedq.amqp.rewriting import delay_of
from fedq.core.message import FLAG_DELAYED, split, with_flag


def properties_of(message: bytes) -> Callable[[], Mapping[str, object]]:
    """The message's properties, decoded when somebody asks."""

    def properties() -> Mapping[str, object]:
        return decode_properties(split(message)[1])

    return properties


def delayed(messages: list[bytes]) -> list[bytes]:
    """Marks those of the messages, which came through a delaying exchange, that have a delay."""
    return [with_flag(m, FLAG_DELAYED) if delay_of(m) else m for m in messages]
