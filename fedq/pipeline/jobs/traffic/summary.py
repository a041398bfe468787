"""What a range of roll-ups says, small enough for a page: numbers that Spark has added up."""

from dataclasses import asdict, dataclass
from typing import Any, Final

#: Steps of a chart, in minutes, and how many it has at most.
STEPS: Final = (1, 5, 15, 60, 360, 1_440, 10_080)
POINTS_MAX: Final = 720


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a body that so many messages have at most; off by 1.3 % of the messages or less."""

    half: int
    nine_of_ten: int
    ninety_nine_of_hundred: int
    largest: int


@dataclass(frozen=True, slots=True)
class Step:
    """What an exchange was sent in one step."""

    #: When the step begins, in seconds since 1970.
    at_s: int
    exchange: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Key:
    """A routing key, and what was sent with it."""

    exchange: str
    routing_key: str
    messages: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """All of it."""

    stream: str
    #: In seconds since 1970: the first and the last minute; 0 where there is none.
    begin_s: int
    end_s: int
    #: Minutes before this one are complete: what comes for them counts as late.
    complete_s: int
    messages: int
    bytes: int
    late: int
    #: About how many different keys there are.
    keys: int
    step_minutes: int
    steps: tuple[Step, ...]
    #: By step: when it begins, and the sizes of bodies in it.
    sizes: tuple[tuple[int, Sizes], ...]
    exchanges: tuple[tuple[str, int, int], ...]
    heaviest: tuple[Key, ...]
    #: A key that is not among the heaviest has this many messages at most.
    unlisted_max: int

    def as_json(self) -> dict[str, Any]:
        """The form for scripts."""
        return asdict(self)


def step_for(begin_s: int, end_s: int) -> int:
    """The minutes of a chart's step for a range."""
    minutes = (end_s - begin_s) // 60 + 1
    return next((each for each in STEPS if minutes / each <= POINTS_MAX), STEPS[-1])
