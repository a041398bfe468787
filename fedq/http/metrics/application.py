"""What the listener for Prometheus answers: two pages of metrics, and two probes.

Input: requests. Output: pages, written once for all who ask. Each stands for a second, or for three
times as long as it took if that is longer: many who ask at once, or often, cost the node and this
thread a part of their time. Nobody logs in, as at RabbitMQ's port for metrics.

The probes are those of container managers: `/live` answers as long as the node's event loop turns,
also while the node waits for a majority, which a restart would not bring; `/ready` is refused (503)
while new clients should go elsewhere.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from fedq.http.bounds import METRICS_FRESH_S, METRICS_FRESH_TIMES
from fedq.http.metrics import page
from fedq.http.metrics.samples import Sources, scrape
from fedq.http.questions import NodeLoop
from fedq.http.refusal import HttpRefusal, not_there, unavailable
from fedq.http.serving.exchange import Answer, Request, json_answer
from fedq.node.views.overview_types import Readiness

_PATHS: Final = {("metrics",): False, ("metrics", "per-object"): True}
#: Whether only a node that serves is answered with 200.
_PROBES: Final[dict[tuple[str, ...], bool]] = {("live",): False, ("ready",): True}


class _Page:
    """A page as it was written last, and the one under way."""

    __slots__ = ("parts", "under_way")

    def __init__(self) -> None:
        #: None: what there was is too old.
        self.parts: list[bytes] | None = None
        self.under_way: asyncio.Task[list[bytes]] | None = None

    def forget(self) -> None:
        """Lets go of the page; whoever is sent it has it still."""
        self.parts = None


class MetricsApplication:
    """The pages of metrics. Belongs to one event loop."""

    __slots__ = ("_loop", "_node", "_pages", "_sources")

    def __init__(self, node: NodeLoop, sources: Sources) -> None:
        self._node = node
        self._sources = sources
        self._loop = asyncio.get_running_loop()
        self._pages = {by_object: _Page() for by_object in (False, True)}

    async def __call__(self, request: Request) -> Answer:
        """Answers a request."""
        by_object = _PATHS.get(request.segments)
        must_serve = _PROBES.get(request.segments)
        if by_object is None and must_serve is None:
            raise not_there()
        if request.method not in ("GET", "HEAD"):
            allowed = (("allow", "GET, HEAD"),)
            raise HttpRefusal(405, "method_not_allowed", "metrics are only read", allowed)
        if by_object is None:
            return await self._probed(must_serve=bool(must_serve))
        parts = await self._written(by_object=by_object)
        if not by_object:
            return Answer(body=parts[0], kind=page.CONTENT_TYPE)
        return Answer(kind=page.CONTENT_TYPE, parts=_sent(parts))

    async def _probed(self, *, must_serve: bool) -> Answer:
        overview = self._sources.overview
        found, (name, _) = await self._node.look(lambda: (overview.readiness(), overview.process()))
        if must_serve and found is not Readiness.READY:
            raise unavailable(f"{name} {found.value}")
        return json_answer({"node": name, "status": found.value})

    async def _written(self, *, by_object: bool) -> list[bytes]:
        kept = self._pages[by_object]
        if kept.parts is not None:
            return kept.parts
        if kept.under_way is None:
            kept.under_way = self._loop.create_task(self._write(kept, by_object=by_object))
        # Whoever asked first may hang up, and the others wait on.
        return await asyncio.shield(kept.under_way)

    async def _write(self, kept: _Page, *, by_object: bool) -> list[bytes]:
        began_s = self._loop.time()
        try:
            samples = await scrape(self._node, self._sources, by_object=by_object)
            parts: list[bytes] = []
            if by_object:
                for part in page.by_object(samples):
                    parts.append(part)
                    await asyncio.sleep(0)
            else:
                parts.append(page.aggregated(samples))
        finally:
            kept.under_way = None
        kept.parts = parts
        took_s = self._loop.time() - began_s
        self._loop.call_later(max(METRICS_FRESH_S, METRICS_FRESH_TIMES * took_s), kept.forget)
        return parts


async def _sent(parts: list[bytes]) -> AsyncIterator[bytes]:
    """The parts of a page, with room for the thread's other work in between."""
    for part in parts:
        yield part
        await asyncio.sleep(0)
