"""Encoded messages that come from elsewhere: whether they are what a node makes of a publish.

Input are messages (`fedq.core.message`) of which nothing is believed; what passes here every later
step can read: its parts are as long as it says, its route is two short strings, its properties
hold what they announce, and its flags say what its properties say.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import Final

from fedq.amqp.content import message_flags
from fedq.amqp.named_publishes import KnownBy
from fedq.core import limits
from fedq.core.errors import ConnectionViolation
from fedq.core.message import (
    FLAG_COPIES,
    FLAG_EXPIRES,
    FLAG_PERSISTENT,
    FLAG_PRIORITY,
    FLAG_USER,
    HEAD_SIZE,
    split,
)

#: Flags that repeat what the properties say.
_TOLD: Final = FLAG_PERSISTENT | FLAG_EXPIRES | FLAG_PRIORITY | FLAG_COPIES | FLAG_USER


def as_published(messages: Sequence[bytes]) -> list[bytes]:
    """The messages with the flags that their properties say; who keeps them may have set others."""
    known: dict[KnownBy, int] = {}
    found: list[bytes] = []
    for message in messages:
        properties = split(message)[1]
        flags = known.get(properties)
        if flags is None:
            flags = known[properties] = message_flags(properties) & _TOLD
        flags |= message[0] & ~_TOLD
        found.append(message if flags == message[0] else b"%c%b" % (flags, message[1:]))
    return found


def fault_of(messages: Sequence[bytes]) -> str | None:
    """What is wrong with the first message that is none; `None` if all are well-formed.

    Messages resemble each other: of those that are alike up to the body, one is looked at.
    """
    if not messages:
        return None
    front = b""
    try:
        front = _front_of(messages[0])
        if all(map(bytes.startswith, messages, repeat(front))):
            return None
        for message in messages:
            if not message.startswith(front):
                front = _front_of(message)
    except ConnectionViolation as violation:
        return violation.text
    except (ValueError, IndexError) as error:
        return f"a message is malformed: {error}"
    return None


def _front_of(message: bytes) -> bytes:
    """The front of a well-formed message, up to its body; raises for any other."""
    if len(message) < HEAD_SIZE:
        raise ValueError("it is shorter than its head")
    properties_at = HEAD_SIZE + (message[1] << 8 | message[2])
    body_at = properties_at + int.from_bytes(message[3:7], "big")
    if len(message) < body_at:
        raise ValueError("it is shorter than its route and properties")
    if len(message) - body_at > limits.BODY_BYTES_MAX:
        raise ValueError("its body is too long")
    key_at = HEAD_SIZE + 1 + (message[HEAD_SIZE] if properties_at > HEAD_SIZE else 0)
    if key_at >= properties_at or key_at + 1 + message[key_at] != properties_at:
        raise ValueError("its route is not an exchange and a routing key")
    if message_flags(message[properties_at:body_at]) & _TOLD != message[0] & _TOLD:
        raise ValueError("its flags do not say what its properties say")
    return message[:body_at]
