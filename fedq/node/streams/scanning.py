"""Scans: ranges of a stream's messages for tools outside, gathered in turns (docs/adr/0076).

    a tool --gRPC--> fedq.admin --on_asked--> a piece in turn, from memory or pages --> answer

Inputs: scans, and that they are done with. Outputs: their answers, each within a turn: as many
bytes as were asked for, or the end of the range. A scan takes a piece at a time, in turn with other
scans; all of it is charged as what is handed out. What is not committed yet is waited for.

Changes the readers' records; marks queues.
"""

from typing import Final

from fedq.amqp.route_filtering import RouteSieve
from fedq.core.ids import QueueKey, reign_of
from fedq.core.limits import DELIVERY_BATCH_MAX
from fedq.fragments.fragment import Fragment
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.records.streams.scans import Scan, Scanned
from fedq.node.records.streams.stream_readers import StreamReaders
from fedq.node.streams.serving import DEAL_SHIFT, Serving

#: So many bytes that are gathered are a unit of work, as a shift.
_BYTES_SHIFT: Final = 13


class Scanning:
    """Gathers what scans ask for of the streams that this node serves."""

    __slots__ = ("serving", "state")

    def __init__(self, state: NodeState, serving: Serving) -> None:
        self.state = state
        self.serving = serving

    def on_asked(self, queue: QueueKey, scan: Scan) -> None:
        """Begins a scan; it is answered within a later part of this turn, or in a later one."""
        primary = self.state.primaries.get(scan.fragment)
        if primary is None or primary.queue != queue or primary.fragment.log is None:
            scan.end_with(None)
            return
        self.serving.readers_of(queue, scan.fragment).scans[scan] = None
        self.state.marks.queues[queue] = None

    def on_done(self, queue: QueueKey, scan: Scan) -> None:
        """Forgets a scan: what it gathered was handed over, or nobody waits for it any more."""
        self.state.scanned_bytes -= scan.size
        scan.size = 0
        scan.messages, scan.ranges, scan.looked = [], [], []
        scan.is_answered = True
        readers = self.state.readers_of(queue, scan.fragment)
        if readers is not None and scan in readers.scans:
            del readers.scans[scan]
            self.state.marks.queues[queue] = None

    def serve(self, readers: StreamReaders, primary: Primary) -> bool:
        """Gives each scan a piece in turn; false if some are to get more: the turn had no room."""
        waiting = list(readers.scans)
        while waiting:
            hungry: list[Scan] = []
            for scan in waiting:
                before = scan.size
                work = self._go_on(readers, primary, scan)
                if not work:
                    continue
                # It goes behind the others.
                if scan in readers.scans:
                    del readers.scans[scan]
                    readers.scans[scan] = None
                    hungry.append(scan)
                if not self.state.work.deal(work + ((scan.size - before) >> _BYTES_SHIFT)):
                    return not readers.scans
            waiting = hungry
        return True

    def _go_on(self, readers: StreamReaders, primary: Primary, scan: Scan) -> int:
        """Gathers a piece, for so many units of work; 0 if there is nothing yet."""
        begun, work = scan.at, 1 + (DELIVERY_BATCH_MAX >> DEAL_SHIFT)
        if scan.at < scan.end:
            before = scan.size
            if scan.sieve is None:
                self._gather(primary, scan)
            else:
                work += self._sift(primary, scan, scan.sieve)
            self.state.scanned_bytes += scan.size - before
            if scan.at == begun:
                if not _is_bare(primary, scan):
                    return 0
                scan.at = scan.end
        if scan.is_full:
            del readers.scans[scan]
            self._answer(primary, scan)
        return work

    def _gather(self, primary: Primary, scan: Scan) -> None:
        """Adds what comes next, whatever it is."""
        amount = min(DELIVERY_BATCH_MAX, scan.end - scan.at)
        found = self.serving.read(primary, scan.at, amount, None)
        positions, messages = found.positions, found.messages
        if positions and positions[-1] >= scan.end:
            # Positions jump where a reign ends.
            count = sum([position < scan.end for position in positions])
            positions, messages = positions[:count], messages[:count]
        if positions:
            scan.add(positions, messages, positions[-1] + 1)

    def _sift(self, primary: Primary, scan: Scan, sieve: RouteSieve) -> int:
        """Adds what is wanted of what comes next; what that cost."""
        found = self.serving.sift(primary, scan.at, DELIVERY_BATCH_MAX, sieve)
        positions, messages = found.positions, found.messages
        if positions and positions[-1] >= scan.end:
            count = sum([position < scan.end for position in positions])
            positions, messages = positions[:count], messages[:count]
        looked = [
            (first, min(last, scan.end - 1)) for first, last in found.looked if first < scan.end
        ]
        if looked:
            scan.look(looked)
            scan.add(positions, messages, looked[-1][1] + 1)
        return found.work

    def _answer(self, primary: Primary, scan: Scan) -> None:
        fragment, ranges = primary.fragment, scan.ranges
        log = fragment.log
        assert log is not None, "the fragment is one of a stream"
        times = log.times(ranges[0][0], ranges[-1][1]) if ranges else []
        first = first_kept(fragment)
        scan.end_with(Scanned(ranges, scan.messages, times, first, scan.at, scan.looked))


def first_kept(fragment: Fragment) -> int:
    """The position before which messages were removed, or may have been; 0: none ever were.

    Offsets jump from reign to reign, so a first message far beyond an offset proves nothing. But
    retention never takes the last message: where none of an earlier reign is left when this one
    begins, there never was any. What an earlier reign has removed is not known beyond that.
    """
    log, fresh = fragment.log, fragment.fresh
    assert log is not None, "the fragment is one of a stream"
    if log.removed:
        return log.removed + 1
    if not fresh.count or reign_of(fresh.first) == fragment.reign:
        return 0
    return fresh.first


def _is_bare(primary: Primary, scan: Scan) -> bool:
    """Whether nothing is there, and nothing can come, from where a scan is to its end."""
    run = primary.fragment.fresh.after(scan.at - 1)
    return primary.fragment.last + 1 >= scan.end if run is None else run.first >= scan.end
