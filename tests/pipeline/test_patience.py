"""How long it is tried, by a clock of the test's own."""

import pytest

from fedq.pipeline import patience
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.patience import Patience


class Clock:
    """Time that passes only while somebody sleeps, or the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(patience, "time", made)
    return made


def test_it_is_tried_for_so_long_with_pauses_that_grow(clock: Clock) -> None:
    tried = Patience(5)
    begun = clock.now
    with pytest.raises(PipelineError, match=r"it is away \(tried for 5 s: retryTimeout\)"):
        _for_ever(tried)
    assert 3 <= clock.now - begun <= 5
    assert clock.slept[:3] == [0.1, 0.2, 0.4]


def test_what_went_on_before_it_failed_does_not_count(clock: Clock) -> None:
    """A task may have computed, or been held back, for an hour."""
    tried = Patience(5)
    clock.now += 3_600
    tried.wait("it is away")
    tried.reset()
    clock.now += 3_600
    tried.wait("it is away")
    assert clock.slept == [0.1, 0.1]


def _for_ever(tried: Patience) -> None:
    while True:
        tried.wait("it is away")
