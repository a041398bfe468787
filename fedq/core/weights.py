"""What a batch of encoded messages (`fedq.core.message`) weighs, and what is special in it.

Input: messages. Output: all their bytes, and all their flags together.

The compiled twin is `weights.pyx`.
"""

from collections.abc import Sequence


def weigh(messages: Sequence[bytes]) -> tuple[int, int]:
    """All their bytes, and all their flags (their first bytes) together."""
    flags = 0
    for message in messages:
        flags |= message[0]
    return sum(map(len, messages)), flags
