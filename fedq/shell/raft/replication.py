"""How a follower takes entries from a leader, and how much a leader has under way.

Inputs: `Append` frames, acknowledgements, the journal. Outputs: what to answer, what to send.
Invariants (Raft, section 5.3): entries are removed only when they conflict with the leader's,
never because more are on their way; a committed entry is never removed; a follower claims only
what it has compared with the leader's log.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from fedq.core.errors import NodeFailure
from fedq.shell.raft.journal import Entry, RaftJournal
from fedq.shell.raft.snapshot import SnapshotSender
from fedq.shell.raft.wire import (
    ENTRIES_PER_FRAME_MAX,
    PAYLOAD_BYTES_MAX,
    Append,
    LogEntry,
    SnapshotChunk,
)

#: Frames a leader may have under way to one follower: 1 MiB.
FRAMES_UNDER_WAY_MAX: Final = 16


class Taken(NamedTuple):
    """The outcome of an `Append`; the fields of the answer."""

    next_index: int
    success: bool


def take_entries(journal: RaftJournal, committed: int, append: Append) -> Taken:
    """Brings the journal in line with the leader's entries; the caller syncs before it answers.

    Raises `NodeFailure` when the leader contradicts an entry that is committed here.
    """
    previous = append.prev_index
    if previous > journal.last_index:
        return Taken(journal.last_index + 1, False)
    if previous < journal.first_index:
        return Taken(committed + 1, False)
    if journal.term_at(previous) != append.prev_term:
        _check_open(previous, committed)
        return Taken(_start_of_term(journal, previous, committed), False)
    for index, entry in enumerate(append.entries, previous + 1):
        if index <= journal.last_index:
            if journal.term_at(index) == entry.term:
                continue
            _check_open(index, committed)
            journal.truncate(index)
        journal.append(entry.command, entry.term)
    return Taken(previous + len(append.entries) + 1, True)


def _check_open(index: int, committed: int) -> None:
    if index <= committed:
        raise NodeFailure(
            f"the Raft leader's log differs at entry {index}, which is committed here: a majority "
            "of the voters lost its data. Stop the cluster and decide whose data directory counts"
        )


def _start_of_term(journal: RaftJournal, index: int, committed: int) -> int:
    """The first open entry of the term at `index`: all of that term may be wrong."""
    term = journal.term_at(index)
    while index - 1 > committed and journal.term_at(index - 1) == term:
        index -= 1
    return index


class Follower:
    """What a leader knows about its stream to one follower.

    Frames are numbered and answered in order, so the newest answer stands for all before it, lost
    ones included.
    """

    __slots__ = ("_answered", "_last_chunk", "_restarted", "_sender", "_sent")

    def __init__(self) -> None:
        #: The newest frame, the newest answered one, and the newest before the last restart.
        self._sent = 0
        self._answered = 0
        self._restarted = 0
        #: The snapshot under way, if the follower needs one,
        self._sender: SnapshotSender | None = None
        #: and once all its chunks are sent, a frame not before the last of them.
        self._last_chunk: int | None = None

    @property
    def has_room(self) -> bool:
        """Whether more entries or chunks may be sent now."""
        return self._sent - self._answered < FRAMES_UNDER_WAY_MAX

    def next_number(self) -> int:
        """The number of the next frame, which the caller sends."""
        self._sent += 1
        return self._sent

    def next_chunk(self, term: int, encode: Callable[[], bytes]) -> SnapshotChunk | None:
        """The next chunk of the snapshot under way; `encode` makes one if there is none.

        None when all are sent: the follower will answer.
        """
        if self._sender is None:
            self._sender = SnapshotSender(encode())
        chunk = self._sender.next_chunk(term, self._sent + 1)
        if chunk is not None:
            self._sent += 1
        elif self._last_chunk is None:
            self._last_chunk = self._sent
        return chunk

    def on_ack(self, number: int) -> bool:
        """Takes note of an answer; False if it is to a frame sent before the last restart."""
        if not self._restarted < number <= self._sent:
            return False
        self._answered = max(self._answered, number)
        if self._last_chunk is not None and number > self._last_chunk:
            # Some chunk got lost on a stream that did not break: once more.
            self.restart()
        return True

    def snapshot_arrived(self) -> None:
        """Goes on with entries: the snapshot has arrived."""
        self._sender = self._last_chunk = None

    def restart(self) -> None:
        """Voids what is under way: the stream broke, or the follower asked for other entries."""
        self._restarted = self._answered = self._sent
        self.snapshot_arrived()


def next_batch(journal: RaftJournal, index: int) -> list[LogEntry]:
    """The entries of one frame from `index` on."""
    batch: list[LogEntry] = []
    size = 0
    entries: list[Entry] = journal.since(index, ENTRIES_PER_FRAME_MAX)
    for command, _, term in entries:
        size += len(command)
        if batch and size > PAYLOAD_BYTES_MAX:
            break
        batch.append(LogEntry(term, command))
    return batch


def batches(commands: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Commands in pieces that fit a frame each, in order."""
    batch: list[bytes] = []
    size = 0
    for command in commands:
        size += len(command)
        if batch and (size > PAYLOAD_BYTES_MAX or len(batch) == ENTRIES_PER_FRAME_MAX):
            yield batch
            batch, size = [], len(command)
        batch.append(command)
    if batch:
        yield batch
