"""A node's publishes to a fragment, its relays to a peer, and its questions: nobody waits for ever.

The models: which numbers are out, which groups wait for which number. Whatever is confirmed, sent
again after a failover, or abandoned, each waiter hears once, in order, and not too early.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedq.channels.confirms import ConfirmGroup
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.fragments.fragment import Fragment
from fedq.proxy.calls import Calls, Totals
from fedq.proxy.fanout import Relays
from fedq.proxy.publisher import FragmentPublisher
from tests.examples import examples
from tests.unit.journal.samples import message

ME = Origin(NodeId("me"), Incarnation(1))
VHOSTS = ["/", "other"]
FRAGMENTS = [FragmentId(number) for number in range(1, 5)]


class PublisherMachine(RuleBasedStateMachine):
    """The fragment at the other end is real, so that what is sent again meets its memory."""

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    def begin(self) -> None:
        """A queue is declared."""
        self.publisher: FragmentPublisher[str] = FragmentPublisher(FragmentId(1), 1 << 20)
        self.fragment = self.begin_reign(1)
        self.bodies: list[bytes] = []
        self.taken = 0
        self.done = 0
        self.waiting: list[tuple[int, ConfirmGroup[str]]] = []

    def begin_reign(self, reign: int) -> Fragment:
        return Fragment(FragmentId(1), reign, durable=False, recording=False)

    @rule(count=st.integers(1, 4), confirmed=st.booleans())
    def add(self, count: int, confirmed: bool) -> None:
        bodies = [message(str(len(self.bodies) + n)) for n in range(count)]
        self.bodies += bodies
        group = ConfirmGroup("channel", len(self.bodies), count, 1) if confirmed else None
        self.publisher.add(bodies, group)
        if group is not None:
            self.waiting.append((len(self.bodies), group))

    @rule()
    def flush(self) -> None:
        for batch in self.publisher.take():
            assert batch.first == self.taken + 1
            assert batch.size == sum(map(len, batch.messages))
            self.fragment.publish(ME, batch.first, batch.messages)
            self.taken += len(batch.messages)
        assert self.taken == len(self.bodies)
        assert self.publisher.take() == []

    @precondition(lambda self: self.taken > self.done)
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        """Any number, also in the middle of a batch; those with it, and no others, hear."""
        through = data.draw(st.integers(self.done + 1, self.taken))
        self.done = through
        wanted = [group for last, group in self.waiting if last <= through]
        assert self.publisher.on_done(through) == wanted
        self.waiting = [each for each in self.waiting if each[0] > through]
        assert self.publisher.on_done(through) == [], "once"

    @rule(kept=st.integers(0, 30))
    def fail_over(self, kept: int) -> None:
        """The next primary has what was confirmed, and perhaps more; the rest comes again."""
        known = min(max(self.done, kept), self.taken)
        reign = self.fragment.reign + 1
        messages = dict(enumerate(self.bodies[:known], 1))
        self.fragment = Fragment(
            FragmentId(1), reign, durable=False, recording=False,
            messages=messages, origins={ME: known} if known else {},
        )  # fmt: skip
        self.publisher.take()
        self.taken = len(self.bodies)
        for batch in self.publisher.unconfirmed():
            self.fragment.publish(ME, batch.first, batch.messages, True)
        assert list(self.fragment.messages.values()) == self.bodies

    @rule()
    def abandon(self) -> None:
        """The queue is deleted: whoever waits hears that nothing is owed."""
        assert self.publisher.abandon() == [group for _, group in self.waiting]
        assert self.publisher.unconfirmed() == []
        self.begin()

    @invariant()
    def count_bytes(self) -> None:
        held = self.publisher.unconfirmed()
        assert self.publisher.bytes_unconfirmed == sum(batch.size for batch in held)
        if self.taken > self.done:
            assert held[0].first <= self.done + 1


class RelaysMachine(RuleBasedStateMachine):
    """What goes to one peer's private queues, and who waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.relays: Relays[str] = Relays()
        self.last = self.taken = self.done = 0
        self.pending = ""
        self.waiting: list[tuple[int, str]] = []

    @rule(
        vhost=st.sampled_from(VHOSTS), count=st.integers(1, 4),
        waiter=st.sampled_from(["ann", "ben", None]),
    )  # fmt: skip
    def add(self, vhost: str, count: int, waiter: str | None) -> None:
        bodies = [message(str(self.last + n)) for n in range(count)]
        if not self.relays.add(vhost, bodies, waiter):
            assert self.pending not in ("", vhost), "it had to be flushed for another vhost only"
            self.flush()
            assert self.relays.add(vhost, bodies, waiter)
        self.pending = vhost
        self.last += count
        if waiter is not None:
            self.waiting.append((self.last, waiter))

    @rule()
    def flush(self) -> None:
        for first, vhost, messages in self.relays.take():
            assert (first, vhost) == (self.taken + 1, self.pending)
            self.taken += len(messages)
        assert self.taken == self.last
        self.pending = ""

    @precondition(lambda self: self.taken > self.done)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        self.done = data.draw(st.integers(self.done + 1, self.taken))
        wanted = [each for each in self.waiting if each[0] <= self.done]
        assert self.relays.on_done(self.done) == wanted
        self.waiting = [each for each in self.waiting if each[0] > self.done]

    @rule()
    def lose_the_peer(self) -> None:
        assert self.relays.abandon() == self.waiting
        assert self.relays.unanswered() == []
        assert self.relays.bytes_sent == 0
        self.waiting, self.pending = [], ""
        self.taken = self.done = self.last

    @invariant()
    def keep_what_is_not_answered(self) -> None:
        numbers = [
            first + index
            for first, _, messages in self.relays.unanswered()
            for index in range(len(messages))
        ]
        assert numbers[-(self.taken - self.done) :] == list(range(self.done + 1, self.taken + 1))


