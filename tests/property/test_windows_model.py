"""A channel's two windows against plain lists: unacknowledged deliveries, unconfirmed publishes."""

from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedq.channels.confirms import ConfirmGroup, ConfirmWindow
from fedq.channels.unacked import Part, UnackedWindow
from fedq.core.ids import FragmentId, QueueKey
from tests.examples import examples

HOLDERS = ["printer", "mailer", None]
QUEUES = [QueueKey("/", name) for name in ("orders", "bills", "letters")]


class Delivery(NamedTuple):
    """One message that is with a consumer."""

    holder: str | None
    fragment: FragmentId
    position: int


Parts = list[Part[str | None]]


def tagged(parts: Parts) -> list[tuple[int, Delivery]]:
    """The deliveries of the parts, with their tags."""
    return [
        (tag, Delivery(part.holder, part.fragment, position))
        for part in parts
        for tag, position in enumerate(part.positions, part.first)
    ]


class UnackedMachine(RuleBasedStateMachine):
    """The model: (tag, delivery) of everything that is out, in tag order."""

    def __init__(self) -> None:
        super().__init__()
        self.window: UnackedWindow[str | None] = UnackedWindow()
        self.out: list[tuple[int, Delivery]] = []
        self.last_tag = 0

    @rule(
        holder=st.sampled_from(HOLDERS),
        fragment=st.integers(-2, 2),
        count=st.one_of(st.integers(1, 5), st.just(1_200)),
    )
    def deliver(self, holder: str | None, fragment: int, count: int) -> None:
        positions = list(range(self.last_tag, self.last_tag + count))
        first = self.window.add(holder, FragmentId(fragment), positions)
        assert first == self.last_tag + 1
        for position in positions:
            self.last_tag += 1
            self.out.append((self.last_tag, Delivery(holder, FragmentId(fragment), position)))

    @rule(count=st.integers(1, 5))
    def deliver_without_acknowledgement(self, count: int) -> None:
        assert self.window.skip(count) == self.last_tag + 1
        self.last_tag += count

    @rule(data=st.data())
    def settle_one(self, data: st.DataObject) -> None:
        """Any tag: out, settled, not given yet, or 0; all but the first are unknown."""
        tag = data.draw(st.integers(0, self.last_tag + 2))
        parts, unknown = self.window.settle(tag, tag)
        assert tagged(parts) == [each for each in self.out if each[0] == tag]
        assert unknown == (None if parts else tag)
        self.out = [each for each in self.out if each[0] != tag]

    @rule(data=st.data(), count=st.sampled_from([2, 3, 50]))
    def settle_a_run(self, data: st.DataObject, count: int) -> None:
        """Many one by one, in order, up to the first that is unknown."""
        first = data.draw(st.integers(0, self.last_tag + 2))
        parts, unknown = self.window.settle(first, first + count - 1)
        known = dict(self.out)
        wanted = []
        tag = first
        while tag in known and tag < first + count:
            wanted.append((tag, known[tag]))
            tag += 1
        assert unknown == (tag if tag < first + count else None)
        assert tagged(parts) == wanted
        self.out = [each for each in self.out if not first <= each[0] < tag]

    @rule(data=st.data(), many=st.booleans())
    def roll_back(self, data: st.DataObject, many: bool) -> None:
        """What a transaction settled is there again, under its tags."""
        tags = data.draw(st.lists(st.sampled_from([0, *dict(self.out)]), unique=True, max_size=5))
        settled: Parts = []
        for tag in tags:
            settled += self.window.settle(tag, tag)[0]
        if many:
            settled += self.window.settle_through(data.draw(st.integers(0, self.last_tag))) or []
        assert len(self.window) == len(self.out) - len(tagged(settled))
        self.window.restore(settled)

    @precondition(lambda self: len(self.out) > 1_000)
    @rule(data=st.data())
    def settle_the_newest(self, data: st.DataObject) -> None:
        """Many settled out of turn, while the oldest stays: the window must not grow with them."""
        keep = data.draw(st.integers(1, 3))
        for tag, delivery in reversed(self.out[keep:]):
            assert tagged(self.window.settle(tag, tag)[0]) == [(tag, delivery)]
        self.out = self.out[:keep]
        assert len(self.window._spans) <= 2 * keep + 32

    @rule(data=st.data(), most=st.sampled_from([1, 2, 7, 1_100, 1 << 62]))
    def settle_many(self, data: st.DataObject, most: int) -> None:
        """All up to a tag; 0 means all. Naming nothing is an error, but for 0.

        However many are taken at a time, together they are the same.
        """
        tag = data.draw(st.integers(0, self.last_tag + 2))
        found = self.window.settle_through(tag, most)
        wanted = [each for each in self.out if tag == 0 or each[0] <= tag]
        if tag > self.last_tag or (tag and not wanted):
            assert found is None
            return
        assert found is not None
        assert tagged(found) == wanted[:most]
        self.out = self.out[len(wanted[:most]) :]
        assert self.window.has_through(tag or self.last_tag) == (len(wanted) > most)

    @invariant()
    def agree(self) -> None:
        assert len(self.window) == len(self.out)
        assert tagged(self.window.parts()) == self.out
        assert self.window.last_tag == self.last_tag


