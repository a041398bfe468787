"""`make bench` in small: brokers start, are loaded, measured, and reported; nothing is timed."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest

from loadtests.macro.__main__ import INTERRUPTED, main
from loadtests.macro.brokers import FedqBroker, RabbitBroker
from loadtests.macro.running import measure
from loadtests.macro.works import WORKS
from tests.integration.harness import environment
from tests.integration.waiting import until

SHORT = ["--rounds", "1", "--seconds", "0.3"]


@pytest.mark.slow
def test_a_report_has_what_was_measured(tmp_path: Path) -> None:
    works = "transient-16,latency-1000-persistent,fanout-100x100"
    options = ["--only", "fedq", "--works", works, "--label", "some", "--into", str(tmp_path)]
    # Long enough that something arrives within it when the machine has much else to do.
    assert main(["--rounds", "1", "--seconds", "2", *options]) == 0
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".md", ".svg"]
    report = json.loads(next(tmp_path.glob("*-some.json")).read_text())
    first, oftener, last = works.split(",")
    assert [run["work"] for run in report["runs"]] == [first, *[oftener] * 3, last]
    for row in report["rows"]:
        assert row["brokers"]["fedq"].get("median", 0) > 0, row
    assert report["runs"][0]["outcome"]["brokers"][0]["cpu_seconds"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["fedq", pytest.param("rabbitmq", marks=pytest.mark.sweep)])
def test_deep_queues_are_filled_and_emptied(tmp_path: Path, kind: str) -> None:
    if kind == "rabbitmq" and not RabbitBroker.is_installed():
        pytest.skip("no RabbitMQ is installed here")
    options = ["--only", kind, "--works", "deep", "--quick", "--messages", "2000"]
    options += ["--deadline", "20", "--label", "deep", "--into", str(tmp_path)]
    assert main(options) == 0
    report = json.loads(next(tmp_path.glob("*-deep.json")).read_text())
    assert [run["failure"] for run in report["runs"]] == [""] * 4
    assert all(run["outcome"]["filling"]["is_whole"] for run in report["runs"])
    *_, again = report["runs"]
    assert again["outcome"]["restarted_with"] == 2_000
    drained = report["runs"][1:3]
    assert [run["outcome"]["delivered"] for run in drained] == [2_000, 2_000]
    # The last row of each work has a value, whatever the disk of the day is like.
    assert report["rows"][-1]["brokers"][kind]["median"] > 0


@pytest.mark.sweep
@pytest.mark.patience(120)
def test_streams_neighbours_and_a_copy_that_joins_are_measured(tmp_path: Path) -> None:
    works = "stream-tail,neighbour-filling,join"
    options = ["--only", "fedq", "--works", works, "--messages", "2000", "--deadline", "20"]
    assert main([*SHORT, *options, "--label", "some", "--into", str(tmp_path)]) == 0
    report = json.loads(next(tmp_path.glob("*-some.json")).read_text())
    assert [run["failure"] for run in report["runs"]] == [""] * 3
    without = [row for row in report["rows"] if "median" not in row["brokers"]["fedq"]]
    # It is held against a work that was not asked for.
    assert [row["work"] for row in without] == ["neighbour-filling"]
    assert report["runs"][1]["outcome"]["disk_bytes_max"] > 100_000


def test_more_than_the_disk_has_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "fedq", "--works", "deep", "--messages", str(10**15)]) == 2
    assert "GB are free" in capsys.readouterr().out


@pytest.mark.slow
def test_clients_are_spread_over_a_cluster(tmp_path: Path) -> None:
    with FedqBroker(tmp_path / "broker", "", 3) as broker:
        run = measure(broker, WORKS["spread-persistent-3"], "fedq", 1, 0.3, "")
    assert not run.failure
    cpu = [one["cpu_seconds"] for one in run.outcome["brokers"]]
    assert len(cpu) == 3
    assert min(cpu) > 0.2 * max(cpu)


@pytest.mark.slow
def test_declarations_and_idle_nodes_are_measured_on_three_nodes(tmp_path: Path) -> None:
    with FedqBroker(tmp_path / "broker", "", 3) as broker:
        few = replace(WORKS["declare"], options=("--queues", "40", "--window", "20"))
        declared = measure(broker, few, "fedq", 1, 0.3, "")
        rested = measure(broker, replace(WORKS["idle-3"], warm_up_s=0.0), "fedq", 1, 1.0, "")
        assert broker.cluster.ask("queue", "list")["queues"] == []
    assert not declared.failure
    assert declared.outcome["declared_cpu_us"] > 0
    assert declared.outcome["passive_us"]["count"] > 0
    assert not rested.failure
    assert rested.outcome["core_percent"] > 0


@pytest.mark.slow
def test_a_broker_that_refuses_the_work_is_a_failure_with_words(tmp_path: Path) -> None:
    with FedqBroker(tmp_path / "broker", "") as broker:
        run = measure(broker, WORKS["spread-1"], "rabbitmq", 1, 0.3, "")
        assert not run.failure
        work = replace(WORKS["copies-3"], fedq=("--queue-argument", "x-fedq-replicas=99"))
        run = measure(broker, work, "fedq", 1, 0.3, "")
    assert "x-fedq-replicas" in run.failure
    assert run.outcome == {}


@pytest.mark.slow
def test_an_end_in_the_middle_leaves_no_process() -> None:
    command = [sys.executable, "-m", "loadtests.macro", "--only", "fedq", "--works", "transient-16"]
    with subprocess.Popen(
        [*command, "--seconds", "300"], env=environment(), stdout=subprocess.PIPE, text=True
    ) as bench:
        tree = psutil.Process(bench.pid)

        def generator_runs() -> bool:
            # The broker, and the generator with a process of its own.
            return len(tree.children(recursive=True)) >= 3

        until("the generator runs", generator_runs, 60.0)
        started = tree.children(recursive=True)
        bench.terminate()
        printed, _ = bench.communicate(timeout=60)
    assert bench.returncode == INTERRUPTED
    assert "interrupted; so far:" in printed
    gone, alive = psutil.wait_procs(started, timeout=10)
    assert gone
    assert not alive


@pytest.mark.sweep
@pytest.mark.skipif(not RabbitBroker.is_installed(), reason="RabbitMQ is not installed here")
def test_rabbitmq_is_measured_as_a_cluster_of_three(tmp_path: Path) -> None:
    with RabbitBroker(tmp_path / "broker", "", 3) as broker:
        run = measure(broker, WORKS["copies-3"], "rabbitmq", 1, 0.3, "")
        assert len(broker.pids) == 3
    assert not run.failure
    assert all(one["cpu_seconds"] > 0 for one in run.outcome["brokers"])
    assert not broker.pids


@pytest.mark.sweep
@pytest.mark.skipif(not RabbitBroker.is_installed(), reason="RabbitMQ is not installed here")
def test_many_consumers_on_a_connection_of_rabbitmq(tmp_path: Path) -> None:
    """Its queues say consume-ok themselves, and other replies overtake that."""
    with RabbitBroker(tmp_path / "broker", "") as broker:
        counts = ("--subscribers", "1000", "--connections", "10")
        work = replace(WORKS["fanout-100x100"], options=counts)
        run = measure(broker, work, "rabbitmq", 1, 0.3, "")
    assert not run.failure
