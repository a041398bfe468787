"""What a fragment of a stream knows beside its messages: segments, and when what came.

Messages of a stream stay when they are read, and go by whole segments, the oldest first, once all
segments together are too large, or the youngest message of one is too old. A segment is no file
here: it is the grain in which messages go, of which two positions and their bytes are kept.

Inputs: what is appended, and when. Outputs: up to which position messages go; from which one on
messages came at a time or later. Of the times only a bounded number is kept (*stamps*): the more
time they span, the coarser they are; no message of that time or later is ever left out.

Times outlive a reign as notes (`fedq.journal.records.NOTE_CAME`): when the first message of a batch
came, of one batch in `NOTED_MS` at most. So what is behind a note came then or later, within
`NOTED_MS` of it, and before the next one; where notes between the two were thinned out, before the
next one. What is before all notes came before the first of them; without any, all that an earlier
reign has left counts as having come when this one began.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fedq.core.message import FLAG_EXPIRES, FLAG_PERSISTENT
from fedq.core.policy import StreamPolicy
from fedq.core.ranges import Range, within
from fedq.fragments.runs.beginnings import SINGLE
from fedq.fragments.runs.runs import Runs
from fedq.fragments.streams.named import ReaderPlaces

#: Stamps at most.
STAMPS_MAX: Final = 4_096
#: One batch in so much time is noted; notes at most, and what is left when they are thinned out.
NOTED_MS: Final = 1_000
NOTED_MAX: Final = 2_048
_NOTED_LEFT: Final = NOTED_MAX // 4
#: Of a note: others behind it were thinned out.
_THINNED: Final = 1
#: Segments at most: beyond that they become larger.
SEGMENTS_MAX: Final = 65_536

_KEPT: Final = FLAG_PERSISTENT
_TIMED: Final = SINGLE | FLAG_EXPIRES
_OTHERS: Final = 0xFF & ~_TIMED


def as_kept(messages: Sequence[bytes]) -> list[bytes]:
    """The messages as a stream keeps them: lasting, without a time or a past; for all readers."""
    return [
        message if message[0] & (_TIMED | _KEPT) == _KEPT else _as_kept(message)
        for message in messages
    ]


def _as_kept(message: bytes) -> bytes:
    return b"%c%b" % (message[0] & _OTHERS | _KEPT, message[1:])


class Segment:
    """Messages that go together."""

    __slots__ = ("last", "last_ms", "size")

    def __init__(self) -> None:
        #: The last position in it, and when that came.
        self.last = 0
        self.last_ms = 0
        self.size = 0


class Stamp:
    """Messages from one position to the next stamp's, and when the last of them came."""

    __slots__ = ("first", "first_ms", "last_ms")

    def __init__(self, first: int, unix_ms: int) -> None:
        self.first = first
        self.first_ms = self.last_ms = unix_ms


