"""Runs of a channel's frames: the publishes or settlements that are taken in one loop.

Input: bytes of a client, from a method frame of a channel that awaits one. Output: the batch of one
command, which goes on while nothing else comes between, and where the run ended. What is not taken
goes frame by frame (`fedq.amqp.channel`).
"""

from typing import Final

from fedq.amqp.commands import Command, Publishes, Settles
from fedq.amqp.named_publishes import KnownBy
from fedq.amqp.publishes import PublishRun, take_publishes
from fedq.amqp.settlements import Settle, take_settles
from fedq.amqp.spec import (
    BASIC,
    BASIC_ACK,
    BASIC_NACK,
    BASIC_PUBLISH,
    BASIC_REJECT,
    ids_bytes,
)

#: How a basic.publish begins, and how what settles deliveries does.
PUBLISH: Final = ids_bytes(BASIC, BASIC_PUBLISH)
_ACK: Final = ids_bytes(BASIC, BASIC_ACK)
_REJECT: Final = ids_bytes(BASIC, BASIC_REJECT)
_NACK: Final = ids_bytes(BASIC, BASIC_NACK)


def is_settling(ids: bytes) -> bool:
    """Whether these are the first bytes of basic.ack, basic.nack or basic.reject."""
    return ids in (_ACK, _REJECT, _NACK)


def take_publish_run(
    data: bytes, at: int, channel: int, frame_bytes_max: int, checked: dict[KnownBy, int],
    commands: list[Command],
) -> int:  # fmt: skip
    """Takes the publishes from `at` on; returns their end. `checked`: see `checked_flags`."""
    last = commands[-1] if commands else None
    if isinstance(last, Publishes) and last.channel == channel:
        return take_publishes(data, at, frame_bytes_max, checked, last.batch)
    batch: list[PublishRun] = []
    at = take_publishes(data, at, frame_bytes_max, checked, batch)
    if batch:
        commands.append(Publishes(channel, batch))
    return at


def take_settle_run(data: bytes, at: int, channel: int, commands: list[Command]) -> int:
    """Takes the settlements from `at` on; returns where they ended."""
    last = commands[-1] if commands else None
    if isinstance(last, Settles) and last.channel == channel:
        return take_settles(data, at, last.batch)
    batch: list[Settle] = []
    at = take_settles(data, at, batch)
    if batch:
        commands.append(Settles(channel, batch))
    return at
