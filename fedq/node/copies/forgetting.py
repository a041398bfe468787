"""Forgets publishers with names of whom nothing came for long, or that take too much memory.

Input: the time. Output: records of the fragments that this node leads, so that all copies forget
the same (docs/adr/0078). All names of these fragments together have a bound: beyond it those that
have the most forget first, half of what they know at a time. Copies that this node keeps follow
their primaries.

A round of all fragments that know a name is done in pieces.
"""

from collections import deque
from typing import Final

from fedq.core.ids import FragmentId
from fedq.fragments.publishers.known_publishers import PUBLISHER_WORK
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState

#: How often it is looked.
LOOK_EVERY_MS: Final = 1_000
#: Names that are forgotten at a time.
_FORGET_MAX: Final = 64
#: What it costs to look at a fragment, in units of work.
_LOOK_WORK: Final = 4


class Forgetting:
    """Begins rounds, one after the other."""

    __slots__ = ("_looked_ms", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._looked_ms = 0

    def tick(self) -> None:
        """Begins a round when it is time, unless one is under way."""
        state = self.state
        if not state.named or state.now_ms - self._looked_ms < LOOK_EVERY_MS:
            return
        if not state.chores.are_under_way(self):
            self._looked_ms = state.now_ms
            state.chores.add_patient(self, _Round(state))


class _Round:
    """A chore: looks at all fragments that know a name; then makes room, if there is too little."""

    __slots__ = ("_before_ms", "_found", "_held", "_is_sorted", "_left", "_state")

    def __init__(self, state: NodeState) -> None:
        self._state = state
        self._before_ms = state.unix_ms - state.settings.publisher_idle_ms_max
        self._left = deque(state.named)
        #: What the names of each fragment take, that was looked at; and those of all.
        self._found: list[tuple[int, FragmentId]] = []
        self._held = 0
        self._is_sorted = False

    def go_on(self) -> bool:
        """Looks at the next fragments, or makes room."""
        work, bound = self._state.work, self._state.settings.publishers_bytes_max
        while self._left:
            self._look_at(self._left.popleft())
            if work.is_spent:
                return False
        if self._held > bound and not self._is_sorted:
            self._found.sort()
            self._is_sorted = True
            work.spend(len(self._found))
        while self._held > bound and self._found:
            size, fragment = self._found.pop()
            self._halve(fragment, size)
            if work.is_spent:
                return False
        return True

    def _look_at(self, identity: FragmentId) -> None:
        """Forgets who was silent for too long."""
        state = self._state
        state.work.spend(_LOOK_WORK)
        primary = state.primaries.get(identity)
        known = primary.fragment.publishers if primary is not None else None
        if primary is None or known is None or not known.bytes_held:
            # The next one that publishes under a name brings it back.
            state.named.pop(identity, None)
            return
        self._forget(primary, known.old_names(self._before_ms, _FORGET_MAX))
        self._held += known.bytes_held
        self._found.append((known.bytes_held, identity))

    def _halve(self, identity: FragmentId, size: int) -> None:
        """Forgets half of those that a fragment knows."""
        primary = self._state.primaries.get(identity)
        known = primary.fragment.publishers if primary is not None else None
        if primary is None or known is None:
            self._held -= size
            return
        self._forget(primary, known.first_names(1 + len(known) // 2))
        self._held -= size - known.bytes_held

    def _forget(self, primary: Primary, names: list[str]) -> None:
        if names:
            primary.fragment.forget_publishers(names)
            self._state.work.spend(len(names) * PUBLISHER_WORK)
            self._state.marks.primaries[primary.fragment.fragment_id] = None
