"""A fragment as a backup holds it: its messages and nothing about who has them.

Inputs: the primary's journal records. What consumers do meanwhile shows as settlements. When the
map makes this node the primary, the replica's messages become a `Fragment` of the new reign.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedq.core.ids import FragmentId, Origin
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, from_ranges, to_ranges
from fedq.fragments.fragment import oldest_persistent
from fedq.journal.records import Copy, Enqueue, Settle, decode


class Applied(NamedTuple):
    """What applying records means for the journal of this node."""

    #: The records concern persistent messages: they belong into the journal.
    journal: bool
    #: New persistent messages: acknowledge only when they are on disk.
    sync: bool
    #: The highest message position in the records; 0 if none.
    max_position: int


class Replica:
    """A backup's copy of one fragment."""

    __slots__ = ("_ahead", "bytes_held", "durable", "fragment_id", "messages", "origins", "sorted")

    def __init__(
        self,
        fragment_id: FragmentId,
        *,
        durable: bool,
        messages: Mapping[int, bytes] | None = None,
        origins: Mapping[Origin, int] | None = None,
    ) -> None:
        self.fragment_id = fragment_id
        self.durable = durable
        self.messages: dict[int, bytes] = dict(messages or {})
        #: What the messages take.
        self.bytes_held = sum(map(len, self.messages.values()))
        #: Highest publish number of each origin up to which this copy surely has everything.
        self.origins: dict[Origin, int] = dict(origins or {})
        #: While a copy is under way: what the origins will be when it is complete.
        self._ahead: dict[Origin, int] | None = None
        #: Whether `messages` is known to be in ascending order (a copy comes newest first).
        self.sorted = True

    def apply(self, records: bytes) -> Applied:
        """Applies the primary's records in order; a repeated one changes nothing."""
        journal = sync = False
        top = 0
        for record in decode(records):
            if isinstance(record, Enqueue):
                first = record.first_position
                self._add(range(first, first + len(record.messages)), record.messages)
                top = max(top, first + len(record.messages) - 1)
                self._saw(record.origin, record.first_number + len(record.messages) - 1)
                sync = sync or any(m[0] & FLAG_PERSISTENT for m in record.messages)
            elif isinstance(record, Copy):
                self._add(record.positions, record.messages)
                self.sorted = False
                top = max(top, max(record.positions, default=0))
                for origin, number in record.origins.items():
                    self._saw(origin, number)
                sync = sync or any(m[0] & FLAG_PERSISTENT for m in record.messages)
            elif isinstance(record, Settle):
                journal = self._forget(record.ranges) or journal
        return Applied(self.durable and (journal or sync), self.durable and sync, top)

    def start_copy(self, dropped: list[Range], origins: bytes) -> None:
        """Drops what the primary does not have, and learns what it knows of the origins.

        Until the copy is complete only that counts which both knew: were this copy to lead before,
        it must rather take a publish twice than believe that it has one whose message is missing.
        """
        self._forget(dropped)
        self._ahead = {}
        self.apply(origins)
        self.origins = {
            origin: min(number, self._ahead.get(origin, 0))
            for origin, number in self.origins.items()
            if origin in self._ahead
        }

    def finish_copy(self) -> None:
        """The last chunk is applied: this copy has what the primary has."""
        if self._ahead is not None:
            self.origins, self._ahead = self._ahead, None

    def held(self) -> list[Range]:
        """The positions of this copy."""
        self._sort()
        return to_ranges(self.messages)

    def oldest_persistent(self) -> int | None:
        """The lowest live position that the journal must keep."""
        return oldest_persistent(self.in_order()) if self.durable else None

    def in_order(self) -> dict[int, bytes]:
        """The messages by ascending position."""
        self._sort()
        return self.messages

    def _forget(self, ranges: list[Range]) -> bool:
        persistent = False
        for position in from_ranges(ranges):
            message = self.messages.pop(position, None)
            if message is not None:
                self.bytes_held -= len(message)
                persistent = persistent or message[0] & FLAG_PERSISTENT != 0
        return persistent

    def _add(self, positions: Sequence[int], messages: Sequence[bytes]) -> None:
        """A position that is known already keeps its message: it is the same one."""
        for position, message in zip(positions, messages, strict=True):
            if position not in self.messages:
                self.messages[position] = message
                self.bytes_held += len(message)

    def _saw(self, origin: Origin, number: int) -> None:
        origins = self.origins if self._ahead is None else self._ahead
        if number > origins.get(origin, 0):
            origins[origin] = number

    def _sort(self) -> None:
        if not self.sorted:
            self.messages = dict(sorted(self.messages.items()))
            self.sorted = True
