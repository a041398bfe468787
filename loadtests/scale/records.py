"""The model beside what was measured: each figure on record that it says something about.

In: `loadtests/results`. Out: pairs of what was predicted and what was measured. Of each machine one
figure is taken, the cost of a delivery to 1,000 connections; all others are predicted.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from loadtests.scale import costs
from loadtests.scale.model import Cluster, Traffic, growth, predict, worked

RESULTS: Final = Path(__file__).resolve().parents[1] / "results"
BENCHES: Final = ("2026-11-21-bench", "2026-11-22-bench", "2026-11-26-whole-once")
#: Each with how much longer than by default nodes waited for each other.
LOADS: Final = (("2026-11-26-load", 1.0), ("2026-11-26-load-15k", 5.0))
#: The machine that both kinds of records of that day are of.
_SPEED_OF: Final = "2026-11-26-whole-once"


class Held(NamedTuple):
    """A figure on record, and what the model says of it."""

    record: str
    figure: str
    measured: float
    predicted: float

    @property
    def off(self) -> float:
        """By how much the prediction is off, as a part of what was measured."""
        return abs(self.predicted / self.measured - 1)


def all_held() -> list[Held]:
    """All of them."""
    found = [held for name in BENCHES for held in _of_bench(name)]
    return found + [held for name, slower in LOADS for held in _of_load(name, slower)]


def read(name: str) -> dict[str, Any]:
    """A result on record."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found


def median(report: dict[str, Any], work: str, figure: str, unit: str) -> float:
    """Fedq's median of a figure of `make bench`."""
    for row in report["rows"]:
        if (row["work"], row["figure"]) == (work, figure) and unit in row["unit"]:
            value: float = row["brokers"]["fedq"]["median"]
            return value
    raise LookupError(f"no {figure} of {work}")


def speed_of(report: dict[str, Any]) -> float:
    """What a delivery costs on a record's machine, over the cost in `costs`."""
    rate = median(report, "fanout-1000-paced", "deliveries", "CPU-second")
    return 1 / rate / costs.DELIVERY_S


def _of_bench(name: str) -> Iterator[Held]:
    report = read(name)
    speed = speed_of(report)
    for subscribers, rate in ((1_000, 20.0), (10_000, 2.0)):
        work = f"fanout-{subscribers}-paced"
        cluster = Cluster(1, subscribers, speed=speed)
        told = predict(cluster, Traffic(rate))
        last = median(report, work, "last subscriber p50", "ms")
        yield Held(name, f"{work}: last subscriber, ms", last, told.last_s * 1_000)
    deliveries = median(report, work, "deliveries", "CPU-second")
    yield Held(
        name, f"{work}: deliveries a CPU-second", deliveries,
        1 / costs.delivery_s(subscribers) / speed,
    )  # fmt: skip
    grown = median(report, work, "memory for each connection", "KiB") * 1_024 * subscribers
    yield Held(name, f"{work}: MiB more", grown / (1 << 20), growth(subscribers) / (1 << 20))


def _of_load(name: str, slower: float) -> Iterator[Held]:
    report = read(name)
    about, nodes = report["about"], list(report["nodes"].values())
    speed = speed_of(read(_SPEED_OF))
    cluster = Cluster(about["brokers"], about["subscribers"], slower, speed=speed)
    seconds = _mean([node["counters_last"]["fedq_uptime_seconds"] for node in nodes])
    yield Held(
        name, "processor seconds of a node", _mean([node["cpu_seconds"] for node in nodes]),
        worked(cluster, seconds, report["published"], report["delivered"]),
    )  # fmt: skip
    grown = _mean([node["bytes_max"] - node["bytes_first"] for node in nodes])
    here = about["subscribers"] / about["brokers"]
    yield Held(name, "MiB more of a node", grown / (1 << 20), growth(here) / (1 << 20))


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
