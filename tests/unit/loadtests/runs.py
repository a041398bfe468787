"""Runs that nobody measured, for reports of which the right answer is known."""

from typing import Any

from loadtests.macro import results
from loadtests.macro.running import Run
from loadtests.macro.works import WORKS

#: Every key that a figure reads.
OUTCOME: dict[str, Any] = {
    "options": {"connections": 1_000, "idle": 0},
    "deliver_per_second": 900.0,
    "deliveries_per_cpu_second": 1_000.0,
    "publishes_per_cpu_second": 2_000.0,
    "setup_seconds": 1.5,
    "generator_share": 0.25,
    "latency_us": {"p50": 100.0, "p99": 300.0, "count": 9},
    "confirm_us": {"p50": 200.0, "p99": 400.0, "count": 9},
    "last_subscriber_us": {"p50": 5_000.0, "count": 9},
    "declared_per_second": 700.0,
    "declared_cpu_us": 800.0,
    "deleted_per_second": 600.0,
    "deleted_cpu_us": 900.0,
    "passive_us": {"p50": 500.0, "p99": 2_000.0, "count": 9},
    "core_percent": 0.5,
    "seconds": 4.0,
    "brokers": [
        {"rss_bytes_before": 1_000_000, "rss_bytes_connected": 11_240_000, "cpu_seconds": 3.6}
    ],
}


def run(
    work: str, kind: str = "fedq", number: int = 1, failure: str = "", others: float = 0.01,
    **changed: object,
) -> Run:  # fmt: skip
    """A run with the usual outcome, but for what is changed."""
    broker = {"fedq": "fedq", "rabbitmq": "RabbitMQ 3.10.8"}[kind]
    outcome = {} if failure else OUTCOME | changed
    return Run(work, kind, broker, number, outcome, failure, others_share=others)


def report_of(*runs: Run, rounds: int = 1) -> dict[str, Any]:
    """The report of these runs."""
    works = [work for work in WORKS.values() if work.name in [one.work for one in runs]]
    kinds = list(dict.fromkeys(one.kind for one in runs))
    about = {
        "date": "2026-11-21",
        "machine": {"commit": "abc1234", "processor": "a processor, 2 cores"},
        "where": "each on a core",
        "rounds": rounds,
        "seconds": 4.0,
    }
    return results.summarise(works, kinds, list(runs), about)
