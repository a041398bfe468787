"""Scans: ranges of a stream's messages for tools outside, gathered in turns (docs/adr/0076).

    a tool --gRPC--> fedq.admin --on_asked--> a piece in turn, from memory or pages --> answer

Inputs: scans, and that they are done with. Outputs: their answers, each within a turn: as many
bytes as were asked for, or the end of the range. A scan takes a piece at a time, in turn with other
scans; all of it is charged as what is handed out. What is not committed yet is waited for.

Changes the readers' records; marks queues.
"""

from typing import Final

from fedq.core.ids import QueueKey, reign_of
from fedq.core.limits import DELIVERY_BATCH_MAX
from fedq.fragments.fragment import Fragment
from fedq.node.records.roles import Primary
from fedq.node.records.scans import Scan, Scanned
from fedq.node.records.state import NodeState
from fedq.node.records.stream_readers import StreamReaders
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
        scan.messages, scan.ranges = [], []
        scan.is_answered = True
        readers = self.state.readers_of(queue, scan.fragment)
        if readers is not None and scan in readers.scans:
            del readers.scans[scan]
            self.state.marks.queues[queue] = None

    def serve(self, readers: StreamReaders, primary: Primary) -> bool:
        """Gives each scan a piece in turn; false if some are to get more: the turn had no room."""
        work = self.state.work
        waiting = list(readers.scans)
        while waiting:
            hungry: list[Scan] = []
            for scan in waiting:
                before = scan.size
                if not self._go_on(readers, primary, scan):
                    continue
                # It goes behind the others.
                if scan in readers.scans:
                    del readers.scans[scan]
                    readers.scans[scan] = None
                    hungry.append(scan)
                cost = (DELIVERY_BATCH_MAX >> DEAL_SHIFT) + ((scan.size - before) >> _BYTES_SHIFT)
                if not work.deal(1 + cost):
                    return not readers.scans
            waiting = hungry
        return True

    def _go_on(self, readers: StreamReaders, primary: Primary, scan: Scan) -> bool:
        """Gathers a piece; false if there is nothing yet."""
        amount = min(DELIVERY_BATCH_MAX, scan.end - scan.at)
        found = self.serving.read(primary, scan.at, amount, None) if amount > 0 else None
        positions, messages = ([], []) if found is None else (found.positions, found.messages)
        if positions and positions[-1] >= scan.end:
            # Positions jump where a reign ends.
            count = sum(position < scan.end for position in positions)
            positions, messages = positions[:count], messages[:count]
        if positions:
            before = scan.size
            scan.add(positions, messages, positions[-1] + 1)
            self.state.scanned_bytes += scan.size - before
        elif amount > 0:
            if not _is_bare(primary, scan):
                return False
            scan.at = scan.end
        if scan.is_full:
            del readers.scans[scan]
            self._answer(primary, scan)
        return True

    def _answer(self, primary: Primary, scan: Scan) -> None:
        fragment, ranges = primary.fragment, scan.ranges
        log = fragment.log
        assert log is not None, "the fragment is one of a stream"
        times = log.times(ranges[0][0], ranges[-1][1]) if ranges else []
        first = first_kept(fragment)
        scan.end_with(Scanned(ranges, scan.messages, times, first, scan.at))


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
