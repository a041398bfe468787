"""Questions of the HTTP thread to the node: each is a coroutine that runs on the node's own loop.

In: something to await there. Out: its result here, or `HttpRefusal`. A few are under way at a time,
the others wait here, where they cost the node nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fedq.admin.refusal import AdminError
from fedq.http.bounds import HTTP_QUESTIONS_MAX
from fedq.http.refusal import refusal_of, unavailable

Result = TypeVar("Result")


class NodeLoop:
    """The event loop of the node, as the thread of HTTP asks it. Belongs to that thread's loop."""

    __slots__ = ("_node", "_room")

    def __init__(self, node: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._room = asyncio.Semaphore(HTTP_QUESTIONS_MAX)

    async def ask(self, question: Callable[[], Awaitable[Result]]) -> Result:
        """The answer; `question` is called on the node's loop, between two of its turns."""
        async with self._room:
            asked = _put(question)
            try:
                future = asyncio.run_coroutine_threadsafe(asked, self._node)
            except RuntimeError as error:
                asked.close()
                raise unavailable("the node has stopped: ask another one") from error
            try:
                return await asyncio.wrap_future(future)
            except AdminError as error:
                raise refusal_of(error) from error

    async def look(self, look: Callable[[], Result]) -> Result:
        """What a look at the node finds, which waits for nobody."""

        async def once() -> Result:
            return look()

        return await self.ask(once)


async def _put(question: Callable[[], Awaitable[Result]]) -> Result:
    return await question()
