"""The client of queues: what it asks of nodes that may know its name from earlier runs."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from fedq.fragments.singly.queue_readers import QueueReaders
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.queue_client import QueueClient, Reserved
from fedq.pipeline.queue_options import QueueOptions, read_queue_options
from fedq.shell.pb import queue_readers_pb2 as pb
from fedq.shell.pb import queue_readers_pb2_grpc
from tests.pipeline.nodes import REFUSED


class Node(queue_readers_pb2_grpc.QueueReadersServicer):
    """A node with two fragments of a queue, each with messages without end."""

    def __init__(self) -> None:
        self.readers = {1: QueueReaders({}), 2: QueueReaders({})}
        self.settled: list[tuple[int, int]] = []
        #: The next call hears that it is too early, and its fragment is gone.
        self.refuses_first = False
        self.port = 0

    def _claim(self, request: Any, context: Any, *, begins: bool) -> None:
        if self.refuses_first:
            self.refuses_first = False
            self.retire(request.fragment)
            context.set_trailing_metadata(REFUSED)
            context.abort(grpc.StatusCode.UNAVAILABLE, "not at hand yet")
        self._find(request, context)
        if not self.readers[request.fragment].claim(request.reader, request.instance, begins):
            context.set_trailing_metadata(REFUSED)
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "another reader is at it")

    def _find(self, request: Any, context: Any) -> None:
        if request.fragment not in self.readers:
            context.set_trailing_metadata((*REFUSED, ("fedq-gone", "1")))
            text = f"the queue has no fragment {request.fragment}"
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)

    def retire(self, fragment: int) -> None:
        """Has the queue without a fragment."""
        del self.readers[fragment]

    def Describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeReply:
        fragments = [pb.Fragment(fragment=n, home="a", served=True, ready=1) for n in self.readers]
        return pb.DescribeReply(node="a", fragments=fragments)

    def Reserve(self, request: pb.ReserveRequest, context: Any) -> pb.ReserveReply:
        self._claim(request, context, begins=request.begins)
        return pb.ReserveReply(through=request.after + 1, messages=1)

    def Read(self, request: pb.ReadRequest, context: Any) -> Iterator[pb.Part]:
        self._find(request, context)
        yield pb.Part()

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


@pytest.mark.parametrize("waits", [False, True])
def test_a_fragment_that_is_retired_meanwhile_has_nothing_more(node: Node, waits: bool) -> None:
    with QueueClient(options(node), "today") as client:
        assert len(client.describe()) == 2
        assert client.reserve(2, 0, 10) == (1, 1)
        # It is empty by then; others are asked to keep quiet about it first.
        node.refuses_first = waits
        if not waits:
            node.retire(2)
        assert client.reserve(2, 1, 10) == (1, 0)
        client.settle(2, 1)
        assert node.settled == []
        # What is to be read again must be there.
        with pytest.raises(PipelineError, match="no fragment 2"):
            list(client.read(Reserved(2, 0, 1)))
        assert client.reserve(1, 0, 10) == (1, 1)
