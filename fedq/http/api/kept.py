"""An answer that is worked out once for all who ask, and stands for a moment.

In: a question that costs the node something. Out: its answer, as it was not long ago. It stands in
proportion to what it took: many who look, or often, cost the node a part of its time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from fedq.http.bounds import HTTP_TOTALS_FRESH_S, HTTP_TOTALS_FRESH_TIMES

Result = TypeVar("Result")


class Kept(Generic[Result]):
    """One such answer. Belongs to one event loop."""

    __slots__ = ("_found", "_fresh_s", "_loop", "_question", "_under_way", "_until_s")

    def __init__(
        self, question: Callable[[], Awaitable[Result]], fresh_s: float = HTTP_TOTALS_FRESH_S
    ) -> None:
        """`fresh_s`: how long an answer stands at least."""
        self._question = question
        self._fresh_s = fresh_s
        self._loop = asyncio.get_running_loop()
        self._found: Result | None = None
        self._until_s = float("-inf")
        self._under_way: asyncio.Task[Result] | None = None

    async def get(self) -> Result:
        """The answer."""
        if self._found is not None and self._loop.time() < self._until_s:
            return self._found
        if self._under_way is None:
            self._under_way = self._loop.create_task(self._ask())
        # Whoever asked first may hang up, and the others wait on.
        return await asyncio.shield(self._under_way)

    async def _ask(self) -> Result:
        began_s = self._loop.time()
        try:
            found = await self._question()
        finally:
            self._under_way = None
        ended_s = self._loop.time()
        self._found = found
        took_s = ended_s - began_s
        self._until_s = ended_s + max(self._fresh_s, HTTP_TOTALS_FRESH_TIMES * took_s)
        return found
