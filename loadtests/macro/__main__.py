"""`make bench`: fedq next to RabbitMQ, every work of the table of aims, in one run.

    python -m loadtests.macro [--quick] [--only fedq] [--works fanout,topic-1] [--rounds 3]

Writes a dated report (JSON, Markdown, SVG) to `loadtests/results/` when all works were measured, or
when `--label` gives it a name. See loadtests/README.md. Exit code 0 even when an aim is missed:
times are for people; 1 if a measurement of fedq did not finish; 2 for a wrong command line; 130 if
it was interrupted: brokers are ended then, too.
"""

import argparse
import datetime
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console

from loadtests.macro import chart, results
from loadtests.macro.deep import QUICK, WHOLE, Scale, room_problem, scaled
from loadtests.macro.figures import number
from loadtests.macro.machine import facts
from loadtests.macro.running import (
    MAKES,
    Rounds,
    Run,
    allow_descriptors,
    expected_s,
    kinds_to_measure,
    running_on,
)
from loadtests.macro.works import WORKS, Group, Work, chosen
from tests.integration.harness import ROOT

RESULTS: Final = ROOT / "loadtests" / "results"
ROUNDS, SECONDS = 3, 3.0
INTERRUPTED: Final = 130
QUICK_ROUNDS, QUICK_SECONDS = 1, 2.0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="python -m loadtests.macro", description=__doc__.partition("\n")[0],
        epilog=f"works: {', '.join(WORKS)}; groups: {', '.join(group.value for group in Group)}",
        allow_abbrev=False,
    )  # fmt: skip
    made.add_argument("--only", choices=tuple(MAKES), help="measure this broker alone")
    made.add_argument("--works", default="", help="names of works or groups, with commas")
    made.add_argument("--rounds", type=int, default=None, help=f"default {ROUNDS}")
    made.add_argument("--seconds", type=float, default=None, help=f"a work; default {SECONDS:g}")
    made.add_argument("--quick", action="store_true", help="one short round of the main works")
    made.add_argument("--label", default="", help="write the report under this name")
    made.add_argument("--into", type=Path, default=RESULTS, help="the directory of reports")
    deep = made.add_argument_group("deep queues", "--quick is a small form of them, in seconds")
    whole = f"default {WHOLE.messages:,}"
    deep.add_argument("--messages", type=int, default=None, help=f"stored; {whole}")
    deep.add_argument("--body-bytes", type=int, default=None, help="of each message")
    deep.add_argument("--memory-bytes", type=int, default=None, help="limits.memory_bytes of fedq")
    deep.add_argument("--deadline", type=float, default=None, help="seconds to fill, and to empty")
    made.add_argument("--list", action="store_true", help="show the works and end")
    return made


def line_of(run: Run) -> str:
    """What is printed when a run has ended."""
    head = f"round {run.round}: {run.broker:16} {run.work:24}"
    if run.failure:
        return f"{head} {run.failure}"
    rounds = {run.work: run.outcome}
    figures = [row.figure for row in WORKS[run.work].rows]
    shown = []
    for figure in figures:
        value = figure.read(rounds, run.work)
        told = "n/a" if value is None else f"{number(value)} {figure.unit}"
        shown.append(f"{figure.name} {told}")
    shown.append(f"others used {run.others_share or 0:.0%}")
    return f"{head} {'; '.join(shown)}; {run.took_s:.0f} s"


def scale_of(options: argparse.Namespace) -> Scale:
    """How large the works of deep queues are."""
    given = {
        "messages": options.messages, "body_bytes": options.body_bytes,
        "memory_bytes": options.memory_bytes, "deadline_s": options.deadline,
    }  # fmt: skip
    base = QUICK if options.quick else WHOLE
    return replace(base, **{name: value for name, value in given.items() if value is not None})


def main(arguments: list[str] | None = None) -> int:
    """Takes the command line apart."""
    options = parser().parse_args(arguments)
    screen = Console(highlight=False, soft_wrap=True)
    try:
        works = chosen([name for name in options.works.split(",") if name], options.quick)
    except ValueError as error:
        screen.print(str(error), markup=False)
        return 2
    scale = scale_of(options)
    works = scaled(works, scale)
    if options.list:
        for work in works:
            screen.print(f"{work.name:24} {work.about}: {' '.join(work.options)}", markup=False)
        return 0
    free_bytes = shutil.disk_usage(tempfile.gettempdir()).free
    if problem := room_problem(works, scale, free_bytes):
        screen.print(problem, markup=False)
        return 2
    kinds = kinds_to_measure(options)
    if not kinds:
        screen.print("RabbitMQ is not installed: nothing to measure")
        return 2
    if not options.only and kinds == ["fedq"]:
        screen.print("RabbitMQ is not installed: fedq is measured alone")
    allow_descriptors()
    return measured(works, kinds, options, screen)


def measured(
    works: list[Work], kinds: list[str], options: argparse.Namespace, screen: Console
) -> int:
    """Measures, shows and writes the report; returns the exit code."""
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    about = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": facts(),
        "where": running_on(works),
        "rounds": rounds,
        "seconds": seconds,
        "deep": asdict(scale_of(options)),
    }
    minutes = expected_s(works, kinds, rounds, seconds) / 60
    screen.print(f"{len(works)} works, {rounds} rounds: about {minutes:.0f} minutes")
    runs: list[Run] = []
    is_interrupted = False
    try:
        for run in Rounds(works, kinds, rounds, seconds):
            runs.append(run)
            screen.print(line_of(run), markup=False)
    except KeyboardInterrupt:
        is_interrupted = True
        screen.print("interrupted; so far:")
    report = results.summarise(works, kinds, runs, about)
    screen.print(results.terminal_table(report))
    if report["disturbance"]:
        screen.print(report["disturbance"], style="yellow")
    if is_interrupted:
        return INTERRUPTED
    is_whole = not options.works and not options.only
    label = options.label or ("quick" if options.quick else "bench") * is_whole
    if label:
        base = options.into / f"{about['date']}-{label}"
        for path in results.write(report, base, chart.draw(report)):
            screen.print(f"written: {path}")
    return 1 if any(run.failure and run.kind == "fedq" for run in runs) else 0


def interrupt(number: int, frame: FrameType | None) -> None:
    """Ends the run as Ctrl-C does: no broker may be left."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main())
