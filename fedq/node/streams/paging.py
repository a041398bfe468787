"""Reading what streams have on disk alone, where their readers are and a little ahead of them.

Inputs: where somebody reads; what the disk has read. Outputs: reads (`NodeOut.reads`), messages.
What was read serves all readers that are there, and stays in its page as long as there is room
(`fedq.node.records.streams.stream_pages`): a bounded part of memory, for all streams together and
however many places there are. Who finds no room waits for the next one that is done; who was served
goes behind the others (`Reading`, and questions of other nodes in their order), so all go on.

What fails to be read is read in pieces (`fedq.node.records.pieces`). What cannot be read is looked
for in every place that may have it, and then some more times, as its segment may be on the move;
then it is handed over to be lost (`Primary.unreadable`).

Changes pages; marks fragments of this node.
"""

from typing import Final

from fedq.core.ids import FragmentId
from fedq.core.limits import (
    STREAM_AHEAD_BYTES_MAX,
    STREAM_PAGES_BYTES_MIN,
    STREAM_READ_BYTES_MAX,
    STREAM_READ_BYTES_MIN,
)
from fedq.core.ranges import Range
from fedq.fragments.runs.runs import Run
from fedq.journal.places import Place
from fedq.node.records.disk.reads import extended, messages_of
from fedq.node.records.pieces import ask_in_pieces
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.records.streams.stream_pages import Page, StreamPages

#: The part of memory that pages may take, as a shift.
_SHARE_SHIFT: Final = 4
#: Reads of all streams under way; and those for readers that have something to read yet.
_READS_MAX: Final = 16
_READS_AHEAD_MAX: Final = 8
#: How often something is looked for, beyond once in each place, before it is lost; and so many
#: messages more than one are lost in one go.
_TRIES_MAX: Final = 3
_LOST_MAX: Final = 255
_NOWHERE: Final = "the journal does not know where it is"
#: Bytes that are taken in for a unit of work, as a shift.
_BYTES_SHIFT: Final = 11
#: Pages of a stream go when nobody had a look for so long.
_KEPT_MS: Final = 5_000
#: Readers that share the room are counted once in so many turns.
_COUNT_EVERY: Final = 64


