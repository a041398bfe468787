"""Reading back what long lines have on disk alone, a little ahead of whoever takes it.

Inputs: primaries that were touched, and what the disk has read. Outputs: reads (`NodeOut.reads`),
and messages in their places, as if they had just come. What is kept singly is read first, since all
waits for that.

What fails to be read is read in pieces (`fedq.node.records.pieces`), so that what lies around a bad
sector is there. What cannot be read is looked for again where the journal has it by then (a segment
may have been moved meanwhile); after some tries it is asked for from other copies
(`fedq.node.copies.mending`), with all that should be at the same places and was not. If one that
may have it does not answer, that one is to lead; if nobody has it, it is lost: named, counted,
settled, and the rest goes on. So is what readers of a stream could not be given.

Changes fragments of this node; marks them.
"""

from collections import deque
from typing import Final

from fedq.core.ids import FragmentId
from fedq.core.limits import DEAD_LETTERS_MAX, KIB, MIB
from fedq.core.ranges import Range, count, join_overlapping, to_ranges
from fedq.fragments.fragment import Fragment
from fedq.fragments.runs.ranked import RankedFresh
from fedq.fragments.upkeep.stowing import (
    fill,
    is_in_journal,
    is_over,
    lose,
    missing,
    next_absent,
    next_stowed,
    waits_for_disk,
)
from fedq.fragments.upkeep.stowing_ranked import may_read
from fedq.journal.places import Place
from fedq.journal.rot import note_rot
from fedq.node.copies.mending import Mending
from fedq.node.records.disk.reads import extended, messages_of
from fedq.node.records.pieces import ask_in_pieces
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState

#: What is read ahead for a line: at most, at least, and what part of memory all lines share.
_AHEAD_BYTES_MAX: Final = 4 * MIB
_AHEAD_BYTES_MIN: Final = 128 * KIB
_SHARE_SHIFT: Final = 4
#: What is read in one go (`NodeSettings.piece_bytes`), and how many reads are under way of a line.
_READ_BYTES_MAX: Final = MIB
_READS_MAX: Final = 4
#: The same where each message is looked at by itself, as it has a priority.
_READ_RANKED_MAX: Final = MIB >> 2
#: How often something is looked for, beyond once in each place, before it is lost.
_TRIES_MAX: Final = 3
#: What a disk has failed to read is read anew every so often (`Primary.may_be_read_yet`).
_RETRY_MS: Final = 500
_NOWHERE: Final = "nothing says where it is"
#: So many messages are lost in one go.
LOST_MAX: Final = 256
#: Bytes that are taken in for a unit of work, as a shift.
_BYTES_SHIFT: Final = 11
#: Beyond all positions.
_BEYOND: Final = 1 << 64


class Reading:
    """What is under way for one line, and how far it was asked for."""

    __slots__ = ("ahead", "asked_through", "primary", "reason", "tries", "under_way")

    def __init__(self, primary: Primary) -> None:
        self.primary = primary
        #: The line is asked for up to this position.
        self.asked_through = 0
        #: The bytes of each read that is not answered.
        self.under_way: deque[int] = deque()
        #: What came back: up to which position, and bytes.
        self.ahead: deque[tuple[int, int]] = deque()
        #: How often the position that all wait for was looked for in vain; and why, as of late.
        self.tries: dict[int, int] = {}
        self.reason = ""


