"""What a batch of encoded messages (`fedq.core.message`) weighs, and what is special in it."""

from collections.abc import Sequence


def weigh(messages: Sequence[bytes]) -> tuple[int, int]:
    """All their bytes, and all their flags together; each message has at least its head."""
    flags = 0
    for message in messages:
        flags |= message[0]
    return sum(map(len, messages)), flags
