"""What a run has of streams: a plan with dice of its own, so that other seeds keep their histories.

A stream has publishers, and readers that begin anywhere and come back where they were; bodies leave
memory in most of these runs, and whole segments go in some.
"""

from dataclasses import dataclass, replace

from fedq.amqp.values import TableValue
from fedq.core.seeds import Rng, derive
from tests.sim.world import MS

NAME = "stream"
#: The exchange through which a stream in several fragments gets its messages, and how many routing
#: keys they have.
EXCHANGE = "stream keys"
KEYS = 7
#: The share of seeds that have one, of those that may.
SHARE = 0.4
#: Of these, those in several fragments.
PARTED_SHARE = 0.4
#: And those whose messages go by age.
AGED_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class StreamPublisherPlan:
    """What a publisher sends, and how."""

    messages: int
    burst: int
    gap_us: int
    body_bytes: int
    persistent: float
    vanish: float = 0.0


@dataclass(frozen=True, slots=True)
class ReaderPlan:
    """Where a reader begins, and how fast it reads.

    At the "first" message, the "last" or the "next" one, an offset, or with those of the last "2s".
    """

    start: str | int
    prefetch: int
    work_us: int
    #: The chance, looked at every 100 ms, that it drops its connection.
    vanish: float = 0.0
    #: Once it has lost its connection it goes on where it was, or begins as it did first.
    resumes: bool = True
    #: The name that it reads with ("": it has none), and which messages it asks for ("": all).
    name: str = ""
    wanted: str = ""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """A stream and those who use it."""

    #: x-fedq-replicas; 0: not given (the default of two).
    replicas: int
    #: x-max-length-bytes; 0: nothing ever goes.
    max_bytes: int
    segment_bytes: int
    publishers: tuple[StreamPublisherPlan, ...]
    readers: tuple[ReaderPlan, ...]
    #: x-fedq-fragments; 0: not given.
    fragments: int = 0
    #: x-max-age, in seconds; 0: nothing goes for that.
    max_age_s: int = 0

    @property
    def retains(self) -> bool:
        """Whether anything ever goes."""
        return self.max_bytes > 0 or self.max_age_s > 0

    def arguments(self) -> dict[str, TableValue]:
        """The declaration's arguments."""
        found: dict[str, TableValue] = {"x-queue-type": "stream"}
        if self.replicas:
            found["x-fedq-replicas"] = self.replicas
        if self.max_bytes:
            found["x-max-length-bytes"] = self.max_bytes
        if self.max_age_s:
            found["x-max-age"] = f"{self.max_age_s}s"
        if self.retains:
            found["x-stream-max-segment-size-bytes"] = self.segment_bytes
        if self.fragments:
            found["x-fedq-fragments"] = self.fragments
        return found

    def describe(self) -> list[str]:
        """The plan in lines."""
        return [
            f"a stream of {self.replicas} copies, {self.max_bytes} bytes in segments of "
            f"{self.segment_bytes}, for {self.max_age_s or 'any number of'} seconds, "
            f"{self.fragments or 'one'} fragments",
            *map(str, self.publishers), *map(str, self.readers),
        ]  # fmt: skip


def value_of(number: int) -> str:
    """The filter value of a message."""
    return "abcd"[number % 4]


def draw_askers(plan: StreamPlan, seed: int) -> StreamPlan:
    """Names and filters for some readers, with dice of their own."""
    dice = derive(seed, "what readers ask")
    kind = dice.choice(("", "", "names", "filters", "both"))
    if not kind:
        return plan
    readers: list[ReaderPlan] = []
    for reader in plan.readers:
        name = dice.choice(("", "x", "x", "y")) if kind != "filters" else ""
        wanted = dice.choice(("", "a", "bc")) if kind != "names" else ""
        # Those of one name begin alike: who comes first says where it begins.
        start = "first" if name else reader.start
        readers.append(replace(reader, name=name, wanted="" if name else wanted, start=start))
    return replace(plan, readers=tuple(readers))


