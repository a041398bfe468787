"""Messages of each virtual host, added up over its queues: once for all who ask.

Input: the node's answers about all queues, some at a time. Output: sums, which stand for a moment
(`fedq.http.api.kept`). With a part missing there is no sum.
"""

import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from fedq.admin.cluster_answers import ClusterAnswers
from fedq.core.ids import QueueKey
from fedq.http.api.kept import Kept
from fedq.http.api.rates import Rates
from fedq.http.bounds import HTTP_QUEUES_AT_ONCE, HTTP_STATUS_FRESH_S
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
    """What is worked out once for all who ask. Belongs to one event loop."""

    __slots__ = ("_cluster", "_node", "_overview", "rates", "status", "sums")

    def __init__(self, node: NodeLoop, overview: Overview, cluster: ClusterAnswers) -> None:
        self._node = node
        self._overview = overview
        self._cluster = cluster
        #: What counters showed when somebody looked.
        self.rates = Rates(time.monotonic)
        #: The cluster at a glance, with what is wrong.
        self.status = Kept(lambda: node.ask(lambda: cluster.status(ASK_S)), HTTP_STATUS_FRESH_S)
        #: Of each virtual host that has queues: a column for each sum that is known.
        self.sums = Kept(self._gather)

    async def _gather(self) -> dict[str, Row]:
        keys = await self._node.look(self._overview.queue_names)
        found: dict[str, Row] = {}
        for start in range(0, len(keys), HTTP_QUEUES_AT_ONCE):
            part = keys[start : start + HTTP_QUEUES_AT_ONCE]
            for queue in await gather(self._node, self._cluster, part):
                _add(found.setdefault(queue.vhost, dict.fromkeys(NAMES, 0)), queue)
        return found


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
