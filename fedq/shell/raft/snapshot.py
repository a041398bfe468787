"""Snapshots of the cluster map: one file, and its way to a follower that is too far behind.

Inputs: the machine's bytes with the (index, term) of the last entry they contain. Outputs: an
encoded snapshot, the same on disk and on the wire, and back.

    "FEDQSNAP" | format version u16 | CRC-32 u32 | size u64 | index u64 | term u64 | data, deflated

Format 2 has the voters between the fields and the data: the number u64 of the entry that names
them, a size u16 and that entry. Format 1 is of a log that never named any. `size` is that of the
data before it was deflated, the checksum covers everything after itself. Invariants: the file is
replaced durably and as a whole, and only by what was verified; a damaged one is refused, never
skipped.
"""

import os
import struct
import zlib
from pathlib import Path
from typing import Final, NamedTuple

from fedq.shell.raft.journal import (
    RaftStorageError,
    sync_directory,
    write_synced,
)
from fedq.shell.raft.voters import VoterSet, decode_voters, encode_voters
from fedq.shell.raft.wire import PAYLOAD_BYTES_MAX, SNAPSHOT_BYTES_MAX, SnapshotChunk

_MAGIC: Final = b"FEDQSNAP"
_VERSION: Final = 1
#: With a set of voters.
_VERSION_VOTERS: Final = 2
_HEADER = struct.Struct(">8sHI")
_FIELDS = struct.Struct(">QQQ")
_VOTERS = struct.Struct(">QH")
_HEAD_BYTES: Final = _HEADER.size + _FIELDS.size
#: Fast, and a map shrinks to a fifth even so.
_DEFLATE_LEVEL: Final = 1


class Snapshot(NamedTuple):
    """The machine's state after the entry (`number`, `term`)."""

    number: int
    term: int
    data: bytes
    #: Who voted then; None: the log had not named anybody.
    voters: VoterSet | None = None


