"""Questions to all fragments of a queue, wherever their primaries are (P5).

A fragment that nobody can serve before its node returns answers nothing: it counts 0 meanwhile.

Changes the open `Calls`; sends calls to peers.
"""

from collections.abc import Iterable

from fedq.core.ids import FragmentId, NodeId
from fedq.core.peer_messages import Call, Reply
from fedq.node.fragment_flow import FragmentFlow
from fedq.node.state import NodeState
from fedq.proxy.calls import Calls, Finish


class Asking:
    """See the module's docstring."""

    __slots__ = ("calls", "fragments", "state")

    def __init__(self, state: NodeState, fragments: FragmentFlow) -> None:
        self.state = state
        self.fragments = fragments
        self.calls = Calls()
        fragments.on_local_reply = self.calls.on_reply

    def ask(self, verb: int, fragments: Iterable[FragmentId], finish: Finish) -> None:
        """Asks; `finish` hears the totals, perhaps at once."""
        self.state.risk.begin()
        wanted = list(fragments)
        request = self.calls.ask(verb, wanted, finish)
        for fragment in wanted:
            self._ask_one(request, verb, fragment)
        self.state.risk.end()

    def _ask_one(self, request: int, verb: int, fragment: FragmentId) -> None:
        if self.fragments.ask(self.state.me, request, fragment, verb):
            return
        primary = self.state.primary_of(fragment)
        if primary is None:
            self.calls.on_reply(request, fragment, 0, 0)
        elif primary != self.state.me:
            self.state.send(primary, Call(request, fragment, verb))

    def on_reply(self, sender: NodeId, message: Reply) -> None:
        """A primary has answered."""
        self.calls.on_reply(message.request, message.fragment, message.ready, message.consumers)

    def on_fragment_moved(self, fragment: FragmentId) -> None:
        """A new primary, or a new link to it: it is asked again."""
        for request, verb in self.calls.waiting_for(fragment):
            self._ask_one(request, verb, fragment)

    def on_fragment_gone(self, fragment: FragmentId) -> None:
        """The queue was deleted."""
        self.calls.on_fragment_gone(fragment)