class Paging:
    """Reads what readers of this node's streams want of what is on disk alone."""

    __slots__ = ("_counted", "_readers", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: How many readers share the room, and in which turn they were counted.
        self._readers = 1
        self._counted = -_COUNT_EVERY

    @property
    def bound(self) -> int:
        """What all pages together may take, but for one read."""
        settings = self.state.settings
        if settings.read_ahead_bytes:
            return 8 * settings.read_ahead_bytes
        return max(settings.memory_bytes_max >> _SHARE_SHIFT, STREAM_PAGES_BYTES_MIN)

    def _share(self) -> int:
        """What one of the readers may have of it."""
        state = self.state
        if state.work.turn - self._counted >= _COUNT_EVERY:
            self._counted = state.work.turn
            self._readers = 1
            for parts in state.streams.values():
                for readers in parts.values():
                    self._readers += len(readers.cursors) + len(readers.reads)
                    self._readers += len(readers.scans)
        return self.bound // self._readers

    def _read_bytes(self) -> int:
        """What is read in one go."""
        least = self.state.settings.read_ahead_bytes or STREAM_READ_BYTES_MIN
        return max(least, min(self._share() >> 1, STREAM_READ_BYTES_MAX))

    def read(
        self, primary: Primary, run: Run, position: int, amount: int, size: int
    ) -> list[bytes]:
        """Messages from a position on that is in a run on disk alone; none if they must be read.

        No gap is between them. At most `amount`, and about `size` bytes.
        """
        fragment = primary.fragment.fragment_id
        stream = self.state.pages.of(fragment)
        stream.used_ms = self.state.now_ms
        page = stream.find(position)
        if page is None:
            self._want(primary, stream, run, position)
            return []
        self.state.pages.use(page)
        self._read_ahead(primary, stream, page)
        return page.part(position, run.last, amount, size)

    def _want(self, primary: Primary, stream: StreamPages, run: Run, position: int) -> None:
        """Asks for what a reader waits for, if it is not asked for."""
        if primary.damaged or primary.unreadable or stream.awaited(position) is not None:
            return
        pages = self.state.pages
        if pages.reads >= _READS_MAX or not self._ask(primary, stream, run, position):
            pages.waiting[primary.fragment.fragment_id] = None

    def _read_ahead(self, primary: Primary, stream: StreamPages, page: Page) -> None:
        """Asks for what follows a page that is read, as far as a reader may be ahead."""
        pages, fresh = self.state.pages, primary.fragment.fresh
        room = min(self._share(), STREAM_AHEAD_BYTES_MAX) - page.size
        last = page.last
        while room > 0 and pages.reads < _READS_AHEAD_MAX:
            run = fresh.after(last)
            if run is None or not run.stowed:
                return
            position = max(run.first, last + 1)
            following = stream.find(position)
            stretch = stream.awaited(position)
            if following is not None:
                room -= following.size
                last = following.last
            elif stretch is not None:
                room -= stream.under_way[stretch]
                last = stretch[1]
            elif not self._may_ask(primary, stream, position) or not self._ask(
                primary, stream, run, position
            ):
                return

    def _may_ask(self, primary: Primary, stream: StreamPages, position: int) -> bool:
        """Whether it is to be read ahead of a reader: not where that was tried in vain."""
        return not (primary.damaged or primary.unreadable or position in stream.tries)

    def _ask(self, primary: Primary, stream: StreamPages, run: Run, position: int) -> bool:
        """Asks for messages from a position on, about as many as are read in one go.

        False if there is no room for them.
        """
        state, fragment = self.state, primary.fragment.fragment_id
        places = state.plan.locate_all(fragment, position)
        tries, missing = stream.tries.get(position, (0, position))
        if not places or tries >= len(places) + _TRIES_MAX:
            self._lose(primary, stream, position, min(run.last, missing))
            return True
        place = places[tries % len(places)]
        most = self._read_bytes()
        if not state.pages.make_room(max(place.length, most), self.bound):
            return False
        if not tries:
            place = extended(state.plan, fragment, place, run.last, most)
        stretch = (position, stream.room_behind(position, max(place.last, position)))
        state.pages.begin(stream, stretch, place.length)
        ask_in_pieces(state, place, _Piece(self, primary, stream, stretch, place))
        return True

    def _lose(self, primary: Primary, stream: StreamPages, position: int, last: int) -> None:
        """Hands over what cannot be read: what stands there, up to what was found behind it."""
        stream.tries.pop(position, None)
        last = min(last, position + _LOST_MAX)
        if last < position:
            return
        primary.unreadable.append((position, last, stream.reason or _NOWHERE))
        self.state.marks.primaries[primary.fragment.fragment_id] = None

    # --- answers -----------------------------------------------------------------------------

    def on_read(
        self, primary: Primary, stream: StreamPages, stretch: Range, place: Place, data: bytes,
        failure: str = "",
    ) -> None:  # fmt: skip
        """Takes in what was read; what was not among it is looked for when somebody wants it.

        `failure`: why some of it could not be read.
        """
        state, fragment = self.state, primary.fragment.fragment_id
        state.pages.end(stream, stretch, place.length)
        state.work.spend(1 + (len(data) >> _BYTES_SHIFT))
        if not self._is_current(primary, stream):
            self._go_on()
            return
        first, last = stretch
        found, reasons = messages_of(state.plan, fragment, place, data, first)
        bodies = {position: body for position, body in found.items() if position <= last}
        positions = _found_in_a_row(primary, stretch, bodies)
        primary.note_read(bodies)
        if positions:
            state.pages.add(Page(fragment, positions, [bodies[p] for p in positions]))
            stream.tries.pop(first, None)
        elif primary.fragment.fresh.get(first) is not None:
            why = failure or (reasons[0] if reasons else "it is not there")
            stream.note_missing(first, min(bodies, default=last + 1) - 1, why)
            if failure:
                primary.note_unread(first, state.now_ms)
        state.mark_fragment(fragment)
        self._go_on()

    def on_read_failed(
        self, primary: Primary, stream: StreamPages, stretch: Range, place: Place, reason: str
    ) -> None:
        """Takes note of why something could not be read: its segment may have been moved."""
        self.state.pages.end(stream, stretch, place.length)
        if self._is_current(primary, stream):
            stream.note_missing(*stretch, reason)
            primary.note_unread(stretch[0], self.state.now_ms)
            self.state.mark_fragment(primary.fragment.fragment_id)
        self._go_on()

    def _is_current(self, primary: Primary, stream: StreamPages) -> bool:
        """Whether this node still serves the stream in that reign, and somebody reads it."""
        fragment = primary.fragment.fragment_id
        if self.state.primaries.get(fragment) is not primary:
            return False
        return self.state.pages.known(fragment) is stream

    def _go_on(self) -> None:
        """Lets streams look again that had no room."""
        waiting, self.state.pages.waiting = self.state.pages.waiting, {}
        for fragment in waiting:
            self.state.mark_fragment(fragment)

    # --- the end of a look, and time ---------------------------------------------------------

    def had_a_look(self, fragment: FragmentId) -> None:
        """All readers of a stream had a look at its pages: these may make room for others."""
        pages = self.state.pages
        pages.had_a_look(fragment)
        if pages.waiting and not pages.reads:
            # Nothing is under way that would wake those who had no room.
            waiting, pages.waiting = pages.waiting, {}
            self.state.marks.unfinished.update(waiting)

    def tick(self) -> None:
        """Forgets pages of streams that nobody reads, or this node does not serve."""
        state = self.state
        for fragment, stream in state.pages.streams():
            unused_ms = state.now_ms - stream.used_ms
            if unused_ms >= _KEPT_MS or fragment not in state.primaries:
                state.pages.forget(fragment)
        later, state.pages.later = state.pages.later, {}
        state.pages.waiting.update(later)
        self._go_on()


def _found_in_a_row(primary: Primary, stretch: Range, bodies: dict[int, bytes]) -> list[int]:
    """The positions from the first on that are on disk alone, as far as all of them were found."""
    found: list[int] = []
    begin, last = stretch
    while begin <= last:
        run = primary.fragment.fresh.after(begin - 1)
        if run is None or not run.stowed:
            break
        for position in range(max(run.first, begin), min(run.last, last) + 1):
            if position not in bodies:
                return found
            found.append(position)
        begin = run.last + 1
    return found


class _Piece:
    """A read that is under way for a stream."""

    __slots__ = ("_paging", "_place", "_primary", "_stream", "_stretch")

    def __init__(
        self, paging: Paging, primary: Primary, stream: StreamPages, stretch: Range, place: Place
    ) -> None:
        self._paging = paging
        self._primary = primary
        self._stream = stream
        self._stretch = stretch
        self._place = place

    def on_read(self, data: bytes) -> None:
        """Hands on what was read."""
        self._paging.on_read(self._primary, self._stream, self._stretch, self._place, data)

    def on_read_in_part(self, data: bytes, reason: str) -> None:
        """Hands on what was read, and why not all of it was."""
        self._paging.on_read(self._primary, self._stream, self._stretch, self._place, data, reason)

    def on_read_failed(self, reason: str) -> None:
        """Hands on why nothing was read."""
        self._paging.on_read_failed(self._primary, self._stream, self._stretch, self._place, reason)
