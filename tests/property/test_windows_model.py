"""A channel's two windows against plain lists: unacknowledged deliveries, unconfirmed publishes."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedq.core.ids import FragmentId
from fedq.sessions.confirms import ConfirmGroup, ConfirmWindow
from fedq.sessions.unacked import Delivery, UnackedWindow

HOLDERS = ["printer", "mailer", None]


class UnackedMachine(RuleBasedStateMachine):
    """The model: (tag, delivery) of everything that is out, in tag order."""

    def __init__(self) -> None:
        super().__init__()
        self.window: UnackedWindow[str | None] = UnackedWindow()
        self.out: list[tuple[int, Delivery[str | None]]] = []
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
        found = self.window.resolve(tag, False)
        wanted = [delivery for known, delivery in self.out if known == tag]
        assert found == (wanted or None)
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
            wanted.append(known[tag])
            tag += 1
        assert unknown == (tag if tag < first + count else None)
        found = [Delivery(p.holder, p.fragment, each) for p in parts for each in p.positions]
        assert found == wanted
        self.out = [each for each in self.out if not first <= each[0] < tag]

    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        """What a transaction resolved is there again, under its tags."""
        tags = data.draw(st.lists(st.sampled_from([0, *dict(self.out)]), unique=True, max_size=5))
        resolved: list[tuple[int, Delivery[str | None]]] = []
        for tag in tags:
            assert self.window.named(tag, False) == ([tag] if tag else [])
            resolved += [(tag, delivery) for delivery in self.window.resolve(tag, False) or []]
        assert len(self.window) == len(self.out) - len(resolved)
        self.window.restore(resolved)
        tag = data.draw(st.integers(0, self.last_tag))
        assert self.window.named(tag, True) == [t for t, _ in self.out if not tag or t <= tag]

    @precondition(lambda self: len(self.out) > 1_000)
    @rule(data=st.data())
    def settle_the_newest(self, data: st.DataObject) -> None:
        """Many settled out of turn, while the oldest stays: the window must not grow with them."""
        keep = data.draw(st.integers(1, 3))
        for tag, delivery in reversed(self.out[keep:]):
            assert self.window.resolve(tag, False) == [delivery]
        self.out = self.out[:keep]
        assert len(self.window._spans) <= 2 * keep + 32

    @rule(data=st.data())
    def settle_many(self, data: st.DataObject) -> None:
        """All up to a tag; 0 means all. Naming nothing is an error, but for 0."""
        tag = data.draw(st.integers(0, self.last_tag + 2))
        found = self.window.resolve(tag, True)
        wanted = [delivery for known, delivery in self.out if tag == 0 or known <= tag]
        if tag > self.last_tag or (tag and not wanted):
            assert found is None
            return
        assert found == wanted
        self.out = [each for each in self.out if tag and each[0] > tag]

    @rule()
    def recover(self) -> None:
        found = [
            Delivery(part.holder, part.fragment, position)
            for part in self.window.take_all()
            for position in part.positions
        ]
        assert found == [delivery for _, delivery in self.out]
        self.out = []

    @invariant()
    def agree(self) -> None:
        deliveries = [delivery for _, delivery in self.out]
        assert len(self.window) == len(deliveries)
        assert self.window.deliveries() == deliveries
        assert self.window.last_tag == self.last_tag


class ConfirmMachine(RuleBasedStateMachine):
    """The model: for each group its tags and how many places have not reported."""

    def __init__(self) -> None:
        super().__init__()
        self.window = ConfirmWindow("channel")
        self.groups: list[ConfirmGroup[str]] = []
        self.tags: list[tuple[int, int]] = []
        self.waiting: list[int] = []
        self.told = 0
        self.refused: dict[int, None] = {}

    @rule(count=st.integers(1, 4), places=st.integers(0, 3))
    def publish(self, count: int, places: int) -> None:
        first = self.window.last_tag + 1
        group = self.window.open(count, places)
        assert group.owner == "channel"
        assert self.window.last_tag == first + count - 1
        self.groups.append(group)
        self.tags.append((first, self.window.last_tag))
        self.waiting.append(places)

    @precondition(lambda self: any(self.waiting))
    @rule(data=st.data())
    def report(self, data: st.DataObject) -> None:
        """One place of one group has everything, in whatever order places are heard."""
        open_groups = [index for index, waiting in enumerate(self.waiting) if waiting]
        index = data.draw(st.sampled_from(open_groups))
        first, last = self.tags[index]
        refused = data.draw(st.lists(st.integers(first, last), max_size=2))
        if refused:
            self.groups[index].refuse(last - tag for tag in refused)
            self.refused.update(dict.fromkeys(refused))
        self.groups[index].waiting -= 1
        self.waiting[index] -= 1

    @rule()
    def flush(self) -> None:
        """The client hears all that is safe from the front, and never a tag twice."""
        through = 0
        for (_, last), waiting in zip(self.tags, self.waiting, strict=True):
            if waiting:
                break
            through = last
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
TestUnacked.settings = settings(max_examples=60, stateful_step_count=25)
TestConfirms = ConfirmMachine.TestCase
TestConfirms.settings = settings(max_examples=60, stateful_step_count=30)
