"""Queues read by reservation through real nodes: over failures, by whom, what strangers send."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from fedq.pipeline.columns import Decoder
from fedq.pipeline.places import TlsPaths, urls_of
from fedq.pipeline.queue_client import QueueClient, Reserved
from fedq.pipeline.queue_options import QueueOptions
from fedq.shell.pb import queue_readers_pb2 as pb
from fedq.shell.pb import queue_readers_pb2_grpc
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, connect
from tests.integration.test_stream_service import GUEST, refusal, said

pytestmark = pytest.mark.slow

COUNT = 300


def publish(cluster: Cluster, queue: str, span: range) -> None:
    connection = connect(cluster.living().amqp)
    channel = connection.channel()
    channel.queue_declare(queue, durable=True)
    channel.confirm_delivery()
    for number in span:
        channel.basic_publish("", queue, b"%d" % number, PERSISTENT)
    connection.close()


def client_of(cluster: Cluster, queue: str, instance: str, reader: str = "r") -> QueueClient:
    """A reader's process."""
    url = ",".join(
        f"fedq://guest:guest@{node.admin.host}:{node.admin.port}" for node in cluster.nodes.values()
    )
    options = QueueOptions(urls_of(url), TlsPaths(), "/", queue, reader, 100, 65_536, 60.0)
    return QueueClient(options, instance)


def bodies(client: QueueClient, wanted: Reserved) -> list[int]:
    decoder = Decoder()
    return [int(b) for chunk in client.read(wanted) for b in decoder.columns(chunk).bodies]


def test_what_is_reserved_outlives_the_node_and_the_reader(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        publish(cluster, "jobs", range(COUNT))
        committed: list[int] = []
        with client_of(cluster, "jobs", "first") as first:
            [part] = first.describe()
            assert part.messages == COUNT
            through, count = first.reserve(part.fragment, 0, 100)
            assert count == 100
            read = bodies(first, Reserved(part.fragment, 0, through))
        assert read == list(range(100))
        # The leader dies between read and commit, and the reader begins again.
        cluster.kill(cluster.primary_of("jobs"))
        with client_of(cluster, "jobs", "second") as second:
            assert second.reserve(part.fragment, 0, 1_000) == (through, 100)
            assert bodies(second, Reserved(part.fragment, 0, through)) == read
            committed += read
            after = through
            shown = cluster.ask("queue", "show", "jobs")
            [reader] = shown["fragments"][0]["readers"]
            assert (reader["name"], reader["lag"]) == ("r", 100)
            # It dies behind its own commit, before it says so: what it had is not read again.
            while count:
                through, count = second.reserve(part.fragment, after, 120)
                if count:
                    committed += bodies(second, Reserved(part.fragment, after, through))
                after = through
        assert committed == list(range(COUNT))
        assert cluster.ask("queue", "show", "jobs")["ready"] == 0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("readers"), ("a",)) as running:
        publish(running, "q", range(10))
        connection = connect(running.nodes["a"].amqp)
        channel = connection.channel()
        channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        channel.queue_declare("own", exclusive=True)
        single = {"x-single-active-consumer": True}
        channel.queue_declare("single", durable=True, arguments=single)
        yield running
        connection.close()


@pytest.fixture
def stub(node: Cluster) -> Iterator[Any]:
    place = node.nodes["a"].admin
    with grpc.insecure_channel(f"{place.host}:{place.port}") as channel:
        yield queue_readers_pb2_grpc.QueueReadersStub(channel)  # type: ignore[no-untyped-call]


def described(stub: Any, queue: str = "q") -> int:
    told = stub.Describe(pb.DescribeRequest(vhost="/", queue=queue), metadata=GUEST, timeout=10)
    return int(told.fragments[0].fragment)


def reserve(stub: Any, **fields: Any) -> pb.ReserveRequest:
    values: dict[str, Any] = {
        "vhost": "/", "queue": "q", "reader": "r", "instance": "i", "most": 5, "begins": True,
    }  # fmt: skip
    if "fragment" not in fields:
        values["fragment"] = described(stub)
    return pb.ReserveRequest(**(values | fields))


def test_each_call_needs_a_user_who_may_read(stub: Any, node: Cluster) -> None:
    code = grpc.StatusCode
    fragment = described(stub)
    node.ask("user", "add", "poor", "--password", "geheim")
    node.ask("permission", "set", "poor", ".*", ".*", "other")
    common: dict[str, Any] = {"vhost": "/", "queue": "q", "fragment": fragment, "reader": "r"}
    calls: list[tuple[Any, Any]] = [
        (stub.Describe, pb.DescribeRequest(vhost="/", queue="q")),
        (stub.Reserve, reserve(stub)),
        (stub.Settle, pb.SettleRequest(**common, instance="i", through=1)),
    ]
    read = pb.ReadRequest(**common, through=1)
    for metadata, status in (
        ((), code.UNAUTHENTICATED),
        (said("guest:wrong"), code.UNAUTHENTICATED),
        (said("poor:geheim"), code.PERMISSION_DENIED),
    ):
        for call, request in calls:
            pending = call.future(request, metadata=metadata, timeout=10)
            assert refusal(pending, is_unary=True) is status
        assert refusal(stub.Read(read, metadata=metadata, timeout=10)) is status


