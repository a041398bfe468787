"""What a batch of encoded messages (`fedq.core.message`) weighs, and what is special in it.

Input: messages. Output: all their bytes, and all their flags together.
"""

from collections.abc import Sequence


def weigh(messages: Sequence[bytes]) -> tuple[int, int]:
    """The bytes of all messages, and their flags (their first bytes) together."""
    # Compiled, a list is walked by index, and any other sequence as an iterator, at twice the cost.
    run: list[bytes] = messages if isinstance(messages, list) else list(messages)
    size = flags = 0
    for message in run:
        size += len(message)
        flags |= message[0]
    return size, flags
