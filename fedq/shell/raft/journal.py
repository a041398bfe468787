"""The durable part of a Raft voter: its log's entries, its term and its vote, in one file.

Inputs: entries, truncations, terms and votes. Outputs: bytes on disk; after a restart, the same.
The file is append-only between compactions:

    header: "FEDQRAFT" | format version u16
    record: marker | body length u32 | CRC-32 u32 | synced u64 | body
    body:   0 index u64 term u64 command   an entry
            1 index u64                    forget the entries from `index` on
            2 term u64 vote                the current term; a node's name, empty: no vote yet

`synced` is how much of the file was known to be on disk when the record was written. It tells a
torn tail from damage: a power cut may spoil anything that was not yet synced, in any order, and
that is cut off; a spoilt record that a later one calls synced has been acknowledged to someone,
and the journal refuses to open.

Invariants: nothing written counts before `sync` returned. There is always at least one entry, the
first one is applied, indexes have no gaps. Compaction writes a new file, syncs it, renames it over
the old one and syncs the directory: after a crash there is one or the other, each complete.
A full disk is waited for, where the disk is waited for anyhow; any other `OSError` leaves the
journal unusable: the node must stop.
"""

import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple, Self, overload

from fedq.shell.disk.descriptors import SPARES
from fedq.shell.disk.durable_files import FULL, Room
from fedq.shell.raft.wire import ENTRY_BYTES_MAX, NO_OP, is_entry

_MAGIC: Final = b"FEDQRAFT"
_VERSION: Final = 1
_HEADER = struct.Struct(">8sH")
_MARKER: Final = b"\xf5Rj\xa1"
_RECORD = struct.Struct(">4sIIQ")
_ENTRY = struct.Struct(">BQQ")
_TRUNCATE = struct.Struct(">BQ")
_TERM = struct.Struct(">BQ")
_SYNCED = struct.Struct(">Q")

_KIND_ENTRY = 0
_KIND_TRUNCATE = 1
_KIND_TERM = 2

_VOTE_BYTES_MAX = 255
_BODY_BYTES_MAX = _ENTRY.size + ENTRY_BYTES_MAX


class RaftStorageError(Exception):
    """What is on disk cannot be used; the text says what to do about it."""


class Entry(NamedTuple):
    """An entry of the log: kind byte and command, index, term (the order is pysyncobj's)."""

    command: bytes
    number: int
    term: int


#: With what every log begins, alike on every voter.
FIRST_ENTRY: Final = Entry(NO_OP, 1, 0)


class NotReplaced(RaftStorageError):
    """The new file did not come to be; the old one is as it was."""


def sync_directory(directory: Path) -> None:
    """Makes renames and new files in a directory survive a power cut."""
    descriptor = SPARES.open_file(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, parts: list[bytes]) -> None:
    """Puts a whole file in place: after a crash there is the old one or the new one.

    Raises `NotReplaced` when the old one is untouched, `OSError` when nobody can tell.
    """
    os.close(_put_in_place(path, parts))


