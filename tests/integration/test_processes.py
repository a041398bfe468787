"""Who a node is: restored, emptied, copied and wrongly named data directories, differing files."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import yaml

from tests.integration.conftest import Connect
from tests.integration.harness import Cluster, NodeProcess, eventually, node_configuration
from tests.integration.ports import LOOPBACK, free_ports
from tests.integration.stock import PERSISTENT, pika
from tests.integration.test_restarts import bodies
from tests.integration.waiting import until

pytestmark = pytest.mark.slow


def publish(cluster: Cluster, node: str, open_connection: Connect, texts: list[str]) -> None:
    """Confirmed messages for the queue `work`, through that node."""
    connection = open_connection(cluster.nodes[node].amqp)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("work", durable=True, arguments={"x-fedq-replicas": 3})
    for text in texts:
        channel.basic_publish("", "work", text.encode(), PERSISTENT, mandatory=True)
    connection.close()


def taken(cluster: Cluster, node: str, open_connection: Connect) -> list[str]:
    connection = open_connection(cluster.nodes[node].amqp)
    found = [body.decode() for body in bodies(connection.channel(), "work")]
    connection.close()
    return found


def numbered(name: str, count: int) -> list[str]:
    return [f"{name} {number}" for number in range(count)]


def one_start_old(cluster: Cluster, name: str, open_connection: Connect) -> Path:
    """A copy of the node's data directory from before its last start, with work done since."""
    publish(cluster, name, open_connection, numbered("early", 30))
    cluster.wait_whole("work")
    cluster.terminate(name)
    data = cluster.nodes[name].directory / "data"
    copy = data.with_name("copy")
    shutil.copytree(data, copy)
    cluster.restart(name)
    cluster.wait_whole("work")
    publish(cluster, name, open_connection, numbered("late", 200))
    return copy


def restore(cluster: Cluster, name: str, copy: Path) -> None:
    data = cluster.nodes[name].directory / "data"
    shutil.rmtree(data)
    shutil.copytree(copy, data)


def test_what_is_published_through_a_restored_node_arrives(
    tmp_path: Path, open_connection: Connect
) -> None:
    with Cluster(tmp_path) as cluster:
        copy = one_start_old(cluster, "a", open_connection)
        cluster.kill("a")
        restore(cluster, "a", copy)
        cluster.restart("a")
        publish(cluster, "a", open_connection, numbered("new", 200))
        cluster.wait_whole("work")
        found = taken(cluster, "b", open_connection)
        assert sorted(found) == sorted(
            [*numbered("early", 30), *numbered("late", 200), *numbered("new", 200)]
        )
        said = cluster.nodes["a"].log()
        assert "its copies count as old" in said
        assert "older copy: this node learns before it votes" in said
        assert "this node votes on the cluster map" in said.partition("learns before")[2]


def test_a_restored_node_takes_nothing_back_after_a_stop_of_all(
    tmp_path: Path, open_connection: Connect
) -> None:
    with Cluster(tmp_path) as cluster:
        copy = one_start_old(cluster, "a", open_connection)
        for name in cluster.nodes:
            cluster.kill(name)
        restore(cluster, "a", copy)
        cluster.nodes["a"].start()
        cluster.nodes["b"].start()
        cluster.wait_served("a")
        cluster.restart("c")
        cluster.wait_whole("work")
        found = taken(cluster, "c", open_connection)
        assert set(numbered("early", 30) + numbered("late", 200)) <= set(found)


def second_of(cluster: Cluster, name: str) -> NodeProcess:
    """Another process with the node's name, on ports and data of its own."""
    own = cluster.nodes[name].directory.with_name(f"{name}-twin")
    own.mkdir()
    first = cluster.nodes[name]
    twin = NodeProcess(name, own, [*first._command[:-1], str(own / "node.yaml")], free_ports(3))
    others = [node for node in cluster.nodes.values() if node.name != name]
    (own / "node.yaml").write_text(yaml.safe_dump(node_configuration(twin, [twin, *others])))
    return twin


@contextmanager
def running(node: NodeProcess) -> Iterator[NodeProcess]:
    node.start()
    try:
        yield node
    finally:
        if node.is_running:
            node.end(signal.SIGKILL)


