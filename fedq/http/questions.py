"""Questions of the HTTP thread to the node: each is a coroutine that runs on the node's own loop.

In: something to await there. Out: its result here, or `HttpRefusal`. A few are under way at a time,
the others wait here, where they cost the node nothing. And they are paced: for what questions took
of the node's thread none begins for three times as long. So a quarter of its time is theirs at
most, however many tools ask, and how often. Changes of the cluster map have places of their own:
without a quorum each of them waits long, and questions go on.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fedq.admin.refusal import AdminError
from fedq.http.bounds import (
    HTTP_CHANGES_MAX,
    HTTP_NODE_PAUSE_MS,
    HTTP_NODE_PERCENT,
    HTTP_QUESTIONS_MAX,
)
from fedq.http.refusal import refusal_of, unavailable

Result = TypeVar("Result")


class NodeLoop:
    """The event loop of the node, as the thread of HTTP asks it. Belongs to that thread's loop."""

    __slots__ = ("_changes", "_free_at_s", "_node", "_room")

    def __init__(self, node: asyncio.AbstractEventLoop) -> None:
        self._node = node
        #: When the next question may begin; the node's thread sets it, and this one reads it.
        self._free_at_s = 0.0
        self._room = asyncio.Semaphore(HTTP_QUESTIONS_MAX)
        self._changes = asyncio.Semaphore(HTTP_CHANGES_MAX)

    async def ask(self, question: Callable[[], Awaitable[Result]]) -> Result:
        """The answer; `question` is called on the node's loop, between two of its turns."""
        return await self._ask(question, self._room)

    async def change(self, question: Callable[[], Awaitable[Result]]) -> Result:
        """The answer to what changes the cluster map."""
        return await self._ask(question, self._changes)

    async def _ask(
        self, question: Callable[[], Awaitable[Result]], room: asyncio.Semaphore
    ) -> Result:
        async with room:
            # Others may have begun meanwhile.
            while (wait_s := self._free_at_s - time.monotonic()) > 0:  # noqa: ASYNC110
                await asyncio.sleep(wait_s)
            asked = self._put(question)
            try:
                future = asyncio.run_coroutine_threadsafe(asked, self._node)
            except RuntimeError as error:
                asked.close()
                raise unavailable("the node has stopped: ask another one") from error
            try:
                return await asyncio.wrap_future(future)
            except AdminError as error:
                raise refusal_of(error) from error

    async def _put(self, question: Callable[[], Awaitable[Result]]) -> Result:
        """Asks, on the node's loop, and notes what it took of the node's thread."""
        before_s = time.thread_time()
        try:
            return await question()
        finally:
            # What the node did itself while others were asked counts, too, but not for long.
            took_s = (time.thread_time() - before_s) * (100 / HTTP_NODE_PERCENT - 1)
            now_s = time.monotonic()
            pause_s = min(took_s, HTTP_NODE_PAUSE_MS / 1_000)
            self._free_at_s = max(self._free_at_s, now_s) + pause_s

    async def look(self, look: Callable[[], Result]) -> Result:
        """What a look at the node finds, which waits for nobody."""

        async def once() -> Result:
            return look()

        return await self.ask(once)