def write_synced(path: Path, parts: Iterable[bytes]) -> int:
    """Writes a new file and syncs its contents; returns it open for more.

    Raises `NotReplaced`, and leaves nothing behind then.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
    try:
        descriptor = SPARES.open_file(path, flags)
    except OSError as error:
        raise NotReplaced(f"cannot make {path}: {error.strerror}") from error
    try:
        for part in parts:
            _write_all(descriptor, part)
        os.fsync(descriptor)
    except OSError as error:
        os.close(descriptor)
        path.unlink()
        raise NotReplaced(f"cannot write {path}: {error.strerror}") from error
    return descriptor


def _put_in_place(path: Path, parts: list[bytes]) -> int:
    """As `write_durably`; returns the new file, open for more."""
    temporary = path.with_name(path.name + ".new")
    descriptor = write_synced(temporary, [b"".join(parts)])
    os.rename(temporary, path)
    sync_directory(path.parent)
    return descriptor


class RaftJournal:
    """The log of one voter; see the module's docstring for what is durable when.

    One thread, but for `wait_synced` and `write_compacted`.
    """

    __slots__ = (
        "_compacted", "_descriptor", "_entries", "_owed", "_path", "_pending", "_room", "_size",
        "_synced", "base_bytes", "term", "truncations", "vote",
    )  # fmt: skip

    def __init__(self, path: Path, contents: "_Contents") -> None:
        """Takes over what `open` has read; use that."""
        self._path = path
        self._entries = contents.entries
        self.term = contents.term
        #: Whom this node votes for in `term`.
        self.vote: str | None = contents.vote
        #: How often entries were removed for a conflict with a leader's.
        self.truncations = 0
        self._pending: list[bytes] = []
        #: What there was no room for on the disk.
        self._owed = b""
        self._room = Room()
        #: Bytes of the file, pending ones included, and how many of them are on disk.
        self._size = self._synced = contents.good_bytes
        #: Bytes of the file after the last compaction of this process.
        self.base_bytes = 0
        self._descriptor = SPARES.open_file(path, os.O_WRONLY | os.O_APPEND)
        #: A compacted file that is in place and not used yet: it, its entries, its size.
        self._compacted: tuple[int, list[Entry], int] | None = None

    @classmethod
    def open(cls, path: Path) -> Self:
        """The journal at `path`; a new one with only the common first entry if there is none.

        Raises `RaftStorageError` when acknowledged records are damaged or the file is not one of
        ours, `OSError` when the disk fails.
        """
        if not path.exists():
            write_durably(path, _file([FIRST_ENTRY], 0, None))
        data = path.read_bytes()
        contents = _read(path, data)
        if contents.good_bytes < len(data):
            os.truncate(path, contents.good_bytes)
        # After a killed process (not machine) the tail may be good and yet only in memory.
        _sync_file(path)
        return cls(path, contents)

    # --- the entries ---

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, place: int) -> Entry: ...
    @overload
    def __getitem__(self, place: slice) -> list[Entry]: ...
    def __getitem__(self, place: int | slice) -> Entry | list[Entry]:
        return self._entries[place]

    @property
    def is_virgin(self) -> bool:
        """Whether nothing was ever written to it: no vote, no term, no entry."""
        return self.term == 0 and self.last_index == FIRST_ENTRY.number

    @property
    def first_index(self) -> int:
        """The index of the oldest entry kept; it is always applied."""
        return self._entries[0].number

    @property
    def last_index(self) -> int:
        """The index of the newest entry."""
        return self._entries[-1].number

    @property
    def last_term(self) -> int:
        """The term of the newest entry."""
        return self._entries[-1].term

    def term_at(self, index: int) -> int:
        """The term of an entry that is kept."""
        assert self.first_index <= index <= self.last_index, f"no entry {index}"
        return self._entries[index - self.first_index].term

    def command_at(self, index: int) -> bytes:
        """The kind byte and the command of an entry that is kept."""
        return self._entries[index - self.first_index].command

    def since(self, index: int, count: int) -> list[Entry]:
        """The entries from `index` on, at most `count`; `index` is past the first one kept."""
        place = index - self.first_index
        assert place >= 0, f"entry {index} was compacted"
        return self._entries[place : place + count]

    def append(self, command: bytes, term: int) -> None:
        """Adds the next entry; durable after `sync`."""
        assert len(command) <= ENTRY_BYTES_MAX, f"an entry of {len(command)} bytes"
        entry = Entry(command, self.last_index + 1, term)
        self._write(_entry_body(entry))
        self._entries.append(entry)

    def truncate(self, index: int) -> None:
        """Forgets the entries from `index` on, because the leader's differ."""
        assert self.first_index < index <= self.last_index, f"cannot truncate at {index}"
        self._write(_TRUNCATE.pack(_KIND_TRUNCATE, index))
        del self._entries[index - self.first_index :]
        self.truncations += 1

    def set_term(self, term: int, vote: str | None) -> None:
        """Records the current term and vote; durable after `sync`."""
        assert term >= self.term, f"term {term} after {self.term}"
        self.term, self.vote = term, vote
        self._write(_term_body(term, vote))

    # --- the disk ---

    @property
    def size_bytes(self) -> int:
        """Bytes of the file, pending ones included."""
        return self._size

    def sync(self) -> None:
        """Returns once everything written is on disk; free when nothing is pending."""
        if self.begin_sync():
            self.wait_synced()
            self.end_sync()

    def begin_sync(self) -> bool:
        """Hands the file everything that is pending; False when all is on disk already.

        True: `wait_synced` is to be called, then `end_sync`, and nothing else in between.
        """
        if self._pending:
            self._owed = _write_some(self._descriptor, b"".join(self._pending))
            self._pending.clear()
        return self._synced < self._size

    def wait_synced(self) -> None:
        """Blocks for the disk, and for room on it; the one method for another thread."""
        if self._owed:
            self._room.write(self._descriptor, self._owed)
            self._owed = b""
        os.fdatasync(self._descriptor)

    def give_up(self) -> None:
        """Lets nobody wait for room any more: a full disk is a failure from now on."""
        self._room.give_up()

    def end_sync(self) -> None:
        """Takes note that what `begin_sync` handed over is on disk."""
        self._synced = self._size

    def compact(self, index: int) -> None:
        """Forgets the entries before `index`, which a durable snapshot covers."""
        self.write_compacted(index)
        self.use_compacted()

    def write_compacted(self, index: int) -> None:
        """The part of `compact` that blocks for the disk; may run in another thread.

        To be called when all is synced; nothing else is until `use_compacted`. Raises
        `NotReplaced` when the journal is as it was.
        """
        assert self.first_index <= index <= self.last_index, f"cannot compact to {index}"
        entries = self._entries[index - self.first_index :]
        parts = _file(entries, self.term, self.vote)
        self._compacted = _put_in_place(self._path, parts), entries, sum(map(len, parts))

    def use_compacted(self) -> None:
        """Goes on with the file that `write_compacted` has put in place."""
        assert self._compacted is not None, "nothing was compacted"
        (descriptor, entries, size), self._compacted = self._compacted, None
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._pending.clear()
        self._entries = entries
        self._size = self._synced = self.base_bytes = size

    def restart_at(self, index: int, term: int) -> None:
        """Forgets every entry: a durable snapshot ends with (`index`, `term`)."""
        self._entries = [Entry(NO_OP, index, term)]
        self.compact(index)

    def close(self) -> None:
        """Syncs and closes the file."""
        self.sync()
        self.abandon()

    def abandon(self) -> None:
        """Closes the file and drops what is not synced, as a crash would."""
        self._pending.clear()
        if self._compacted is not None:
            os.close(self._compacted[0])
            self._compacted = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, body: bytes) -> None:
        record = _record(body, self._synced)
        self._pending.append(record)
        self._size += len(record)


