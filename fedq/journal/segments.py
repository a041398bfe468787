"""Which segment records go to, when a new one begins, and which ones nobody needs any more.

A segment is one file of records. Inputs: encoded records with the positions of their messages;
what a checkpoint finds alive (`fedq.journal.checkpoints`); before there is one, the lowest live
position of a fragment. Outputs: numbered chunks for the disk, and the numbers of dead segments.
Invariants:

* Chunks are numbered from 1 without gaps; one turn gives one chunk, two if it rolls, and more if
  there are long records in it.
* A segment never grows beyond `bytes_max`, except to hold a single longer append.
* A segment is dropped when nothing in it is alive, and a later record on the disk says so: that is
  a complete checkpoint, begun behind it. While there is none, only the oldest segments are dropped:
  the record that says that a message is gone is always younger than the one that brought it, so it
  outlives it. So nothing returns from the dead.
* After a restart nothing is appended to an old segment: its tail may have been cut.
* A long record is a chunk of its own, the very bytes that were appended: nothing is copied.
* A chunk begins with a mark (`fedq.journal.marks`) if more is known to be on disk than the last
  one said; so does each segment.
* Where messages lie is known once their chunk was taken (`fedq.journal.places`); until then
  a mark may come in front of it, which moves all that is in it.
"""

from array import array
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from fedq.core import limits
from fedq.core.ids import FragmentId
from fedq.core.ranges import Range, count_within
from fedq.journal.marks import MARK_BYTES, mark_bytes
from fedq.journal.places import STRETCH_BYTES, Place, Places
from fedq.journal.records import encode_checkpoint

#: No segment with a KEEP goes before the copy is whole: until then its fragment lives from 0 on.
KEEP_POSITION: Final = 1
#: What a message takes in a record of copied ones, beside its bytes.
COPY_BYTES_EACH: Final = 12
#: Records are taken together up to this part of a segment, as a shift.
_STRETCH_SHIFT: Final = 3


class Chunk:
    """Bytes to append to a segment; `number` counts chunks from 1 without gaps."""

    __slots__ = ("data", "full", "number", "segment", "sync")

    def __init__(self, number: int, segment: int, data: bytes, sync: bool) -> None:
        """`sync`: report `number` once this chunk and all before it are fsynced."""
        self.number = number
        self.segment = segment
        self.data = data
        self.sync = sync
        #: The segment before, if this is the first chunk of one: nothing comes to it any more.
        self.full: Segment | None = None


@dataclass(slots=True)
class Segment:
    """What a segment holds, as far as its fate depends on it."""

    number: int
    #: Bytes of whole records.
    size: int = 0
    #: Between which positions its messages stand, by fragment: the lowest and the highest that
    #: came in (0, 0: none did), then those of each copy of old ones.
    spans: dict[FragmentId, "array[int]"] = field(default_factory=dict)
    #: About how many bytes of it, in how many messages, the last checkpoint found alive.
    live_bytes: int = 0
    live_count: int = 0
    #: All that was alive in it is elsewhere, too.
    is_moved: bool = False
    #: Where its messages lie.
    places: Places = field(default_factory=Places, compare=False)
    #: Something in it cannot be read any more: what is alive in it is to be written anew.
    is_rotten: bool = field(default=False, compare=False)
    #: That was read from its index (`fedq.journal.indexes`).
    is_indexed: bool = field(default=False, compare=False)
    #: The number in its marks, which nobody else can guess, if it is known.
    nonce: int | None = field(default=None, compare=False)

    def arrived(self, fragment: FragmentId, first: int, last: int) -> None:
        """Notes messages that came in, at positions beyond all before."""
        spans = self.spans.get(fragment)
        if spans is None:
            self.spans[fragment] = array("Q", (first, last))
            return
        lowest = spans[0]
        if first < lowest or not lowest:
            spans[0] = first
        if last > spans[1]:
            spans[1] = last

    def copied(self, fragment: FragmentId, first: int, last: int) -> None:
        """Notes old messages: others of these positions may be elsewhere."""
        spans = self.spans.setdefault(fragment, array("Q", (0, 0)))
        if len(spans) > 2 and first == spans[-1] + 1:
            spans[-1] = last
        elif len(spans) > 2 and last == spans[-2] - 1:
            spans[-2] = first
        else:
            spans.extend((first, last))

    def highest(self, fragment: FragmentId) -> int:
        """The highest position of a message of the fragment, which has some here."""
        return max(self.spans[fragment][1::2])

    def count_live(self, fragment: FragmentId, ranges: Sequence[Range]) -> int:
        """How many of these positions (ascending) its messages of the fragment may stand at."""
        spans = self.spans.get(fragment, ())
        return sum(count_within(ranges, spans[at], spans[at + 1]) for at in range(0, len(spans), 2))


