"""What became of deliveries, and what that does to a fragment of this node."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from fedq.core.ids import NodeId
from fedq.fragments.fragment import Fragment

#: What becomes of a delivery.
ACKNOWLEDGED: Final = 0
REQUEUED: Final = 1
REJECTED: Final = 2


class Settlements:
    """What became of deliveries: runs of positions, by what is to be done."""

    __slots__ = ("acknowledged", "rejected", "requeued", "unseen")

    def __init__(
        self, acknowledged: list[Sequence[int]], requeued: list[Sequence[int]],
        rejected: list[Sequence[int]], unseen: list[Sequence[int]],
    ) -> None:  # fmt: skip
        self.acknowledged = acknowledged
        self.requeued = requeued
        self.rejected = rejected
        self.unseen = unseen

    @classmethod
    def none(cls) -> "Settlements":
        """No settlements yet."""
        return cls([], [], [], [])

    def add(self, outcome: int, positions: Sequence[int]) -> None:
        """Adds deliveries that were acknowledged, requeued or rejected."""
        if outcome == ACKNOWLEDGED:
            self.acknowledged.append(positions)
        elif outcome == REQUEUED:
            self.requeued.append(positions)
        else:
            self.rejected.append(positions)

    def lanes(self) -> tuple[list[Sequence[int]], ...]:
        """All lanes, in the order of `fedq.core.peer_messages.Settle`."""
        return self.acknowledged, self.requeued, self.rejected, self.unseen


def positions_of(runs: Iterable[Sequence[int]]) -> list[int]:
    """All positions of the runs, ascending."""
    return sorted(chain.from_iterable(runs))


def settle_in(fragment: Fragment, taker: NodeId, settlements: Settlements) -> None:
    """Puts a taker's settlements into effect in a fragment of this node."""
    if settlements.acknowledged:
        fragment.settle_pieces(taker, settlements.acknowledged)
    if settlements.requeued:
        fragment.requeue(taker, positions_of(settlements.requeued))
    if settlements.rejected:
        fragment.reject(taker, positions_of(settlements.rejected))
    if settlements.unseen:
        fragment.take_back(taker, positions_of(settlements.unseen))
