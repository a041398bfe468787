"""A new cluster of real processes that waits for its members before it lets clients in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.harness import Cluster
from tests.integration.newcomers import newcomer
from tests.integration.stock import connect, pika
from tests.integration.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.patience(90)]


class Waiting(Cluster):
    """One node of a cluster that is to have two."""

    def start_all(self) -> None:
        """Starts it; nobody is served yet."""
        node = self.nodes["a"]
        path = node.directory / "node.yaml"
        form = yaml.safe_load(path.read_text())
        form["peer"] = {"host": node.peer.host, "port": node.peer.port}
        path.write_text(yaml.safe_dump(form))
        node.start()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Waiting(tmp_path, ("a",), more={"cluster_size": 2}) as running:
        yield running


def test_clients_hear_why_they_wait_and_are_served_once_the_last_one_is_there(
    cluster: Cluster,
) -> None:
    until("status says so", lambda: any("cluster_size" in said for said in problems(cluster)))
    with pytest.raises(pika.exceptions.AMQPConnectionError) as caught:
        connect(cluster.nodes["a"].amqp)
    assert "lets clients in once 2 members have come up" in repr(caught.value)
    newcomer(cluster, "b", "a", {"cluster_size": 2}).start()
    for name in ("a", "b"):
        cluster.wait_served(name, 60.0)
    until("all is well", lambda: not problems(cluster))


def problems(cluster: Cluster) -> list[str]:
    try:
        status: dict[str, Any] = cluster.ask("cluster", "status", node="a")
    except LookupError:
        return []
    return list(status["problems"])
