"""What a copy knows of publishers with names, also while it is being made equal to its primary.

Inputs: the primary's records, what begins and ends a copy. Outputs: what was surely taken; and what
has to go, should the copy lead before it was complete (docs/adr/0078).

While a copy is under way there are two tables. *Sure* is what both had taken when the primary's
reign began: of a copy in sync, all that can have been confirmed. The other one is what the primary
has told since, and counts when the copy is complete: until then a message may be missing to it.
Invariant: in sync, and led by that primary, nothing that came since was confirmed.
"""

from collections.abc import Sequence
from typing import Final

from fedq.core.ranges import Range, join_overlapping, to_ranges
from fedq.fragments.publishers.known_publishers import KnownPublishers, Marks, sure_of_both
from fedq.journal.events import SURE, Publishers
from fedq.journal.recovered import RecoveredFragment

#: Beyond all positions.
_END: Final = 1 << 64


def on_disk(recovered: RecoveredFragment) -> "CopiedPublishers":
    """What the disk says of publishers."""
    if recovered.whole:
        return CopiedPublishers(recovered.publishers, recovered.reign)
    return CopiedPublishers(recovered.publishers, 0, recovered.publishers_ahead)


class CopiedPublishers:
    """The publishers of a copy. See the module's docstring."""

    __slots__ = ("_ahead", "_base", "_came", "_reign", "_reverts", "_sure")

    def __init__(
        self, marks: Marks | None = None, reign: int = 0, ahead: Marks | None = None
    ) -> None:
        """`reign`: in which it was complete; 0: it never was.

        `ahead`: what its primary had taken, if it is not complete.
        """
        self._sure: KnownPublishers | None = KnownPublishers(marks) if marks else None
        self._reign = reign
        self._ahead: KnownPublishers | None = KnownPublishers(ahead) if ahead is not None else None
        #: What came since the copy began: positions of copied ones, and all beyond the base.
        self._reverts = False
        self._base = 0
        self._came: list[Range] = []

    @property
    def sure(self) -> Marks:
        """What was surely taken: a reign of this copy begins with it."""
        return self._sure.marks if self._sure is not None else {}

    @property
    def ahead(self) -> Marks | None:
        """What its primary has taken; None: the copy is complete, and that is sure."""
        return self._ahead.marks if self._ahead is not None else None

    @property
    def bytes_held(self) -> int:
        """What the tables take."""
        size = self._sure.bytes_held if self._sure is not None else 0
        return size + self._ahead.bytes_held if self._ahead is not None else size

    def begin_copy(self, base: int, in_sync: bool) -> None:
        """Begins a copy: what the primary had taken when its reign began is heard next."""
        if self._ahead is None:
            self._base, self._came, self._reverts = base, [], in_sync
        elif not in_sync:
            self._reverts = False
        self._ahead = KnownPublishers()

    def begin_with(self, reign: int) -> None:
        """Takes what was heard for what the primary had taken when its reign began."""
        # internal: a copy has begun.
        assert self._ahead is not None
        if self._sure is not None and self._reign != reign:
            self._sure = KnownPublishers(sure_of_both(self._sure.marks, self._ahead.marks))

    def finish_copy(self, reign: int) -> None:
        """Ends the copy: what the primary has told is sure."""
        if self._ahead is not None:
            self._sure = self._ahead if self._ahead.marks else None
        self._ahead, self._reign, self._reverts, self._came = None, reign, False, []

    def leave_sync(self) -> None:
        """Others are confirmed without this copy: it keeps what it gets."""
        self._reverts = False

    def hear(self, record: Publishers) -> None:
        """Takes what the primary says."""
        if record.kind == SURE:
            return
        if self._ahead is not None:
            gone = self._ahead.hear(record)
            if gone and self._sure is not None:
                # The primary may take them anew, from the first sequence on.
                self._sure.forget(gone)
            return
        if self._sure is None:
            self._sure = KnownPublishers()
        self._sure.hear(record)

    def came(self, positions: Sequence[int]) -> None:
        """Takes note of old messages that came."""
        if self._reverts and positions:
            self._came = join_overlapping([*self._came, *to_ranges(sorted(positions))])

    def to_revert(self) -> list[Range]:
        """Which positions have to go as this copy leads: it was not complete, and there are names.

        Whatever is there was never confirmed: whoever is owed it sends it again.
        """
        if self._ahead is None or not self._reverts or not (self.sure or self._ahead.marks):
            return []
        return join_overlapping([*self._came, (self._base + 1, _END - 1)])
