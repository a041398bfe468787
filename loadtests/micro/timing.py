"""How the micro measurements are made: a step is repeated until it takes long enough to time."""

import time
from collections.abc import Callable
from dataclasses import dataclass

LEAST_S = 0.05
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Case:
    """One step to measure: `run()` handles `items` items (messages, lookups, …)."""

    name: str
    items: int
    run: Callable[[], object]


def microseconds(case: Case) -> float:
    """Processor time per item in microseconds: the best of some rounds, as others only disturb."""
    repeat = 1
    while (spent := _spent_s(case, repeat)) < LEAST_S:
        repeat = max(2 * repeat, int(repeat * LEAST_S / max(spent, 1e-6)))
    best_s = min(_spent_s(case, repeat) for _ in range(ROUNDS))
    return best_s / (repeat * case.items) * 1e6


def _spent_s(case: Case, repeat: int) -> float:
    run = case.run
    started = time.process_time()
    for _ in range(repeat):
        run()
    return time.process_time() - started
