"""Marks, every now and then, how far the fragments of this node are, so that ages can be told.

Input: the time. Output: `NodeState.ages`. A round of all fragments is done in pieces.
"""

from typing import Final

from fedq.core.ids import FragmentId
from fedq.node.records.ages import MARK_EVERY_MS, first_in_line
from fedq.node.records.chores import Each
from fedq.node.records.state import NodeState

#: What it costs to look at a fragment, in units of work.
_LOOK_WORK: Final = 4


class Ageing:
    """Marks how far the fragments are that this node serves."""

    __slots__ = ("_marked_ms", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._marked_ms = 0

    def tick(self) -> None:
        """Begins a round when it is time, unless one is under way."""
        state = self.state
        if state.now_ms - self._marked_ms < MARK_EVERY_MS or state.chores.are_under_way(self):
            return
        self._marked_ms = state.now_ms
        fragments = state.ages.fragments
        state.chores.add_patient(self, Each(state.work, fragments, self._look_at, _LOOK_WORK))

    def _look_at(self, identity: FragmentId) -> None:
        state = self.state
        primary = state.primaries.get(identity)
        if primary is None:
            state.ages.forget(identity)
            return
        fragment = primary.fragment
        state.ages.mark(identity, first_in_line(fragment), fragment.last, state.now_ms)