def test_hostile_requests_have_a_status_each_and_the_node_goes_on(stub: Any, node: Cluster) -> None:
    code = grpc.StatusCode
    for fields, status in (
        ({"queue": ""}, code.INVALID_ARGUMENT),
        ({"queue": "x" * 256}, code.INVALID_ARGUMENT),
        ({"vhost": "\u00e9" * 128}, code.INVALID_ARGUMENT),
        ({"reader": ""}, code.INVALID_ARGUMENT),
        ({"reader": "x" * 256}, code.INVALID_ARGUMENT),
        ({"instance": ""}, code.INVALID_ARGUMENT),
        ({"instance": "x" * 65}, code.INVALID_ARGUMENT),
        ({"most": 0}, code.INVALID_ARGUMENT),
        ({"most": 10_001}, code.INVALID_ARGUMENT),
        ({"after": (1 << 64) - 1}, code.INVALID_ARGUMENT),
        ({"fragment": (1 << 64) - 1}, code.FAILED_PRECONDITION),
        ({"queue": "none"}, code.NOT_FOUND),
        ({"vhost": "elsewhere"}, code.PERMISSION_DENIED),
        ({"queue": "s"}, code.FAILED_PRECONDITION),
        ({"queue": "own"}, code.FAILED_PRECONDITION),
    ):
        pending = stub.Reserve.future(reserve(stub, **fields), metadata=GUEST, timeout=10)
        assert refusal(pending, is_unary=True) is status, fields
    single = reserve(stub, queue="single", fragment=described(stub, "single"))
    pending = stub.Reserve.future(single, metadata=GUEST, timeout=10)
    assert refusal(pending, is_unary=True) is code.FAILED_PRECONDITION
    assert "single active" in pending.details()
    whole = (1 << 64) - 1
    common: dict[str, Any] = {
        "vhost": "/", "queue": "q", "fragment": described(stub), "reader": "x",
    }  # fmt: skip
    for fields, status in (
        ({"after": 2, "through": 2}, code.INVALID_ARGUMENT),
        ({"through": whole}, code.INVALID_ARGUMENT),
        ({"through": 1, "begin": whole}, code.INVALID_ARGUMENT),
        ({"through": 1, "part_bytes": 1}, code.INVALID_ARGUMENT),
        ({"through": 1}, code.FAILED_PRECONDITION),
    ):
        request = pb.ReadRequest(**(common | fields))
        assert refusal(stub.Read(request, metadata=GUEST, timeout=10)) is status, fields
    place = node.nodes["a"].admin
    with grpc.insecure_channel(f"{place.host}:{place.port}") as raw:
        for name in ("Reserve", "Settle", "Describe"):
            call: Any = raw.unary_unary(f"/fedq.queue_readers.v1.QueueReaders/{name}")
            pending = call.future(b"\xff" * 100, metadata=GUEST, timeout=10)
            assert refusal(pending, is_unary=True) is code.UNKNOWN
        stream: Any = raw.unary_stream("/fedq.queue_readers.v1.QueueReaders/Read")
        assert refusal(stream(b"\xff" * 100, metadata=GUEST, timeout=10)) is code.UNKNOWN
    assert described(stub)


def test_a_second_reader_of_the_name_and_the_release_of_a_dead_one(
    stub: Any, node: Cluster
) -> None:
    publish(node, "left", range(5))
    fragment = described(stub, "left")
    request = reserve(stub, queue="left", fragment=fragment, instance=f"{os.getpid()}")
    stub.Reserve(request, metadata=GUEST, timeout=10)
    other = reserve(stub, queue="left", fragment=fragment, instance="other")
    assert stub.Reserve(other, metadata=GUEST, timeout=10).messages == 5
    request.begins = False
    pending = stub.Reserve.future(request, metadata=GUEST, timeout=10)
    assert refusal(pending, is_unary=True) is grpc.StatusCode.FAILED_PRECONDITION
    assert "another reader of 'left' with the name 'r' is at it" in pending.details()
    assert node.ask("queue", "release", "left", "r")["messages"] == 5
    assert node.ask("queue", "show", "left")["ready"] == 5
    read = pb.ReadRequest(vhost="/", queue="left", fragment=fragment, reader="r", through=1)
    code = refusal(stub.Read(read, metadata=GUEST, timeout=10))
    assert code is grpc.StatusCode.FAILED_PRECONDITION
