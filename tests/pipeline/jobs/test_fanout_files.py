"""What load tests have written about fan-outs, and the page of it."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from fedq.bench.plan import Plan, parse_url
from fedq.bench.result import Result
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.jobs.fanout.measurements import measurements_in
from fedq.pipeline.jobs.fanout.page import MISSING, page_of
from fedq.pipeline.jobs.fanout.summary import Shape, Summary
from fedq.pipeline.pages.page import html_of


def run_of(subscribers: int, nodes: int = 1, delay_us: int = 0) -> dict[str, Any]:
    """A run in the form of `fedq bench --json`, made by it."""
    targets = tuple(parse_url(f"amqp://127.0.0.1:{5672 + node}") for node in range(nodes))
    plan = Plan(targets=targets, subscribers=subscribers, rate=20.0)
    result = Result(plan, seconds=2.0, measured_delivered=2_000)
    for waited in range(100, 1_100):
        result.latencies.record(waited + delay_us)
    result.last_subscriber.record(2_000)
    return result.as_json()


def write(path: Path, form: object) -> Path:
    path.write_bytes(orjson.dumps(form))
    return path


def test_a_run_of_the_bench_is_one_measurement(tmp_path: Path) -> None:
    [found], others = measurements_in(write(tmp_path / "one.json", run_of(1_000, nodes=3)))
    assert (found.nodes, found.subscribers, found.rate, others) == (3, 1_000, 20.0, 0)
    assert found.p50 == pytest.approx(600, rel=0.02)
    assert found.per_second == 1_000.0
    assert found.last_p99 is not None


def test_a_report_has_many_and_says_how_many_are_something_else(tmp_path: Path) -> None:
    queues = {**run_of(1), "kind": "queues"}
    runs = [
        {"broker": "fedq", "outcome": run_of(10)}, {"broker": "fedq", "outcome": queues},
        {"broker": "fedq", "outcome": {}, "failure": "it did not finish"},
    ]  # fmt: skip
    found, others = measurements_in(write(tmp_path / "report.json", {"runs": runs}))
    assert [(each.broker, each.subscribers) for each in found] == [("fedq", 10)]
    assert others == 1


@pytest.mark.parametrize("form", [[], {}, {"runs": 3}, 7, {"latency_us": {}, "options": 1}])
def test_what_is_no_result_of_a_load_test_is_refused(form: object, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="has no runs of a load test"):
        measurements_in(write(tmp_path / "odd.json", form))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"none\.json: No such file"):
        measurements_in(tmp_path / "none.json")
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(PipelineError, match="is no JSON"):
        measurements_in(tmp_path / "bad.json")
    with pytest.raises(PipelineError, match="of another release's form"):
        measurements_in(write(tmp_path / "old.json", {**run_of(5), "latency_us": {"p50": 1}}))


def test_the_page_says_what_load_tests_do_not_write() -> None:
    shape = Shape(
        "a <broker>", 3, 1_000, 100, 20.0, 16, 16, 2, 900, 1e3, 500.0, 800.0, 1_500.0, 2_000.0,
        1_400, 1_600, None, None, 0,
    )  # fmt: skip
    found = html_of(page_of(Summary((shape,), ("one.json",), 4), 0.0))
    assert MISSING[:40] in found
    assert "a &lt;broker&gt;, 3 nodes, 1,000 on 100 connections, 20 publishes/s" in found
