"""The service for readers of queues (`protos/queue_readers.proto`, docs/adr/0107).

Inputs: calls, each with a user and a password. Outputs: replies and parts, or a gRPC status with
a sentence. It runs on the node's own event loop, beside the service for streams.
"""

from collections.abc import Iterable
from contextlib import aclosing
from typing import Any, cast

import grpc.aio

from fedq.admin.calls import refuse, reply
from fedq.admin.queue_reader_answers import QueueReaderAnswers
from fedq.admin.read_room import hand_over
from fedq.admin.refusal import AdminError
from fedq.admin.stream_logins import StreamLogins, caller_of
from fedq.shell.pb import queue_readers_pb2 as pb
from fedq.shell.pb import queue_readers_pb2_grpc

QUEUE_READERS_NAME: str = pb.DESCRIPTOR.services_by_name["QueueReaders"].full_name


class QueueReaderService(queue_readers_pb2_grpc.QueueReadersServicer):
    """One node's service for readers of queues."""

    #: Members ask each other nothing of it.
    member_methods: frozenset[str] = frozenset()

    def __init__(self, answers: QueueReaderAnswers, logins: StreamLogins) -> None:
        self._answers = answers
        self._logins = logins

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers with `server`, which must not have been started yet."""
        add = queue_readers_pb2_grpc.add_QueueReadersServicer_to_server
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
        """The fragments of a queue."""
        try:
            return self._answers.describe(await self._user(context), request)
        except AdminError as refusal:
            await refuse(context, refusal)

    async def Reserve(
        self,
        request: pb.ReserveRequest,
        context: grpc.aio.ServicerContext[pb.ReserveRequest, pb.ReserveReply],
    ) -> pb.ReserveReply:
        """The next batch of a fragment."""
        user = await reply(context, self._user(context))
        return await reply(context, self._answers.reserve(user, request))

    async def Settle(
        self,
        request: pb.SettleRequest,
        context: grpc.aio.ServicerContext[pb.SettleRequest, pb.SettleReply],
    ) -> pb.SettleReply:
        """Lets batches leave the queue."""
        user = await reply(context, self._user(context))
        return await reply(context, self._answers.settle(user, request))

    async def Read(
        self,
        request: pb.ReadRequest,
        context: grpc.aio.ServicerContext[pb.ReadRequest, pb.Part],
    ) -> None:
        """What is reserved, of some batches."""
        try:
            user = await self._user(context)
            async with aclosing(self._answers.read(user, request)) as parts:
                async for part in parts:
                    await hand_over(context, part)
        except AdminError as refusal:
            await refuse(context, refusal)
