"""Lets questions in one by one, so that what clients send comes between any two of them.

In: calls of people, tools and members. Out: the same, one in each pass of the event loop. A page of
a list takes milliseconds; gRPC hands over whatever has come, and a pass that answers two hundred
questions is one in which no client is heard.

Invariant: who came first goes in first; who has given up takes nobody's turn.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio

_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
_Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[_Handler | None]]"


class Turnstile(grpc.aio.ServerInterceptor):
    """Lets questions in one by one. Belongs to one event loop, for all of its servers."""

    def __init__(self, free: str) -> None:
        """`free`: how methods begin that are no questions, and pass as they come."""
        self._free = free
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> "_Handler | None":
        """Finds the handler of a call when no other call is before it."""
        if not handler_call_details.method.startswith(self._free):
            await self.enter()
        return await continuation(handler_call_details)

    async def enter(self) -> None:
        """Returns in a pass of the event loop of its own."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) == 1:
            loop.call_soon(self._let_in, loop)
        await turn

    def _let_in(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        # The last one that was let in kept its place until now, or its caller has gone.
        while waiting and waiting[0].done():
            waiting.popleft()
        if waiting:
            waiting[0].set_result(None)
            loop.call_soon(self._let_in, loop)
