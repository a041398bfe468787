"""Messages of streams that were read back from the disk and stay for a while, in *pages*.

Inputs: what was read; who uses what. Outputs: the page that has a position; room for another read.
All pages of all streams together have one bound: what was used least recently makes room.

Invariants: pages of a stream, and stretches that are being read, do not overlap; a page that nobody
could look at yet does not go; `bytes_held` is what all pages take.
"""

from bisect import bisect_left, bisect_right
from typing import Final

from fedq.core.ids import FragmentId
from fedq.core.ranges import Range

#: What a message takes beside its bytes: the object's head and rounding, its places in the lists.
MESSAGE: Final = 88


class Page:
    """Messages of a stream at ascending positions; there is one at least."""

    __slots__ = ("fragment", "is_new", "messages", "positions", "size")

    def __init__(self, fragment: FragmentId, positions: list[int], messages: list[bytes]) -> None:
        self.fragment = fragment
        self.positions = positions
        self.messages = messages
        self.size = sum(map(len, messages)) + MESSAGE * len(messages)
        #: Nobody could look at it yet.
        self.is_new = True

    @property
    def first(self) -> int:
        """The first position."""
        return self.positions[0]

    @property
    def last(self) -> int:
        """The last position; all that is alive in between is here."""
        return self.positions[-1]

    def part(self, first: int, last: int, amount: int, size: int) -> list[bytes]:
        """Messages from a position on that is here, up to another one; no gap is between them.

        At most `amount`, and no more than so many bytes, but for one at least.
        """
        start = bisect_left(self.positions, first)
        stop = min(bisect_right(self.positions, last), start + amount)
        for index in range(start, stop):
            size -= len(self.messages[index])
            if size < 0:
                stop = max(index, start + 1)
                break
        return self.messages[start:stop]


class StreamPages:
    """The pages of one stream, what is being read for it, and what was looked for in vain."""

    __slots__ = ("new", "pages", "reason", "tries", "under_way", "used_ms")

    def __init__(self) -> None:
        #: Ascending.
        self.pages: list[Page] = []
        #: Those that nobody could look at yet.
        self.new: list[Page] = []
        #: Stretches of positions, and the bytes of each read.
        self.under_way: dict[Range, int] = {}
        #: How often a position was looked for in vain, and up to which one nothing was found; and
        #: why, as of late.
        self.tries: dict[int, tuple[int, int]] = {}
        self.reason = ""
        #: When somebody had last a look.
        self.used_ms = 0

    def find(self, position: int) -> Page | None:
        """The page that the position is in."""
        at = bisect_right(self.pages, position, key=_first_of) - 1
        return self.pages[at] if at >= 0 and self.pages[at].last >= position else None

    def awaited(self, position: int) -> Range | None:
        """The stretch under way that the position is in."""
        for stretch in self.under_way:
            if stretch[0] <= position <= stretch[1]:
                return stretch
        return None

    def note_missing(self, position: int, last: int, reason: str) -> None:
        """Notes that nothing was found from a position on up to another one."""
        tries, known = self.tries.get(position, (0, last))
        self.tries[position] = (tries + 1, min(known, last))
        self.reason = reason

    def room_behind(self, position: int, last: int) -> int:
        """The last position before another page, or another stretch under way, begins."""
        at = bisect_right(self.pages, position, key=_first_of)
        if at < len(self.pages):
            last = min(last, self.pages[at].first - 1)
        return min([last, *[first - 1 for first, _ in self.under_way if first > position]])


class Pages:
    """The pages of all streams."""

    __slots__ = ("_recent", "_streams", "bytes_asked", "bytes_held", "later", "reads", "waiting")

    def __init__(self) -> None:
        self._streams: dict[FragmentId, StreamPages] = {}
        #: Whatever was used last is the last.
        self._recent: dict[Page, None] = {}
        #: What the pages take, what was asked for, and in how many reads.
        self.bytes_held = self.bytes_asked = self.reads = 0
        #: Streams with readers for whom there was no room.
        self.waiting: dict[FragmentId, None] = {}
        #: And those that are to be looked at with the next tick.
        self.later: dict[FragmentId, None] = {}

    def of(self, fragment: FragmentId) -> StreamPages:
        """The pages of a stream."""
        found = self._streams.get(fragment)
        if found is None:
            found = self._streams[fragment] = StreamPages()
        return found

    def known(self, fragment: FragmentId) -> StreamPages | None:
        """The pages of a stream, if any are noted."""
        return self._streams.get(fragment)

    def streams(self) -> list[tuple[FragmentId, StreamPages]]:
        """The streams that have pages, or wait for some."""
        return list(self._streams.items())

    def use(self, page: Page) -> None:
        """Notes that the page is used."""
        page.is_new = False
        if page in self._recent:
            del self._recent[page]
        self._recent[page] = None

    def add(self, page: Page) -> None:
        """Adds what was read."""
        stream = self.of(page.fragment)
        stream.pages.insert(bisect_right(stream.pages, page.first, key=_first_of), page)
        stream.new.append(page)
        self._recent[page] = None
        self.bytes_held += page.size

    def had_a_look(self, fragment: FragmentId) -> None:
        """Notes that all readers of the stream could look at its pages."""
        stream = self._streams.get(fragment)
        if stream is not None:
            for page in stream.new:
                page.is_new = False
            stream.new = []

    def make_room(self, size: int, bound: int) -> bool:
        """Makes room for so many bytes, as far as pages may go; whether there is any.

        One read may go beyond the bound: a message has any length.
        """
        if self.bytes_held + self.bytes_asked + size > bound:
            for page in list(self._recent):
                if not page.is_new:
                    self._drop(page)
                    if self.bytes_held + self.bytes_asked + size <= bound:
                        break
        return self.bytes_held + self.bytes_asked < bound

    def _drop(self, page: Page) -> None:
        del self._recent[page]
        self.bytes_held -= page.size
        pages = self._streams[page.fragment].pages
        del pages[bisect_left(pages, page.first, key=_first_of)]

    def forget(self, fragment: FragmentId) -> None:
        """Forgets the pages of a stream; what is under way for it is void."""
        stream = self._streams.pop(fragment, None)
        self.waiting.pop(fragment, None)
        if stream is not None:
            for page in stream.pages:
                del self._recent[page]
                self.bytes_held -= page.size

    def begin(self, stream: StreamPages, stretch: Range, size: int) -> None:
        """Notes that a stretch of a stream is being read, with so many bytes."""
        stream.under_way[stretch] = size
        self.bytes_asked += size
        self.reads += 1

    def end(self, stream: StreamPages, stretch: Range, size: int) -> None:
        """Notes that the read has ended."""
        del stream.under_way[stretch]
        self.bytes_asked -= size
        self.reads -= 1


def _first_of(page: Page) -> int:
    return page.first
