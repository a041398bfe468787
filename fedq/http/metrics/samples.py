"""What one scrape finds: figures of the node, its process, its queues, connections and channels.

Input: the node's views, asked on its own loop, some queues at a time. Output: plain values, which
`fedq.http.metrics.table` names. What a scrape finds stands for a moment: many who ask are one.
"""

import os
import resource
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from fedq import __version__
from fedq.core.ids import QueueKey
from fedq.http.bounds import METRIC_OBJECTS_MAX, METRICS_PER_TURN
from fedq.http.questions import NodeLoop
from fedq.node.views.metric_view import MetricOverview, QueueFigures
from fedq.node.views.overview_types import (
    ChannelOverview,
    ClientPage,
    ClientPlace,
    ConnectionOverview,
    NodeOverview,
    Overview,
)
from fedq.shell.durations import BOUNDS_US, Durations, NodeDurations
from fedq.shell.host.resources import resident_bytes
from fedq.shell.raft.status import RaftStanding

Thing = TypeVar("Thing")
Figures = TypeVar("Figures")


@dataclass(slots=True)
class QueueSums:
    """A queue on this node, or all of them together."""

    ready: int = 0
    unacknowledged: int = 0
    size: int = 0
    stowed: int = 0
    stowed_bytes: int = 0
    memory_bytes: int = 0
    consumers: int = 0
    uncommitted: int = 0
    short: int = 0
    fragments: int = 0

    def add(self, each: QueueFigures) -> None:
        """Adds a fragment, or an exclusive queue."""
        self.ready += each.ready
        self.unacknowledged += each.unacknowledged
        self.size += each.size
        self.stowed += each.stowed
        self.stowed_bytes += each.stowed_bytes
        self.memory_bytes += each.memory_bytes
        self.consumers += each.consumers
        self.uncommitted += each.uncommitted
        self.short += each.is_short
        self.fragments += 1


@dataclass(slots=True)
class ChannelSums:
    """All channels together, and their connections."""

    channels: int = 0
    consumers: int = 0
    unacknowledged: int = 0
    unconfirmed: int = 0
    uncommitted: int = 0
    acks_uncommitted: int = 0
    prefetch_global: int = 0

    def add(self, each: ChannelOverview) -> None:
        """Adds a channel."""
        self.channels += 1
        self.consumers += each.consumers
        self.unacknowledged += each.unacknowledged
        self.unconfirmed += each.unconfirmed
        self.uncommitted += each.uncommitted
        self.acks_uncommitted += each.acks_uncommitted
        self.prefetch_global += each.prefetch_global


class Process(NamedTuple):
    """The node's process, as the system counts it."""

    open_fds: int
    max_fds: int
    resident_bytes: int
    cpu_s: float


class Histogram(NamedTuple):
    """What something took: how many took no longer than each bound, in seconds."""

    buckets: tuple[tuple[str, int], ...]
    total_s: float
    longest_s: float


class Measured(NamedTuple):
    """What is measured of the node, as `NodeDurations` has it."""

    turns: Histogram
    late: Histogram
    syncs: Histogram


@dataclass(slots=True)
class Samples:
    """One scrape."""

    node: NodeOverview
    took: Measured
    raft: RaftStanding
    process: Process
    members_up: int
    members: int
    backups: int
    version: str = __version__
    #: Over all queues on this node; and each, on the page by object.
    total: QueueSums = field(default_factory=QueueSums)
    queues: dict[QueueKey, QueueSums] = field(default_factory=dict)
    #: Queues of which something is served here; one in several fragments is one.
    served: dict[QueueKey, None] = field(default_factory=dict)
    connections: list[ConnectionOverview] = field(default_factory=list)
    channels: list[ChannelOverview] = field(default_factory=list)
    channel_total: ChannelSums = field(default_factory=ChannelSums)
    #: What had no room on the page: queues, each once; and clients.
    queues_left_out: dict[QueueKey, None] = field(default_factory=dict)
    clients_left_out: int = 0

    @property
    def left_out(self) -> int:
        """How many objects had no room on the page."""
        return len(self.queues_left_out) + self.clients_left_out