class ReadingBack:
    """Reads ahead for the lines that have bodies on disk alone."""

    __slots__ = ("_readings", "_resting", "mending", "state")

    def __init__(self, state: NodeState, mending: Mending) -> None:
        self.state = state
        self.mending = mending
        self._readings: dict[FragmentId, Reading] = {}
        #: Until when nothing is read, of fragments whose disk fails.
        self._resting: dict[FragmentId, int] = {}

    def asked_through(self, fragment: FragmentId) -> int:
        """Up to which position the line's bodies are asked for, and are to stay."""
        reading = self._readings.get(fragment)
        return reading.asked_through if reading is not None else 0

    def bytes_asked(self, fragment: FragmentId) -> int:
        """What is being read for the line."""
        reading = self._readings.get(fragment)
        return sum(reading.under_way) if reading is not None else 0

    def is_waiting(self, primary: Primary) -> bool:
        """Whether messages of the fragment are fetched from other copies, or its disk is let be."""
        identity = primary.fragment.fragment_id
        return identity in self._resting or self.mending.is_under_way(identity)

    def forget_gone(self) -> None:
        """Forgets fragments that this node serves no more, or in another reign."""
        for fragment, reading in list(self._readings.items()):
            if self.state.primaries.get(fragment) is not reading.primary:
                del self._readings[fragment]

    def look(self, primary: Primary) -> None:
        """Asks for what is to be read next, if there is anything on disk alone."""
        fragment = primary.fragment
        reading = self._readings.get(fragment.fragment_id)
        if fragment.fragment_id in self._resting:
            return
        if primary.unreadable and not self.is_waiting(primary):
            # Else it waits: meanwhile nothing else is read for readers.
            unreadable, primary.unreadable = primary.unreadable, []
            for first, last, reason in unreadable:
                places = self.state.places_of(fragment.fragment_id, first)
                positions = [
                    position
                    for position in missing_between(fragment, first, last)
                    if self.state.places_of(fragment.fragment_id, position) == places
                ]
                self.give_up(primary, positions, reason)
        if primary.damaged or self.mending.is_under_way(fragment.fragment_id):
            return
        if not waits_for_disk(fragment):
            if reading is not None and not reading.under_way:
                del self._readings[fragment.fragment_id]
            return
        if reading is None or reading.primary is not primary:
            reading = self._readings[fragment.fragment_id] = Reading(primary)
        back = fragment.fresh.came_back()
        if back and back <= reading.asked_through:
            # It stands before what was asked for.
            reading.asked_through = back - 1
            reading.ahead.clear()
        tracked = fragment.tracked
        if tracked is not None and tracked.absent:
            self._ask_for_absent(reading)
        self._read_ahead(reading)
        if not reading.under_way:
            self._seek_next(reading)

    def _read_ahead(self, reading: Reading) -> None:
        if reading.primary.fragment.log is not None:
            # Its readers are anywhere (`fedq.node.streams.paging`).
            return
        fragment, ahead = reading.primary.fragment, reading.ahead
        if not may_read(fragment, self.state.memory_full):
            return
        while ahead and (not fragment.fresh.count or ahead[0][0] < fragment.fresh.first):
            # Whoever has it may keep it: memory is looked at as if it had come from a client.
            self.state.bytes_taken += ahead.popleft()[1]
        # What has come back is a part of what is at hand, unless that was taken for a moment.
        at_hand = max(fragment.bytes_at_hand, sum([size for _, size in ahead]))
        room = self._window() - sum(reading.under_way) - at_hand
        if fragment.must_read and not reading.under_way:
            # What is here is behind what is next: whatever it takes, that has to come.
            room = max(room, 1)
        while room > 0 and len(reading.under_way) < _READS_MAX:
            wanted = _next_wanted(reading)
            if wanted is None or self._waits_to_die(fragment, wanted[0]):
                return
            places = self._places_of(reading, wanted[0])
            if not places:
                reading.asked_through = wanted[0]
                continue
            place = self._extended(reading, places[0], wanted[1])
            self._ask(reading, place, wanted[0])
            if isinstance(fragment.fresh, RankedFresh):
                # What has to be read after that is known when this is here.
                reading.asked_through = wanted[0]
                return
            reading.asked_through = place.last
            room -= place.length

    def _waits_to_die(self, fragment: Fragment, position: int) -> bool:
        """Whether a message is to become a dead letter, and too many are waiting to be one."""
        if len(fragment.out.dead) < DEAD_LETTERS_MAX:
            return False
        return is_over(fragment, position, self.state.unix_ms)

    def _seek_next(self, reading: Reading) -> None:
        """Looks for what all waits for, and was not where it was looked for; or gives it up.

        One at a time, while nothing else is under way: each place that may have it, and then some
        more tries, since a segment may be moved meanwhile.
        """
        while (first := _next_missing(reading)) is not None:
            tries = reading.tries.get(first, 0)
            if not tries:
                reading.tries.clear()
            reading.tries[first] = tries + 1
            places = self._places_of(reading, first)
            if places and tries < len(places) + _TRIES_MAX:
                place = places[(tries + 1) % len(places)]
                if not tries:
                    place = self._extended(reading, place, _last_missing(reading))
                self._ask(reading, place, first)
                return
            positions = self._missing_at(reading.primary, first, places)
            for place in places:
                note_rot(self.state.plan, place.segment)
            if not self.give_up(reading.primary, positions, reading.reason or _NOWHERE):
                return

    def _missing_at(self, primary: Primary, first: int, places: list[Place]) -> list[int]:
        """What is on disk alone from a position on, as far as it should be at the same places.

        They were all looked at.
        """
        identity, positions = primary.fragment.fragment_id, [first]
        fresh = primary.fragment.fresh
        if isinstance(fresh, RankedFresh):
            # Others there may have been read, and left where they are.
            beyond = range(first + 1, first + LOST_MAX)
            alike = [position for position in beyond if fresh.is_alike(first, position)]
            here = [p for p in alike if self.state.places_of(identity, p) == places]
            return [first, *here]
        while len(positions) < LOST_MAX:
            found = missing(primary.fragment, positions[-1] + 1, _BEYOND)
            if found is None or self.state.places_of(identity, found[0]) != places:
                break
            positions.append(found[0])
        return positions

    def _places_of(self, reading: Reading, position: int) -> list[Place]:
        """Where the disk may have a message."""
        return self.state.places_of(reading.primary.fragment.fragment_id, position)

    def _window(self) -> int:
        """What each line may have read ahead."""
        settings = self.state.settings
        if settings.read_ahead_bytes:
            return settings.read_ahead_bytes
        share = (settings.memory_bytes_max >> _SHARE_SHIFT) // len(self._readings)
        return max(_AHEAD_BYTES_MIN, min(share, _AHEAD_BYTES_MAX))

    def _extended(self, reading: Reading, place: Place, last: int) -> Place:
        """The place with those that follow it there, up to a position, and up to a bound."""
        fragment = reading.primary.fragment.fragment_id
        is_ranked = isinstance(reading.primary.fragment.fresh, RankedFresh)
        most = self.state.settings.piece_bytes(_READ_RANKED_MAX if is_ranked else _READ_BYTES_MAX)
        return extended(self.state.plan, fragment, place, last, most)

    def _ask_for_absent(self, reading: Reading) -> None:
        """Asks for what is kept singly and on disk alone."""
        tracked = reading.primary.fragment.tracked
        assert tracked is not None
        absent = tracked.absent
        while len(reading.under_way) < _READS_MAX:
            position = absent.next_unasked()
            if position is None:
                return
            absent.ask(position, position)
            places = self._places_of(reading, position)
            if places:
                place = places[0]
                first = absent.after(place.first - 1)
                absent.ask(place.first, place.last)
                self._ask(reading, place, position if first is None else first)

    def _ask(self, reading: Reading, place: Place, first: int) -> None:
        reading.under_way.append(place.length)
        ask_in_pieces(self.state, place, _Piece(self, reading, first, place))

    # --- answers -----------------------------------------------------------------------------

    def on_read(
        self, reading: Reading, first: int, place: Place, data: bytes, failure: str = ""
    ) -> None:
        """Takes in what was read; what was not among it is looked for when its turn has come.

        `failure`: why some of it could not be read.
        """
        state, primary = self.state, reading.primary
        fragment = primary.fragment
        reading.under_way.remove(place.length)
        if state.primaries.get(fragment.fragment_id) is not primary:
            return
        state.work.spend(1 + (len(data) >> _BYTES_SHIFT))
        bodies, reasons = messages_of(state.plan, fragment.fragment_id, place, data, first)
        state.risk.begin()
        size = fill(fragment, bodies)
        state.risk.end()
        if size:
            reading.ahead.append((place.last, size))
        primary.note_read(bodies)
        if failure and first not in bodies:
            primary.note_unread(first, state.now_ms)
        if failure or reasons:
            reading.reason = failure or reasons[0]
        if reasons and not failure:
            note_rot(state.plan, place.segment)
        state.mark_fragment(fragment.fragment_id)

    def on_read_failed(self, reading: Reading, first: int, place: Place, reason: str) -> None:
        """Takes note of why something could not be read: its segment may have been moved."""
        reading.under_way.remove(place.length)
        fragment = reading.primary.fragment.fragment_id
        if self.state.primaries.get(fragment) is reading.primary:
            reading.reason = reason
            reading.primary.note_unread(first, self.state.now_ms)
            self.state.mark_fragment(fragment)

    def give_up(self, primary: Primary, positions: list[int], reason: str) -> bool:
        """Has others asked for what cannot be read (ascending); true if it is settled.

        That is, if nobody may have it: then it is lost.
        """
        identity = primary.fragment.fragment_id
        journalled: list[int] = []
        scratched: list[int] = []
        for position in positions:
            is_journalled = is_in_journal(primary.fragment, position)
            (journalled if is_journalled else scratched).append(position)
        if scratched:
            # No journal is to be mended; but a copy in sync has what it is not spared.
            self.on_mended(primary, scratched, not primary.replication.sparing, reason)
        if journalled:
            asked = _Asked(self, primary, reason)
            self.mending.ask(identity, journalled, asked.on_done, fills=True)
        return not primary.damaged and not self.mending.is_under_way(identity)

    def on_mended(self, primary: Primary, left: list[int], is_silent: bool, reason: str) -> None:
        """Goes on; what nobody had is lost, unless a copy that may have it did not answer."""
        state, fragment = self.state, primary.fragment
        identity = fragment.fragment_id
        if state.primaries.get(identity) is not primary:
            return
        reading = self._readings.get(identity)
        if reading is not None:
            reading.tries.clear()
        state.mark_fragment(identity)
        if not left:
            return
        if is_silent and primary.replication.in_sync:
            if not primary.damaged:
                state.out.warnings.append(
                    f"fragment {identity} of queue {primary.queue.name!r} cannot be read from the "
                    f"disk at position {left[0]}: {reason}; another copy is to lead it"
                )
            primary.damaged += to_ranges(left)
            state.damaged[identity] = None
            return
        if primary.may_be_read_yet(state.now_ms):
            self._resting[identity] = state.now_ms + _RETRY_MS
            return
        self.lose(primary, left, reason)

    def lose(self, primary: Primary, positions: list[int], reason: str) -> None:
        """Gives up messages at ascending positions, and says so."""
        state, fragment = self.state, primary.fragment
        identity, lost = fragment.fragment_id, 0
        state.risk.begin()
        for first, last in to_ranges(positions):
            lost += count(lose(fragment, first, last))
        state.risk.end()
        state.messages_lost += lost
        text = (
            f"{lost} messages of queue {primary.queue.name!r} (fragment {identity}, positions "
            f"{positions[0]} to {positions[-1]}) cannot be read from the disk, no other copy has "
            f"them, and they are lost here: {reason}"
        )
        state.out.warnings.append(text)
        state.found[f"lost {identity}"] = (text, state.now_ms)
        state.mark_fragment(identity)

    def tick(self) -> None:
        """Looks after what others have, and this node cannot read: are there others yet?

        And reads anew what a disk has failed to read.
        """
        state = self.state
        for fragment, until_ms in list(self._resting.items()):
            if state.now_ms >= until_ms:
                del self._resting[fragment]
                state.mark_fragment(fragment)
        for fragment in list(state.damaged):
            primary = state.primaries.get(fragment)
            if primary is None or not primary.damaged:
                del state.damaged[fragment]
            elif not primary.replication.in_sync and not primary.handing_over:
                damaged, primary.damaged = primary.damaged, []
                positions = [
                    position
                    for first, last in join_overlapping(damaged)
                    for position in missing_between(primary.fragment, first, last)
                ]
                self.give_up(primary, positions, "no other copy is left that has it")


