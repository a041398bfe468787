"""Questions that concern every fragment of a queue, asked at once and answered together.

Inputs: the fragments to ask, answers. Outputs: calls to send, and the sum when all have answered.
A call to a fragment whose primary changes is asked again of the new one: counting and
purging may be repeated without harm.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from fedq.core.ids import FragmentId

#: What the answers of AMQP can say.
COUNT_MAX: Final = (1 << 32) - 1


class Totals(NamedTuple):
    """Answers added up over fragments."""

    ready: int
    consumers: int


Finish = Callable[[Totals], None]


class _Question:
    __slots__ = ("consumers", "finish", "open", "ready", "verb")

    def __init__(self, verb: int, fragments: Iterable[FragmentId], finish: Finish) -> None:
        self.verb = verb
        self.open = dict.fromkeys(fragments)
        self.finish = finish
        self.ready = 0
        self.consumers = 0


class Calls:
    """The open questions of this node."""

    __slots__ = ("_by_request", "_last")

    def __init__(self) -> None:
        self._last = 0
        self._by_request: dict[int, _Question] = {}

    def ask(self, verb: int, fragments: Iterable[FragmentId], finish: Finish) -> int:
        """Opens a question and returns its number; `finish` hears the totals once."""
        self._last += 1
        self._by_request[self._last] = _Question(verb, fragments, finish)
        return self._last

    def on_reply(self, request: int, fragment: FragmentId, ready: int, consumers: int) -> None:
        """Takes the answer of a fragment (a late or repeated one changes nothing)."""
        question = self._by_request.get(request)
        if question is None or fragment not in question.open:
            return
        del question.open[fragment]
        question.ready = min(question.ready + ready, COUNT_MAX)
        question.consumers = max(question.consumers, consumers)
        if not question.open:
            del self._by_request[request]
            question.finish(Totals(question.ready, question.consumers))

    def waiting_for(self, fragment: FragmentId) -> list[tuple[int, int]]:
        """(request, verb) of the questions that this fragment has not answered."""
        return [
            (request, question.verb)
            for request, question in self._by_request.items()
            if fragment in question.open
        ]

    def is_open(self, request: int) -> bool:
        """Whether a fragment has not answered it yet."""
        return request in self._by_request

    def give_up(self, request: int) -> None:
        """Gives up waiting: fragments that have not answered count 0."""
        question = self._by_request.get(request)
        for fragment in list(question.open) if question is not None else ():
            self.on_reply(request, fragment, 0, 0)

    def on_fragment_gone(self, fragment: FragmentId) -> None:
        """Takes 0 as the answer of a deleted fragment."""
        for request, _ in self.waiting_for(fragment):
            self.on_reply(request, fragment, 0, 0)
