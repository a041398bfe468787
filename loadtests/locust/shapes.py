"""The shapes of load over time, as plain stages.

In: a name, how long, how many fleets. Out: a `Course`: how many fleets there are when, when all
come back at once, which share leaves each second, how many read slowly, when publishers stop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

#: In how many steps subscribers come, where they come slowly.
_STEPS: Final = 10


class Stage(NamedTuple):
    """So many fleets until this second of the run."""

    until_s: float
    fleets: int


@dataclass(frozen=True, slots=True)
class Course:
    """What happens in a run. Times in seconds from its start, shares from 0 to 1."""

    stages: tuple[Stage, ...]
    publish_until_s: float
    #: When every connection is closed and opened anew; 0: never.
    reconnect_at_s: float = 0.0
    #: The share of each fleet that is closed and opened anew each second.
    churn: float = 0.0
    slow_share: float = 0.0

    @property
    def seconds(self) -> float:
        """How long the run is."""
        return self.stages[-1].until_s

    def fleets_at(self, second: float) -> int | None:
        """How many fleets there are at this time; None: the run is over."""
        return next((stage.fleets for stage in self.stages if second < stage.until_s), None)


def _ramp(seconds: float, fleets: int) -> tuple[Stage, ...]:
    """Half of the time they come, in steps; the other half they stay."""
    step_s = seconds / 2 / _STEPS
    steps = [
        Stage(step_s * number, max(round(fleets * number / _STEPS), 1))
        for number in range(1, _STEPS + 1)
    ]
    return (*steps, Stage(seconds, fleets))


def _steady(seconds: float, fleets: int) -> tuple[Stage, ...]:
    return (Stage(seconds, fleets),)


def _spike(seconds: float, fleets: int) -> tuple[Stage, ...]:
    """A tenth of them; all, in the middle third; a tenth."""
    few = max(fleets // 10, 1)
    return Stage(seconds / 3, few), Stage(seconds * 2 / 3, fleets), Stage(seconds, few)


class Kind(NamedTuple):
    """What belongs to the name of a shape."""

    about: str
    stages: Callable[[float, int], tuple[Stage, ...]]
    seconds: float = 60.0
    reconnects: bool = False
    churn: float = 0.0
    slow_share: float = 0.0


KINDS: Final[dict[str, Kind]] = {
    "ramp": Kind("subscribers come in ten steps, and stay", _ramp),
    "steady": Kind("all subscribers come at once, and stay", _steady),
    "spike": Kind("a tenth, then all, then a tenth", _spike),
    "reconnect": Kind("in the middle of it all come back at once", _steady, reconnects=True),
    "churn": Kind("1 % of them leave each second, and others come", _steady, churn=0.01),
    "slow": Kind("1 % of them read slowly", _steady, slow_share=0.01),
    "soak": Kind("an hour, 0.1 % leave each second", _steady, 3_600.0, churn=0.001),
}


def course_of(
    name: str, seconds: float, fleets: int, drain_s: float,
    churn: float = 0.0, slow_share: float = 0.0,
) -> Course:  # fmt: skip
    """The course of a shape. `seconds`, `churn` and `slow_share`: 0 is the shape's own.

    Publishers stop `drain_s` before the end.
    """
    kind = KINDS[name]
    seconds = seconds or kind.seconds
    return Course(
        stages=kind.stages(seconds, fleets),
        publish_until_s=max(seconds - drain_s, 0.0),
        reconnect_at_s=seconds / 2 if kind.reconnects else 0.0,
        churn=churn or kind.churn,
        slow_share=slow_share or kind.slow_share,
    )
