"""How far a job is, and how it is ended: what jobs tell those who wait, and hear of them."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import TypeAlias

from fedq.pipeline.failure import PipelineError


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is."""

    #: What is done just now, as "archiving".
    phase: str
    #: Rows that are done, and of how many; 0: nobody knows.
    rows: int = 0
    of: int = 0
    rows_per_second: float = 0.0


Report: TypeAlias = Callable[[Progress], None]


def unheard(progress: Progress) -> None:
    """Takes reports where nobody wants them."""


#: Hears of each step of a commit; a test ends the process there.
Reached: TypeAlias = Callable[[str], None]


def go_on(step: str) -> None:
    """Lets each step be made."""


class Interrupted(PipelineError):
    """The job was asked to end; what it has committed stays, and it goes on when begun again."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The people who wait for a job: who hears of it, and whether it is to end."""

    report: Report
    stop: Event

    def check(self) -> None:
        """Raises Interrupted once the job is to end."""
        if self.stop.is_set():
            raise Interrupted("interrupted: the same command goes on where this one was")


def alone() -> Watch:
    """A watch of nobody."""
    return Watch(unheard, Event())
