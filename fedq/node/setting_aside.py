"""What a node failed at, this or another one, is set aside: nobody tries it again.

In: last words of peers. Out: messages of fragments that this node serves are set aside at once;
the rest is known when it comes (`fedq.node.suspects`): a publish, a fragment that this node is to
serve.

Changes primaries, and `suspects`.
"""

from fedq.core.ids import NodeId
from fedq.core.suspects import LastWords
from fedq.fragments.asides import set_aside
from fedq.node.state import NodeState


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

    def tick(self) -> None:
        """Suspicions that were not proven end."""
        self.state.at = self.state.at_what = None
        suspects = self.state.suspects
        if suspects.count:
            suspects.forget_old(self.state.now_ms)
