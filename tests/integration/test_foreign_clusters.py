"""A data directory of another cluster whose nodes have the same names: refused, and not touched."""

import shutil
from pathlib import Path

import orjson
import pytest

from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, connect
from tests.integration.waiting import until

pytestmark = pytest.mark.slow


def kept(cluster: Cluster, queue: str) -> None:
    """A queue with a copy everywhere, and a message in it."""
    connection = connect(cluster.addresses()[0])
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare(queue, durable=True, arguments={"x-fedq-replicas": 3})
    channel.basic_publish("", queue, b"the one", PERSISTENT)
    connection.close()


def named(cluster: Cluster) -> set[str]:
    """To which clusters the nodes' data directories belong."""
    files = [node.directory / "data" / "identity.json" for node in cluster.nodes.values()]
    return {orjson.loads(file.read_bytes())["cluster"] for file in files}


def is_named(cluster: Cluster) -> bool:
    """Whether all directories belong to the same one."""
    return len(named(cluster)) == 1 and "" not in named(cluster)


def messages(directory: Path) -> dict[str, bytes]:
    """The segments of a data directory, and what its Raft log has."""
    files = [*(directory / "journal").glob("*.journal"), *(directory / "raft").glob("*")]
    return {file.name: file.read_bytes().rstrip(b"\0") for file in files}


def test_a_node_with_a_directory_of_another_cluster_ends_and_changes_neither(
    tmp_path: Path,
) -> None:
    first, second = Cluster(tmp_path / "first"), Cluster(tmp_path / "second")
    with first:
        kept(first, "orders")
        until("all know the cluster's name", lambda: is_named(first))
    with second:
        kept(second, "invoices")
        until("all know that of theirs", lambda: is_named(second))
        assert named(first) != named(second)
        second.terminate("c")
        node = second.nodes["c"]
        own, foreign = node.directory / "data", first.nodes["c"].directory / "data"
        shutil.move(own, tmp_path / "own")
        shutil.copytree(foreign, own)
        before = messages(own)
        node.start()
        until("the node has ended by itself", lambda: not node.is_running)
        assert node.process is not None
        assert node.process.wait() == 1
        node.process = None
        log = node.log()
        assert "this data directory belongs to cluster" in log
        assert "give this node its own data directory" in log
        assert "Traceback" not in log
        after = messages(own)
        assert {name: after[name] for name in before} == before
        # The others go on, and say what is wrong there.
        connection = connect(second.nodes["a"].amqp)
        channel = connection.channel()
        assert channel.queue_declare("invoices", passive=True).method.message_count == 1
        with pytest.raises(Exception, match="404"):
            channel.queue_declare("orders", passive=True)
        connection.close()
        assert "the data directory of c belongs to cluster" in second.nodes["a"].log()
        # With its own directory it is one of them.
        shutil.rmtree(own)
        shutil.move(tmp_path / "own", own)
        second.restart("c")