class StreamLog:
    """The segments and stamps of a stream; see the module's docstring."""

    __slots__ = (
        "_gap_ms", "_noted_ms", "_segments", "_stamps", "batch", "came", "due", "notes_times",
        "policy", "readers", "removed", "size", "through",
    )  # fmt: skip

    def __init__(self, policy: StreamPolicy) -> None:
        self.policy = policy
        #: Whether all who may read the notes know what they mean.
        self.notes_times = False
        #: The notes of when messages came, by position; both ascend.
        self.came: dict[int, int] = {}
        self._noted_ms = 0
        #: Where named readers go on.
        self.readers = ReaderPlaces()
        self._segments: deque[Segment] = deque([Segment()])
        self._stamps: list[Stamp] = []
        #: How much time a stamp spans.
        self._gap_ms = 0
        #: The bytes of all segments.
        self.size = 0
        #: The position of the first message of the batch that came last; 0: none did.
        self.batch = 0
        #: A segment has begun since anybody asked what is to go.
        self.due = False
        #: Up to which position messages are to go that may be here yet; 0: none are.
        self.through = 0
        #: Up to which one messages went, or are to go, since this reign began.
        self.removed = 0

    def begin_with(self, runs: Runs, unix_ms: int, came: Mapping[int, int]) -> None:
        """Takes up what an earlier reign has left; `came`: the notes of when some of it came.

        The rest counts as having come as late as it can have, at most now.
        """
        for position in sorted(came):
            # Clocks of several nodes are not one; times ascend all the same.
            noted_ms = min(max(self._noted_ms, came[position] >> 1), unix_ms)
            self.came[position] = noted_ms << 1 | came[position] & _THINNED
            self._noted_ms = noted_ms
        times = _Times(self.came, unix_ms)
        position = 0
        while (run := runs.after(position)) is not None:
            position = run.last
            if run.stowed:
                self._add_stowed(run.first, run.left, run.stowed, times)
            else:
                sizes = [len(message) for _, message in run.pairs()]
                self._add_to_segments(run.first, sizes, sum(sizes), times.latest(run.last))
        self._stamps = times.stamps()
        if self.batch:
            self.batch = self._segments[-1].last
        self.due = True

    def segments(self) -> list[Segment]:
        """The segments, oldest first."""
        return list(self._segments)

    def add(self, first: int, sizes: Sequence[int], size: int, unix_ms: int) -> None:
        """Takes note of messages that were appended: of these sizes, together of `size`."""
        self._stamp(first, unix_ms)
        self._add_to_segments(first, sizes, size, unix_ms)

    def _add_to_segments(self, first: int, sizes: Sequence[int], size: int, unix_ms: int) -> None:
        """Adds messages of these sizes to the youngest segment, and to new ones."""
        self.batch = first
        self.size += size
        segment, full = self._segments[-1], self.policy.segment_bytes
        if segment.size < full and segment.size + size <= full:
            segment.size += size
            segment.last, segment.last_ms = first + len(sizes) - 1, unix_ms
            return
        for position, each in enumerate(sizes, first):
            self._add_to_segment(position, each, unix_ms)

    def _add_stowed(self, first: int, count: int, size: int, times: "_Times") -> None:
        """Adds messages of which it is known how many bytes they have together."""
        self.batch = first
        self.size += size
        parts = min(count, max(1, -(-size // max(1, self.policy.segment_bytes))))
        for part in range(1, parts + 1):
            share = size * part // parts - size * (part - 1) // parts
            last = first + count * part // parts - 1
            self._add_to_segment(last, share, times.latest(last))

    def _add_to_segment(self, last: int, size: int, unix_ms: int) -> None:
        """Adds what goes together, up to a position, to the youngest segment, or to a new one."""
        segment = self._segments[-1]
        full = segment.size >= self.policy.segment_bytes
        if full and segment.last and len(self._segments) < SEGMENTS_MAX:
            segment = Segment()
            self._segments.append(segment)
            self.due = True
        segment.size += size
        segment.last, segment.last_ms = last, unix_ms

    def _stamp(self, first: int, unix_ms: int) -> None:
        stamps = self._stamps
        if stamps:
            last = stamps[-1]
            # The clock of a wall may go back; stamps do not.
            unix_ms = max(unix_ms, last.last_ms)
            if unix_ms - last.first_ms <= self._gap_ms:
                last.last_ms = unix_ms
                return
        stamps.append(Stamp(first, unix_ms))
        if len(stamps) > STAMPS_MAX:
            self._thin_out()

    def _thin_out(self) -> None:
        """Joins neighbours, so that at most half of the stamps are left, equally coarse."""
        stamps = self._stamps
        span = stamps[-1].last_ms - stamps[0].first_ms
        self._gap_ms = max(1, 2 * self._gap_ms, 4 * span // STAMPS_MAX)
        thinned = stamps[:1]
        for stamp in stamps[1:]:
            if stamp.last_ms - thinned[-1].first_ms <= self._gap_ms:
                thinned[-1].last_ms = stamp.last_ms
            else:
                thinned.append(stamp)
        self._stamps = thinned

    def note(self, first: int, unix_ms: int) -> int:
        """The note of when the batch that begins there came; 0: there is to be none."""
        if not self.notes_times or unix_ms < self._noted_ms + NOTED_MS:
            return 0
        self._noted_ms = unix_ms
        self.came[first] = unix_ms << 1
        return unix_ms << 1

    def move_notes(self, gone: Sequence[Range], runs: Runs) -> dict[int, int]:
        """Notes of other messages what was noted of some that are lost; returns those new ones.

        Else what came behind them would seem to have come right behind what was noted before.
        """
        moved: dict[int, int] = {}
        for position in within(gone, self.came):
            note = self.came.pop(position)
            run = runs.after(position)
            if run is None:
                # Whatever comes next is noted.
                self._noted_ms = 0
            elif (following := max(run.first, position + 1)) not in self.came:
                moved[following] = note + (NOTED_MS << 1)
        self.came = dict(sorted({**self.came, **moved}.items()))
        return moved

    def thin_out_notes(self) -> dict[int, int]:
        """Forgets some notes if there are too many: those left are about equally far apart.

        Returns what is to be noted of it: 0 for a note that is forgotten.
        """
        changed: dict[int, int] = {}
        if len(self.came) <= NOTED_MAX:
            return changed
        notes = list(self.came.items())
        gap = (notes[-1][1] - notes[0][1]) // _NOTED_LEFT + 1
        kept, last = notes[0]
        for position, note in notes[1:-1]:
            if note < last + gap:
                changed[position] = 0
                changed[kept] = self.came[kept] | _THINNED
                del self.came[position]
            else:
                kept, last = position, note
        self.came |= {position: note for position, note in changed.items() if note}
        return changed

    def since(self, unix_ms: int) -> int | None:
        """The position from which on messages came then or later; None: all came earlier."""
        index = bisect_left(self._stamps, unix_ms, key=_last_ms)
        return self._stamps[index].first if index < len(self._stamps) else None

    def times(self, first: int, last: int) -> list[tuple[int, int]]:
        """From which position on messages came at which time at the latest; ascending.

        `since` of such a time is where it begins, or before.
        """
        stamps = self._stamps
        begin = max(bisect_right(stamps, first, key=_first) - 1, 0)
        end = bisect_right(stamps, last, key=_first)
        return [(max(first, stamp.first), stamp.last_ms) for stamp in stamps[begin:end]]

    def retain(self, unix_ms: int) -> None:
        """Finds out up to which position messages are to go. The youngest segment stays."""
        self.due = False
        policy, segments = self.policy, self._segments
        through = self.through
        while len(segments) > 1 and (
            (policy.max_bytes is not None and self.size > policy.max_bytes)
            or (policy.max_age_ms is not None and segments[0].last_ms < unix_ms - policy.max_age_ms)
        ):
            segment = segments.popleft()
            self.size -= segment.size
            through = segment.last
        if through != self.through:
            self.through = self.removed = through
            self._forget_stamps(through)

    def _forget_stamps(self, through: int) -> None:
        """Forgets stamps of messages that are gone; one may be of some that are not."""
        index = bisect_left(self._stamps, through + 1, key=_first)
        if index > 1:
            del self._stamps[: index - 1]
        for position in list(self.came):
            if position > through:
                break
            del self.came[position]


class _Times:
    """Within which times messages of an earlier reign came, by what is noted of some."""

    __slots__ = ("_notes", "_now_ms", "_positions")

    def __init__(self, came: Mapping[int, int], now_ms: int) -> None:
        self._positions = list(came)
        self._notes = list(came.values())
        self._now_ms = now_ms

    def latest(self, position: int) -> int:
        """When the message came at the latest."""
        index = bisect_right(self._positions, position)
        next_ms = self._notes[index] >> 1 if index < len(self._notes) else self._now_ms
        if not index:
            return next_ms
        note = self._notes[index - 1]
        if self._positions[index - 1] == position:
            return note >> 1
        return next_ms if note & _THINNED else min((note >> 1) + NOTED_MS, next_ms)

    def stamps(self) -> list[Stamp]:
        """The stamps of all there is."""
        stamps: list[Stamp] = []
        for position, note in zip(self._positions, self._notes, strict=True):
            stamps.append(Stamp(position, note >> 1))
            stamps[-1].last_ms = self.latest(position + 1)
        before = Stamp(0, 0)
        before.last_ms = self.latest(0)
        return [before, *stamps]


def sizes_of(messages: Iterable[bytes]) -> list[int]:
    """The bytes of each message."""
    return [len(message) for message in messages]


def read_from(runs: Runs, position: int, amount: int, size: int) -> list[tuple[int, list[bytes]]]:
    """Messages from a position on, in pieces with their first positions; they stay.

    At most `amount`, and no more than `size` bytes, but for one at least. Ends before what is on
    disk alone.
    """
    pieces: list[tuple[int, list[bytes]]] = []
    while amount > 0 and size > 0:
        run = runs.after(position - 1)
        if run is None or run.stowed:
            break
        start = max(position - run.first, 0)
        # A run of a stream has no gaps.
        part: list[bytes] = run.messages[start : start + amount]  # type: ignore[assignment]
        count = 0
        for message in part:
            size -= len(message)
            if size < 0 and (count or pieces):
                break
            count += 1
        del part[count:]
        if not part:
            break
        pieces.append((run.first + start, part))
        amount -= count
        position = run.first + start + count
    return pieces


def _last_ms(stamp: Stamp) -> int:
    return stamp.last_ms


def _first(stamp: Stamp) -> int:
    return stamp.first
