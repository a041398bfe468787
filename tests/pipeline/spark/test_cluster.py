"""A standalone cluster of Spark, whose executors are killed amid tasks: each row is there, once."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.harness import Cluster, environment
from tests.integration.stock import BlockingChannel
from tests.integration.waiting import patient, until
from tests.pipeline.spark.conftest import Driver
from tests.pipeline.spark.scene import COUNT, ROWS, Scene
from tests.pipeline.spark.settings import SETTINGS
from tests.pipeline.spark.spark_cluster import SparkCluster
from tests.pipeline.spark.test_archive import archived, once
from tests.pipeline.spark.test_streaming import declare, spread

pytestmark = pytest.mark.sweep


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers."""
    made = SparkCluster(tmp_path_factory.mktemp("machines"))
    try:
        made.start(2)
        yield made
    finally:
        made.stop()


def test_an_archive_on_a_cluster_has_every_row_once_though_an_executor_is_killed(
    machines: SparkCluster, channel: BlockingChannel, url: str, tmp_path: Path
) -> None:
    declare(channel, "afar")
    spread(channel, "afar", range(200))
    # As who runs a cluster says it.
    settings = tmp_path / "conf" / "spark-defaults.conf"
    settings.parent.mkdir()
    settings.write_text("".join(f"{name} {value}\n" for name, value in SETTINGS.items()))
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "fedq", "pipeline", "archive", "--url", url, "--stream", "afar",
        "--out", str(out), "--master", machines.url, "--json",
    ]  # fmt: skip
    more = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_CONF_DIR": str(settings.parent)}
    with subprocess.Popen(
        command, env=environment() | more, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        until("a task runs, or it failed", lambda: machines.at_work() or process.poll(), 120)
        assert process.poll() is None, process.communicate()[1]
        (first, *_) = machines.at_work()
        first.kill()
        told, said = process.communicate(timeout=patient(120))
    assert process.returncode == 0, said
    assert json.loads(told)["table_rows"] == 200
    assert archived(out, "afar") == once(200)


def test_every_row_is_published_once_though_an_executor_is_killed(
    machines: SparkCluster, cluster: Cluster, tmp_path: Path
) -> None:
    """Both executors have a task of a batch, whose confirms wait; one of them is killed."""
    driver, scene = Driver(tmp_path / "driver", machines.url), Scene(cluster, "afar", tmp_path)
    try:
        scene.shut_amid(ROWS * 3 // 2)
        query = scene.begin(driver)
        scene.await_shut(driver, query)
        (first, *_) = machines.at_work()
        first.kill()
        scene.open()
        driver.run("forwarded", name=query)
    finally:
        scene.stop()
        driver.stop()
    assert scene.committed() == COUNT // ROWS
    assert scene.published() == list(range(COUNT))