class SegmentPlan:
    """Decides where records go. One per node; see the module's docstring for the rules."""

    __slots__ = (
        "_active", "_begun", "_bytes_max", "_chunks", "_condemned", "_ending", "_found", "_full",
        "_homes", "_last_begun", "_marked", "_newest_taken", "_nonce", "_number", "_old", "_parts",
        "_pin", "_sync", "_synced", "_synced_chunk", "_unsynced", "bytes_of_checkpoint",
        "bytes_written", "checkpoint", "has_news_of_dead",
    )  # fmt: skip

    def __init__(
        self, recovered: Iterable[Segment] = (), bytes_max: int = limits.SEGMENT_BYTES_MAX,
        nonce: int | None = None, checkpoint: int = 0,
    ) -> None:  # fmt: skip
        """`recovered`: the segments found on disk, ascending (`Recovered.segments`).

        `nonce`: a number that nobody can guess, for the marks; None: there are none.
        `checkpoint`: see `Recovered`.
        """
        # Where things lie in a segment is said in 32 bits.
        assert 0 < bytes_max < 1 << 31
        self._bytes_max = bytes_max
        #: Full segments, oldest first.
        self._old = deque(recovered)
        self._active = self._open(self._old[-1].number + 1 if self._old else 1, nonce)
        #: The segment before, until the disk hears of the one being filled.
        self._full: Segment | None = None
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
        #: The segment at which the last complete checkpoint begins; 0: there is none.
        self.checkpoint = checkpoint
        #: The one at which the one under way began, the chunk that will say that it is complete,
        #: and what it has found alive so far; 0: there is none, or it is not written yet.
        self._begun = self._ending = self._last_begun = 0
        self._found: dict[int, tuple[int, int]] = {}
        #: What the last one, or the one under way, takes in the journal.
        self.bytes_of_checkpoint = 0
        #: All that was ever appended.
        self.bytes_written = 0
        #: Segments that go once this chunk is on disk, and with it what says that they are dead.
        self._condemned: tuple[int, list[Segment]] = 0, []
        self._synced_chunk = 0
        #: Some segments may have died since `dead` was asked.
        self.has_news_of_dead = False
        #: The segments that have messages of a fragment.
        self._homes: dict[FragmentId, list[Segment]] = {}
        for segment in self._old:
            for fragment in segment.spans:
                self._homes.setdefault(fragment, []).append(segment)

    @property
    def segments(self) -> list[int]:
        """The numbers of all segments not dropped, oldest first; the last one is being filled."""
        return [segment.number for segment in self._old] + [self._active.number]

    @property
    def full(self) -> Sequence[Segment]:
        """The segments that nothing comes to any more, oldest first."""
        return self._old

    @property
    def synced_segment(self) -> int:
        """The segment up to which the disk has everything before; 0: nothing was synced yet."""
        return self._synced[0]

    @property
    def bytes_held(self) -> int:
        """Bytes of whole records in all segments not dropped."""
        return sum(segment.size for segment in self._old) + self._active.size

    def append(
        self, fragment: FragmentId, data: bytes, sync: bool, first: int = 0, last: int = 0,
        copied: bool = False,
    ) -> int:  # fmt: skip
        """Adds one or more whole records of a fragment; returns the number of their chunk.

        `first` and `last` are the lowest and the highest position of a message in them, 0 if there
        is none; `copied`: they are old ones. A KEEP has a position, too (`KEEP_POSITION`): it
        stands for all that its copy does not have yet. With `sync` their chunk will be reported
        when it is safe. The bytes leave with the next `take`.
        """
        assert data, "an append holds at least one record"
        active, size = self._active, len(data)
        is_long = size >= limits.LONG_RECORD_BYTES_MIN
        needed = size + MARK_BYTES if is_long else size
        if active.size > 0 and active.size + needed > self._bytes_max:
            active = self._roll()
        if is_long:
            self._finish_chunk()
        active.size += size
        self.bytes_written += size
        if last:
            spans = active.spans.get(fragment)
            if spans is None:
                self._homes.setdefault(fragment, []).append(active)
            if copied:
                active.copied(fragment, first, last)
            elif spans is None or first < spans[1]:
                active.arrived(fragment, first, last)
            else:
                # As a rule it goes on behind all that came in before, if anything did.
                spans[1] = last
                if not spans[0]:
                    spans[0] = first
            active.places.add(fragment, first, last, active.size, size, copied)
        self._parts.append(data)
        if sync:
            self._sync = True
        number = self._number
        if is_long:
            self._finish_chunk()
        return number

    def sync_all(self) -> int:
        """Has the disk sync all that was appended so far; returns the number of the last chunk."""
        active = self._active
        if active.size > 0 and active.size + MARK_BYTES > self._bytes_max:
            active = self._roll()
        # A mark says nothing else, and every release reads it.
        synced = self._synced[1] if self._synced[0] == active.number else 0
        self._parts.append(mark_bytes(self._nonce or 0, active.number, synced))
        active.size += MARK_BYTES
        self._sync = True
        return self._number

    def on_synced(self, number: int) -> None:
        """The disk has every chunk up to this number."""
        unsynced = self._unsynced
        while unsynced and unsynced[0][0] <= number:
            _, segment, end = unsynced.popleft()
            self._synced = (segment, end)
        self._synced_chunk = number
        if 0 < self._ending <= number:
            self._complete()
        if self._condemned[0] <= number:
            self.has_news_of_dead = True

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

    # --- where messages lie ------------------------------------------------------------------

    @property
    def places_bytes(self) -> int:
        """About what it takes in memory to know where messages lie."""
        return sum([segment.places.size for segment in self._old]) + self._active.places.size

    def locate(self, fragment: FragmentId, position: int) -> Place | None:
        """Where a message most likely lies, of what was taken; None: in no segment.

        If it is not there, it is at another one of `locate_all`.
        """
        places = self.locate_all(fragment, position)
        return places[0] if places else None

    def locate_all(self, fragment: FragmentId, position: int) -> list[Place]:
        """Where a message may lie: copies first, the newest of them first."""
        homes = self._homes.get(fragment, [])
        copies: list[Place] = []
        arrivals: list[Place] = []
        for segment in reversed(homes):
            copies += segment.places.copies_at(fragment, position, segment.number)
            arrival = segment.places.arrival_at(fragment, position, segment.number)
            if arrival is not None:
                arrivals.append(arrival)
        return copies + arrivals

    def homes(self, fragment: FragmentId) -> list[Segment]:
        """The segments that have messages of the fragment, oldest first."""
        return self._homes.get(fragment, [])

    def locate_in(self, fragment: FragmentId, segment_number: int) -> list[Place]:
        """Where messages of a fragment lie in a segment; nowhere if the segment is dropped."""
        for segment in self._homes.get(fragment, []):
            if segment.number == segment_number:
                return segment.places.of(fragment, segment_number)
        return []

    # --- checkpoints -------------------------------------------------------------------------

    @property
    def newest(self) -> int:
        """The segment that is being filled."""
        return self._active.number

    @property
    def is_checkpointing(self) -> bool:
        """Whether a checkpoint is under way."""
        return self._begun > 0

    def begin_checkpoint(self) -> int:
        """Begins a checkpoint: returns the segment from which on a start will read."""
        if self._active.number == self._last_begun and self._active.size > 0:
            # Nothing of one that was given up may pass for this one's. (A segment that holds
            # nothing has nothing of it, and would be missed if it were left out.)
            self._roll()
        self._begun = self._last_begun = self._active.number
        self._ending = 0
        self._found = {}
        self.bytes_of_checkpoint = 0
        return self._begun

    def append_checkpoint(self, fragment: FragmentId, data: bytes) -> None:
        """Adds records of the checkpoint under way; see `append`."""
        self.bytes_of_checkpoint += len(data)
        self.append(fragment, data, False)

    def found_live(self, fragment: FragmentId, ranges: Sequence[Range], bytes_each: int) -> int:
        """Notes what the checkpoint under way has found alive (ascending), so many bytes each.

        Returns how many segments it looked at.
        """
        homes = self._homes.get(fragment, [])
        for segment in homes:
            count = segment.count_live(fragment, ranges) if segment.number < self._begun else 0
            if count:
                size, number = self._found.get(segment.number, (0, 0))
                self._found[segment.number] = (size + count * bytes_each, number + count)
        return len(homes)

    def end_checkpoint(self) -> int:
        """Says that all that is alive was written; returns the number of the chunk with that."""
        number = self.append(FragmentId(0), encode_checkpoint(self._begun), True)
        self._ending = number
        return number

    def give_up_checkpoint(self) -> None:
        """Gives up the checkpoint under way: the one before it still counts."""
        assert not self._ending, "it is said to be complete"
        self._begun = self._ending = 0

    def _complete(self) -> None:
        """The checkpoint is on disk: nothing but what it has found alive keeps a segment."""
        for segment in self._old:
            if segment.number < self._begun and not segment.is_moved:
                found = self._found.get(segment.number, (0, 0))
                segment.live_bytes, segment.live_count = found
        self.checkpoint, self._begun, self._ending, self._found = self._begun, 0, 0, {}
        self._condemned = 0, []
        self.has_news_of_dead = True

    # --- segments of which little is alive ----------------------------------------------------

    def mostly_dead(self, but: Container[int] = ()) -> Segment | None:
        """The one (`but` for these) of which the least is alive: moving it frees half of it."""
        best: Segment | None = None
        least = 0.5
        for segment in self._old:
            if segment.live_bytes and self.checkpoint > segment.number not in but:
                share = (segment.live_bytes + COPY_BYTES_EACH * segment.live_count) / segment.size
                if share < least:
                    best, least = segment, share
        return best

    def holds(self, segment: Segment) -> bool:
        """Whether the segment is still there, with something in it that is alive."""
        return segment.live_bytes > 0 and segment in self._old

    def moved(self, segment: Segment) -> None:
        """All that is alive in the segment is on disk elsewhere: it may go."""
        segment.is_moved = True
        segment.live_bytes = segment.live_count = 0
        self.has_news_of_dead = True

    # --- dead segments -----------------------------------------------------------------------

    def dead(self, oldest_live: Callable[[FragmentId], int | None]) -> list[int]:
        """The segments that may be deleted now, oldest first; the plan forgets them.

        `oldest_live` gives the lowest position of a live persistent message of a fragment, or
        None if there is none; asked as long as there is no checkpoint, normally once.
        """
        self.has_news_of_dead = False
        # The newest one on disk stays: its number tells the next start where to go on.
        newest = self._newest_taken
        if self.checkpoint:
            # What says that they are dead is on disk: `_complete`, `moved`.
            stop = min(newest, self.checkpoint)
            dead = [each for each in self._old if each.number < stop and not each.live_bytes]
            return self._forget(dead)
        number, condemned = self._condemned
        if condemned and number <= self._synced_chunk:
            self._condemned = 0, []
            return self._forget(condemned)
        if not condemned:
            stop = min(self._begun or newest, newest)
            for segment in self._old:
                if segment.number >= stop or self._is_live(segment, oldest_live):
                    break
                condemned.append(segment)
            if condemned:
                self._condemned = self.sync_all(), condemned
        return []

    def _forget(self, segments: list[Segment]) -> list[int]:
        for segment in segments:
            self._old.remove(segment)
            for fragment in segment.spans:
                homes = self._homes[fragment]
                homes.remove(segment)
                if not homes:
                    del self._homes[fragment]
        return [segment.number for segment in segments]

    def _is_live(self, segment: Segment, oldest_live: Callable[[FragmentId], int | None]) -> bool:
        pin = self._pin
        if pin is not None and pin in segment.spans:
            oldest = oldest_live(pin)
            if oldest is not None and oldest <= segment.highest(pin):
                return True
        for fragment in segment.spans:
            oldest = oldest_live(fragment)
            if oldest is not None and oldest <= segment.highest(fragment):
                self._pin = fragment
                return True
        return False

    def _roll(self) -> Segment:
        self._finish_chunk()
        self._old.append(self._active)
        self._full = self._active
        self._active = self._open(self._active.number + 1, self._nonce)
        return self._active

    def _open(self, number: int, nonce: int | None) -> Segment:
        """A segment that is yet to be filled; one as small as tests have has small stretches."""
        places = Places(min(STRETCH_BYTES, 1 + (self._bytes_max >> _STRETCH_SHIFT)))
        return Segment(number, nonce=nonce, places=places)

    def _next_mark(self) -> bytes:
        """The mark that a chunk of the active segment should begin with; empty: none."""
        if self._nonce is None:
            return b""
        active, said = self._active, self._synced
        if said[0] != active.number:
            said = (active.number, 0)
        if said == self._marked or active.size + MARK_BYTES > self._bytes_max:
            return b""
        self._marked = said
        return mark_bytes(self._nonce, said[0], said[1])

    def _finish_chunk(self) -> None:
        active, parts = self._active, self._parts
        mark = self._next_mark()
        if mark:
            parts.insert(0, mark)
            active.size += MARK_BYTES
        if not parts:
            return
        number, size = self._number, active.size
        if self._nonce is not None:
            self._unsynced.append((number, active.number, size))
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        active.places.finish_chunk(size - len(data), len(mark))
        chunk = Chunk(number, active.number, data, self._sync)
        if self._full is not None:
            chunk.full, self._full = self._full, None
        self._chunks.append(chunk)
        self._number = number + 1
        self._parts = []
        self._sync = False
