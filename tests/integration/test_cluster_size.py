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
    until("status says so", lambda: waits(cluster), 60.0)
    # What a container is asked for its health.
    assert not cluster.ask("health", node="a")["serves"]
    # After five seconds; pika itself waits no longer than that for a handshake.
    until("clients hear why", lambda: "once 2 members have come up" in refusal(cluster), 60.0)
    newcomer(cluster, "b", "a", {"cluster_size": 2}).start()
    for name in ("a", "b"):
        cluster.wait_served(name, 60.0)
    assert not waits(cluster)
    assert cluster.ask("health", node="a")["serves"]


def refusal(cluster: Cluster) -> str:
    """What a client hears that is not let in."""
    with pytest.raises(pika.exceptions.AMQPConnectionError) as caught:
        connect(cluster.nodes["a"].amqp)
    return repr(caught.value)


def waits(cluster: Cluster) -> bool:
    """Whether status says that the cluster waits for its members; what else it says may be."""
    try:
        status: dict[str, Any] = cluster.ask("cluster", "status", node="a")
    except LookupError:
        return False
    return any("cluster_size" in problem for problem in status["problems"])
