"""The service for tools that read streams (`protos/streams.proto`, docs/adr/0076).

Inputs: calls, each with a user and a password. Outputs: replies and chunks, or a gRPC status with
a sentence. It runs on the node's own event loop, as the admin service does, beside which it is.
"""

from collections.abc import Iterable
from contextlib import aclosing
from typing import Any, cast

import grpc.aio

from fedq.admin.calls import refuse
from fedq.admin.read_room import hand_over
from fedq.admin.refusal import AdminError
from fedq.admin.stream_answers import StreamAnswers
from fedq.admin.stream_logins import StreamLogins, caller_of
from fedq.shell.pb import streams_pb2 as pb
from fedq.shell.pb import streams_pb2_grpc

STREAMS_NAME: str = pb.DESCRIPTOR.services_by_name["Streams"].full_name


class StreamService(streams_pb2_grpc.StreamsServicer):
    """One node's service for readers of streams."""

    #: Members ask each other nothing of it.
    member_methods: frozenset[str] = frozenset()

    def __init__(self, answers: StreamAnswers, logins: StreamLogins) -> None:
        self._answers = answers
        self._logins = logins

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers with `server`, which must not have been started yet."""
        add = streams_pb2_grpc.add_StreamsServicer_to_server
        add(self, server)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Has nothing open."""

    async def _user(self, context: grpc.aio.ServicerContext[Any, Any]) -> str:
        """The caller's user; raises AdminError."""
        said = cast("Iterable[tuple[str, str | bytes]]", context.invocation_metadata() or ())
        return await self._logins.check(caller_of(said, context.peer()))

    # The generated base class gives the methods their names.
    # ruff: noqa: N802

    async def Describe(
        self,
        request: pb.DescribeRequest,
        context: grpc.aio.ServicerContext[pb.DescribeRequest, pb.DescribeReply],
    ) -> pb.DescribeReply:
        """The fragments of a stream."""
        try:
            return self._answers.describe(await self._user(context), request)
        except AdminError as refusal:
            await refuse(context, refusal)

    async def Read(
        self,
        request: pb.ReadRequest,
        context: grpc.aio.ServicerContext[pb.ReadRequest, pb.Chunk],
    ) -> None:
        """What is between two offsets of a fragment."""
        try:
            user = await self._user(context)
            async with aclosing(self._answers.read(user, request)) as chunks:
                async for chunk in chunks:
                    await hand_over(context, chunk)
        except AdminError as refusal:
            await refuse(context, refusal)
