"""Long jobs that are done piece by piece, in the rest that commands leave of each turn's work.

Inputs: chores, each with whose it is. Within a turn each owner's next chore does a slice, then
another owner's does one; those of one owner are done one after the other (docs/adr/0033).

A *patient* chore keeps the node's own house, and nobody waits for it: a turn does one small slice
of one of them, whatever is left of its work, so that a turn with clients' commands is not made long
by it. An idle node goes from turn to turn meanwhile.

A chore leaves what it works on in a state that everybody else can live with whenever it stops.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, Protocol, TypeVar

from fedq.core.work import Work

T = TypeVar("T")

#: What part of a turn a slice is, as a shift; and one of a patient chore.
_SLICE_SHIFT: Final = 3
_PATIENT_SHIFT: Final = 4


class Chore(Protocol):
    """A job that can stop anywhere between two steps."""

    def go_on(self) -> bool:
        """Does at least one step, and more until the budget is spent; true when it is done."""


class Each(Generic[T]):
    """A chore: the same step for each of a list of things, one after the other."""

    __slots__ = ("_cost", "_left", "_step", "_work")

    def __init__(
        self, work: Work, items: Iterable[T], step: Callable[[T], None], cost: int
    ) -> None:
        """`cost`: of a step, in units of work."""
        self._work = work
        self._left = deque(items)
        self._step = step
        self._cost = cost

    def go_on(self) -> bool:
        """Does the next steps."""
        left, work, cost = self._left, self._work, self._cost
        while left:
            self._step(left.popleft())
            work.spend(cost)
            if work.is_spent:
                break
        return not left


class Chores:
    """All chores under way; see the module's docstring."""

    __slots__ = ("_patient", "_waiting", "_work")

    def __init__(self, work: Work) -> None:
        self._work = work
        #: The patient ones by owner, the next one first.
        self._patient: dict[object, deque[Chore]] = {}
        #: By owner, the next one first. (An owner is only told apart from others.)
        self._waiting: dict[object, deque[Chore]] = {}

    @property
    def has_more(self) -> bool:
        """Whether something waits for the next turn."""
        return bool(self._waiting) or bool(self._patient)

    def are_under_way(self, owner: object) -> bool:
        """Whether some of this owner are not done."""
        return owner in self._waiting or owner in self._patient

    def begin(self, owner: object, chore: Chore) -> bool:
        """Does the chore at once as far as the budget goes; the rest later, behind its owner's.

        True if it is done.
        """
        waiting = self._waiting.get(owner)
        if waiting is None and not self._work.is_spent and chore.go_on():
            return True
        self._waiting.setdefault(owner, deque()).append(chore)
        return False

    def add(self, owner: object, chore: Chore) -> None:
        """Adds a chore; it begins after this turn's commands, or after others of its owner."""
        self._waiting.setdefault(owner, deque()).append(chore)

    def add_patient(self, owner: object, chore: Chore) -> None:
        """Adds a chore that nobody waits for; it begins after this turn's commands."""
        self._patient.setdefault(owner, deque()).append(chore)

    def work_off(self) -> None:
        """Works off slices at the end of commands: at least one, more while work is left.

        And of one patient chore a small one.
        """
        is_first = True
        while self._waiting and (is_first or self._work.left > 0):
            is_first = False
            self._do_slice(self._waiting, _SLICE_SHIFT)
        if self._patient:
            self._do_slice(self._patient, _PATIENT_SHIFT)

    def _do_slice(self, chores: dict[object, deque[Chore]], shift: int) -> None:
        owner = next(iter(chores))
        waiting = chores.pop(owner)
        self._work.begin_slice(shift)
        if waiting[0].go_on():
            waiting.popleft()
        self._work.end_share()
        if waiting:
            # A chore may have begun another one of its owner.
            waiting.extend(chores.pop(owner, ()))
            chores[owner] = waiting