class ConfirmMachine(RuleBasedStateMachine):
    """The model: for each tag the places that have not reported, named by a number for ever.

    A run's publishes all wait for all of its places; those of a spread group each for its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.window = ConfirmWindow("channel")
        #: What has to report: the group, the fragment, and the tags that wait for it.
        self.reports: list[tuple[ConfirmGroup[str], FragmentId, list[int]]] = []
        #: By tag, how many reports it still waits for.
        self.waiting: dict[int, int] = {}
        self.told = 0
        self.refused: dict[int, None] = {}

    @rule(count=st.integers(1, 4), places=st.integers(0, 3))
    def publish(self, count: int, places: int) -> None:
        first = self.window.last_tag + 1
        group = self.window.open(count, places)
        tags = list(range(first, first + count))
        assert group.owner == "channel"
        assert self.window.last_tag == tags[-1]
        self.waiting.update(dict.fromkeys(tags, places))
        self.reports += [(group, FragmentId(place), tags) for place in range(1, places + 1)]

    @rule(ways=st.lists(st.lists(st.sampled_from(QUEUES), unique=True), min_size=1, max_size=6))
    def publish_spread(self, ways: list[list[QueueKey]]) -> None:
        first = self.window.last_tag + 1
        group = self.window.open_spread([tuple(way) for way in ways])
        by_queue: dict[QueueKey, list[int]] = {}
        for tag, way in enumerate(ways, first):
            self.waiting[tag] = len(way)
            for queue in way:
                by_queue.setdefault(queue, []).append(tag)
        assert group.owner == "channel"
        assert self.window.last_tag == first + len(ways) - 1
        for queue, tags in by_queue.items():
            fragment = FragmentId(QUEUES.index(queue) + 1)
            group.await_fragment(fragment, queue, tags[0] - first)
            self.reports.append((group, fragment, tags))
        assert group.waiting == len(by_queue)

    @precondition(lambda self: self.reports)
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        """One place of one group has everything, in whatever order places are heard."""
        place = data.draw(st.integers(0, len(self.reports) - 1))
        group, fragment, tags = self.reports.pop(place)
        indexes = data.draw(st.lists(st.integers(0, len(tags) - 1), max_size=2, unique=True))
        if indexes:
            group.refuse_at(fragment, indexes)
            self.refused.update((tags[index], None) for index in indexes)
        marked = group.on_safe(fragment)
        assert marked or group.waiting, "who waits for the whole group hears of its end"
        for tag in tags:
            self.waiting[tag] -= 1

    @rule()
    def flush(self) -> None:
        """The client hears all that is safe from the front, and never a tag twice."""
        through = 0
        for tag in range(1, self.window.last_tag + 1):
            if self.waiting[tag]:
                break
            through = tag
        heard: dict[int, bool] = {}
        told = self.told
        for tag, multiple, safe in self.window.flush():
            for each in range(told + 1 if multiple else tag, tag + 1):
                heard[each] = safe
            told = tag
        wanted = range(self.told + 1, max(self.told, through) + 1)
        assert heard == {tag: tag not in self.refused for tag in wanted}
        self.told = max(self.told, through)
        assert self.window.confirmed == self.told
        assert self.window.flush() == []


TestUnacked = UnackedMachine.TestCase
TestUnacked.settings = settings(max_examples=examples(60), stateful_step_count=25)
TestConfirms = ConfirmMachine.TestCase
TestConfirms.settings = settings(max_examples=examples(60), stateful_step_count=30)