def _next_wanted(reading: Reading) -> Range | None:
    """What is to be read next: a position, and up to which one it is worth reading on."""
    fresh = reading.primary.fragment.fresh
    if not isinstance(fresh, RankedFresh):
        return fresh.stowed_after(reading.asked_through)
    if not fresh.stowed_count or reading.under_way:
        return None
    first = fresh.next_wanted()
    # What was asked for in vain is looked for elsewhere.
    return (first, fresh.pages.worth_reading()) if first != reading.asked_through else None


def _next_missing(reading: Reading) -> int | None:
    """The position that all wait for, if it was asked for, and is not here."""
    fragment = reading.primary.fragment
    absent = next_absent(fragment, 0)
    if absent is not None:
        # internal: there is one.
        assert fragment.tracked is not None
        return absent if fragment.tracked.absent.is_asked(absent) else None
    if isinstance(fragment.fresh, RankedFresh):
        wanted = next_stowed(fragment)
        return wanted if wanted == reading.asked_through and fragment.must_read else None
    if fragment.must_read and fragment.fresh.first <= reading.asked_through:
        return fragment.fresh.first
    return None


def _last_missing(reading: Reading) -> int:
    """Up to which position what is missing goes on in the line; 0: it is kept singly."""
    fragment = reading.primary.fragment
    if next_absent(fragment, 0) is not None:
        return 0
    if isinstance(fragment.fresh, RankedFresh):
        return fragment.fresh.pages.worth_reading()
    return fragment.fresh.next_last


