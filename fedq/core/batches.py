"""Cutting long lists of messages into pieces that travel as one thing each.

The compiled twin is `batches.pyx`.
"""

from collections.abc import Sequence

from fedq.core.limits import peer_frame_bytes_max


def cut(messages: Sequence[bytes], bytes_max: int = peer_frame_bytes_max) -> list[slice]:
    """Slices that cover all messages in order, each of at most `bytes_max` bytes of messages.

    A single message that is larger is a piece of its own.
    """
    if messages and sum(map(len, messages)) <= bytes_max:
        return [slice(0, len(messages))]
    pieces: list[slice] = []
    start = size = 0
    for index, message in enumerate(messages):
        size += len(message)
        if size > bytes_max and index > start:
            pieces.append(slice(start, index))
            start, size = index, len(message)
    if start < len(messages):
        pieces.append(slice(start, len(messages)))
    return pieces
