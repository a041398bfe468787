"""What a node failed at, this or another one, is set aside: nobody tries it again.

In: last words of peers. Out: messages of fragments that this node serves are set aside at once;
the rest is known when it comes (`fedq.node.records.suspects`): a publish, a fragment that this node
is to serve. And what its operator wants done with what was set aside.

Changes primaries, and `suspects`.
"""

from collections import deque
from collections.abc import Callable, Mapping
from heapq import nsmallest
from typing import Final, NamedTuple

from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.limits import (
    ASIDES_PER_ANSWER_MAX,
    LAST_WORDS_HEARD_BURST,
    LAST_WORDS_HEARD_S,
)
from fedq.core.policy import QUARANTINED
from fedq.core.suspects import LastWords
from fedq.fragments.singly.holders import DEAD
from fedq.fragments.upkeep.asides import readmit, set_aside
from fedq.journal.records import NOTE_DEAD
from fedq.node.records.budget import Budget
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState

#: What an operator may have done with what is in quarantine.
LIST: Final = 1
REQUEUE: Final = 2
DISCARD: Final = 3

#: Dead messages that are looked at before the budget is, and what that costs, in units of work.
_PIECE: Final = 64
_LOOK_WORK: Final = 4


class Aside(NamedTuple):
    """A message in quarantine."""

    fragment: FragmentId
    position: int
    size: int


class SettingAside:
    """Sets messages aside that this node, or another one, failed at."""

    __slots__ = ("_heard", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: How often the last words of each peer are heard: one that stops has nothing to add.
        self._heard: dict[NodeId, Budget] = {}

    def on_last_words(self, sender: NodeId, words: LastWords) -> None:
        """Takes the last words of a peer: what it failed at comes back, but is set aside."""
        state = self.state
        heard = self._heard.setdefault(sender, Budget(LAST_WORDS_HEARD_S, LAST_WORDS_HEARD_BURST))
        if not heard.has_left(state.now_ms):
            return
        heard.spend()
        state.suspects.add(words.suspects, state.now_ms)
        count = sum(1 for each in words.suspects if each.digest)
        sentence = f"{sender} failed: it was at {words.step}; {count} messages are set aside"
        state.out.warnings.append(sentence)
        state.found[f"stop of {sender}"] = (sentence, state.now_ms)
        for number in [f for f in state.suspects.places if f in state.primaries]:
            primary = state.primaries[number]
            found = set_aside(primary.fragment, state.suspects.take(number), sender)
            if found:
                for position in found:
                    state.untold[number, position] = None
                state.marks.primaries[number] = None

    def on_asked(
        self, queue: QueueKey, act: int, positions: dict[int, None],
        answer: Callable[[list[Aside]], None],
    ) -> None:  # fmt: skip
        """Does what is asked with what is in quarantine here; `positions`: only these, if any.

        It is answered when all of them have been looked through; what is done with it is replicated
        like all that changes.
        """
        looking = _Looking(self.state, queue, act, positions, answer)
        self.state.chores.begin(self, looking)

    def tick(self) -> None:
        """Ends suspicions that were not proven."""
        self.state.at = self.state.at_what = None
        suspects = self.state.suspects
        if suspects.count:
            suspects.forget_old(self.state.now_ms)


class _Looking:
    """A chore: looks through what is dead in a queue's fragments for what is in quarantine."""

    __slots__ = (
        "_act", "_answer", "_found", "_here", "_left", "_numbers", "_positions", "_primary",
        "_state",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, queue: QueueKey, act: int, positions: dict[int, None],
        answer: Callable[[list[Aside]], None],
    ) -> None:  # fmt: skip
        self._state = state
        self._act = act
        self._positions = positions
        self._answer = answer
        self._found: list[Aside] = []
        info = state.map.queues.get(queue)
        #: Fragments to look through, and the one at hand: what may be in quarantine, and what is.
        self._numbers = deque(info.fragments if info is not None else ())
        self._primary: Primary | None = None
        self._left: deque[int] = deque()
        self._here: list[int] = []

    def go_on(self) -> bool:
        """Looks through the next messages."""
        work = self._state.work
        while self._primary is not None or self._numbers:
            if self._primary is None:
                self._begin(self._numbers.popleft())
            elif self._left:
                self._look(self._primary.fragment.notes.get(NOTE_DEAD, {}))
            else:
                self._finish(self._primary)
                self._primary = None
            work.spend(_LOOK_WORK)
            if work.is_spent:
                return False
        self._answer(self._found)
        return True

    def _begin(self, number: FragmentId) -> None:
        primary = self._state.primaries.get(number)
        if primary is None or not self._state.serving or _moves(primary):
            return
        self._primary, self._here = primary, []
        self._left = deque(self._positions or primary.fragment.notes.get(NOTE_DEAD, {}))

    def _look(self, reasons: Mapping[int, int]) -> None:
        left, here = self._left, self._here
        for _ in range(min(len(left), _PIECE)):
            position = left.popleft()
            if reasons.get(position) == QUARANTINED:
                here.append(position)

    def _finish(self, primary: Primary) -> None:
        state, fragment, act = self._state, primary.fragment, self._act
        number = fragment.fragment_id
        if state.primaries.get(number) is not primary or _moves(primary):
            return
        reasons = fragment.notes.get(NOTE_DEAD, {})
        first = nsmallest(ASIDES_PER_ANSWER_MAX - len(self._found), self._here)
        here = [position for position in first if reasons.get(position) == QUARANTINED]
        self._found += [Aside(number, p, len(fragment.messages[p])) for p in here]
        if act == REQUEUE:
            readmit(fragment, here)
        elif act == DISCARD:
            fragment.settle(DEAD, here)
        if here and act != LIST:
            state.mark_fragment(number)


def _moves(primary: Primary) -> bool:
    """Whether the fragment moves: then its next primary is to decide."""
    return primary.handing_over or primary.seen_at > 0
