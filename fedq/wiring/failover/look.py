"""A look at all fragments, for what the leader should do about them, in pieces.

Inputs: the leader's view, the map, which may change between two pieces, the budget of each turn.
Outputs: the operations of `fedq.wiring.failover.decide`, and when to look again even if nothing
changes.

Every fragment is seen as it is when the look comes to it. What changes behind the look is found by
the next one, and what was decided on an older record is refused by the map for its epoch. If
members come, go, or fall silent, the look is void and begins again (`failover.decide`).
"""

from collections.abc import Iterator
from typing import Final

from fedq.core.work import Work
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import JoinEra, MemberDown, NewEra, Operation
from fedq.wiring.cluster_map.state import FragmentInfo
from fedq.wiring.failover.balance import Balance
from fedq.wiring.failover.repairs import Repairs, Shortages
from fedq.wiring.failover.view import View
from fedq.wiring.failover.worth import Revivals

#: What it costs to count a fragment, and to see what it needs, in units of work.
_COUNT_WORK: Final = 1
_REPAIR_WORK: Final = 3


class Look:
    """A look at all fragments that can be cut anywhere."""

    __slots__ = ("_cluster", "_repairs", "_revivals", "_steps", "_view", "operations")

    def __init__(
        self, cluster: ClusterMap, view: View, known: Shortages, patience_ms: int, now_ms: int,
        revivals: Revivals,
    ) -> None:  # fmt: skip
        """`known`, `patience_ms`: as of `Repairs`."""
        self._cluster = cluster
        self._view = view
        self._revivals = revivals
        self._repairs = Repairs(view, known, patience_ms, now_ms, revivals)
        #: All that is to be done, once the look is over.
        self.operations: list[Operation] = []
        self._steps = self._look()

    def go_on(self, work: Work | None) -> bool:
        """Looks on while there is room, at least one step; whether it is over. None: to its end."""
        for cost in self._steps:
            if work is not None:
                work.spend(cost)
                if work.is_spent:
                    return False
        return True

    @property
    def shortages(self) -> Shortages:
        """The fragments that lack copies."""
        return self._repairs.shortages

    @property
    def wake_ms(self) -> int:
        """When the first patience ends."""
        return self._repairs.wake_ms

    def _look(self) -> Iterator[int]:
        """The steps of the look; each says what it cost."""
        view, cluster = self._view, self._cluster
        for info in self._fragments():
            view.count(info)
            self._repairs.count(info, cluster.queues[info.queue])
            yield _COUNT_WORK
        self.operations += [
            MemberDown(node, member.incarnation)
            for node, member in cluster.members.items()
            if member.up and node not in view.up
        ]
        if view.era_ends:
            self.operations.append(NewEra())
        self.operations += [JoinEra(node, incarnation) for node, incarnation in view.era_joins]
        self._revivals.begin()
        for info in self._fragments():
            queue = cluster.queues[info.queue]
            if queue.durable or not view.era_ends:
                self.operations += self._repairs.repair(info, queue)
            yield _REPAIR_WORK
        self._revivals.end()
        if not self.operations:
            yield from self._balance()

    def _balance(self) -> Iterator[int]:
        balance = Balance(self._view, self._cluster)
        if not balance.is_possible:
            return
        for info in self._fragments():
            balance.count(info)
            yield _COUNT_WORK
        for info in self._fragments():
            if balance.is_full:
                return
            self.operations += balance.move(info)
            yield _REPAIR_WORK

    def _fragments(self) -> Iterator[FragmentInfo]:
        """The fragments there were when this began, if still there, as they are by then."""
        fragments = self._cluster.fragments
        for number in list(fragments):
            info = fragments.get(number)
            if info is not None:
                yield info
