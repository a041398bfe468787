"""Where a stop in order leaves no last word on what was seen, as ADR 0046 says that it may.

Input: the maps of nodes, after each of their turns. Output: queues that the ledger takes off its
list of those of which nothing may be marked as redelivered.

A node that stops gives what it leads to another one. If that one is being stopped, too, and ends
before either has heard of the other, a reign lies between of which nobody says what was seen: all
is marked. Nothing else is excused: not a node that was chosen though it had been gone for long, nor
a new epoch of a primary that is not there.
"""

from typing import NamedTuple

from fedq.core.ids import FragmentId, Incarnation, NodeId
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.state import FragmentInfo
from tests.sim.checkers import Ledger
from tests.sim.world import MS

#: From what one node decided before it could hear of a stop, to when another learns of it.
CROSSING_US = 500 * MS


class _Known(NamedTuple):
    """What a process knew after its last turn, and when that was."""

    at_us: int
    version: int
    epochs: dict[FragmentId, int]


class LastWords:
    """See the module's docstring."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._known: dict[tuple[NodeId, Incarnation], _Known] = {}
        #: Choices of a primary that had not heard of it yet.
        self._unheard: dict[tuple[FragmentId, int], FragmentInfo] = {}

    def look(self, state: NodeState, living: dict[NodeId, Incarnation]) -> None:
        """A turn of this node has ended; `living`: the processes that run."""
        me, now_us = (state.me, state.settings.incarnation), self.ledger.world.now_us
        known, version = self._known.get(me), state.map.version
        if known is not None and known.version == version:
            self._known[me] = known._replace(at_us=now_us)
        else:
            fragments = state.map.fragments.values()
            self._known[me] = _Known(now_us, version, {info.id: info.epoch for info in fragments})
            for info in fragments:
                self._note(info, living)
        for key, info in list(self._unheard.items()):
            if self._has_heard(info):
                del self._unheard[key]
            elif living.get(info.primary) != info.in_sync[info.primary]:
                del self._unheard[key]
                self.ledger.untouched.pop(info.queue.name, None)

    def _note(self, info: FragmentInfo, living: dict[NodeId, Incarnation]) -> None:
        """Notes that its primary was chosen, unless that had been gone for long."""
        process = info.in_sync.get(info.primary)
        if process is None or info.reign != info.epoch or self._has_heard(info):
            return
        known = self._known.get((info.primary, process))
        gone = living.get(info.primary) != process
        if known is None or (gone and self.ledger.world.now_us - known.at_us > CROSSING_US):
            return
        self._unheard[info.id, info.epoch] = info

    def _has_heard(self, info: FragmentInfo) -> bool:
        known = self._known.get((info.primary, info.in_sync[info.primary]))
        return known is not None and known.epochs.get(info.id, 0) >= info.epoch
