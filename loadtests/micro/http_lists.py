"""Claim: a page of the HTTP API's list of 50,000 queues takes at most 0.3 s of processor time.

In the thread of HTTP and in the node together, with the answers of a real node's views but no
clients: all that is done to the map is a copy of its keys. Whatever is sorted or matched is done in
slices; the longest one is the second figure, since the interpreter's lock is held for as long.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import cache
from typing import Any

from fedq.admin.merge import QueueMerger
from fedq.core.ids import Epoch, FragmentId, NodeId, QueueKey
from fedq.http.api import shapes
from fedq.http.api.lists import Listing, list_answer
from fedq.http.api.rates import Rates
from fedq.http.serving.exchange import Row
from fedq.node.views.overview_types import FragmentOverview, QueueOverview
from fedq.wiring.cluster_map.policy_book import NO_STANDING
from loadtests.micro.timing import Case

QUEUES = 50_000
SHOWN = 500


@cache
def names() -> list[QueueKey]:
    """Names as applications give them, in no order."""
    return [QueueKey("/", f"orders.{number * 7_919 % QUEUES:05}.work") for number in range(QUEUES)]


async def _rows(keys: Sequence[QueueKey]) -> list[Row]:
    merger, one, rates = QueueMerger([], {}), NodeId("n1"), Rates(time.monotonic)
    found = []
    for key in keys:
        fragment = FragmentOverview(FragmentId(1), one, (), (one,), Epoch(1), 1)
        queue = QueueOverview(key, True, False, "{}", 1, (fragment,))
        found.append(shapes.queue(merger.merge(queue, NO_STANDING), rates))
    return found


def listing() -> Listing[QueueKey]:
    """All queues, as `fedq.http.api.gathering` lists them."""
    return Listing(
        list(names()), _rows, lambda key: key.name, lambda key: key,
        {"name": lambda key: key.name},
    )  # fmt: skip


def page(**query: str) -> Callable[[], object]:
    """Makes one page, as the thread does."""

    async def made() -> object:
        return await list_answer(listing(), {"page": "1", "page_size": str(SHOWN), **query})

    return lambda: asyncio.run(made())


def longest_ms(made: Coroutine[Any, Any, object]) -> float:
    """The longest step of what an event loop does for one request, in milliseconds."""
    longest_s = 0.0

    async def watched() -> None:
        nonlocal longest_s
        task = asyncio.ensure_future(made)
        while not task.done():
            began_s = time.thread_time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, time.thread_time() - began_s)
        await task

    asyncio.run(watched())
    return longest_s * 1e3


CASES = [
    Case("HTTP: a page of 50,000 queues", 1, page()),
    Case("HTTP: a page of 50,000 queues, sorted by name", 1, page(sort="name")),
    Case("HTTP: a page of 50,000 queues, some text in the name", 1, page(name="999")),
    Case(
        "HTTP: a page of 50,000 queues, a pattern", 1,
        page(name="^orders\\.[0-4].*k$", use_regex="true"),
    ),
]  # fmt: skip

if __name__ == "__main__":
    for case in CASES:
        case.run()
    query = {"page": "1", "page_size": str(SHOWN)}
    print(f"longest step: {longest_ms(list_answer(listing(), query)):.1f} ms")  # noqa: T201
