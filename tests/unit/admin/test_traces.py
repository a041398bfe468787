"""Traces through the admin service, and on the command line: what is asked for, and refused."""

from collections.abc import Iterator

import grpc
import pytest

from fedq.core.ids import Incarnation, NodeId, QueueKey
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from fedq.wiring.cluster_map.operations import MemberUp, encode_command
from fedq.wiring.cluster_map.state import MapState
from tests.unit.admin.served import Served, a_cluster, served
from tests.unit.cli.command import fedq


@pytest.fixture
def cluster() -> Iterator[Served]:
    with served(a_cluster()) as servers:
        up = MemberUp(NodeId("n1"), Incarnation(1), "n1:1", "n1:2", "")
        servers.shared.map.apply(encode_command("up", [up]))
        yield servers


@pytest.fixture
def stub(cluster: Served) -> Iterator[admin_pb2_grpc.AdminStub]:
    with grpc.insecure_channel(cluster.address("n1")) as channel:
        yield admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]


def known(cluster: Served) -> MapState:
    return cluster.shared.map


def test_a_trace_is_started_with_its_stream_and_listed_and_stopped(
    cluster: Served, stub: admin_pb2_grpc.AdminStub
) -> None:
    reply = stub.StartTrace(pb.StartTraceRequest(trace=pb.Trace(name="all")))
    assert (reply.created, reply.trace.sample) == (True, 1)
    assert (reply.trace.stream_vhost, reply.trace.stream) == ("/", "fedq.trace.all")
    arguments = known(cluster).queues[QueueKey("/", "fedq.trace.all")].arguments
    assert '"x-max-length-bytes":1073741824' in arguments
    assert not stub.StartTrace(pb.StartTraceRequest(trace=pb.Trace(name="all"))).created
    assert [trace.name for trace in stub.ListTraces(pb.ListTracesRequest()).traces] == ["all"]
    stub.StopTrace(pb.StopTraceRequest(name="all"))
    assert not stub.ListTraces(pb.ListTracesRequest()).traces
    assert QueueKey("/", "fedq.trace.all") in known(cluster).queues


@pytest.mark.parametrize(
    ("request_", "code", "words"),
    [
        (pb.StartTraceRequest(), grpc.StatusCode.INVALID_ARGUMENT, "name is empty"),
        (
            pb.StartTraceRequest(trace=pb.Trace(name="a b")),
            grpc.StatusCode.ALREADY_EXISTS,
            "no name of a trace",
        ),
        (
            pb.StartTraceRequest(trace=pb.Trace(name="a", sample=1_000_001)),
            grpc.StatusCode.INVALID_ARGUMENT,
            "sample is more",
        ),
        (
            pb.StartTraceRequest(trace=pb.Trace(name="a", queue="x" * 256, vhost="/")),
            grpc.StatusCode.INVALID_ARGUMENT,
            "queue is longer",
        ),
        (
            pb.StartTraceRequest(trace=pb.Trace(name="a"), max_bytes=1),
            grpc.StatusCode.INVALID_ARGUMENT,
            "max_bytes is not between",
        ),
        (
            pb.StartTraceRequest(trace=pb.Trace(name="a"), max_age="soon"),
            grpc.StatusCode.INVALID_ARGUMENT,
            "x-max-age",
        ),
        (
            pb.StartTraceRequest(trace=pb.Trace(name="a", vhost="no")),
            grpc.StatusCode.NOT_FOUND,
            "does not exist",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_and_declares_nothing(
    cluster: Served,
    stub: admin_pb2_grpc.AdminStub,
    request_: pb.StartTraceRequest,
    code: grpc.StatusCode,
    words: str,
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.StartTrace(request_)
    error: grpc.Call = caught.value  # type: ignore[assignment]
    assert error.code() is code
    assert words in str(error.details())
    assert not known(cluster).queues


def test_the_firehose_is_switched(cluster: Served, stub: admin_pb2_grpc.AdminStub) -> None:
    assert stub.SetFirehose(pb.SetFirehoseRequest(vhost="/", on=True)).changed
    assert not stub.SetFirehose(pb.SetFirehoseRequest(vhost="/", on=True)).changed
    assert list(stub.ListTraces(pb.ListTracesRequest()).firehose) == ["/"]
    assert stub.SetFirehose(pb.SetFirehoseRequest(vhost="/", on=False)).changed


def test_the_command_line_says_what_it_did(cluster: Served) -> None:
    place = ("--node", cluster.address("n1"))
    started = fedq("trace", "start", "all", "--sample", "10", *place)
    assert "trace all started: read stream fedq.trace.all in vhost /" in started.out
    assert "was running already" in fedq("trace", "start", "all", "--sample", "10", *place).out
    other = fedq("trace", "start", "all", *place)
    assert (other.exit_code, "stop it first" in other.err) == (1, True)
    assert "firehose of vhost / is on" in fedq("trace", "firehose", "on", *place).out
    listed = fedq("trace", "list", *place).out
    assert "fedq.trace.all" in listed
    assert "firehose on in: /" in listed
    assert "trace all stopped" in fedq("trace", "stop", "all", *place).out
    assert fedq("trace", "firehose", "maybe", *place).exit_code == 2
