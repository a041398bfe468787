"""Locust against a real node, where Locust is installed: `pip install '.[load]'`."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.harness import ROOT, Cluster, environment
from tests.integration.ports import LOOPBACK, free_ports

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("locust") is None,
        reason="Locust is not installed: pip install '.[load]', or make load",
    ),
]


def locust(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Locust without its web page."""
    command = [
        sys.executable, "-m", "locust", "-f", str(ROOT / "loadtests" / "locustfile.py"),
        "--headless", "--only-summary", *arguments,
    ]  # fmt: skip
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=90, check=False
    )


def test_fleets_and_journeys_hear_everything(tmp_path: Path) -> None:
    with Cluster(tmp_path, names=("a",)) as cluster:
        done = locust(
            "PublisherUser", "FleetUser", "SubscriberUser", "ConsumerUser", "RpcUser",
            "--broker", cluster.nodes["a"].amqp.url, "--users", "6", "--run-time", "7",
            "--spawn-rate", "10", "--sockets-per-user", "20", "--publish-rate", "20",
            "--grace", "3", "--report", str(tmp_path / "report"),
        )  # fmt: skip
    report = json.loads((tmp_path / "report.json").read_text())
    assert done.returncode == 0, (report["problems"], report["failures"], done.stderr[-3_000:])
    assert report["good"]
    assert report["subscribers_max"] >= 21
    assert report["owed"] > 0
    assert "call" in done.stderr + done.stdout
    assert "consume" in done.stderr + done.stdout


def test_a_broker_that_is_not_there_ends_it_before_anything_starts() -> None:
    [port] = free_ports(1)
    done = locust("--broker", f"amqp://{LOOPBACK}:{port}", "--users", "1")
    assert done.returncode == 2
    assert "is the broker running there?" in done.stderr
