"""What a scan has gathered, as messages of `protos/streams.proto`.

Inputs: positions and messages, the position of offset 0. Outputs: a chunk, in as many pieces as its
bytes need. Nothing looks into a message here.
"""

import struct
from collections.abc import Iterator

from fedq.admin.bounds import CHUNK_PIECE_BYTES_MAX
from fedq.node.records.streams.scans import Scanned
from fedq.shell.pb import streams_pb2 as pb


def chunks_of(found: Scanned, base: int) -> Iterator[pb.Chunk]:
    """The pieces of a chunk; takes its messages. `base`: the position of offset 0."""
    messages = found.messages
    lengths = struct.pack(f">{len(messages)}I", *map(len, messages))
    data = b"".join(messages)
    messages.clear()
    yield pb.Chunk(
        ranges=[pb.OffsetRange(first=low - base, last=high - base) for low, high in found.ranges],
        times=[pb.CameAt(offset=at - base, unix_ms=unix_ms) for at, unix_ms in found.times],
        lengths=lengths,
        data=data if len(data) <= CHUNK_PIECE_BYTES_MAX else data[:CHUNK_PIECE_BYTES_MAX],
        data_bytes=len(data),
        first=max(0, found.first - base),
        next=found.next - base,
        looked=[pb.OffsetRange(first=low - base, last=high - base) for low, high in found.looked],
    )
    for at in range(CHUNK_PIECE_BYTES_MAX, len(data), CHUNK_PIECE_BYTES_MAX):
        yield pb.Chunk(data=data[at : at + CHUNK_PIECE_BYTES_MAX])
