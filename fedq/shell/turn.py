"""The driver of a node: gathers inputs into turns and carries out what the node wants done.

In: everything that happens, through `input`. Out: the lanes of `fedq.node.outbox`, handed to the
outlets in the order that module's contract gives. One turn takes in all that one iteration of
the event loop brought: the first input begins it, a callback at the end of the iteration ends it;
an input that brought much ends it at once.

Invariants: inputs are never nested in each other; the node is told one time a turn, that of its
beginning, and the clock is read again before it writes to clients if its words have an end; bytes
of one connection keep their order; after a failure (an exception out of the node, or its own
`fatal`) nothing that the node still wanted leaves any more, and no input reaches it.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, NamedTuple, ParamSpec, Protocol, cast

from fedq.core.errors import NodeFailure
from fedq.core.ids import ConnectionId, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.core.suspects import Stopped
from fedq.journal.segments import Chunk
from fedq.node.outbox import NodeOut, ReadWanted, ScratchPiece, Verification
from fedq.node.risk import SetAside
from fedq.proxy.links import LINGER_MS
from fedq.shell.clients.paced_writes import PacedWrites, Writers
from fedq.shell.clients.sending import ClientSocket
from fedq.shell.durations import NodeDurations, monotonic_us
from fedq.shell.log_lines.faults import FaultLog

TICK_MS: Final = 50

logger = logging.getLogger("fedq.node")

P = ParamSpec("P")


class Driven(Protocol):
    """What the driver itself calls of a node; `fedq.node.node.Node` is one."""

    @property
    def out(self) -> NodeOut:
        """The lanes to be drained after `end_turn`."""

    def begin_turn(self, now_ms: int) -> None:
        """Begins a turn at this monotonic time."""

    def end_turn(self) -> None:
        """Ends the turn: works off what it touched, and fills the lanes."""

    def on_tick(self) -> None:
        """Does what is due by the clock."""

    def post_mortem(self, error: Exception) -> Stopped:
        """What the turn was at, which this exception ended."""


class Effects(NamedTuple):
    """The functions that carry out what a node wants; none may block, or call the node back."""

    append: Callable[[list[Chunk]], None]
    drop_segments: Callable[[list[int]], None]
    #: Pieces of segments, to be read beside the turns.
    read: Callable[[list[ReadWanted]], None]
    #: Pieces for scratch files, and those that are to be deleted after that.
    scratch: Callable[[list[ScratchPiece], list[int]], None]
    send: Callable[[NodeId, list[PeerFrame]], None]
    writers: Writers
    #: Once all is written; true: the client has said goodbye and hangs up first.
    close: Callable[[ConnectionId, bool], None]
    #: At once, with whatever was not written yet.
    cut: Callable[[ConnectionId], None]
    set_reading: Callable[[ConnectionId, bool], None]
    propose: Callable[[bytes], bool]
    #: All that one iteration of the event loop brought has been taken in, and its turn has ended.
    end_pass: Callable[[], None]
    #: Messages that are set aside: an operator is to find them.
    set_aside: Callable[[list[SetAside]], None]
    #: Passwords of clients, to be looked at beside the turns.
    verify: Callable[[list[Verification]], None]
    #: An exception has stopped the node: its next start, and its peers, are to know what it was at.
    tell_stop: Callable[[Stopped], None]


class Turn:
    """Drives one node on the running event loop."""

    __slots__ = (
        "_began_us", "_draining", "_due", "_due_ms", "_end_due", "_failed", "_faults", "_lingering",
        "_loop", "_node", "_now_ms", "_now_us", "_on_fatal", "_open", "_outlets", "_paced_writes",
        "_stopped", "_tick", "_tick_due_us", "_times", "_valid_until_ms",
    )  # fmt: skip

    def __init__(
        self,
        node: Driven,
        times: NodeDurations,
        *,
        now_ms: Callable[[], int],
        on_fatal: Callable[[str], None],
        now_us: Callable[[], int] = monotonic_us,
    ) -> None:
        """`on_fatal` is told once, with the reason, when the node cannot go on.

        `times` hears what each turn took, and how late each tick came, by `now_us`: microseconds
        of any clock.
        """
        self._node = node
        self._times = times
        self._now_us = now_us
        self._began_us = 0
        self._outlets: Effects
        self._now_ms = now_ms
        self._on_fatal = on_fatal
        self._loop = asyncio.get_running_loop()
        self._open = False
        #: The callback that ends a turn is on its way; after a turn that was full, for the next.
        self._end_due = False
        self._draining = False
        self._stopped = False
        self._failed = False
        #: Of the last turn that said so: see `NodeOut`. What still waits is as good as that.
        self._valid_until_ms = 0
        self._faults = FaultLog()
        self._tick: asyncio.TimerHandle | None = None
        self._tick_due_us = 0
        #: The turn for what waits for company is on its way.
        self._lingering: asyncio.TimerHandle | None = None
        #: The turn for what expires or is due is on its way, for then.
        self._due: asyncio.TimerHandle | None = None
        self._due_ms = 0
        self._paced_writes: PacedWrites

    def connect(self, outlets: Effects) -> None:
        """Says who carries out what; once, before the first input."""
        self._outlets = outlets
        self._paced_writes = PacedWrites(self._loop, outlets.writers, self._may_go_on)

    def start(self) -> None:
        """Begins ticking."""
        self._plan_tick()
        self.input(self._node.on_tick)

    def stop(self) -> None:
        """Ends the turn at hand; no input reaches the node any more."""
        if self._open:
            self._finish()
        self._stopped = True
        self._cancel_timers()

    @property
    def is_open(self) -> bool:
        """Whether the next input is one of the turn at hand."""
        return self._open

    @property
    def is_stopped(self) -> bool:
        """Whether inputs are ignored from now on."""
        return self._stopped

    def input(self, method: Callable[P, bool | None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Calls one of the node's `on_…` methods inside the turn at hand.

        A method that returns True says that the turn has taken in enough: it ends at once, not
        when the event loop has gone through all that is readable. (Not if an outlet called: its
        input waits until the other lanes are empty.)
        """
        if self._stopped:
            return
        try:
            self._begin()
            is_full = method(*args, **kwargs)
        except Exception as error:
            self._fail_on(error)
            return
        if is_full and not self._draining:
            self._finish()

    def _begin(self) -> None:
        if not self._open:
            self._open = True
            self._began_us = self._now_us()
            self._node.begin_turn(self._now_ms())
            if not self._end_due:
                self._end_due = True
                self._loop.call_soon(self._on_end_due)

    def _on_end_due(self) -> None:
        self._end_due = False
        self._finish()
        self._outlets.end_pass()

    def _cancel_timers(self) -> None:
        for timer in (self._tick, self._lingering, self._due):
            if timer is not None:
                timer.cancel()

    def fail(self, reason: str) -> None:
        """Cuts the node off from the world for good and reports why."""
        self._stopped = True
        self._cancel_timers()
        self._paced_writes.clear()
        if not self._failed:
            self._failed = True
            self._on_fatal(reason)

    # --- one turn ---

    def _finish(self) -> None:
        if self._stopped or not self._open:
            return
        self._open = False
        self._draining = True
        try:
            self._node.end_turn()
            self._drain(self._node.out)
        except Exception as error:
            self._fail_on(error)
        finally:
            self._draining = False
        self._times.turns.note(self._now_us() - self._began_us)

    def _fail_on(self, error: Exception) -> None:
        """Fails on an exception: nobody can tell what it left half done."""
        logger.error("the node failed; it stops so that it can do no harm", exc_info=error)
        self._stopped = True
        if not isinstance(error, NodeFailure):
            self._tell_stop(error)
        self.fail(f"{type(error).__name__}: {error}")

    def _tell_stop(self, error: Exception) -> None:
        try:
            self._outlets.tell_stop(self._node.post_mortem(error))
        except Exception as another:
            # What is left of the node cannot even say what it was at.
            logger.error("nor can it say what it was at", exc_info=another)

    def _tell_of_faults(self, out: NodeOut) -> None:
        for fault in out.faults:
            self._faults.note(fault, self._now_ms())
        if out.set_aside:
            self._outlets.set_aside(out.set_aside)

    def _drain(self, out: NodeOut) -> None:
        _tell(out)
        if out.faults or out.set_aside:
            self._tell_of_faults(out)
        if out.fatal is not None:
            self.fail(out.fatal)
            return
        # The lanes are taken first, so that an outlet that leads to an input cannot lose it.
        journal, drops, peers = out.journal, out.drop_segments, out.peers
        writes, closes, reading, proposals = out.writes, out.closes, out.reading, out.proposals
        urgent, again, fanned_to, fanned = out.urgent, out.again, out.fanned_to, out.fanned
        until_ms, verifications, reads = out.valid_until_ms, out.verifications, out.reads
        pieces, scratch_drops = out.scratch, out.scratch_drops
        if until_ms:
            self._valid_until_ms = until_ms
        self._plan(out.linger, out.due_ms)
        out.clear()
        outlets = self._outlets
        self._drain_to_disk(journal, drops, reads)
        if pieces or scratch_drops:
            outlets.scratch(pieces, scratch_drops)
        for peer, frames in peers.items():
            outlets.send(peer, frames)
        if writes or fanned:
            clients = cast("list[ClientSocket]", fanned_to)
            if self._is_too_late(until_ms):
                self._withhold([*writes, *(client.connection for client in clients)])
            else:
                self._paced_writes.write(writes, urgent, clients, fanned)
        for connection, client_first in closes.items():
            self._paced_writes.write_rest(connection)
            outlets.close(connection, client_first)
        for connection, wanted in reading.items():
            outlets.set_reading(connection, wanted)
        for command in proposals:
            outlets.propose(command)
        if verifications:
            outlets.verify(verifications)
        if again:
            self._begin()

    def _drain_to_disk(
        self, journal: list[Chunk], drops: list[int], reads: list[ReadWanted]
    ) -> None:
        if journal:
            self._outlets.append(journal)
        if drops:
            self._outlets.drop_segments(drops)
        if reads:
            self._outlets.read(reads)

    # --- words that came too late ---

    def _is_too_late(self, until_ms: int) -> bool:
        return until_ms != 0 and self._now_ms() >= until_ms

    def _may_go_on(self) -> bool:
        """Whether what waits to be written may still be; if not, nobody gets it any more."""
        if not self._is_too_late(self._valid_until_ms):
            return True
        self._withhold([])
        return False

    def _withhold(self, connections: list[ConnectionId]) -> None:
        """Withholds all that waits for these clients, and for those that still wait.

        What they do not know is lost with their connections, and comes back to its queues.
        """
        gone = dict.fromkeys([*self._paced_writes.waiting(), *connections])
        self._paced_writes.clear()
        logger.warning(
            "the process was stopped for longer than its lease: %d connections end, so that "
            "nobody hears what may not be true any more",
            len(gone),
        )
        for connection in gone:
            self._outlets.cut(connection)

    def bytes_waiting(self) -> int:
        """The bytes that turns have said to clients, and no pass has taken up yet."""
        return self._paced_writes.bytes_waiting()

    # --- time ---

    def _on_linger_due(self) -> None:
        self._lingering = None
        if not self._stopped:
            self._begin()

    def _plan(self, linger: bool, due_ms: int) -> None:
        """Plans turns that are wanted; for a time beyond the next tick it is asked again."""
        if linger and self._lingering is None:
            self._lingering = self._loop.call_later(LINGER_MS / 1_000, self._on_linger_due)
        if not due_ms:
            return
        if self._due is not None:
            if self._due_ms <= due_ms:
                return
            self._due.cancel()
            self._due = None
        delay_ms = due_ms - self._now_ms()
        if delay_ms < TICK_MS:
            self._due_ms = due_ms
            self._due = self._loop.call_later(max(0, delay_ms) / 1_000, self._on_due)

    def _on_due(self) -> None:
        self._due = None
        if not self._stopped:
            self._begin()

    def _on_tick_due(self) -> None:
        self._times.late.note(max(0, self._now_us() - self._tick_due_us))
        self._plan_tick()
        self.input(self._node.on_tick)

    def _plan_tick(self) -> None:
        self._tick = self._loop.call_later(TICK_MS / 1_000, self._on_tick_due)
        self._tick_due_us = self._now_us() + TICK_MS * 1_000


def _tell(out: NodeOut) -> None:
    """Tells the log what the node has to say."""
    for line in out.story:
        logger.info("%s", line)
    for line in out.warnings:
        logger.warning("%s", line)
