"""A stream of which bodies leave memory, against a plain log with retention; and its pages.

Bodies leave at any time and never come back; messages go by segments; what cannot be read is lost;
a next reign begins with what a copy has, in memory and on disk. What is there, in which order, and
what goes, is as in a list of segments.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fedq.core.ids import POSITION_BITS, FragmentId, Incarnation, NodeId, Origin
from fedq.core.message import FLAG_PERSISTENT, encode
from fedq.core.policy import QueuePolicy, StreamPolicy
from fedq.core.ranges import Range, from_ranges
from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.fragments.runs.runs import ON_DISK
from fedq.fragments.streams.log import NOTED_MS, StreamLog, as_kept, read_from
from fedq.fragments.streams.stream_runs import StreamRuns
from fedq.fragments.upkeep.alive import in_fragment
from fedq.fragments.upkeep.stowing import lose, may_stow, waits_for_disk
from fedq.node.records.streams.stream_pages import Page, Pages
from tests.examples import examples

FRAGMENT = FragmentId(1)
ME = Origin(NodeId("n1"), Incarnation(1))
KEEPS = st.sampled_from([0, 1, 30, 100, 1_000])


class StreamMachine(RuleBasedStateMachine):
    """A stream, and a list of segments: each a list of positions, with bytes and a time."""

    #: Something could not be read; of when others came less may be known.
    some_lost = False

    @initialize(
        size=st.none() | st.integers(0, 400), age_ms=st.none() | st.integers(1, 200),
        segment=st.integers(0, 100),
    )  # fmt: skip
    def begin(self, size: int | None, age_ms: int | None, segment: int) -> None:
        self.policy = StreamPolicy(size, age_ms, segment)
        self.fragment = self.stream(1)
        self.replica = Replica(FRAGMENT, durable=True)
        self.bodies: dict[int, bytes] = {}
        self.segments: list[tuple[list[int], list[int]]] = [([], [])]
        self.last_ms = [0]
        self.now_ms, self.number = 1_000, 1
        self.times: dict[int, int] = {}

    def stream(self, reign: int, **kept: object) -> Fragment:
        fragment = Fragment(
            FRAGMENT, reign, durable=True, recording=True,
            policy=QueuePolicy(stream=self.policy), unix_ms=getattr(self, "now_ms", 1_000),
            **kept,  # type: ignore[arg-type]
        )  # fmt: skip
        assert fragment.log is not None
        fragment.log.notes_times = True
        return fragment

    @rule(
        lengths=st.lists(st.integers(0, 60), min_size=1, max_size=6),
        after=st.integers(0, 50) | st.integers(0, 5_000),
    )
    def publish(self, lengths: list[int], after: int) -> None:
        self.now_ms += after
        sent = [encode(FLAG_PERSISTENT, b"\x00\x01q", b"\0\0", b"x" * each) for each in lengths]
        self.fragment.publish(ME, self.number, sent, False, self.now_ms)
        self.number += len(sent)
        first = self.fragment.last - len(sent) + 1
        for position, body in enumerate(as_kept(sent), first):
            self.bodies[position] = body
            self.times[position] = self.now_ms
            positions, sizes = self.segments[-1]
            if sum(sizes) >= self.policy.segment_bytes and positions:
                self.segments.append(([position], [len(body)]))
                self.last_ms.append(self.now_ms)
            else:
                positions.append(position)
                sizes.append(len(body))
                self.last_ms[-1] = self.now_ms

    @rule(after=st.integers(0, 300), most=st.integers(1, 5))
    def retain(self, after: int, most: int) -> None:
        self.now_ms += after
        log = self.fragment.log
        assert log is not None
        log.retain(self.now_ms)
        while log.through and self.fragment.purge(log.through, most) == most:
            pass
        log.through = 0
        size, age_ms = self.policy.max_bytes, self.policy.max_age_ms
        while len(self.segments) > 1 and (
            (size is not None and sum(sum(sizes) for _, sizes in self.segments) > size)
            or (age_ms is not None and self.last_ms[0] < self.now_ms - age_ms)
        ):
            positions, _ = self.segments.pop(0)
            del self.last_ms[0]
            for position in positions:
                self.bodies.pop(position, None)

    @rule(keep=KEEPS, data=st.data(), most=st.sampled_from([1, 5, 1_000]))
    def stow(self, keep: int, data: st.DataObject, most: int) -> None:
        assert may_stow(self.fragment)
        through = data.draw(st.sampled_from([self.fragment.last, *self.bodies]))
        held = self.fragment.bytes_held
        self.fragment.fresh.stow(through, keep, most=most)
        assert self.fragment.bytes_held == held
        assert not waits_for_disk(self.fragment)
        # The end is in memory: as much as was to be kept, as far as there was so much.
        kept = 0
        for position in sorted(self.bodies, reverse=True):
            here = self.fragment.messages[position] != ON_DISK
            assert here or kept >= keep or position in self.away
            if kept >= keep and position <= through and most == 1_000:
                assert not here
            kept += len(self.bodies[position])

    @rule(most=st.sampled_from([1, 3, 1_000]))
    def stow_copy(self, most: int) -> None:
        self.replica.stow(self.replica.mark(), most)

    @precondition(lambda self: self.fragment.fresh.stowed_count)
    @rule(data=st.data(), count=st.integers(1, 4))
    def lose(self, data: st.DataObject, count: int) -> None:
        """Some cannot be read."""
        away = [p for p in self.bodies if self.fragment.messages[p] == ON_DISK]
        first = data.draw(st.sampled_from(away))
        lost = list(from_ranges(lose(self.fragment, first, first + count - 1)))
        assert lost == [p for p in away if first <= p < first + count]
        for position in lost:
            del self.bodies[position]
        self.some_lost = True

    @rule(from_disk=st.booleans())
    def fail_over(self, from_disk: bool) -> None:
        """The copy becomes the next primary: of times and segments it knows what is there."""
        self.follow()
        if from_disk:
            self.stow_copy(1_000)
        reign = self.fragment.reign + 1
        self.fragment = self.stream(
            reign, messages=self.replica.in_order(), origins=self.replica.origins,
            stowed=list(self.replica.stowed), notes=self.replica.known_notes,
        )  # fmt: skip
        # Where its segments begin depends on what lies together: that is read from it.
        log = self.fragment.log
        assert log is not None
        before, self.segments, self.last_ms = 0, [], []
        for segment in log.segments():
            here = [p for p in self.bodies if before < p <= segment.last]
            # Of what is on disk alone each one's share is told.
            self.segments.append((here, [segment.size]))
            self.last_ms.append(segment.last_ms)
            before = segment.last
        assert [p for positions, _ in self.segments for p in positions] == list(self.bodies)
        if not self.bodies:
            return
        # Nothing seems older than it is, and little seems much younger: none is left out.
        for (positions, _), last_ms in zip(self.segments, self.last_ms, strict=True):
            assert not positions or self.times[positions[-1]] <= last_ms <= self.now_ms
        newest = self.times[max(self.bodies)]
        assert self.last_ms[-1] <= newest + 3 * NOTED_MS or self.some_lost
        for position in self.bodies:
            since = log.since(self.times[position])
            assert since is not None
            assert since <= position
        reigns = fragment_reigns(self.fragment)
        grouped = {each >> POSITION_BITS: each for each in self.bodies}
        assert [last for _, last in reigns] == list(grouped.values())
        assert [first for first, _ in reigns][:1] == list(self.bodies)[:1]
        assert [first >> POSITION_BITS for first, _ in reigns] == list(grouped)
        for first, last in reigns:
            self.agree_on_times(log, first, last)

    def agree_on_times(self, log: StreamLog, first: int, last: int) -> None:
        """Times of a range ascend, and lead back to where they begin, or before."""
        times = log.times(first, last)
        assert times[0][0] == first
        assert times == sorted(times)
        for position, unix_ms in times:
            assert first <= position <= last
            since = log.since(unix_ms)
            assert since is not None
            assert since <= position
        assert log.size == self.fragment.bytes_held

    @property
    def away(self) -> dict[int, None]:
        """What was on disk alone when it was looked at last."""
        return self._away

    @invariant()
    def agree(self) -> None:
        fragment = self.fragment
        fragment.check()
        assert list(fragment.messages) == list(self.bodies)
        here = {p: message for p, message in fragment.messages.items() if message}
        assert here == {p: self.bodies[p] for p in here}
        self._away = dict.fromkeys(p for p in self.bodies if p not in here)
        found = [p for piece in in_fragment(fragment) for p in from_ranges(piece.ranges)]
        assert found == list(self.bodies)
        for start in list(self.bodies)[::3]:
            pieces = read_from(fragment.fresh, start, 5, 100)
            got = [pair for first, part in pieces for pair in enumerate(part, first)]
            assert got == [(p, m) for p, m in self.bodies.items() if p >= start][: len(got)]
            assert bool(got) == (start in here)

    @invariant()
    def follow(self) -> None:
        """The copy is given every record as it comes."""
        records, self.fragment.out.records = self.fragment.out.records, []
        for record in records:
            self.replica.apply(record.data)
        held = sorted([*self.replica.messages, *from_ranges(self.replica.stowed.ranges())])
        assert held == list(self.bodies)


def fragment_reigns(fragment: Fragment) -> list[Range]:
    fresh = fragment.fresh
    assert isinstance(fresh, StreamRuns)
    return fresh.reigns()


TestStreams = StreamMachine.TestCase
TestStreams.settings = settings(max_examples=examples(80), stateful_step_count=30)

#: Whose, from where on, how many messages of how many bytes each; whether readers had a look since.
PAGES = st.tuples(
    st.integers(1, 3), st.integers(1, 60), st.integers(1, 8), st.integers(0, 40), st.booleans()
)


@given(st.lists(PAGES, max_size=40), st.integers(1, 3_000))
def test_pages_keep_within_their_bound_and_what_was_used_stays_longest(
    given_pages: list[tuple[int, int, int, int, bool]], bound: int
) -> None:
    pages = Pages()
    model: dict[Page, None] = {}
    for whose, first, count, size, looked in given_pages:
        fragment = FragmentId(whose)
        stream = pages.of(fragment)
        found = stream.find(first)
        assert found == next(
            (p for p in model if p.fragment == whose and first in p.positions), None
        )
        if found is not None:
            pages.use(found)
            del model[found]
            model[found] = None
            assert (
                found.part(first, found.last, 2, 1_000) == found.messages[first - found.first :][:2]
            )
            continue
        last = stream.room_behind(first, first + count - 1)
        page = Page(fragment, list(range(first, last + 1)), [b"x" * size] * (last - first + 1))
        has_room = pages.make_room(page.size, bound)
        for other in list(model):
            if sum(each.size for each in model) + page.size > bound and not other.is_new:
                del model[other]
        assert has_room == (sum(each.size for each in model) < bound)
        if has_room:
            pages.add(page)
            model[page] = None
        if looked:
            pages.had_a_look(fragment)
        assert pages.bytes_held == sum(each.size for each in model)
        # One read may go beyond.
        assert not has_room or pages.bytes_held < bound + page.size
        kept = [each for _, known in pages.streams() for each in known.pages]
        assert sorted(map(id, kept)) == sorted(map(id, model))
    for number in (1, 2, 3):
        pages.forget(FragmentId(number))
    assert pages.bytes_held == 0
