"""Nodes that serve a stream by a script: the other side of every test of the client."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from fedq.core.message import encode, make_route
from fedq.pipeline.places import NodeUrl
from fedq.shell.pb import streams_pb2 as pb
from fedq.shell.pb import streams_pb2_grpc
from tests.pipeline.chunks import chunk_of

REFUSED = (("fedq-refusal", "1"),)


def message(number: int) -> bytes:
    return encode(1, make_route("", "k"), b"\0\0", b"%d" % number)


def chunk(begin: int, end: int, *, first: int = 0, following: int | None = None) -> pb.Chunk:
    """Rows from an offset up to before another one."""
    made = chunk_of([message(number) for number in range(begin, end)], range(begin, end))
    return pb.Chunk(
        ranges=[pb.OffsetRange(first=low, last=high) for low, high in made.ranges],
        times=[pb.CameAt(offset=begin, unix_ms=1_000)],
        lengths=made.lengths,
        data=made.data,
        data_bytes=len(made.data),
        first=first,
        next=end if following is None else following,
    )


class Refusal(Exception):
    """What a node answers instead of chunks."""

    def __init__(
        self, code: grpc.StatusCode, text: str, *, home: str = "", is_told: bool = True
    ) -> None:
        """`is_told`: by a node, not by what lies in between."""
        super().__init__(text)
        self.code = code
        self.metadata = REFUSED if is_told else ()
        if home:
            self.metadata = (*self.metadata, ("fedq-home", home))


class Node(streams_pb2_grpc.StreamsServicer):
    """A node: what it says of fragments, and what each call for rows hears."""

    def __init__(self, name: str) -> None:
        self.name = name
        #: By number: who serves it, and what is there if this node does.
        self.fragments: dict[int, tuple[str, pb.Served | None]] = {}
        self.describes: Refusal | None = None
        #: For each call to come: chunks, and then perhaps a refusal.
        self.script: list[list[pb.Chunk | Refusal]] = []
        self.asked: list[tuple[int, int, int]] = []
        #: What each call wanted.
        self.routes: list[pb.Routes] = []
        self.metadata: list[Mapping[str, object]] = []
        self.url = NodeUrl("127.0.0.1", 0, "robot", "secret", False)

    def Describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeReply:
        self.metadata.append(dict(context.invocation_metadata()))
        if self.describes is not None:
            _refuse(context, self.describes)
        told = [
            pb.Fragment(number=number, home=home, served=served)
            for number, (home, served) in self.fragments.items()
        ]
        return pb.DescribeReply(node=self.name, fragments=told)

    def Read(self, request: pb.ReadRequest, context: Any) -> Iterator[pb.Chunk]:
        self.asked.append((request.fragment, request.begin, request.end))
        self.routes.append(request.routes)
        for each in self.script.pop(0):
            if isinstance(each, Refusal):
                _refuse(context, each)
            else:
                yield each


def _refuse(context: Any, refusal: Refusal) -> None:
    context.set_trailing_metadata(refusal.metadata)
    context.abort(refusal.code, str(refusal))


@contextmanager
def serving(*nodes: Node, tls: grpc.ServerCredentials | None = None) -> Iterator[None]:
    """Serves the nodes while the block runs."""
    pools = [ThreadPoolExecutor(4) for _ in nodes]
    servers = [grpc.server(pool) for pool in pools]
    try:
        for node, server in zip(nodes, servers, strict=True):
            add = streams_pb2_grpc.add_StreamsServicer_to_server
            add(node, server)  # type: ignore[no-untyped-call]
            if tls is None:
                port = server.add_insecure_port("127.0.0.1:0")
            else:
                port = server.add_secure_port("127.0.0.1:0", tls)
            node.url = NodeUrl("127.0.0.1", port, "robot", "secret", tls is not None)
            server.start()
        yield
    finally:
        for server, pool in zip(servers, pools, strict=True):
            server.stop(None).wait()
            pool.shutdown()
