"""A read that goes on in ever smaller pieces where the disk fails: what can be read of a place.

Inputs: a place; what the disk has read, or why not. Output: its bytes, with zeros in place of those
that cannot be read. A piece that fails is read in halves, down to a sector: so a bad sector costs
two short reads for each halving, and nothing of what lies around it. Invariants: one piece is under
way at a time; after some failures what is left is not halved any more, so a disk that is gone costs
no more than that; whoever asked hears of it once.
"""

from typing import Final, Protocol

from fedq.journal.places import Place
from fedq.node.records.state import NodeState

#: So often a piece fails at most before what is left is read as it is, or not at all. More than
#: there are in a place of 64 KiB, all of whose sectors are bad.
FAILURES_MAX: Final = 32
#: Bytes that are put together for a unit of work, as a shift.
_BYTES_SHIFT: Final = 13


class PiecesAnswer(Protocol):
    """What waits for a place hears one of these, once."""

    def on_read(self, data: bytes) -> None:
        """Takes the bytes that were asked for."""

    def on_read_in_part(self, data: bytes, reason: str) -> None:
        """Takes as many bytes, with zeros for those that cannot be read, and why they cannot."""

    def on_read_failed(self, reason: str) -> None:
        """Takes note that there are none."""


def ask_in_pieces(state: NodeState, place: Place, wanted: PiecesAnswer) -> None:
    """Asks for a place, in pieces where it cannot be read at once."""
    _Pieces(state, place, wanted).go_on()


class _Pieces:
    """A place that is being read."""

    __slots__ = (
        "_at", "_data", "_failures", "_found", "_left", "_place", "_reason", "_state", "_wanted",
    )  # fmt: skip

    def __init__(self, state: NodeState, place: Place, wanted: PiecesAnswer) -> None:
        self._state = state
        self._place = place
        self._wanted = wanted
        #: The bytes that are still to be read, the first ones last; and those that are under way.
        self._left = [(place.offset, place.offset + place.length)]
        self._at = self._left[0]
        #: What was read of it, once something of it could not be; and whether anything was.
        self._data = bytearray()
        self._found = False
        self._failures = 0
        self._reason = ""

    def go_on(self) -> None:
        """Asks for the next piece."""
        first, stop = self._at = self._left.pop()
        self._state.reads.ask(self._place.segment, first, stop - first, self)

    def on_read(self, data: bytes) -> None:
        """Puts a piece in its place."""
        if not self._failures:
            self._wanted.on_read(data)
            return
        self._state.work.spend(1 + (len(data) >> _BYTES_SHIFT))
        at = self._at[0] - self._place.offset
        self._data[at : at + len(data)] = data
        self._found = True
        self._end_or_go_on()

    def on_read_failed(self, reason: str) -> None:
        """Cuts a piece in two, or leaves it out."""
        state, length = self._state, self._place.length
        state.work.spend(1)
        if not self._failures:
            self._data = bytearray(length)
            state.reads.bytes_kept += length
        self._failures += 1
        self._reason = reason
        first, stop = self._at
        sector = state.settings.sector_bytes
        # Sectors begin where they do on the disk, wherever the place begins.
        middle = max((first + stop) // 2 // sector, first // sector + 1) * sector
        if middle < stop and self._failures < FAILURES_MAX:
            self._left += [(middle, stop), (first, middle)]
        self._end_or_go_on()

    def _end_or_go_on(self) -> None:
        if self._left:
            self.go_on()
            return
        data, self._data = bytes(self._data), bytearray()
        self._state.reads.bytes_kept -= len(data)
        if self._found:
            self._wanted.on_read_in_part(data, self._reason)
        else:
            self._wanted.on_read_failed(self._reason)
