"""Chunks as nodes send them, made of messages."""

import struct
from collections.abc import Sequence

from fedq.pipeline.stream_client import ReadChunk


def chunk_of(
    messages: Sequence[bytes], offsets: Sequence[int] = (), times: Sequence[tuple[int, int]] = ()
) -> ReadChunk:
    """A chunk with these messages, at offsets from 0 on if none are given."""
    offsets = offsets or range(len(messages))
    ranges: list[tuple[int, int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] == offset - 1:
            ranges[-1] = (ranges[-1][0], offset)
        else:
            ranges.append((offset, offset))
    lengths = struct.pack(f">{len(messages)}I", *map(len, messages))
    return ReadChunk(3, ranges, list(times) or [(0, 1_000)], lengths, b"".join(messages))
