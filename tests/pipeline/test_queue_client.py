"""The client of queues: what it asks of nodes that may know its name from earlier runs."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from fedq.fragments.singly.queue_readers import QueueReaders
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.queue_client import QueueClient
from fedq.pipeline.queue_options import QueueOptions, read_queue_options
from fedq.shell.pb import queue_readers_pb2 as pb
from fedq.shell.pb import queue_readers_pb2_grpc
from tests.pipeline.nodes import REFUSED


class Node(queue_readers_pb2_grpc.QueueReadersServicer):
    """A node with two fragments of a queue, each with messages without end."""

    def __init__(self) -> None:
        self.readers = {1: QueueReaders({}), 2: QueueReaders({})}
        self.settled: list[tuple[int, int]] = []
        self.port = 0

    def _claim(self, request: Any, context: Any, *, begins: bool) -> None:
        if not self.readers[request.fragment].claim(request.reader, request.instance, begins):
            context.set_trailing_metadata(REFUSED)
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "another reader is at it")

    def Describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeReply:
        fragments = [pb.Fragment(fragment=n, home="a", served=True, ready=1) for n in self.readers]
        return pb.DescribeReply(node="a", fragments=fragments)

    def Reserve(self, request: pb.ReserveRequest, context: Any) -> pb.ReserveReply:
        self._claim(request, context, begins=request.begins)
        return pb.ReserveReply(through=request.after + 1, messages=1)

    def Settle(self, request: pb.SettleRequest, context: Any) -> pb.SettleReply:
        self._claim(request, context, begins=False)
        self.settled.append((request.fragment, request.through))
        return pb.SettleReply(messages=1)


@pytest.fixture
def node() -> Iterator[Node]:
    found = Node()
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        add = queue_readers_pb2_grpc.add_QueueReadersServicer_to_server
        add(found, server)  # type: ignore[no-untyped-call]
        found.port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield found
        finally:
            server.stop(None).wait()


def options(node: Node) -> QueueOptions:
    url = f"fedq://robot:secret@127.0.0.1:{node.port}"
    given = {"url": url, "queue": "jobs", "readerName": "nightly", "retryTimeout": "5s"}
    return read_queue_options(given, is_streaming=True)


def test_a_run_settles_where_it_has_begun_and_leaves_the_rest_to_the_next_reservation(
    node: Node,
) -> None:
    with QueueClient(options(node), "yesterday") as before:
        assert [before.reserve(number, 0, 10) for number in (1, 2)] == [(1, 1), (1, 1)]
    with QueueClient(options(node), "today") as client:
        # There is nothing in the other fragment, so it is not asked for more; Spark commits both.
        assert client.reserve(1, 1, 10) == (2, 1)
        client.settle(1, 2)
        client.settle(2, 1)
        assert node.settled == [(1, 2)]
        assert client.reserve(2, 1, 10) == (2, 1)
        client.settle(2, 2)
        assert node.settled == [(1, 2), (2, 2)]
        with pytest.raises(PipelineError, match="another reader is at it"):
            before.reserve(1, 1, 10)
        before.close()
