"""What the listener for Prometheus answers: two pages, each of them at most once a second.

Input: requests. Output: pages, from a scrape that stands for a moment: many who ask at once, or
often, cost the node one scrape. Nobody logs in, as at RabbitMQ's port for metrics.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Final

from fedq.http.bounds import METRICS_FRESH_S
from fedq.http.metrics import page
from fedq.http.metrics.samples import Samples, Sources, scrape
from fedq.http.questions import NodeLoop
from fedq.http.refusal import HttpRefusal, not_there
from fedq.http.serving.exchange import Answer, Request

_PATHS: Final = {("metrics",): False, ("metrics", "per-object"): True}


class _Kept:
    """The last scrape of a kind, and the one under way."""

    __slots__ = ("at_s", "samples", "under_way")

    def __init__(self) -> None:
        self.at_s = float("-inf")
        self.samples: Samples | None = None
        self.under_way: asyncio.Task[Samples] | None = None


class MetricsApplication:
    """The pages of metrics. Belongs to one event loop."""

    __slots__ = ("_kept", "_loop", "_node", "_sources")

    def __init__(self, node: NodeLoop, sources: Sources) -> None:
        self._node = node
        self._sources = sources
        self._loop = asyncio.get_running_loop()
        self._kept = {by_object: _Kept() for by_object in (False, True)}

    async def __call__(self, request: Request) -> Answer:
        """Answers a request."""
        by_object = _PATHS.get(request.segments)
        if by_object is None:
            raise not_there()
        if request.method not in ("GET", "HEAD"):
            allowed = (("allow", "GET, HEAD"),)
            raise HttpRefusal(405, "method_not_allowed", "metrics are only read", allowed)
        samples = await self._samples(by_object=by_object)
        if not by_object:
            return Answer(body=page.aggregated(samples), kind=page.CONTENT_TYPE)
        return Answer(kind=page.CONTENT_TYPE, parts=_parts(page.by_object(samples)))

    async def _samples(self, *, by_object: bool) -> Samples:
        kept = self._kept[by_object]
        if kept.samples is not None and self._loop.time() - kept.at_s < METRICS_FRESH_S:
            return kept.samples
        if kept.under_way is None:
            kept.under_way = self._loop.create_task(self._scrape(kept, by_object=by_object))
        # Whoever asked first may hang up, and the others wait on.
        return await asyncio.shield(kept.under_way)

    async def _scrape(self, kept: _Kept, *, by_object: bool) -> Samples:
        try:
            kept.samples = await scrape(self._node, self._sources, by_object=by_object)
            kept.at_s = self._loop.time()
            return kept.samples
        finally:
            kept.under_way = None


async def _parts(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The parts of a page, with room for the thread's other work in between."""
    for part in parts:
        yield part
        await asyncio.sleep(0)