# --- bytes ---------------------------------------------------------------------------------------


def read_entries(path: Path) -> list[Entry]:
    """The entries of a journal, one at least; changes nothing. Raises as `RaftJournal.open`."""
    return _read(path, path.read_bytes()).entries


def _record(body: bytes, synced: int) -> bytes:
    checksum = zlib.crc32(body, zlib.crc32(_SYNCED.pack(synced)))
    return _RECORD.pack(_MARKER, len(body), checksum, synced) + body


def _entry_body(entry: Entry) -> bytes:
    return _ENTRY.pack(_KIND_ENTRY, entry.number, entry.term) + entry.command


def _term_body(term: int, vote: str | None) -> bytes:
    name = (vote or "").encode()
    assert len(name) <= _VOTE_BYTES_MAX, "a node's name is too long"
    return _TERM.pack(_KIND_TERM, term) + name


def _file(entries: list[Entry], term: int, vote: str | None) -> list[bytes]:
    """A whole new file. Its records call each other synced: it is renamed only once they are."""
    parts = [_HEADER.pack(_MAGIC, _VERSION)]
    size = _HEADER.size
    for body in (_term_body(term, vote), *map(_entry_body, entries)):
        parts.append(_record(body, size))
        size += len(parts[-1])
    return parts


class _Contents:
    """What the records of a file add up to."""

    __slots__ = ("entries", "good_bytes", "term", "vote")

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.term = 0
        self.vote: str | None = None
        self.good_bytes = 0

    def take(self, body: bytes) -> bool:
        """Adds one record; False when it makes no sense after those before it."""
        match body[:1]:
            case b"\x00" if len(body) > _ENTRY.size:
                return self._take_entry(body)
            case b"\x01" if len(body) == _TRUNCATE.size:
                return self._take_truncation(body)
            case b"\x02" if _TERM.size <= len(body) <= _TERM.size + _VOTE_BYTES_MAX:
                return self._take_term(body)
        return False

    def _take_entry(self, body: bytes) -> bool:
        _, index, term = _ENTRY.unpack_from(body)
        command = body[_ENTRY.size :]
        if not is_entry(command):
            return False
        if self.entries:
            last = self.entries[-1]
            if index != last.number + 1 or term < last.term:
                return False
        self.entries.append(Entry(command, index, term))
        return True

    def _take_truncation(self, body: bytes) -> bool:
        _, index = _TRUNCATE.unpack(body)
        if not self.entries or not self.entries[0].number < index <= self.entries[-1].number:
            return False
        del self.entries[index - self.entries[0].number :]
        return True

    def _take_term(self, body: bytes) -> bool:
        _, term = _TERM.unpack_from(body)
        if term < self.term:
            return False
        try:
            name = body[_TERM.size :].decode()
        except UnicodeDecodeError:
            return False
        self.term, self.vote = term, name or None
        return True


