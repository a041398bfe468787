"""What was kept for a fragment that is retired: another one gets it, in order, and confirms it.

The model: the messages of two channels in the order in which they were published, and which of them
the fragment at the end refuses. Each tag is told once, for what became of its message.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.channels.confirms import ConfirmWindow, Verdict
from fedq.core.ids import FragmentId, QueueKey
from fedq.proxy.publisher import FragmentPublisher, Settled
from tests.examples import examples
from tests.unit.journal.samples import message

RETIRED, NEXT, ELSEWHERE = FragmentId(1), FragmentId(2), FragmentId(9)
HERE, THERE = QueueKey("/", "here"), QueueKey("/", "there")
#: A run of publishes: how many; whether it is a transaction; whether it is sent on its way then.
runs = st.lists(st.tuples(st.integers(1, 4), st.booleans(), st.booleans()), max_size=5)


class Sender:
    """A channel with confirms, and what it has published to a queue."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.window: ConfirmWindow[str] = ConfirmWindow(name)
        self.bodies: list[bytes] = []

    def publish(self, publisher: FragmentPublisher[str], count: int, at_once: bool) -> None:
        """A run with one confirm group; or a transaction."""
        bodies = [message(f"{self.name}{len(self.bodies) + n}") for n in range(count)]
        self.bodies += bodies
        group = self.window.open(count, 1)
        if at_once:
            publisher.take()
            publisher.add_atomic(bodies, Settled([7], [], []), group)
        else:
            publisher.add(bodies, group)

    def told(self) -> dict[int, bool]:
        """What the channel's client hears of each tag now."""
        before, found = self.window.confirmed, dict[int, bool]()
        for tag, multiple, safe in self.window.flush():
            assert isinstance(Verdict(tag, multiple, safe), Verdict)
            for each in range(before + 1 if multiple else tag, tag + 1):
                assert each not in found
                found[each] = safe
            before = tag
        return found


@settings(max_examples=examples(200))
@given(runs, runs, runs, st.sets(st.integers(0, 60)))
def test_another_fragment_gets_it_in_order_and_confirms_it(
    before: list[tuple[int, bool, bool]], kept: list[tuple[int, bool, bool]],
    after: list[tuple[int, bool, bool]], refused: set[int],
) -> None:  # fmt: skip
    retired: FragmentPublisher[str] = FragmentPublisher(RETIRED, 1 << 20)
    other: FragmentPublisher[str] = FragmentPublisher(NEXT, 1 << 20)
    others, mine = Sender("o"), Sender("m")
    for publisher, sender, what in ((other, others, before), (retired, mine, kept)):
        for count, at_once, goes in what:
            sender.publish(publisher, count, at_once)
            if goes:
                publisher.take()
    retired.pass_on(other)
    assert retired.is_idle
    assert retired.bytes_unconfirmed == 0
    for count, at_once, _ in after:
        mine.publish(other, count, at_once)
    other.take()
    batches = other.unconfirmed()
    assert [body for batch in batches for body in batch.messages] == others.bodies + mine.bodies
    place, numbers = 1, list[int]()
    for batch in batches:
        assert batch.first == place, "no number is twice, and none is left out"
        place = batch.last + 1
        numbers += range(batch.first, batch.first + len(batch.messages))
        if (
            batch.settled is not None
            and batch.messages[0] in mine.bodies[: sum(n for n, *_ in kept)]
        ):
            assert batch.settled == Settled([], [], []), "positions of the fragment that is gone"
    assert other.bytes_unconfirmed == sum(batch.size for batch in batches)
    nacked = [number for index, number in enumerate(numbers) if index in refused]
    for group in other.on_done(other.last, nacked):
        assert group.on_safe(NEXT)
    split = len(others.bodies)
    for sender, shift in ((others, 0), (mine, split)):
        wanted = {tag: tag - 1 + shift not in refused for tag in range(1, len(sender.bodies) + 1)}
        assert sender.told() == wanted


ways = st.lists(st.sampled_from([(HERE,), (THERE,), (HERE, THERE), ()]), min_size=1, max_size=6)


@settings(max_examples=examples(200))
@given(ways, st.booleans(), st.sets(st.integers(0, 6)))
def test_a_group_of_several_queues_waits_for_the_other_fragment_in_its_place(
    routes: list[tuple[QueueKey, ...]], first_elsewhere: bool, refused: set[int]
) -> None:
    window: ConfirmWindow[str] = ConfirmWindow("c")
    retired: FragmentPublisher[str] = FragmentPublisher(RETIRED, 1 << 20)
    other: FragmentPublisher[str] = FragmentPublisher(NEXT, 1 << 20)
    other.add([message("before")], None)
    group = window.open_spread(list(routes))
    parts = {
        queue: [index for index, route in enumerate(routes) if queue in route]
        for queue in (HERE, THERE)
    }
    for queue in sorted((q for q in parts if parts[q]), key=lambda q: parts[q][0]):
        fragment = RETIRED if queue == HERE else ELSEWHERE
        group.await_fragment(fragment, queue, parts[queue][0])
        if queue == HERE:
            retired.add([message(str(index)) for index in parts[queue]], group)
    retired.pass_on(other)
    here = parts[HERE]
    nacked = [2 + index for index in range(len(here)) if index in refused]
    if first_elsewhere and parts[THERE]:
        group.on_safe(ELSEWHERE)
    for each in other.on_done(other.last, nacked):
        each.on_safe(NEXT)
    if not first_elsewhere and parts[THERE]:
        group.on_safe(ELSEWHERE)
    told: dict[int, bool] = {}
    before = 0
    for tag, multiple, safe in window.flush():
        told.update((each, safe) for each in range(before + 1 if multiple else tag, tag + 1))
        before = tag
    assert told == {
        index + 1: not (index in here and here.index(index) in refused)
        for index in range(len(routes))
    }
