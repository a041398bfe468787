"""Cutting long lists of messages into pieces that travel as one thing each."""

from fedq.core.limits import PEER_FRAME_BYTES_MAX


def cut(messages: list[bytes], bytes_max: int = PEER_FRAME_BYTES_MAX) -> list[tuple[int, int]]:
    """Where pieces begin and stop: they cover all messages in order, each of at most `bytes_max`.

    A single message that is larger is a piece of its own.
    """
    pieces: list[tuple[int, int]] = []
    start = size = 0
    for index, message in enumerate(messages):
        size += len(message)
        if size > bytes_max and index > start:
            pieces.append((start, index))
            start, size = index, len(message)
    if start < len(messages):
        pieces.append((start, len(messages)))
    return pieces
