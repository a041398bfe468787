"""From runs to the report: medians, ranges, ratios, verdicts; as JSON, Markdown and terminal table.

In: runs and what is known of the machine. Out: a `report`, an object of plain JSON values, from
which everything else is drawn (Markdown here, the chart in `chart.py`, the tables of
docs/PERFORMANCE.md in `document.py`), so that all say the same.
"""

import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from loadtests.macro.figures import number
from loadtests.macro.machine import disturbance
from loadtests.macro.running import Run
from loadtests.macro.work import BENCH
from loadtests.macro.works import WORKS, Row, Work

VERSION: Final = 1
HEADINGS: Final = ("work", "figure", "fedq", "RabbitMQ", "ratio", "aim", "")
#: The generator's share of a core from which it, not the broker, may have been the limit.
GENERATOR_BUSY: Final = 0.8
VERDICTS: Final = {True: "reached", False: "**missed**", None: ""}
#: The broker's share of a core below which a run at full speed did not show much.
BROKER_IDLE: Final = 0.1


def _spread_of(runs: list[Run], row: Row, rounds: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Median and range of a figure over the rounds of one broker."""
    values: list[float] = []
    for run in runs:
        if not run.failure:
            value = row.figure.read(rounds[run.round], run.work)
            if value is not None:
                values.append(value)
    failures = [run.failure for run in runs if run.failure]
    spread: dict[str, Any] = {"values": values, "runs": len(runs), "failures": failures}
    if values:
        spread |= {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return spread


def _row(work: Work, row: Row, runs: list[Run], kinds: Iterable[str]) -> dict[str, Any]:
    spreads: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        rounds: dict[int, dict[str, Any]] = {}
        for run in runs:
            if run.kind == kind and not run.failure:
                rounds.setdefault(run.round, {})[run.work] = run.outcome
        mine = [run for run in runs if (run.work, run.kind) == (work.name, kind)]
        spreads[kind] = _spread_of(mine, row, rounds)
    ours = spreads.get("fedq", {}).get("median")
    theirs = spreads.get("rabbitmq", {}).get("median")
    aim = row.aim
    return {
        "work": work.name,
        "about": work.about,
        "group": work.group.value,
        "figure": row.figure.name,
        "unit": row.figure.unit,
        "is_more_better": row.figure.is_more_better,
        "is_timed": row.figure.is_timed,
        "brokers": spreads,
        "ratio": ours / theirs if ours is not None and theirs else None,
        "aim": aim.words(row.figure) if aim else "",
        "is_reached": aim.is_reached(row.figure, ours, theirs)
        if aim and ours is not None
        else None,
    }


def summarise(
    works: list[Work], kinds: list[str], runs: list[Run], about: dict[str, Any]
) -> dict[str, Any]:
    """The report. `about`: date, machine, rounds, seconds and whatever else is to be kept."""
    rows = [_row(work, row, runs, kinds) for work in works for row in work.rows]
    names = {run.kind: run.broker for run in runs if not run.failure}
    busy = sorted(
        {
            run.work
            for run in runs
            if WORKS[run.work].group.nodes == 1
            and float(run.outcome.get("generator_share") or 0) > GENERATOR_BUSY
        }
    )
    disturbed = disturbance([run.others_share for run in runs])
    for row in rows:
        row["is_disturbed"] = bool(disturbed) and row["is_timed"]
    return {
        "version": VERSION,
        **about,
        "brokers": {kind: names.get(kind, kind) for kind in kinds},
        "disturbance": disturbed,
        "generator_was_busy": busy,
        "broker_was_idle": sorted({f"{run.work} on {run.kind}" for run in runs if _is_thin(run)}),
        "rows": rows,
        "runs": [asdict(run) for run in runs],
    }


def _is_thin(run: Run) -> bool:
    """Whether a broker that was to go at full speed hardly got to work."""
    options = WORKS[run.work].options
    if WORKS[run.work].generator != BENCH:
        return False
    if run.failure or "--rate" in options or "--idle" in options:
        return False
    used_s = sum(float(one["cpu_seconds"]) for one in run.outcome["brokers"])
    return used_s < BROKER_IDLE * float(run.outcome["seconds"])


def _verdict(row: dict[str, Any]) -> str:
    words = VERDICTS[row["is_reached"]]
    return f"{words}, disturbed" if words and row["is_disturbed"] else words


def cell(spread: dict[str, Any] | None) -> str:
    """Median and range; what did not finish is said."""
    if not spread or not spread["runs"]:
        return ""
    failed = len(spread["failures"])
    if "median" not in spread:
        return "did not finish" if failed else "n/a"
    text = number(spread["median"])
    if len(spread["values"]) > 1:
        text += f" ({number(spread['least'])} to {number(spread['most'])})"
    return text + (f"; {failed} of {spread['runs']} did not finish" if failed else "")


def cells(row: dict[str, Any], bold: Callable[[str], str] = str) -> list[str]:
    """A row as the tables show it."""
    ratio = row["ratio"]
    return [
        row["about"],
        f"{row['figure']}, {row['unit']}",
        bold(cell(row["brokers"].get("fedq"))),
        cell(row["brokers"].get("rabbitmq")),
        "" if ratio is None else f"{number(ratio)}",
        row["aim"],
        _verdict(row),
    ]


def failures(report: dict[str, Any]) -> list[str]:
    """One line for each work and broker that did not finish in some round, with its words."""
    found: dict[tuple[str, str], list[str]] = {}
    counts: dict[tuple[str, str], int] = {}
    for run in report["runs"]:
        key = run["work"], run["kind"]
        counts[key] = counts.get(key, 0) + 1
        if run["failure"]:
            found.setdefault(key, []).append(run["failure"])
    return [
        f"{kind}, {work}: {len(words)} of {counts[work, kind]} rounds failed: {words[0]}"
        for (work, kind), words in found.items()
    ]


def markdown_table(rows: Iterable[dict[str, Any]]) -> list[str]:
    """The rows as a Markdown table; a work's name is said once."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    before = ""
    for row in rows:
        shown = cells(row)
        shown[0], before = ("" if row["work"] == before else shown[0]), row["work"]
        lines.append("| " + " | ".join(text.replace("|", "\\|") for text in shown) + " |")
    return lines


def rounds_of(report: dict[str, Any]) -> str:
    """What the figures are."""
    rounds = report["rounds"]
    return f"Medians and ranges of {rounds} alternating rounds" if rounds > 1 else "One round"


def remarks(report: dict[str, Any]) -> list[str]:
    """What a reader has to know before believing the table."""
    lines = []
    if report["disturbance"]:
        lines += [f"**{report['disturbance']}**", ""]
    lines.append(
        f"{rounds_of(report)} of {report['seconds']:g} s; {report['where']}. A ratio is fedq's "
        "median over RabbitMQ's. A CPU-second is one of the broker's."
    )
    if report["generator_was_busy"]:
        works = ", ".join(report["generator_was_busy"])
        lines += [
            "",
            "The generator used more than 80 % of its core, and may have been the limit of the "
            f"rates (not of figures per CPU-second): {works}.",
        ]
    if report["broker_was_idle"]:
        works = ", ".join(report["broker_was_idle"])
        lines += [
            "",
            "In some run the broker had less than a tenth of a core, so that its figures are those "
            f"of few messages: {works}.",
        ]
    return lines


def markdown(report: dict[str, Any], chart: str) -> str:
    """The page for people. `chart`: the file name of the drawing beside it."""
    brokers = " and ".join(report["brokers"].values())
    lines = [f"# {brokers}, {report['date']}", "", *remarks(report), ""]
    lines += [f"- {key}: {value}" for key, value in report["machine"].items()]
    lines += ["", f"![The same as a chart]({chart})", "", *markdown_table(report["rows"])]
    wrong = failures(report)
    if wrong:
        lines += ["", "## What did not finish", "", *[f"- {line}" for line in wrong]]
    return "\n".join(lines) + "\n"


def terminal_table(report: dict[str, Any]) -> Table:
    """The same for a terminal."""
    table = Table(*HEADINGS)
    before = ""
    for row in report["rows"]:
        shown = [text.replace("*", "") for text in cells(row)]
        shown[0], before = ("" if row["work"] == before else shown[0]), row["work"]
        table.add_row(*shown)
    return table


def write(report: dict[str, Any], base: Path, drawing: str) -> list[Path]:
    """Writes JSON, Markdown and chart beside each other; returns their paths."""
    base.parent.mkdir(parents=True, exist_ok=True)
    paths = [base.with_name(f"{base.name}.{ending}") for ending in ("json", "md", "svg")]
    paths[0].write_text(json.dumps(report, indent=1) + "\n")
    paths[1].write_text(markdown(report, paths[2].name))
    paths[2].write_text(drawing)
    return paths