def draw_fragments(plan: StreamPlan, seed: int) -> StreamPlan:
    """Several fragments for some streams, with dice of their own; an offset is none in all."""
    dice = derive(seed, "stream fragments")
    if dice.random() >= PARTED_SHARE:
        return plan
    readers = tuple(replace(each, resumes=False) for each in plan.readers)
    return replace(plan, readers=readers, fragments=dice.choice((2, 3, 5)))


def draw_age(plan: StreamPlan, seed: int, lite: bool, safety_us: int) -> StreamPlan:
    """An age for some streams, with dice of their own.

    Segments are small enough to show it, messages come all the time, and readers from the beginning
    do, too.
    """
    dice = derive(seed, "stream age")
    if dice.random() >= AGED_SHARE:
        return plan
    sent = sum(each.messages * each.body_bytes for each in plan.publishers)
    publishers = tuple(
        replace(
            each, burst=min(each.burst, 5), gap_us=safety_us * min(each.burst, 5) // each.messages
        )
        for each in plan.publishers
    )
    readers = tuple(
        replace(each, start="first", resumes=False, vanish=0.0 if lite else 0.2)
        if not each.name and dice.random() < 0.6
        else each
        for each in plan.readers
    )
    return replace(
        plan,
        publishers=publishers,
        readers=readers,
        max_age_s=dice.choice((1, 1, 2, 4)),
        max_bytes=plan.max_bytes if dice.random() < 0.3 else 0,
        segment_bytes=max(1, sent // dice.choice((10, 40))),
    )


def draw_stream(seed: int, lite: bool, safety_us: int) -> StreamPlan | None:
    """The stream of a seed; most have none."""
    dice = derive(seed, "stream")
    if dice.random() >= SHARE:
        return None
    publishers = tuple(
        _draw_publisher(dice, lite, safety_us) for _ in range(dice.choice((1, 1, 2)))
    )
    sent = sum(each.messages * each.body_bytes for each in publishers)
    max_bytes = dice.choice((0, 0, sent // 2, sent // 5))
    return StreamPlan(
        replicas=dice.choice((0, 0, 0, 1, 3)),
        max_bytes=max_bytes,
        segment_bytes=max(1, dice.choice((max_bytes // 20, max_bytes // 3))),
        publishers=publishers,
        readers=_draw_times(
            derive(seed, "stream times"),
            [_draw_reader(dice, lite) for _ in range(dice.choice((2, 4, 6)))],
        ),
    )


def _draw_publisher(dice: Rng, lite: bool, safety_us: int) -> StreamPublisherPlan:
    messages, burst = dice.randint(20, 200), dice.choice((1, 5, 20))
    return StreamPublisherPlan(
        messages=messages,
        burst=burst,
        gap_us=dice.choice((2 * MS, safety_us * burst // messages)),
        body_bytes=dice.choice((10, 100, 1_000)),
        persistent=dice.choice((0.0, 0.5, 1.0)),
        vanish=0.0 if lite else dice.choice((0.0, 0.0, 0.1)),
    )


def _draw_times(dice: Rng, readers: list[ReaderPlan]) -> tuple[ReaderPlan, ...]:
    """Some readers begin with what came lately, whenever they come back, in any reign."""
    return tuple(
        replace(each, start=f"{dice.randint(1, 3)}s", resumes=False)
        if dice.random() < 0.15
        else each
        for each in readers
    )


def _draw_reader(dice: Rng, lite: bool) -> ReaderPlan:
    return ReaderPlan(
        start=dice.choice(("first", "first", "next", "last", dice.randint(0, 200))),
        prefetch=dice.choice((1, 5, 50, 500)),
        work_us=dice.choice((0, 1, 5)) * MS,
        vanish=0.0 if lite else dice.choice((0.0, 0.05, 0.2)),
        resumes=dice.random() < 0.7,
    )
