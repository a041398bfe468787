"""Messages of each virtual host, added up over its queues: once for all who ask.

Input: the node's answers about all queues, some at a time. Output: sums, which stand for a moment
that is in proportion to what they took: many who look, or often, cost the node one walk, and a
quarter of the time at most. With a part missing there is no sum.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from fedq.admin.cluster_answers import ClusterAnswers
from fedq.core.ids import QueueKey
from fedq.http.bounds import HTTP_QUEUES_AT_ONCE, HTTP_TOTALS_FRESH_S, HTTP_TOTALS_FRESH_TIMES
from fedq.http.questions import NodeLoop
from fedq.http.serving.exchange import Row
from fedq.node.views.overview_types import Overview
from fedq.shell.pb import admin_pb2 as pb

#: How long the other members may take to answer a question.
ASK_S: Final = 1.0
NAMES: Final = ("messages", "messages_ready", "messages_unacknowledged")


async def gather(
    node: NodeLoop, cluster: ClusterAnswers, keys: Sequence[QueueKey]
) -> list[pb.Queue]:
    """The queues of some keys that are still there, put together from what all members say."""
    found: list[pb.Queue] = []
    for start in range(0, len(keys), HTTP_QUEUES_AT_ONCE):
        part = keys[start : start + HTTP_QUEUES_AT_ONCE]
        found += await node.ask(partial(cluster.queues, part, ASK_S))
    return found


class Totals:
    """Sums of messages by virtual host. Belongs to one event loop."""

    __slots__ = ("_cluster", "_found", "_loop", "_node", "_overview", "_until_s", "_walk")

    def __init__(self, node: NodeLoop, overview: Overview, cluster: ClusterAnswers) -> None:
        self._node = node
        self._overview = overview
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._found: dict[str, Row] = {}
        self._until_s = float("-inf")
        self._walk: asyncio.Task[dict[str, Row]] | None = None

    async def by_vhost(self) -> Mapping[str, Row]:
        """The sums of each virtual host that has queues: a column for each that is known."""
        if self._loop.time() < self._until_s:
            return self._found
        if self._walk is None:
            self._walk = self._loop.create_task(self._gather())
        # Whoever asked first may hang up, and the others wait on.
        return await asyncio.shield(self._walk)

    async def _gather(self) -> dict[str, Row]:
        began_s = self._loop.time()
        try:
            keys = await self._node.look(self._overview.queue_names)
            found: dict[str, Row] = {}
            for start in range(0, len(keys), HTTP_QUEUES_AT_ONCE):
                part = keys[start : start + HTTP_QUEUES_AT_ONCE]
                for queue in await gather(self._node, self._cluster, part):
                    _add(found.setdefault(queue.vhost, dict.fromkeys(NAMES, 0)), queue)
            self._found = found
            ended_s = self._loop.time()
            fresh_s = max(HTTP_TOTALS_FRESH_S, HTTP_TOTALS_FRESH_TIMES * (ended_s - began_s))
            self._until_s = ended_s + fresh_s
            return found
        finally:
            self._walk = None


def _add(row: Row, queue: pb.Queue) -> None:
    if not queue.HasField("ready"):
        row.clear()
    elif row:
        row["messages_ready"] += queue.ready
        row["messages_unacknowledged"] += queue.unacknowledged
        row["messages"] += queue.ready + queue.unacknowledged


def sum_of(rows: Iterable[Row]) -> Row:
    """The sums of several virtual hosts together."""
    found = list(rows)
    return {name: sum(row[name] for row in found) for name in NAMES if all(found)}