def missing_between(fragment: Fragment, first: int, last: int) -> list[int]:
    """The positions between two that are on disk alone."""
    positions: list[int] = []
    while (stretch := missing(fragment, first, last)) is not None:
        positions.extend(range(stretch[0], stretch[1] + 1))
        first = stretch[1] + 1
    return positions


class _Asked:
    """What others are asked for, for a line."""

    __slots__ = ("_back", "_primary", "_reason")

    def __init__(self, back: ReadingBack, primary: Primary, reason: str) -> None:
        self._back = back
        self._primary = primary
        self._reason = reason

    def on_done(self, left: list[int], is_silent: bool) -> None:
        """Hands on what nobody had."""
        self._back.on_mended(self._primary, left, is_silent, self._reason)


class _Piece:
    """A read that is under way for a line."""

    __slots__ = ("_back", "_first", "_place", "_reading")

    def __init__(self, back: ReadingBack, reading: Reading, first: int, place: Place) -> None:
        self._back = back
        self._reading = reading
        self._first = first
        self._place = place

    def on_read(self, data: bytes) -> None:
        """Hands on what was read."""
        self._back.on_read(self._reading, self._first, self._place, data)

    def on_read_in_part(self, data: bytes, reason: str) -> None:
        """Hands on what was read, and why not all of it was."""
        self._back.on_read(self._reading, self._first, self._place, data, reason)

    def on_read_failed(self, reason: str) -> None:
        """Hands on why nothing was read."""
        self._back.on_read_failed(self._reading, self._first, self._place, reason)
