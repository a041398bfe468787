"""The messages of a stopped node's journal, read one stretch at a time.

Inputs: a journal that is held (`fedq.shell.disk.stopped_store`). Outputs: what of it is alive and
what is damaged, with no index believed; the messages of a fragment in order, and the positions of
those that cannot be read. Nothing is written, and bodies are not kept.
"""

from collections.abc import Iterator
from pathlib import Path

from fedq.core.ids import FragmentId
from fedq.journal.bodies import messages_in
from fedq.journal.recovered import Damage, Recovered
from fedq.journal.recovery import mended, salvage
from fedq.journal.segments import SegmentPlan
from fedq.journal.sources import Source
from fedq.shell.disk.journal_files import SegmentFiles


class _Unindexed(SegmentFiles):
    """Segments whose index files are not looked at."""

    def index(self, number: int) -> bytes | None:
        """Nothing was written down."""
        return None


class StoreMessages:
    """What a journal says, with its damage left out."""

    def __init__(self, journal: Path) -> None:
        """Reads all of it. Raises `CorruptJournal` for records of a newer release, `OSError`."""
        self._source: Source = _Unindexed(journal)
        self.recovered: Recovered = salvage(self._source, 0)
        self._plan = SegmentPlan(self.recovered.segments)
        self._damages: dict[int, list[Damage]] = {}
        for damage in self.recovered.damages:
            if damage.first < damage.stop:
                self._damages.setdefault(damage.segment, []).append(damage)
        #: The damaged segment that was read last, without its damage.
        self._mended = (0, b"")

    def messages(self, fragment: FragmentId, unreadable: list[int]) -> Iterator[tuple[int, bytes]]:
        """Messages by ascending position; those that cannot be read are added to `unreadable`."""
        for first, last, _ in self.recovered.fragments[fragment].stowed:
            position = first
            while position <= last:
                found = self._find(fragment, position, last)
                if not found:
                    unreadable.append(position)
                    position += 1
                while position in found:
                    yield position, found[position]
                    position += 1

    def _find(self, fragment: FragmentId, position: int, last: int) -> dict[int, bytes]:
        """The message at a position, and what lies beside it; empty: it cannot be read."""
        for place in self._plan.locate_all(fragment, position):
            data = self._piece(place.segment, place.offset, place.length)
            found, _ = messages_in(data, fragment, position, min(last, place.last))
            if position in found:
                return found
        return {}

    def _piece(self, segment: int, offset: int, length: int) -> bytes:
        damages = self._damages.get(segment)
        if damages is None:
            return self._source.piece(segment, offset, length)
        if self._mended[0] != segment:
            # Places are those without the damage.
            self._mended = segment, mended(self._source[segment], damages)
        return self._mended[1][offset : offset + length]