class CallsMachine(RuleBasedStateMachine):
    """Questions over some fragments, answered in any order, twice, late, or never."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = Calls()
        self.open: dict[int, dict[FragmentId, None]] = {}
        self.sums: dict[int, tuple[int, int]] = {}
        self.heard: dict[int, Totals] = {}

    @rule(fragments=st.lists(st.sampled_from(FRAGMENTS), min_size=1, unique=True))
    def ask(self, fragments: list[FragmentId]) -> None:
        request = len(self.sums) + 1

        def finish(totals: Totals) -> None:
            assert request not in self.heard, "heard twice"
            self.heard[request] = totals

        assert self.calls.ask(1, fragments, finish) == request
        self.open[request] = dict.fromkeys(fragments)
        self.sums[request] = (0, 0)

    @precondition(lambda self: self.sums)
    @rule(data=st.data(), fragment=st.sampled_from(FRAGMENTS), ready=st.integers(0, 9),
          consumers=st.integers(0, 9))  # fmt: skip
    def answer(self, data: st.DataObject, fragment: FragmentId, ready: int, consumers: int) -> None:
        request = data.draw(st.integers(1, len(self.sums) + 1))
        self.calls.on_reply(request, fragment, ready, consumers)
        self.note(request, fragment, ready, consumers)

    @rule(fragment=st.sampled_from(FRAGMENTS))
    def lose_a_fragment(self, fragment: FragmentId) -> None:
        self.calls.on_fragment_gone(fragment)
        for request in list(self.open):
            self.note(request, fragment, 0, 0)

    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        request = data.draw(st.integers(1, len(self.sums) + 1))
        self.calls.give_up(request)
        for fragment in FRAGMENTS:
            self.note(request, fragment, 0, 0)

    def note(self, request: int, fragment: FragmentId, ready: int, consumers: int) -> None:
        if fragment in self.open.get(request, ()):
            del self.open[request][fragment]
            sums = self.sums[request]
            self.sums[request] = (sums[0] + ready, max(sums[1], consumers))

    @invariant()
    def agree(self) -> None:
        answered = {r: Totals(*self.sums[r]) for r, left in self.open.items() if not left}
        assert self.heard == answered
        for fragment in FRAGMENTS:
            waiting = [(r, 1) for r, left in self.open.items() if fragment in left]
            assert self.calls.waiting_for(fragment) == waiting
        for request, left in self.open.items():
            assert self.calls.is_open(request) == bool(left)


TestPublisher = PublisherMachine.TestCase
TestPublisher.settings = settings(max_examples=examples(60), stateful_step_count=25)
TestRelays = RelaysMachine.TestCase
TestRelays.settings = settings(max_examples=examples(60), stateful_step_count=25)
TestCalls = CallsMachine.TestCase
TestCalls.settings = settings(max_examples=examples(60), stateful_step_count=25)