class SnapshotError(ValueError):
    """Raised for bytes that are no snapshot of this version; the text says what is wrong."""


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The form on disk and on the wire. Raises `RaftStorageError` beyond the limit."""
    number, term, data, voters = snapshot
    return b"".join(encode_pieces(number, term, [data], voters))


def encode_pieces(
    number: int, term: int, data: list[bytes], voters: VoterSet | None = None
) -> list[bytes]:
    """As `encode_snapshot`, of data in pieces, in pieces: none takes long, whatever their sum."""
    size = sum(map(len, data))
    deflater = zlib.compressobj(_DEFLATE_LEVEL)
    deflated = [deflater.compress(piece) for piece in data]
    deflated.append(deflater.flush())
    if max(sum(map(len, deflated)), size) > SNAPSHOT_BYTES_MAX - _HEAD_BYTES:
        raise RaftStorageError(
            f"the cluster map has {size} bytes, a snapshot at most {SNAPSHOT_BYTES_MAX}: delete "
            "unused exchanges, queues and bindings"
        )
    fields = _FIELDS.pack(size, number, term)
    version = _VERSION
    if voters is not None:
        version, entry = _VERSION_VOTERS, encode_voters(voters.names)
        fields += _VOTERS.pack(voters.number, len(entry)) + entry
    checksum = zlib.crc32(fields)
    for piece in deflated:
        checksum = zlib.crc32(piece, checksum)
    return [_HEADER.pack(_MAGIC, version, checksum), fields, *deflated]


def decode_snapshot(encoded: bytes) -> Snapshot:
    """The snapshot in an encoded form; raises `SnapshotError`."""
    if len(encoded) < _HEAD_BYTES or encoded[: len(_MAGIC)] != _MAGIC:
        raise SnapshotError("not a snapshot, or its beginning is damaged")
    _, version, checksum = _HEADER.unpack_from(encoded)
    if version not in (_VERSION, _VERSION_VOTERS):
        raise SnapshotError(
            f"its format is {version}, this fedq reads formats {_VERSION} and {_VERSION_VOTERS}"
        )
    if zlib.crc32(memoryview(encoded)[_HEADER.size :]) != checksum:
        raise SnapshotError("its checksum does not match")
    size, number, term = _FIELDS.unpack_from(encoded, _HEADER.size)
    if size > SNAPSHOT_BYTES_MAX or number < 1:
        raise SnapshotError("its fields are out of range")
    voters, begin = None, _HEAD_BYTES
    if version == _VERSION_VOTERS:
        voters, begin = _voters_in(encoded, number)
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(memoryview(encoded)[begin:], size + 1)
    except zlib.error as error:
        raise SnapshotError("its data cannot be inflated") from error
    if len(data) != size or not inflater.eof or inflater.unused_data:
        raise SnapshotError("its data has another size than it says")
    return Snapshot(number, term, data, voters)


def _voters_in(encoded: bytes, number: int) -> tuple[VoterSet, int]:
    """The voters in a snapshot that ends with entry `number`, and where its data begins."""
    try:
        index, size = _VOTERS.unpack_from(encoded, _HEAD_BYTES)
        begin = _HEAD_BYTES + _VOTERS.size
        names = decode_voters(encoded[begin : begin + size])
    except (struct.error, ValueError) as error:
        raise SnapshotError(f"its voters cannot be read: {error}") from error
    if not 1 < index <= number:
        raise SnapshotError("its voters are of an entry that it does not contain")
    return VoterSet(index, names), begin + size


class SnapshotFile:
    """The newest snapshot of this node on disk, and the next one before it counts."""

    __slots__ = ("_leaders", "_next", "_path")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._next = path.with_name(path.name + ".next")
        self._leaders = path.with_name(path.name + ".leader")

    def load(self) -> Snapshot | None:
        """The snapshot, None if there never was one; raises `RaftStorageError` if damaged."""
        if not self._path.exists():
            return None
        try:
            return decode_snapshot(self._path.read_bytes())
        except SnapshotError as error:
            raise RaftStorageError(
                f"the snapshot {self._path} cannot be used: {error}. The journal no longer holds "
                "what it covers: restore the file, or remove the node's data directory and let "
                "the node rejoin as a new member"
            ) from error

    def read_encoded(self) -> bytes | None:
        """The newest snapshot as it was stored, None if there is none; raises `OSError`."""
        return self._path.read_bytes() if self._path.exists() else None

    def prepare(self, encoded: bytes) -> None:
        """Writes a leader's snapshot beside the newest; raises `NotReplaced`."""
        os.close(write_synced(self._leaders, [encoded]))

    def take_prepared(self) -> None:
        """Makes the leader's snapshot the newest. Blocks for the disk; raises `OSError`."""
        os.rename(self._leaders, self._path)
        sync_directory(self._path.parent)

    def stage(self, pieces: list[bytes]) -> None:
        """Writes the next snapshot beside the newest; raises `NotReplaced`."""
        os.close(write_synced(self._next, pieces))

    def put_in_place(self) -> None:
        """Makes what was staged last the newest. Blocks for the disk; raises `OSError`."""
        os.rename(self._next, self._path)
        sync_directory(self._path.parent)

    def forget_staged(self) -> None:
        """Removes what a process wrote that did not live to put it in place."""
        self._next.unlink(missing_ok=True)
        self._leaders.unlink(missing_ok=True)


class SnapshotSender:
    """Cuts an encoded snapshot into chunks for one follower."""

    __slots__ = ("_encoded", "_offset")

    def __init__(self, encoded: bytes) -> None:
        self._encoded = encoded
        self._offset = 0

    def next_chunk(self, term: int, number: int) -> SnapshotChunk | None:
        """The next piece as the frame of this number, None when all are on their way."""
        data = self._encoded[self._offset : self._offset + PAYLOAD_BYTES_MAX]
        if not data:
            return None
        chunk = SnapshotChunk(term, number, self._offset, len(self._encoded), data)
        self._offset += len(data)
        return chunk


class SnapshotReceiver:
    """Puts the chunks of one leader's snapshot together again."""

    __slots__ = ("_buffer", "_source")

    def __init__(self) -> None:
        self._buffer = bytearray()
        #: Whose snapshot is coming in: leader's name, its term, total size.
        self._source: tuple[str, int, int] | None = None

    def take(self, leader: str, chunk: SnapshotChunk) -> bytes | None:
        """The complete snapshot after its last chunk, None before.

        Raises `SnapshotError` when chunks are missing: the leader must begin again.
        """
        source = (leader, chunk.term, chunk.total)
        if chunk.offset == 0:
            self._buffer.clear()
            self._source = source
        if source != self._source or chunk.offset != len(self._buffer):
            self._reset()
            raise SnapshotError(f"chunk at {chunk.offset} does not follow on the one before")
        self._buffer += chunk.data
        if len(self._buffer) < chunk.total:
            return None
        encoded = bytes(self._buffer)
        self._reset()
        return encoded

    def _reset(self) -> None:
        self._buffer = bytearray()
        self._source = None
