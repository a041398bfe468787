"""Which segment records go to, when a new one begins, and which ones nobody needs any more.

A segment is one file of records. Inputs: encoded records with the highest message position in them,
and, on demand, the lowest live position of a fragment. Outputs: numbered chunks for the disk, and
the numbers of dead segments. Invariants:

* Chunks are numbered from 1 without gaps; one turn gives one chunk, two if it rolls, and more if
  there are long records in it.
* A segment never grows beyond `bytes_max`, except to hold a single longer append.
* Only the oldest segments are ever dropped: the record that says that a message is gone is always
  younger than the one that brought it, so it outlives it, and nothing returns from the dead.
* After a restart nothing is appended to an old segment: its tail may have been cut.
* A long record is a chunk of its own, the very bytes that were appended: nothing is copied.
* A chunk begins with a mark (`fedq.journal.marks`) if more is known to be on disk than the last
  one said; so does each segment.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from fedq.core import limits
from fedq.core.ids import FragmentId
from fedq.journal.marks import MARK_BYTES, mark_bytes

#: No segment with a KEEP goes before the copy is whole: until then its fragment lives from 0 on.
KEEP_POSITION: Final = 1


class Chunk:
    """Bytes to append to a segment; `number` counts chunks from 1 without gaps."""

    __slots__ = ("data", "number", "segment", "sync")

    def __init__(self, number: int, segment: int, data: bytes, sync: bool) -> None:
        """`sync`: report `number` once this chunk and all before it are fsynced."""
        self.number = number
        self.segment = segment
        self.data = data
        self.sync = sync


@dataclass(slots=True)
class Segment:
    """What a segment holds, as far as its fate depends on it."""

    number: int
    #: Bytes of whole records.
    size: int = 0
    #: The highest position of a message in it, for each fragment that has one.
    highest: dict[FragmentId, int] = field(default_factory=dict)


class SegmentPlan:
    """Decides where records go. One per node; see the module's docstring for the rules."""

    __slots__ = (
        "_active", "_bytes_max", "_chunks", "_marked", "_newest_taken", "_nonce", "_number",
        "_old", "_parts", "_pin", "_sync", "_synced", "_unsynced",
    )  # fmt: skip

    def __init__(
        self, recovered: Iterable[Segment] = (), bytes_max: int = limits.SEGMENT_BYTES_MAX,
        nonce: int | None = None,
    ) -> None:  # fmt: skip
        """`recovered`: the segments found on disk, ascending (`Recovered.segments`).

        `nonce`: a number that nobody can guess, for the marks; None: there are none.
        """
        assert bytes_max > 0
        self._bytes_max = bytes_max
        #: Full segments, oldest first.
        self._old = deque(recovered)
        self._active = Segment(self._old[-1].number + 1 if self._old else 1)
        #: The newest segment that the disk knows of.
        self._newest_taken = self._old[-1].number if self._old else 0
        #: Chunks of this turn for segments that are full.
        self._chunks: list[Chunk] = []
        #: What this turn appended to the active segment, and the number its chunk will have.
        self._parts: list[bytes] = []
        self._sync = False
        self._number = 1
        self._nonce = nonce
        #: (segment, bytes) that are known to be on disk, and that the last mark said.
        self._synced = self._marked = (0, 0)
        #: Chunks that were taken: number, segment, where they end in it.
        self._unsynced: deque[tuple[int, int, int]] = deque()
        #: The fragment that last kept the oldest segment alive; asked first the next time.
        self._pin: FragmentId | None = None

    @property
    def segments(self) -> list[int]:
        """The numbers of all segments not dropped, oldest first; the last one is being filled."""
        return [segment.number for segment in self._old] + [self._active.number]

    @property
    def bytes_held(self) -> int:
        """Bytes of whole records in all segments not dropped."""
        return sum(segment.size for segment in self._old) + self._active.size

    def append(self, fragment: FragmentId, max_position: int, data: bytes, sync: bool) -> int:
        """Adds one or more whole records of a fragment; returns the number of their chunk.

        `max_position` is the highest position of a message in them, 0 for none; `KEEP_POSITION`
        for a KEEP, which stands for all that its copy does not have yet. With `sync` their chunk
        will be reported when it is safe. The bytes leave with the next `take`.
        """
        assert data, "an append holds at least one record"
        active, size = self._active, len(data)
        is_long = size >= limits.LONG_RECORD_BYTES_MIN
        if is_long:
            size += MARK_BYTES
        if active.size > 0 and active.size + size > self._bytes_max:
            active = self._roll()
        if is_long:
            self._finish_chunk()
        active.size += len(data)
        if max_position > active.highest.get(fragment, 0):
            active.highest[fragment] = max_position
        self._parts.append(data)
        self._sync = self._sync or sync
        number = self._number
        if is_long:
            self._finish_chunk()
        return number

    def on_synced(self, number: int) -> None:
        """The disk has every chunk up to this number."""
        unsynced = self._unsynced
        while unsynced and unsynced[0][0] <= number:
            _, segment, end = unsynced.popleft()
            self._synced = (segment, end)

    def mark(self) -> None:
        """Marks how much is on disk even if nothing else is to be written; free if it is said."""
        if not self._parts and self._synced[0] == self._active.number:
            self._finish_chunk()

    def take(self) -> list[Chunk]:
        """The chunks of this turn, in order, for the disk; normally one or none."""
        if self._parts:
            self._finish_chunk()
        chunks = self._chunks
        if chunks:
            self._newest_taken = chunks[-1].segment
            self._chunks = []
        return chunks

    def dead(self, oldest_live: Callable[[FragmentId], int | None]) -> list[int]:
        """The segments that may be deleted now, oldest first; the plan forgets them.

        `oldest_live` gives the lowest position of a live persistent message of a fragment, or
        None if there is none. Cheap when nothing is dead: normally one call of it.
        """
        old = self._old
        # The newest one on disk always stays: its number tells the next start where to go on. What
        # was not taken yet is not on disk, so cannot be deleted.
        newest = self._newest_taken
        dead: list[int] = []
        while old and old[0].number < newest and not self._is_live(old[0], oldest_live):
            dead.append(old.popleft().number)
        return dead

    def _is_live(self, segment: Segment, oldest_live: Callable[[FragmentId], int | None]) -> bool:
        highest = segment.highest
        pin = self._pin
        if pin is not None and pin in highest:
            oldest = oldest_live(pin)
            if oldest is not None and oldest <= highest[pin]:
                return True
        for fragment, position in highest.items():
            oldest = oldest_live(fragment)
            if oldest is not None and oldest <= position:
                self._pin = fragment
                return True
        return False

    def _roll(self) -> Segment:
        self._finish_chunk()
        self._old.append(self._active)
        self._active = Segment(self._active.number + 1)
        return self._active

    def _next_mark(self) -> bytes:
        """The mark that a chunk of the active segment should begin with; empty: none."""
        number = self._active.number
        said = self._synced if self._synced[0] == number else (number, 0)
        if self._nonce is None or said == self._marked:
            return b""
        if self._active.size + MARK_BYTES > self._bytes_max:
            return b""
        self._marked = said
        return mark_bytes(self._nonce, said[0], said[1])

    def _finish_chunk(self) -> None:
        mark = self._next_mark()
        if mark:
            self._parts.insert(0, mark)
            self._active.size += len(mark)
        parts = self._parts
        if not parts:
            return
        if self._nonce is not None:
            self._unsynced.append((self._number, self._active.number, self._active.size))
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self._chunks.append(Chunk(self._number, self._active.number, data, self._sync))
        self._number += 1
        self._parts = []
        self._sync = False
