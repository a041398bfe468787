"""Everything that is counted, as plain figures: taken in a fresh process, read by the budget.

In: the names of works and kinds of things. Out: `Figures`, by way of a child process, because the
hash seed and the choice of pure modules are made when an interpreter starts.
"""

import gc
import importlib.machinery
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from fedq.compiled import compiled_from_python, cython_sources
from tests.cost.memory import KINDS, weigh
from tests.cost.meters import ROOT, Blocks, Instructions, Unmetered, build_counter
from tests.cost.works import WORKS, Work
from tests.integration.waiting import patient

#: "pure" forces the Python modules, "compiled" takes the hot ones compiled.
Mode = Literal["pure", "compiled"]
MODES: tuple[Mode, ...] = ("pure", "compiled")
#: Name of a figure -> its value for each item (message, delivery, subscriber).
Figure = dict[str, float]
#: Work or kind of thing -> figures.
Figures = dict[str, Figure]
#: Work -> function -> instructions for each item; kind of thing -> line -> bytes for each.
Shares = dict[str, dict[str, float]]
INSTRUCTIONS = "instructions"
REQUESTS = "requests"
REQUESTED_BYTES = "requested_bytes"
HELD_BYTES = "held_bytes"
#: A function below this share of its work is not worth a line.
SHARE_MIN = 0.01
TIMEOUT_S = patient(300)


class CannotCount(Exception):
    """This mode is not there; the text says why and what to do."""


def names() -> list[str]:
    """All works and kinds of things."""
    return [*(work.name for work in WORKS), *(kind.name for kind in KINDS)]


def refuse(mode: Mode) -> None:
    """Raises `CannotCount` unless this interpreter has what the mode counts."""
    if platform.python_implementation() != "CPython":
        raise CannotCount("only CPython's instructions and allocators can be counted")
    if mode == "compiled":
        package = ROOT / "fedq"
        for source in (*cython_sources(package), *compiled_from_python(package)):
            endings = importlib.machinery.EXTENSION_SUFFIXES
            if not any(source.with_suffix(ending).exists() for ending in endings):
                raise CannotCount(f"{source.name} is not compiled: run make setup")


def environment(mode: Mode) -> dict[str, str]:
    """In which a child counts: always the same, whatever options Python has here."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    kept |= {"PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    kept["FEDQ_PURE"] = "1" if mode == "pure" else "0"
    return kept


class Counting:
    """A child process that counts: several of them run side by side."""

    def __init__(self, mode: Mode, only: Sequence[str] = ()) -> None:
        """Begins with the named works and kinds, all without names; raises `CannotCount`."""
        refuse(mode)
        self._child = subprocess.Popen(
            [sys.executable, "-m", "tests.cost.figures", *(only or names())],
            cwd=ROOT, env=environment(mode), stdout=subprocess.PIPE,
        )  # fmt: skip

    def result(self) -> tuple[Figures, Shares]:
        """The figures, and what functions and lines contributed to them, once all is counted."""
        try:
            output, _ = self._child.communicate(timeout=TIMEOUT_S)
        finally:
            self._child.kill()
            self._child.wait()
        assert self._child.returncode == 0, "counting failed: what it wrote above says why"
        figures, shares = json.loads(output)
        return figures, shares


def count(mode: Mode, only: Sequence[str] = ()) -> tuple[Figures, Shares]:
    """Counts in a child process and waits for it; raises `CannotCount`."""
    return Counting(mode, only).result()


def _count_work(work: Work, blocks: Blocks | None) -> tuple[Figure, dict[str, float]]:
    running = work.build()
    rig = running.rig
    rig.watched = work.node
    for _ in range(work.warm_up):
        running.step()
    figure: Figure = {}
    if blocks is not None:
        rig.meter = blocks
        with blocks:
            items = sum(running.step() for _ in range(work.steps))
        figure = {REQUESTS: blocks.requests / items, REQUESTED_BYTES: blocks.bytes / items}
    instructions = rig.meter = Instructions()
    items = sum(running.step() for _ in range(work.steps))
    rig.meter = Unmetered()
    counts = instructions.by_function()
    figure[INSTRUCTIONS] = sum(counts.values()) / items
    return figure, {name: number / items for name, number in counts.items()}


def _rounded(figure: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in sorted(figure.items())}


def main() -> None:
    """In the child: counts what the arguments name, and writes it to standard output."""
    wanted = sys.argv[1:]
    figures: Figures = {}
    shares: Shares = {}
    # Whenever it runs, it visits what other works left behind: it is no part of a message's cost.
    gc.disable()
    with tempfile.TemporaryDirectory() as folder:
        counter = build_counter(Path(folder))
        blocks = Blocks(counter) if counter is not None else None
        for work in WORKS:
            if work.name in wanted:
                figure, share = _count_work(work, blocks)
                figures[work.name] = _rounded(figure)
                least = SHARE_MIN * figure[INSTRUCTIONS]
                shares[work.name] = _rounded({f: c for f, c in share.items() if c >= least})
                gc.collect()
    for kind in KINDS:
        if kind.name in wanted:
            holding = weigh(kind)
            figures[kind.name] = _rounded({HELD_BYTES: holding.bytes_each})
            shares[kind.name] = _rounded(holding.sites)
    json.dump([figures, shares], sys.stdout)


if __name__ == "__main__":
    main()