@pytest.mark.parametrize("directory", ["its own", "a copy"])
def test_a_second_process_of_a_name_ends_and_the_first_is_not_disturbed(
    tmp_path: Path, open_connection: Connect, directory: str
) -> None:
    with Cluster(tmp_path) as cluster:
        publish(cluster, "b", open_connection, numbered("early", 30))
        cluster.wait_whole("work")
        twin = second_of(cluster, "b")
        if directory == "a copy":
            shutil.copytree(cluster.nodes["b"].directory / "data", twin.directory / "data")
        before = cluster.nodes["b"].log()
        with running(twin):
            until("the twin has ended", lambda: not twin.is_running, 30)
            assert twin.process is not None
            assert twin.process.returncode == 1
            assert "only one may have the name" in twin.log()
        publish(cluster, "b", open_connection, numbered("late", 30))
        assert sorted(taken(cluster, "b", open_connection)) == sorted(
            [*numbered("early", 30), *numbered("late", 30)]
        )
        news = [line for line in cluster.nodes["b"].log().splitlines() if line not in before]
        # A moment without a lease is a busy machine's; to be declared down, the twin's doing.
        assert not [line for line in news if "member b is down" in line], news
        named = [cluster.ask("cluster", "status", node=node)["problems"] for node in "ac"]
        assert any("two processes call themselves 'b'" in str(each) for each in named)


def refusal(node: NodeProcess) -> str:
    """What a node that must not start says; its exit code is that of a wrong configuration."""
    done = subprocess.run(node._command, cwd=node.directory, capture_output=True, text=True,
                          timeout=60, check=False)  # fmt: skip
    assert done.returncode == 2, done.stderr
    return done.stderr


def rewrite(node: NodeProcess, change: Callable[[dict[str, object]], None]) -> None:
    file = node.directory / "node.yaml"
    content = yaml.safe_load(file.read_text())
    change(content)
    file.write_text(yaml.safe_dump(content))


def test_a_directory_stays_with_its_name_and_its_voters(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.terminate("c")
        node = cluster.nodes["c"]
        ports = free_ports(2)

        def grow(content: dict[str, object]) -> None:
            peers = content["peers"]
            assert isinstance(peers, dict)
            more = dict(zip("de", ports, strict=True))
            peers.update({name: f"{LOOPBACK}:{port}" for name, port in more.items()})

        rewrite(node, grow)
        said = refusal(node)
        assert "peers: the nodes of this cluster are a, b, c" in said
        assert "delete the file `voters` in every data directory" in said

        def rename(content: dict[str, object]) -> None:
            peers = content["peers"]
            assert isinstance(peers, dict)
            content["node"] = "d"

        rewrite(node, rename)
        assert "is the data directory of node 'c', not of 'd'" in refusal(node)


def test_a_node_with_another_lease_is_kept_out_and_named(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.terminate("c")

        def patient(content: dict[str, object]) -> None:
            content["timing"] = {"lease_ms": 600}

        rewrite(cluster.nodes["c"], patient)
        cluster.nodes["c"].start()
        sentence = "timing.lease_ms is '700' at a and '600' at c"
        eventually(
            "status names the setting",
            lambda: sentence in str(cluster.ask("cluster", "status", node="a")["problems"]),
        )
        assert "timing.lease_ms is" in cluster.nodes["c"].log()
        cluster.wait_served("a")


def test_a_node_without_its_raft_directory_learns_before_it_votes(
    tmp_path: Path, open_connection: Connect
) -> None:
    with Cluster(tmp_path) as cluster:
        publish(cluster, "a", open_connection, numbered("early", 30))
        cluster.wait_whole("work")
        leader = cluster.leader()
        forgetful, stale = (name for name in cluster.nodes if name != leader)
        cluster.kill(stale)
        connection = open_connection(cluster.nodes[forgetful].amqp)
        connection.channel().queue_declare("later", durable=True)
        connection.close()
        cluster.kill(forgetful)
        cluster.kill(leader)
        shutil.rmtree(cluster.nodes[forgetful].directory / "data" / "raft")
        cluster.nodes[stale].start()
        cluster.nodes[forgetful].start()
        # The two have a majority, and neither knows of the queue `later`.
        stood = time.monotonic() + 6
        until("some elections have passed", lambda: time.monotonic() > stood, 10)
        assert cluster.ask("cluster", "status", node=stale)["leader"] in (None, "")
        cluster.restart(leader)
        cluster.wait_served(forgetful)

        def is_there() -> bool:
            # A busy machine may cost a node its first lease, and its clients their connections.
            with suppress(pika.exceptions.AMQPError):
                connection = open_connection(cluster.nodes[forgetful].amqp)
                connection.channel().queue_declare("later", passive=True)
                connection.close()
                return True
            return False

        until("the queue is there", is_there, 20)
        assert "this node votes on the cluster map" in cluster.nodes[forgetful].log()
