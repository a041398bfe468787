"""The runbooks of `deploy/runbooks`, run as they stand on a cluster of real processes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster, NodeProcess, environment
from tests.integration.newcomers import newcomer
from tests.integration.stock import PERSISTENT
from tests.integration.test_planned_moves import PATIENT
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(900)]

BOOKS = Path(__file__).parents[2] / "deploy" / "runbooks"
WITHIN_S = 240.0
MESSAGES = 20


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, more=PATIENT) as running:
        yield running


def run_book(
    cluster: Cluster, name: str, *arguments: str, asked: str, starts: NodeProcess | None = None
) -> str:
    """What a runbook says, once it has come to its end.

    `starts`: the node that it has started; its command to do so leaves a file.
    """
    place = cluster.nodes[asked].admin
    mark = cluster.nodes[asked].directory / "start now"
    start = () if starts is None else ("touch", str(mark))
    with subprocess.Popen(
        [str(BOOKS / name), *arguments, *start],
        env={
            **environment(), "FEDQ": f"{sys.executable} -m fedq", "PATIENCE": "100",
            "FEDQ_NODE": f"{place.host}:{place.port}",
        },
        cwd=BOOKS.parents[1], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            if starts is not None:
                until("it is to be started", lambda: process.poll() or mark.exists(), WITHIN_S)
                assert process.poll() is None, process.communicate()[0]
                if starts.process is not None:
                    assert starts.process.wait(WITHIN_S) == 0
                    starts.process = None
                starts.start()
                mark.unlink()
            said, _ = process.communicate(timeout=WITHIN_S)
        finally:
            process.kill()
    assert process.returncode == 0, said
    return said


def members(cluster: Cluster, asked: str) -> list[str]:
    return [str(each["node"]) for each in cluster.ask("cluster", "members", node=asked)["members"]]


def test_a_cluster_is_updated_grows_has_a_node_replaced_and_shrinks(
    cluster: Cluster, open_connection: Connect
) -> None:
    channel = open_connection(cluster.nodes["a"].amqp).channel()
    channel.confirm_delivery()
    channel.queue_declare("work", durable=True)
    for number in range(MESSAGES):
        channel.basic_publish("", "work", b"%d" % number, PERSISTENT)

    said = run_book(cluster, "update.sh", "b", asked="a", starts=cluster.nodes["b"])
    assert "b may hold something again" in said
    run_book(cluster, "grow.sh", "d", asked="a", starts=newcomer(cluster, "d", "a", PATIENT))
    assert members(cluster, "a") == ["a", "b", "c", "d"]
    cluster.kill("c")
    del cluster.nodes["c"]
    new = newcomer(cluster, "e", "a", PATIENT)
    run_book(cluster, "replace.sh", "c", "e", asked="a", starts=new)
    assert members(cluster, "a") == ["a", "b", "d", "e"]
    stopped = cluster.nodes.pop("d")
    run_book(cluster, "shrink.sh", "d", asked="a")
    assert members(cluster, "a") == ["a", "b", "e"]
    assert stopped.process is not None
    assert stopped.process.wait(WITHIN_S) == 0
    stopped.process = None

    channel = open_connection(cluster.nodes["e"].amqp).channel()
    got = [channel.basic_get("work", auto_ack=True)[2] for _ in range(MESSAGES)]
    assert got == [b"%d" % number for number in range(MESSAGES)]
