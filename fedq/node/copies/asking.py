"""Questions to all fragments of a queue, wherever their primaries are (P5).

A fragment that nobody can serve before its node returns answers nothing: it counts 0 meanwhile (who
asks for a queue of which nothing is served is refused before: `fedq.node.records.unserved`). One of
which a copy is back on its disk is waited for.
Whoever leaves a queue waits no longer than there is somebody to ask, and not after a given time.

Changes the open `Calls`; sends calls to peers.
"""

from collections.abc import Iterable

from fedq.core.ids import FragmentId, NodeId
from fedq.core.peer_messages import Call, Reply
from fedq.node.copies.questions import Questions
from fedq.node.records.state import NodeState
from fedq.node.records.unserved import begins_soon
from fedq.proxy.calls import Finish


class Asking:
    """The questions of this node that fragments have not answered yet."""

    __slots__ = ("_beginning", "_leaving", "calls", "questions", "state")

    def __init__(self, state: NodeState, questions: Questions) -> None:
        self.state = state
        self.questions = questions
        self.calls = questions.calls
        #: Questions of those who leave a queue: until when an answer is waited for.
        self._leaving: dict[int, int] = {}
        #: Fragments that are asked as soon as a copy of them has begun anew.
        self._beginning: dict[FragmentId, None] = {}

    def ask(
        self, verb: int, fragments: Iterable[FragmentId], finish: Finish, until_ms: int = 0
    ) -> None:
        """Asks all fragments; `finish` hears the totals, perhaps at once.

        `until_ms`: for who leaves a queue, who has to hear nothing after that.
        """
        self.state.risk.begin()
        wanted = list(fragments)
        request = self.calls.ask(verb, wanted, finish)
        if until_ms:
            self._leaving[request] = until_ms
        for fragment in wanted:
            self._ask_one(request, verb, fragment)
        self.state.risk.end()

    def _ask_one(self, request: int, verb: int, fragment: FragmentId) -> None:
        if self.questions.put(self.state.me, request, fragment, verb):
            return
        primary = self.state.primary_of(fragment)
        # What nobody has in memory has sent nothing and knows no consumer: whoever serves it next
        # finds out by itself that it is left.
        left = request in self._leaving and not self.state.is_in_memory(fragment)
        if primary is None and not left and begins_soon(self.state, fragment):
            self._beginning[fragment] = None
        elif primary is None or left:
            self.calls.on_reply(request, fragment, 0, 0)
        elif primary != self.state.me:
            self.state.send(primary, Call(request, fragment, verb))

    def on_reply(self, sender: NodeId, message: Reply) -> None:
        """A primary has answered."""
        self.calls.on_reply(message.request, message.fragment, message.ready, message.consumers)

    def tick(self) -> None:
        """Gives up questions of who leaves a queue, which have waited long enough.

        And asks again what has begun by now, or will not.
        """
        for fragment in list(self._beginning):
            if not begins_soon(self.state, fragment):
                del self._beginning[fragment]
                self.on_fragment_moved(fragment)
        now_ms = self.state.now_ms
        for request, until_ms in list(self._leaving.items()):
            if now_ms >= until_ms or not self.calls.is_open(request):
                del self._leaving[request]
                self.calls.give_up(request)

    def on_fragment_moved(self, fragment: FragmentId) -> None:
        """Asks again: a new primary, a new link to it, or a process less that has the fragment."""
        for request, verb in self.calls.waiting_for(fragment):
            self._ask_one(request, verb, fragment)

    def on_fragment_gone(self, fragment: FragmentId) -> None:
        """The queue was deleted."""
        self.calls.on_fragment_gone(fragment)
