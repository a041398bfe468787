"""A dialing stream ends when it is told to, whatever gRPC is doing at that moment."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

import grpc.aio
import pytest

from fedq.core.ids import Incarnation, NodeId
from fedq.shell.peers.channel import LINK_METHOD, open_channel
from fedq.shell.peers.desk import PeerDesk
from fedq.shell.peers.hello import Hello, Process
from fedq.shell.peers.stream import PeerStream
from tests.unit.shell.fakes import run

Context = grpc.aio.ServicerContext[bytes, bytes]
Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"

STREAMS = 6
ROUNDS = 10


async def refuse(_: AsyncIterator[bytes], context: Context) -> None:
    await context.abort(grpc.StatusCode.ALREADY_EXISTS, "another process has this name")


class Refusing(grpc.GenericRpcHandler):
    """A peer that lets nobody in."""

    def service(self, _: grpc.HandlerCallDetails) -> Handler:
        handler: Handler = grpc.stream_stream_rpc_method_handler(refuse)
        return handler


async def nothing() -> None:
    """What is to be done when the stream is down: here, nothing."""


async def not_ended(steps: int, channel: grpc.aio.Channel) -> int:
    """How many streams go on after all were cancelled, so many steps after the first refusal."""
    refused = asyncio.Event()
    hello = Hello(NodeId("a"), Process(Incarnation(1), "s", 1), {})
    desk = PeerDesk(hello, 1.0, asyncio.get_running_loop().time, lambda *_: None)
    tasks = [
        asyncio.create_task(
            PeerStream(
                lambda: channel, LINK_METHOD, desk, NodeId("b"), lambda _: None, nothing,
                lambda _: refused.set(),
            ).serve()
        )
        for _ in range(STREAMS)
    ]  # fmt: skip
    await refused.wait()
    for _ in range(steps):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    # Longer than the pause between two attempts: whoever has lost its cancellation goes on.
    _, pending = await asyncio.wait(tasks, timeout=2)
    for task in pending:
        task.cancel()
    return len(pending)


@pytest.mark.parametrize("steps", range(8))
def test_streams_end_that_are_cancelled_while_they_are_refused(steps: int) -> None:
    async def play() -> None:
        server = grpc.aio.server()
        server.add_generic_rpc_handlers([Refusing()])
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        channel = open_channel(f"127.0.0.1:{port}", None)
        try:
            assert [await not_ended(steps, channel) for _ in range(ROUNDS)] == [0] * ROUNDS
        finally:
            await channel.close()
            await server.stop(None)

    run(play())
