"""Looking for inputs that break a target: by coverage if atheris is installed, else by chance.

Both fuzz one target in this process. The runner starts a child for each, since a finding may be a
process that hangs or has eaten its memory.
"""

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.fuzz.mutation import mutate, tweak
from tests.fuzz.target import Target

#: One input may take so long, and the process so much memory, before that is a finding.
INPUT_S: Final = 10
MEMORY_MB: Final = 600
#: How many inputs the engine by chance keeps to go on from.
_STOCK_MAX: Final = 500


def has_atheris() -> bool:
    """Whether the engine by coverage can be used here."""
    return importlib.util.find_spec("atheris") is not None


def _atheris() -> Any:
    """By name: it is not there on every system, and has no types."""
    return importlib.import_module("atheris")


def by_chance(
    target: Target, stock: list[bytes], seed: int, is_over: Callable[[int], bool],
    found: Callable[[bytes, Exception], None],
) -> int:  # fmt: skip
    """Runs mutations of the stock until `is_over(executions)`; returns how many it ran."""
    rng = Random(seed)
    stock = list(stock)
    executions = 0
    while not is_over(executions):
        data = rng.choice(stock)
        for _ in range(rng.choice((1, 1, 2, 4))):
            data = mutate(data, rng, target.shape, stock)
        data = data[: target.bytes_max]
        executions += 1
        try:
            target.run(data)
        except Exception as error:
            found(data, error)
            continue
        if len(stock) < _STOCK_MAX and rng.random() < 0.01:
            stock.append(data)
    return executions


def by_coverage(target: Target, corpus: Path, seconds: int, seed: int, findings: Path) -> None:
    """Hands the process to libFuzzer, which ends it; `corpus` grows with what is new.

    The modules under test must have been imported instrumented.
    """
    atheris = _atheris()
    stock = target.seeds()

    def change(data: bytes, rng: Random) -> bytes:
        if rng.random() < 0.5:
            return tweak(data, rng)
        mutated: bytes = atheris.Mutate(data, len(data) + 64)
        return mutated

    def mutator(data: bytes, size_max: int, number: int) -> bytes:
        return mutate(data, Random(number), target.shape, stock, change)[:size_max]

    def crossed(one: bytes, other: bytes, size_max: int, number: int) -> bytes:
        rng = Random(number)
        units, more = target.shape.cut(one), target.shape.cut(other)
        at, to = rng.randrange(len(units) + 1), rng.randrange(len(more) + 1)
        return b"".join(units[:at] + more[to:])[:size_max]

    options = [
        f"-max_total_time={seconds}", f"-max_len={target.bytes_max}", f"-seed={seed}",
        f"-timeout={INPUT_S}", f"-rss_limit_mb={MEMORY_MB}", "-print_final_stats=1",
        f"-artifact_prefix={findings}/{target.name}-", str(corpus),
    ]  # fmt: skip
    atheris.Setup(
        [sys.argv[0], *options], target.run, custom_mutator=mutator, custom_crossover=crossed
    )
    atheris.Fuzz()


def instrumented(load: Callable[[], Any]) -> Any:
    """What `load` imports, watched by atheris."""
    atheris = _atheris()
    with atheris.instrument_imports(include=["fedq"], exclude=["fedq.shell.pb"]):
        return load()


def clock_until(end_s: float) -> Callable[[int], bool]:
    """Whether the time is over; looked at now and then, not for each input."""
    return lambda executions: executions % 50 == 0 and time.monotonic() >= end_s
