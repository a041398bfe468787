"""fedq next to RabbitMQ in one run on one machine: messages per second and per CPU-second.

    python -m loadtests.macro.throughput [--rounds 3] [--seconds 8] [--only fedq]

Each broker in turn is pinned to core 0 and the generator to core 1; the rounds alternate, so that
a machine that gets slower or faster meanwhile does so for both. Medians count. Rates swing with
the machine; messages per broker CPU-second and the ratio are the figures to compare. Writes
dated JSON and Markdown to `loadtests/results/`.
"""

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from loadtests.macro.brokers import Broker, FedqBroker, RabbitBroker, pinned
from tests.integration.harness import ROOT, environment

RESULTS = ROOT / "loadtests" / "results"
WORKS = {
    "transient": "1 producer, 1 consumer, 16 bytes, automatic acknowledgement; all messages alike",
    "mixed": "the same with bodies of 16 to 79 bytes: no message is like the one before",
    "persistent": "as transient; durable, persistent, confirms (window 200), acks (prefetch 200)",
}
Make = Callable[[Path, str], Broker]


def cores() -> tuple[str, str]:
    """Where the broker and the generator are pinned; one core serves both if it must."""
    available = sorted(os.sched_getaffinity(0))
    return str(available[0]), str(available[1 % len(available)])


def run_generator(broker: Broker, work: str, seconds: float, core: str) -> dict[str, Any]:
    """One measurement; raises with the generator's own words if it fails."""
    place = f"{broker.address.host}:{broker.address.port}"
    command = [*pinned(core), sys.executable, "-m", "loadtests.macro.generator", place]
    command += [str(broker.pid), "--work", work, "--seconds", str(seconds)]
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=60 + 3 * seconds,
        check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"{broker.name}, {work}: the generator failed:\n{done.stderr[-2000:]}")
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome | {"broker": broker.name}


def run_rounds(makes: list[Make], options: argparse.Namespace, screen: Console) -> list[Any]:
    """All measurements, brokers in turn, each round with fresh processes."""
    broker_core, generator_core = cores()
    outcomes: list[dict[str, Any]] = []
    for number in range(1, options.rounds + 1):
        for make in makes:
            with (
                tempfile.TemporaryDirectory(prefix="fedq-bench-") as directory,
                make(Path(directory) / "broker", broker_core) as broker,
            ):
                for work in WORKS:
                    outcome = run_generator(broker, work, options.seconds, generator_core)
                    outcomes.append(outcome | {"round": number})
                    screen.print(
                        f"round {number}: {broker.name:17} {work:11} "
                        f"{outcome['per_second']:>10,.0f} msg/s "
                        f"{outcome['per_cpu_second']:>10,.0f} per CPU-second",
                        soft_wrap=True,
                    )
    return outcomes


def medians(outcomes: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Work -> broker -> median of each figure."""
    summary: dict[str, dict[str, dict[str, float]]] = {}
    for work in WORKS:
        for broker in dict.fromkeys(outcome["broker"] for outcome in outcomes):
            mine = [o for o in outcomes if (o["work"], o["broker"]) == (work, broker)]
            summary.setdefault(work, {})[broker] = {
                figure: statistics.median(outcome[figure] for outcome in mine)
                for figure in ("per_second", "per_cpu_second", "generator_share")
            }
    return summary


def ratio(by_broker: dict[str, dict[str, float]], figure: str) -> float | None:
    """fedq's figure as a multiple of RabbitMQ's; None if one of them did not run."""
    other = next((name for name in by_broker if name != "fedq"), None)
    if other is None or "fedq" not in by_broker or not by_broker[other][figure]:
        return None
    return round(by_broker["fedq"][figure] / by_broker[other][figure], 3)


def machine() -> dict[str, Any]:
    """Where and of what the figures are."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "commit": commit.stdout.strip(),
        "cores": len(os.sched_getaffinity(0)),
        "processor": models[0] if models else platform.processor(),
        "system": platform.platform(),
        LOAD_BEFORE: round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
    }


def rows(summary: dict[str, dict[str, dict[str, float]]]) -> list[list[str]]:
    """The table of the report."""
    found: list[list[str]] = []
    for work, by_broker in summary.items():
        for broker, figures in by_broker.items():
            ratios = [ratio(by_broker, "per_second"), ratio(by_broker, "per_cpu_second")]
            shown = [f"{r:.2f}" if r is not None and broker == "fedq" else "" for r in ratios]
            found.append(
                [
                    work, broker, f"{figures['per_second']:,.0f}", shown[0],
                    f"{figures['per_cpu_second']:,.0f}", shown[1],
                    f"{figures['generator_share']:.0%}",
                ]
            )  # fmt: skip
    return found


LOAD_BEFORE = "load average before"
#: A machine that did more than this already was not ours: its rates are not to be quoted.
LOAD_QUIET = 0.5
DISTURBED = (
    "**Others were using this machine.** The messages per second and their ratio mean nothing; "
    "those per CPU-second are rough."
)
HEADINGS = ("work", "broker", "msg/s", "ratio", "per CPU-second", "ratio", "generator's core")


def write_results(report: dict[str, Any], table: list[list[str]]) -> Path:
    """JSON for programs and Markdown for people, under today's date; returns the latter."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    base = RESULTS / f"{report['date']}-throughput"
    base.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    lines = [f"# Throughput, {report['date']}", ""]
    lines += [f"- {key}: {value}" for key, value in report["machine"].items()]
    lines += [f"- {work}: {meaning}" for work, meaning in WORKS.items()]
    lines += ["", "| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in table]
    lines += [
        "",
        f"Medians of {report['rounds']} alternating rounds of {report['seconds']:g} s; the broker "
        "on one core, the generator on another. A ratio is fedq's figure over RabbitMQ's. A "
        "generator near 100 % of its core was the limit itself.",
    ]
    if report["machine"][LOAD_BEFORE] > LOAD_QUIET:
        lines[1:1] = ["", DISTURBED]
    path = base.with_suffix(".md")
    path.write_text("\n".join(lines) + "\n")
    return path


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], allow_abbrev=False)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--only", choices=("fedq", "rabbitmq"))
    options = parser.parse_args()
    screen = Console(highlight=False)
    makes: list[Make] = []
    if options.only != "rabbitmq":
        makes.append(FedqBroker)
    if options.only != "fedq":
        if RabbitBroker.is_installed():
            makes.append(RabbitBroker)
        else:
            screen.print("RabbitMQ is not installed: fedq is measured alone")
    if not makes:
        return 2
    where = machine()
    outcomes = run_rounds(makes, options, screen)
    summary = medians(outcomes)
    table = rows(summary)
    report = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": where,
        "rounds": options.rounds,
        "seconds": options.seconds,
        "medians": summary,
        "runs": outcomes,
    }
    path = write_results(report, table)
    shown = Table(*HEADINGS)
    for row in table:
        shown.add_row(*row)
    screen.print(shown)
    if where[LOAD_BEFORE] > LOAD_QUIET:
        screen.print(DISTURBED.replace("*", ""), style="yellow", soft_wrap=True)
    screen.print(f"written to {path.relative_to(ROOT)} and .json")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
