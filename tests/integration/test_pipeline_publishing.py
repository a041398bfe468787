"""Tasks that publish to real nodes, without Spark: once, whatever happens to the nodes."""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedq.pipeline.failure import PipelineError
from fedq.pipeline.sink.encoding import front_of
from fedq.pipeline.sink.options import WriteOptions, write_options
from fedq.pipeline.sink.ordering import Rows
from fedq.pipeline.sink.task import Part, publish_rows
from tests.integration.harness import Cluster
from tests.integration.stock import BlockingChannel, connect
from tests.integration.waiting import until

COUNT = 20_000
PART = Part("job", 0, 0)
needs_names = pytest.mark.skipif(
    importlib.util.find_spec("fedq.amqp.named_publishes") is None,
    reason="these nodes do not know named publishers",
)


@contextmanager
def nodes(directory: Path) -> Iterator[Cluster]:
    """Nodes that agree on what they know."""
    with Cluster(directory) as running:
        connection = connect(running.living().amqp)
        connection.channel().queue_declare("probe")
        until("nodes take publishers with names", lambda: knows_names(running))
        connection.channel().queue_delete("probe")
        connection.close()
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with nodes(tmp_path_factory.mktemp("nodes")) as running:
        yield running


def knows_names(cluster: Cluster) -> bool:
    """Whether nodes take publishers with names yet; those that never will are as good here."""
    probe = Rows(front_of("", "probe", {}, None), [b""])
    try:
        publish_rows([probe], options(cluster), Part("probe", 0, 0))
    except PipelineError as error:
        if "need version" in str(error):
            return False
        raise
    return True


@pytest.fixture
def channel(cluster: Cluster) -> Iterator[BlockingChannel]:
    connection = connect(cluster.living().amqp)
    channel = connection.channel()
    yield channel
    channel.queue_delete("out")
    connection.close()


def options(cluster: Cluster, **given: str) -> WriteOptions:
    urls = ",".join(
        f"amqp://guest:guest@{node.amqp.host}:{node.amqp.port}" for node in cluster.nodes.values()
    )
    return write_options({"url": urls, "routingKey": "out"} | given, is_streaming=False)


def rows(numbers: range) -> Iterator[Rows]:
    front = front_of("", "out", {"delivery_mode": 2}, None)
    for at in range(numbers.start, numbers.stop, 100):
        yield Rows(front, [b"%06d" % each for each in range(at, at + 100)])


def drained(cluster: Cluster) -> list[int]:
    connection = connect(cluster.living().amqp)
    channel = connection.channel()
    count = channel.queue_declare("out", passive=True).method.message_count
    found: list[int] = []
    if count:
        for method, _, body in channel.consume("out", auto_ack=True, inactivity_timeout=10):
            assert method is not None, f"{count - len(found)} messages do not come"
            found.append(int(body))
            if len(found) == count:
                break
    connection.close()
    return found


@needs_names
def test_a_node_that_is_killed_amid_the_rows_costs_none_and_doubles_none(tmp_path: Path) -> None:
    with nodes(tmp_path) as cluster:
        connection = connect(cluster.nodes["a"].amqp)
        connection.channel().queue_declare("out", durable=True)
        connection.close()

        def each_row() -> Iterator[Rows]:
            for number, piece in enumerate(rows(range(COUNT))):
                if number == COUNT // 200:
                    # The one that this publisher is connected to, and that leads the queue.
                    cluster.kill("a")
                yield piece

        chosen = options(cluster, rowOrder="deterministic")
        assert publish_rows(each_row(), chosen, PART) == COUNT
        # And another attempt, which does not know what became of the first.
        assert publish_rows(rows(range(COUNT)), chosen, PART) == COUNT
        assert drained(cluster) == list(range(COUNT))


@needs_names
def test_a_full_queue_gets_the_rows_that_it_refused_when_there_is_room(
    cluster: Cluster, channel: BlockingChannel
) -> None:
    full = {"x-max-length": 500, "x-overflow": "reject-publish"}
    channel.queue_declare("out", durable=True, arguments=full)
    taken: list[int] = []
    chosen = options(cluster, retryTimeout="1")
    while len(taken) < 1_500:
        with pytest.raises(PipelineError, match="a queue refused a row"):
            publish_rows(rows(range(2_000)), chosen, PART)
        taken += drained(cluster)
    assert publish_rows(rows(range(2_000)), chosen, PART) == 2_000
    assert sorted([*taken, *drained(cluster)]) == list(range(2_000))


def test_at_least_once_needs_no_names(cluster: Cluster, channel: BlockingChannel) -> None:
    channel.queue_declare("out", durable=True)
    chosen = options(cluster, exactlyOnce="false")
    assert publish_rows(rows(range(COUNT)), chosen, PART) == COUNT
    assert sorted(drained(cluster)) == list(range(COUNT))