class Sources(NamedTuple):
    """Where a scrape looks."""

    overview: Overview
    metrics: MetricOverview
    durations: NodeDurations
    raft: Callable[[], RaftStanding]


async def scrape(loop: NodeLoop, sources: Sources, *, by_object: bool) -> Samples:
    """Looks at everything once; `by_object`: keeps what each queue and client has."""
    overview, metrics = sources.overview, sources.metrics
    node, members, backups, took, raft = await loop.look(
        lambda: (
            overview.node(), metrics.members_up(), metrics.backups(), _measured(sources.durations),
            sources.raft(),
        )
    )  # fmt: skip
    found = Samples(node, took, raft, _process(), *members, backups)
    for each in await _all(loop, metrics.fragments, metrics.fragment_figures):
        _add(found, each, by_object=by_object)
    for each in await _all(loop, metrics.private_queues, metrics.private_figures):
        _add(found, each, by_object=by_object)
    for key, consumers in await _all(loop, metrics.consumed, metrics.consumers):
        found.total.consumers += consumers
        if by_object and (sums := _sums_of(found, key)) is not None:
            sums.consumers += consumers
    async for channels in _pages(loop, overview.channel_page):
        for channel in channels:
            found.channel_total.add(channel)
        if by_object:
            _keep(found, found.channels, channels)
    if by_object:
        async for connections in _pages(loop, overview.connection_page):
            _keep(found, found.connections, connections)
            if len(found.connections) >= METRIC_OBJECTS_MAX:
                break
    return found


def _add(found: Samples, each: QueueFigures, *, by_object: bool) -> None:
    found.total.add(each)
    found.served[each.queue] = None
    if by_object and (sums := _sums_of(found, each.queue)) is not None:
        sums.add(each)


def _sums_of(found: Samples, key: QueueKey) -> QueueSums | None:
    """The sums of a queue; None: it has no room."""
    known = found.queues.get(key)
    if known is None:
        if len(found.queues) >= METRIC_OBJECTS_MAX:
            found.queues_left_out[key] = None
            return None
        known = found.queues[key] = QueueSums()
    return known


async def _all(
    loop: NodeLoop, names: Callable[[], list[Thing]],
    figures: Callable[[Sequence[Thing]], list[Figures]],
) -> list[Figures]:  # fmt: skip
    """The figures of all that have a name, some in each turn."""
    known, found = await loop.look(names), []
    for start in range(0, len(known), METRICS_PER_TURN):
        found += await loop.look(partial(figures, known[start : start + METRICS_PER_TURN]))
    return found


async def _pages(
    loop: NodeLoop, page: Callable[[str | None, ClientPlace, int], ClientPage[Thing]]
) -> AsyncIterator[list[Thing]]:
    """All pages of a list of clients."""
    place: ClientPlace | None = ClientPlace()
    while place is not None:
        part = await loop.look(partial(page, None, place, METRICS_PER_TURN))
        yield part.items
        place = part.next_place


def _keep(found: Samples, kept: list[Thing], more: list[Thing]) -> None:
    """Keeps as many as have room."""
    room = METRIC_OBJECTS_MAX - len(kept)
    kept += more[:room]
    found.clients_left_out += max(0, len(more) - room)


def _measured(durations: NodeDurations) -> Measured:
    return Measured(*map(_histogram, (durations.turns, durations.late, durations.syncs)))


def _histogram(durations: Durations) -> Histogram:
    buckets, so_far = [], 0
    for bound_us, count in zip(BOUNDS_US, durations.counts, strict=False):
        so_far += count
        buckets.append((f"{bound_us / 1e6:g}", so_far))
    buckets.append(("+Inf", sum(durations.counts)))
    return Histogram(tuple(buckets), durations.total_us / 1e6, durations.longest_us / 1e6)


def _process() -> Process:
    try:
        open_fds = len(os.listdir("/proc/self/fd"))
    except OSError:
        open_fds = 0
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return Process(open_fds, limit, resident_bytes(), usage.ru_utime + usage.ru_stime)
