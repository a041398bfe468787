"""The part of a Raft voter that takes in a leader's snapshot, without holding anybody up.

A mixin of the voter in `fedq.shell.raft.log`, whose private names it uses. Inputs: chunks; the
snapshot as a thread has read it. Outputs: answers, a machine and a log that are as far as the
snapshot.

    chunks --> all of it --> a thread reads it and writes it beside the newest --> installed

Inflating, reading and weighing a map takes a second for 50,000 queues. Meanwhile turns go on, and
the log stays as it is. Invariants: one snapshot is read at a time; its last chunk is answered once
it is installed. Until then its leader hears only that this voter is there, in answers to that very
chunk: one to a later frame would say that a chunk was lost.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from fedq.core.ids import NodeId
from fedq.shell.raft.hooks import LogMachine, Taken, VoterHooks
from fedq.shell.raft.journal import RaftJournal
from fedq.shell.raft.snapshot import SnapshotError, SnapshotReceiver, decode_snapshot
from fedq.shell.raft.storage import RaftStorage
from fedq.shell.raft.wire import SnapshotChunk

logger = logging.getLogger(__name__)


def read_leaders(storage: RaftStorage, machine: LogMachine, encoded: bytes) -> Taken:
    """Reads and prepares a leader's snapshot: all that takes long; for any thread.

    Raises `SnapshotError` if it is damaged, ValueError if the machine cannot be restored from it
    (nothing of it is in place then), `RaftStorageError` or `OSError` if it cannot be written.
    """
    snapshot = decode_snapshot(encoded)
    read = machine.read_snapshot(snapshot.data)
    storage.prepare(encoded)
    return Taken(snapshot.number, snapshot.term, read, snapshot.voters)


class Reader:
    """The thread that reads a leader's snapshot, if one does."""

    __slots__ = ("_due", "_reading")

    def __init__(self, due: Callable[[], None]) -> None:
        """`due` is called when it is read: a turn should come."""
        self._due = due
        self._reading: asyncio.Future[Taken] | None = None

    def begin(self, storage: RaftStorage, machine: LogMachine, encoded: bytes) -> None:
        """Reads it on another thread than this one, that of the running loop."""
        assert self._reading is None, "a voter takes one snapshot at a time"
        loop = asyncio.get_running_loop()
        self._reading = loop.run_in_executor(None, read_leaders, storage, machine, encoded)
        self._reading.add_done_callback(self._on_read)

    def take(self) -> Taken | SnapshotError | None:
        """Takes what was read since it was asked for; raises what else became of it."""
        reading = self._reading
        if reading is None or not reading.done():
            return None
        self._reading = None
        error = reading.exception()
        return error if isinstance(error, SnapshotError) else reading.result()

    async def finish(self) -> None:
        """Waits for the thread, if one is at work: it writes into the voter's directory."""
        if self._reading is not None:
            await asyncio.wait((self._reading,))

    def _on_read(self, reading: "asyncio.Future[Taken]") -> None:
        # Looked at here, so that nobody misses it where the turns have ended meanwhile.
        reading.exception()
        self._due()


class Taking:
    """The snapshot-taking part of a voter."""

    _hooks: VoterHooks
    _log: RaftJournal
    _receiver: SnapshotReceiver
    #: Whose snapshot is being read, and the number of its last chunk.
    _taking: tuple[Any, int] | None = None
    _has_history: bool
    applied: Any
    committed: Any
    _answer: Any
    _follow: Any
    _look_through: Any
    _SyncObj__raftLastApplied: Any
    _SyncObj__raftCommitIndex: Any

    def _on_chunk(self, node: Any, chunk: SnapshotChunk) -> None:
        if not self._follow(node, chunk.term, chunk.number) or self._is_taking(node):
            return
        try:
            encoded = self._receiver.take(node.id, chunk)
        except SnapshotError as error:
            self._ask_again(node, chunk.number, error)
            return
        if encoded is None:
            self._answer(node, chunk.number, 0)
        elif self._taking is None:
            self._taking = node, chunk.number
            self._hooks.read(encoded)
        # While another leader's is read this one is sent again.

    def _is_taking(self, node: Any) -> bool:
        """Whether a snapshot of this leader is being read: it hears that this voter is there."""
        if self._taking is None or self._taking[0] != node:
            return False
        self._answer(node, self._taking[1], 0)
        return True

    def on_read(self, taken: Taken | SnapshotError) -> None:
        """Puts what was read in the place of all that it contains.

        It is committed, whoever leads by now.
        """
        assert self._taking is not None, "nothing was being read"
        (node, number), self._taking = self._taking, None
        if isinstance(taken, SnapshotError):
            self._ask_again(node, number, taken)
            return
        if taken.number > self.applied:
            self._hooks.install(taken)
            self._has_history = True
            self._SyncObj__raftLastApplied = taken.number
            self._SyncObj__raftCommitIndex = max(self.committed, taken.number)
            self._look_through(whole=True)
        self._answer(node, number, taken.number + 1, success=True)

    def _ask_again(self, node: Any, number: int, error: SnapshotError) -> None:
        name: NodeId = node.id
        logger.warning("asking %s to send its snapshot again: %s", name, error)
        self._answer(node, number, self._log.last_index + 1, reset=True)
