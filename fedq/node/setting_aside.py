"""What a node failed at, this or another one, is set aside: nobody tries it again.

In: last words of peers. Out: messages of fragments that this node serves are set aside at once;
the rest is known when it comes (`fedq.node.suspects`): a publish, a fragment that this node is to
serve. And what its operator wants done with what was set aside.

Changes primaries, and `suspects`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.limits import asides_per_answer_max
from fedq.core.policy import QUARANTINED
from fedq.core.suspects import LastWords
from fedq.fragments.asides import readmit, set_aside
from fedq.fragments.holders import DEAD
from fedq.journal.records import NOTE_DEAD
from fedq.node.state import NodeState

#: What an operator may have done with what is in quarantine.
LIST: Final = 1
REQUEUE: Final = 2
DISCARD: Final = 3


class Aside(NamedTuple):
    """A message in quarantine."""

    fragment: FragmentId
    position: int
    size: int


class SettingAside:
    """See the module's docstring."""

    __slots__ = ("state",)

    def __init__(self, state: NodeState) -> None:
        self.state = state

    def on_last_words(self, sender: NodeId, words: LastWords) -> None:
        """A peer has to stop: what it has in its hands comes back, but not to be tried again."""
        state = self.state
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
                state.dirty_primaries[number] = None

    def on_asked(
        self, queue: QueueKey, act: int, positions: dict[int, None],
        answer: Callable[[list[Aside]], None],
    ) -> None:  # fmt: skip
        """What is in quarantine of the fragments served here; `positions`: only these, if any.

        It is answered at once; what is done with it is replicated like all that changes.
        """
        state = self.state
        found: list[Aside] = []
        info = state.map.queues.get(queue)
        for number in info.fragments if info is not None else ():
            primary = state.primaries.get(number)
            if primary is None or not state.serving or primary.handing_over:
                continue
            fragment = primary.fragment
            reasons = fragment.notes.get(NOTE_DEAD, {})
            here = [
                position for position in sorted(reasons)
                if reasons[position] == QUARANTINED and (not positions or position in positions)
            ][: asides_per_answer_max - len(found)]  # fmt: skip
            found += [Aside(number, p, len(fragment.messages[p])) for p in here]
            if act == REQUEUE:
                readmit(fragment, here)
            elif act == DISCARD:
                fragment.settle(DEAD, here)
            if here and act != LIST:
                state.mark_fragment(number)
        answer(found)

    def tick(self) -> None:
        """Suspicions that were not proven end."""
        self.state.at = self.state.at_what = None
        suspects = self.state.suspects
        if suspects.count:
            suspects.forget_old(self.state.now_ms)
