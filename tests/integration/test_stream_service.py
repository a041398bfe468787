"""Streams read through the admin port of real nodes: who may, and what strangers send."""

import base64
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from fedq.core.message import split
from fedq.shell.pb import streams_pb2 as pb
from fedq.shell.pb import streams_pb2_grpc
from tests.integration.harness import Cluster
from tests.integration.stock import PERSISTENT, connect

pytestmark = pytest.mark.slow

COUNT = 5_000
STREAM = {"x-queue-type": "stream"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("streams"), ("a", "b")) as running:
        connection = connect(running.nodes["a"].amqp)
        channel = connection.channel()
        channel.queue_declare("s", durable=True, arguments=STREAM)
        for number in range(COUNT - 1):
            channel.basic_publish("", "s", b"%d" % number, PERSISTENT)
        channel.confirm_delivery()
        channel.basic_publish("", "s", b"%d" % (COUNT - 1), PERSISTENT)
        connection.close()
        yield running


def said(text: str) -> tuple[tuple[str, str], ...]:
    """What goes with a call: a user and a password."""
    return (("authorization", f"Basic {base64.b64encode(text.encode()).decode()}"),)


GUEST = said("guest:guest")


@pytest.fixture
def stub(cluster: Cluster) -> Iterator[Any]:
    """The service of the node that leads the stream."""
    place = cluster.nodes[cluster.primary_of("s")].admin
    with grpc.insecure_channel(f"{place.host}:{place.port}") as channel:
        yield streams_pb2_grpc.StreamsStub(channel)  # type: ignore[no-untyped-call]


def refusal(call: Any, *, is_unary: bool = False) -> grpc.StatusCode:
    """The status of a call that fails with a sentence."""
    with pytest.raises(grpc.RpcError) as caught:
        call.result() if is_unary else list(call)
    error: Any = caught.value
    assert error.details()
    code: grpc.StatusCode = error.code()
    return code


def read(**fields: Any) -> pb.ReadRequest:
    values: dict[str, Any] = {"vhost": "/", "stream": "s", "end": COUNT}
    return pb.ReadRequest(**(values | fields))


def test_a_user_reads_a_range_without_the_nodes_token(stub: Any) -> None:
    told = stub.Describe(pb.DescribeRequest(vhost="/", stream="s"), metadata=GUEST, timeout=10)
    [fragment] = told.fragments
    assert (fragment.served.first, fragment.served.next) == (0, COUNT)
    bodies: list[bytes] = []
    for chunk in stub.Read(read(begin=100, chunk_bytes=65_536), metadata=GUEST, timeout=30):
        at = 0
        for index in range(0, len(chunk.lengths), 4):
            length = int.from_bytes(chunk.lengths[index : index + 4], "big")
            bodies.append(split(chunk.data[at : at + length])[2])
            at += length
    assert bodies == [b"%d" % number for number in range(100, COUNT)]


def test_strangers_are_refused(stub: Any) -> None:
    code = grpc.StatusCode
    for metadata in ((), said("guest:wrong"), said("mallory:guest"), said("guest")):
        assert refusal(stub.Read(read(), metadata=metadata, timeout=10)) is code.UNAUTHENTICATED
        described = stub.Describe.future(
            pb.DescribeRequest(vhost="/", stream="s"), metadata=metadata, timeout=10
        )
        assert refusal(described, is_unary=True) is code.UNAUTHENTICATED


def test_bad_requests_have_a_status_each_and_the_node_goes_on(stub: Any, cluster: Cluster) -> None:
    code = grpc.StatusCode
    for request, status in (
        (read(begin=(1 << 64) - 1, end=(1 << 64) - 1), code.INVALID_ARGUMENT),
        (read(begin=9, end=8), code.INVALID_ARGUMENT),
        (read(chunk_bytes=1), code.INVALID_ARGUMENT),
        (read(stream=""), code.INVALID_ARGUMENT),
        (read(stream="x" * 256), code.INVALID_ARGUMENT),
        (read(stream="other"), code.NOT_FOUND),
        (read(fragment=7), code.NOT_FOUND),
        (read(vhost="elsewhere"), code.PERMISSION_DENIED),
    ):
        assert refusal(stub.Read(request, metadata=GUEST, timeout=10)) is status
    # What is no message of that kind at all.
    place = cluster.nodes["a"].admin
    with grpc.insecure_channel(f"{place.host}:{place.port}") as raw:
        call: Any = raw.unary_stream("/fedq.streams.v1.Streams/Read")
        assert refusal(call(b"\xff" * 100, metadata=GUEST, timeout=10)) is code.UNKNOWN
    assert stub.Describe(pb.DescribeRequest(vhost="/", stream="s"), metadata=GUEST, timeout=10)


def test_the_other_node_names_the_one_that_leads(cluster: Cluster) -> None:
    leader = cluster.primary_of("s")
    other = next(node for name, node in cluster.nodes.items() if name != leader)
    with grpc.insecure_channel(f"{other.admin.host}:{other.admin.port}") as channel:
        stub: Any = streams_pb2_grpc.StreamsStub(channel)  # type: ignore[no-untyped-call]
        call = stub.Read(read(), metadata=GUEST, timeout=10)
        assert refusal(call) is grpc.StatusCode.FAILED_PRECONDITION
        assert ("fedq-home", leader) in [(key, value) for key, value in call.trailing_metadata()]


def test_the_peers_port_reads_nothing(cluster: Cluster) -> None:
    place = cluster.nodes["a"].peer
    with grpc.insecure_channel(f"{place.host}:{place.port}") as channel:
        stub: Any = streams_pb2_grpc.StreamsStub(channel)  # type: ignore[no-untyped-call]
        call = stub.Read(read(), metadata=GUEST, timeout=10)
        assert refusal(call) is grpc.StatusCode.UNAUTHENTICATED


def test_readers_that_hang_up_at_once_leave_the_node_as_it_was(stub: Any) -> None:
    """A hundred begin and go; then one reads all of it."""
    for _ in range(100):
        call = stub.Read(read(chunk_bytes=65_536), metadata=GUEST, timeout=30)
        next(iter(call))
        call.cancel()
    chunks = list(stub.Read(read(), metadata=GUEST, timeout=30))
    assert sum(len(chunk.lengths) // 4 for chunk in chunks) == COUNT