def _read(path: Path, data: bytes) -> _Contents:
    if len(data) < _HEADER.size or data[: len(_MAGIC)] != _MAGIC:
        raise RaftStorageError(
            f"{path} is not a Raft journal, or its beginning is damaged. {_WHAT_TO_DO}"
        )
    version = _HEADER.unpack_from(data)[1]
    if version != _VERSION:
        raise RaftStorageError(
            f"{path} has format {version}, this fedq reads format {_VERSION}: start the version "
            "of fedq that wrote it"
        )
    contents = _Contents()
    at = _HEADER.size
    while (body := _body_at(data, at)) is not None:
        try:
            is_possible = contents.take(body)
        except Exception as error:
            raise RaftStorageError(
                f"{path}: this release fails at a whole record at byte {at} "
                f"({type(error).__name__}: {error}). {_WHAT_TO_DO}"
            ) from error
        if not is_possible:
            raise RaftStorageError(f"{path}: a record at byte {at} is impossible. {_WHAT_TO_DO}")
        at += _RECORD.size + len(body)
    if _is_damage(data, at) or not contents.entries:
        raise RaftStorageError(f"{path} is damaged at byte {at}. {_WHAT_TO_DO}")
    contents.good_bytes = at
    return contents


_WHAT_TO_DO = (
    "Entries this node acknowledged may be lost, so it must not vote with this file: restore the "
    "disk, or delete this Raft directory: the node votes again once the others have brought it up "
    "to date"
)


def _body_at(data: bytes, at: int) -> bytes | None:
    """The body of the intact record at `at`, if there is one."""
    if at + _RECORD.size > len(data):
        return None
    marker, size, checksum, synced = _RECORD.unpack_from(data, at)
    start = at + _RECORD.size
    if marker != _MARKER or not 0 < size <= _BODY_BYTES_MAX or start + size > len(data):
        return None
    body = data[start : start + size]
    if zlib.crc32(body, zlib.crc32(_SYNCED.pack(synced))) != checksum:
        return None
    return body


def _is_damage(data: bytes, bad: int) -> bool:
    """Whether some intact record after byte `bad` says that `bad` had been on disk."""
    at = data.find(_MARKER, bad)
    while at >= 0:
        if _body_at(data, at) is not None and _RECORD.unpack_from(data, at)[3] > bad:
            return True
        at = data.find(_MARKER, at + 1)
    return False


def _sync_file(path: Path) -> None:
    descriptor = SPARES.open_file(path, os.O_WRONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    """Writes everything: `os.write` may take less than it is given. A full disk raises."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _write_some(descriptor: int, data: bytes) -> bytes:
    """Writes what there is room for; returns the rest. Raises `OSError`."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except OSError as error:
            if error.errno not in FULL:
                raise
            return bytes(view)
    return b""
