"""Reading what a backup lacks and this node has on disk alone, newest first, for copies under way.

Inputs: primaries whose copies wait (`fedq.replication.primary: Progress.waits_for`); what the disk
has read. Outputs: reads, a mebibyte at a time for each backup, and the messages. So a copy of a
long queue takes neither memory nor the place of what is live.
"""

from typing import Final

from fedq.core.ids import NodeId
from fedq.core.limits import MIB
from fedq.journal.bodies import messages_in
from fedq.journal.places import Place
from fedq.node.copies.reading_back import ReadingBack
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.replication.primary import Progress

#: How much is read in one go.
_READ_BYTES: Final = MIB
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
        if primary.damaged or self._reading.is_mending(primary):
            # Another node is to lead, and to send; or has what cannot be read here.
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
            self._reading.give_up(primary, position, position, "nothing says where it is")
            return
        place = places[tries % len(places) if tried == position else 0]
        while place.length < _READ_BYTES:
            before = self.state.plan.locate(fragment, place.first - 1)
            if before is None or before.segment != place.segment or before.offset >= place.offset:
                break
            length = place.offset + place.length - before.offset
            if length > 2 * _READ_BYTES:
                break
            place = place._replace(offset=before.offset, length=length, first=before.first)
        self._under_way[progress] = None
        piece = _Piece(self, primary, node, progress, place)
        self.state.reads.ask(place.segment, place.offset, place.length, piece)

    def on_read(
        self, primary: Primary, node: NodeId, progress: Progress, place: Place, data: bytes
    ) -> None:
        """Hands what was read to the copy, if it is still under way."""
        state, fragment = self.state, primary.fragment.fragment_id
        if not self._is_current(primary, node, progress):
            return
        state.work.spend(1 + (len(data) >> _BYTES_SHIFT))
        wanted = progress.waits_for
        bodies, reasons = messages_in(data, fragment, place.first, wanted)
        progress.put_read(bodies)
        if wanted in bodies:
            progress.tries = (0, 0)
        elif wanted:
            self._look_again(primary, progress, place, reasons[0] if reasons else "it is not there")
        state.mark_fragment(fragment)

    def on_read_failed(
        self, primary: Primary, node: NodeId, progress: Progress, place: Place, reason: str
    ) -> None:
        """Looks for it again: the segment may have been moved."""
        if self._is_current(primary, node, progress):
            if progress.waits_for:
                self._look_again(primary, progress, place, reason)
            self.state.mark_fragment(primary.fragment.fragment_id)

    def _is_current(self, primary: Primary, node: NodeId, progress: Progress) -> bool:
        """Whether that read was for a copy that is still under way; it is no more."""
        del self._under_way[progress]
        if self.state.primaries.get(primary.fragment.fragment_id) is not primary:
            return False
        return primary.replication.backups.get(node) is progress

    def _look_again(self, primary: Primary, progress: Progress, place: Place, reason: str) -> None:
        """Counts that the message was looked for in vain; after some tries it is lost."""
        (tried, tries), position = progress.tries, progress.waits_for
        tries = tries + 1 if tried == position else 1
        progress.tries = position, tries
        places = self.state.places_of(primary.fragment.fragment_id, position)
        if tries >= len(places) + _TRIES_MAX:
            progress.tries = (0, 0)
            self._reading.give_up(primary, position, position, reason)


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

    def on_read_failed(self, reason: str) -> None:
        """Hands on why nothing was read."""
        self._copying.on_read_failed(self._primary, self._node, self._progress, self._place, reason)
