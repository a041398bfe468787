"""Reading what a backup lacks and this node has on disk alone, newest first, for copies under way.

Inputs: primaries whose copies wait (`fedq.replication.primary: Progress.waits_for`); what the disk
has read. Outputs: reads, a mebibyte at a time for each backup, and the messages. So a copy of a
long queue takes neither memory nor the place of what is live.

What cannot be read is looked for in every place that may have it, and then some more times; then it
is given up, with all that should be at the same places and was not.
"""

from typing import Final

from fedq.core.ids import NodeId
from fedq.core.limits import MIB
from fedq.journal.places import Place
from fedq.node.copies.reading_back import LOST_MAX, ReadingBack, missing_between
from fedq.node.records.disk.reads import messages_of
from fedq.node.records.pieces import ask_in_pieces
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.replication.progress import Progress

#: How much is read in one go (`NodeSettings.piece_bytes`).
_READ_BYTES_MAX: Final = MIB
#: Bytes that are taken apart for a unit of work, as a shift.
_BYTES_SHIFT: Final = 11
#: How often a message is looked for, beyond once in each place, before it is lost.
_TRIES_MAX: Final = 3


class CopyingFromDisk:
    """Reads for copies under way."""

    __slots__ = ("_reading", "_under_way", "state")

    def __init__(self, state: NodeState, reading: ReadingBack) -> None:
        self.state = state
        self._reading = reading
        #: For whom a read is under way: each backup's progress with one copy.
        self._under_way: dict[Progress, None] = {}

    def look(self, primary: Primary) -> None:
        """Asks for what the copies of a fragment wait for."""
        if primary.damaged or self._reading.is_waiting(primary):
            # Another node is to lead, and to send; or has what cannot be read here. Or the disk has
            # failed, and may not be asked again yet.
            return
        for node, progress in primary.replication.backups.items():
            position = progress.waits_for
            # What was read may have to wait until the backup has acknowledged a chunk.
            if position and position not in progress.read and progress not in self._under_way:
                self._ask(primary, node, progress)

    def _ask(self, primary: Primary, node: NodeId, progress: Progress) -> None:
        position = progress.waits_for
        fragment = primary.fragment.fragment_id
        places = self.state.places_of(fragment, position)
        tried, tries = progress.tries
        if not places:
            self._reading.give_up(primary, [position], "nothing says where it is")
            return
        again = tries if tried == position else 0
        most = self.state.settings.piece_bytes(_READ_BYTES_MAX)
        place = places[again % len(places)]
        while not again and place.length < most:
            before = self.state.plan.locate(fragment, place.first - 1)
            if before is None or before.segment != place.segment or before.offset >= place.offset:
                break
            length = place.offset + place.length - before.offset
            if length > 2 * most:
                break
            place = place._replace(offset=before.offset, length=length, first=before.first)
        self._under_way[progress] = None
        ask_in_pieces(self.state, place, _Piece(self, primary, node, progress, place))

    def on_read(
        self, primary: Primary, node: NodeId, progress: Progress, place: Place, data: bytes,
        failure: str = "",
    ) -> None:  # fmt: skip
        """Hands what was read to the copy, if it is still under way.

        `failure`: why some of it could not be read.
        """
        state, fragment = self.state, primary.fragment.fragment_id
        if not self._is_current(primary, node, progress):
            return
        state.work.spend(1 + (len(data) >> _BYTES_SHIFT))
        wanted = progress.waits_for
        found, reasons = messages_of(state.plan, fragment, place, data, place.first)
        bodies = {position: body for position, body in found.items() if position <= wanted}
        progress.put_read(bodies)
        primary.note_read(bodies)
        if wanted in bodies:
            progress.tries = (0, 0)
        elif wanted:
            if failure:
                primary.note_unread(wanted, state.now_ms)
            why = failure or (reasons[0] if reasons else "it is not there")
            self._look_again(primary, progress, bodies, why)
        state.mark_fragment(fragment)

    def on_read_failed(
        self, primary: Primary, node: NodeId, progress: Progress, place: Place, reason: str
    ) -> None:
        """Looks for it again: the segment may have been moved."""
        if self._is_current(primary, node, progress):
            if progress.waits_for:
                primary.note_unread(progress.waits_for, self.state.now_ms)
                self._look_again(primary, progress, {}, reason)
            self.state.mark_fragment(primary.fragment.fragment_id)

    def _is_current(self, primary: Primary, node: NodeId, progress: Progress) -> bool:
        """Whether that read was for a copy that is still under way; it is no more."""
        del self._under_way[progress]
        if self.state.primaries.get(primary.fragment.fragment_id) is not primary:
            return False
        return primary.replication.backups.get(node) is progress

    def _look_again(
        self, primary: Primary, progress: Progress, found: dict[int, bytes], reason: str
    ) -> None:
        """Counts that the message was looked for in vain; after some tries it is lost."""
        (tried, tries), position = progress.tries, progress.waits_for
        tries = tries + 1 if tried == position else 1
        progress.tries = position, tries
        places = self.state.places_of(primary.fragment.fragment_id, position)
        if tries >= len(places) + _TRIES_MAX:
            progress.tries = (0, 0)
            self._reading.give_up(primary, self._missing(primary, position, places, found), reason)

    def _missing(
        self, primary: Primary, position: int, places: list[Place], found: dict[int, bytes]
    ) -> list[int]:
        """What is missing from a position on downwards that should be at the same place.

        Where there are several, what one of them had may have been read before.
        """
        if len(places) != 1:
            return [position]
        fragment = primary.fragment
        lowest = max([p for p in found if p < position], default=0) + 1
        missing = missing_between(fragment, max(lowest, position - LOST_MAX + 1), position)
        here = [p for p in missing if self.state.places_of(fragment.fragment_id, p) == places]
        return here or [position]


class _Piece:
    """A read that is under way for a copy."""

    __slots__ = ("_copying", "_node", "_place", "_primary", "_progress")

    def __init__(
        self, copying: CopyingFromDisk, primary: Primary, node: NodeId, progress: Progress,
        place: Place,
    ) -> None:  # fmt: skip
        self._copying = copying
        self._primary = primary
        self._node = node
        self._progress = progress
        self._place = place

    def on_read(self, data: bytes) -> None:
        """Hands on what was read."""
        self._copying.on_read(self._primary, self._node, self._progress, self._place, data)

    def on_read_in_part(self, data: bytes, reason: str) -> None:
        """Hands on what was read, and why not all of it was."""
        self._copying.on_read(self._primary, self._node, self._progress, self._place, data, reason)

    def on_read_failed(self, reason: str) -> None:
        """Hands on why nothing was read."""
        self._copying.on_read_failed(self._primary, self._node, self._progress, self._place, reason)
