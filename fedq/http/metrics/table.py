"""Every metric: its name, kind, help, labels, and where in a scrape it is read.

`docs/METRICS.md` is made of this (`scripts/write_metrics.py`), and so is what Prometheus reads
(`fedq.http.metrics.page`). A name of RabbitMQ's means what it means there. Counters are named with
their `_total`.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Any, Final, NamedTuple

from fedq.admin.messages import text
from fedq.http.metrics.samples import ChannelSums, Histogram, QueueSums, Samples
from fedq.node.views.overview_types import ChannelOverview, ConnectionOverview


class Kind(StrEnum):
    """What Prometheus does with it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Of(StrEnum):
    """What it is a figure of: the node; or, on the page by object, each of its queues, …."""

    NODE = "node"
    QUEUE = "queue"
    CONNECTION = "connection"
    CHANNEL = "channel"


class Metric(NamedTuple):
    """One metric."""

    name: str
    help: str
    #: Of the node: the scrape; of objects: one of them. None: unknown, so it is not shown.
    read: Callable[[Any], float | None]
    kind: Kind = Kind.GAUGE
    of: Of = Of.NODE


class Timed(NamedTuple):
    """A histogram of the node: what something took, in seconds."""

    name: str
    help: str
    read: Callable[[Samples], Histogram]


class Labelled(NamedTuple):
    """A metric of the node with labels of its own: each of their values, with its figure."""

    name: str
    help: str
    labels: tuple[str, ...]
    read: Callable[[Samples], list[tuple[tuple[str, ...], float]]]


#: The labels of a series on the page by object.
LABELS: Final = {
    Of.QUEUE: ("vhost", "queue"),
    Of.CONNECTION: ("connection",),
    Of.CHANNEL: ("connection", "channel"),
}


def _queue(name: str, say: str, read: Callable[[QueueSums], float]) -> Metric:
    return Metric(name, say, read, of=Of.QUEUE)


def _connection(
    name: str, say: str, read: Callable[[ConnectionOverview | ChannelSums], float]
) -> Metric:
    return Metric(name, say, read, of=Of.CONNECTION)


def _channel(name: str, say: str, read: Callable[[ChannelOverview | ChannelSums], float]) -> Metric:
    return Metric(name, say, read, of=Of.CHANNEL)


def _node(name: str, say: str, read: Callable[[Samples], float | None]) -> Metric:
    return Metric(name, say, read)


def _count(name: str, say: str, read: Callable[[Samples], float]) -> Metric:
    return Metric(name, say, read, Kind.COUNTER)


#: With RabbitMQ's names.
RABBIT: Final[tuple[Metric, ...]] = (
    _node("rabbitmq_connections", "Connections of clients", lambda s: s.node.connections),
    _node("rabbitmq_channels", "Channels of these", lambda s: s.node.channels),
    _node("rabbitmq_consumers", "Consumers on these", lambda s: s.node.consumers),
    _node(
        "rabbitmq_queues", "Queues of which something is served here", lambda s: len(s.served)
    ),
    _count(
        "rabbitmq_auth_attempts_failed_total", "Logins that failed, over AMQP",
        lambda s: s.node.failed_logins,
    ),
    _count(
        "rabbitmq_global_messages_received_total", "Publishes of clients of this node",
        lambda s: s.node.counts.received,
    ),
    _count(
        "rabbitmq_global_messages_confirmed_total", "Those that were confirmed to publishers",
        lambda s: s.node.counts.confirmed,
    ),
    _count(
        "rabbitmq_global_messages_unroutable_returned_total", "Mandatory ones that went back",
        lambda s: s.node.counts.returned,
    ),
    _count(
        "rabbitmq_global_messages_unroutable_dropped_total", "Others that no queue got",
        lambda s: s.node.counts.unroutable,
    ),
    _count(
        "rabbitmq_global_messages_delivered_total",
        "Deliveries to clients of this node, and answers to basic.get",
        lambda s: s.node.counts.delivered + s.node.counts.got,
    ),
    _count(
        "rabbitmq_global_messages_delivered_consume_manual_ack_total",
        "Deliveries to consumers that acknowledge",
        lambda s: s.node.counts.delivered - s.node.counts.delivered_settled,
    ),
    _count(
        "rabbitmq_global_messages_delivered_consume_auto_ack_total",
        "Deliveries to consumers that do not",
        lambda s: s.node.counts.delivered_settled,
    ),
    _count(
        "rabbitmq_global_messages_get_empty_total", "Answers to basic.get without a message",
        lambda s: s.node.counts.got_nothing,
    ),
    _count(
        "rabbitmq_global_messages_redelivered_total", "Deliveries and answers marked so",
        lambda s: s.node.counts.redelivered,
    ),
    _count(
        "rabbitmq_global_messages_acknowledged_total", "Messages that clients acknowledged",
        lambda s: s.node.counts.acknowledged,
    ),
    _node("rabbitmq_process_open_fds", "Open descriptors", lambda s: s.process.open_fds),
    _node("rabbitmq_process_max_fds", "Descriptors that may be open", lambda s: s.process.max_fds),
    _node(
        "rabbitmq_process_resident_memory_bytes", "Memory of the process",
        lambda s: s.process.resident_bytes,
    ),
    _node(
        "rabbitmq_resident_memory_limit_bytes", "What the node may hold (limits.memory_bytes)",
        lambda s: s.node.alarms.memory_bytes_max,
    ),
    _node(
        "rabbitmq_disk_space_available_bytes", "Free on the disk of the node's data",
        lambda s: s.node.alarms.disk_free_bytes,
    ),
    _node(
        "rabbitmq_disk_space_available_limit_bytes",
        "What has to be free (limits.disk_free_bytes)",
        lambda s: s.node.alarms.disk_free_bytes_min,
    ),
    _node(
        "rabbitmq_alarms_memory_used_watermark", "1: publishers wait for memory here",
        lambda s: s.node.alarms.memory,
    ),
    _node(
        "rabbitmq_alarms_free_disk_space_watermark", "1: publishers wait for disk here",
        lambda s: s.node.alarms.disk,
    ),
    _queue("rabbitmq_queue_messages_ready", "Messages that wait", lambda q: q.ready),
    _queue(
        "rabbitmq_queue_messages_unacked", "Messages that consumers hold",
        lambda q: q.unacknowledged,
    ),
    _queue(
        "rabbitmq_queue_messages", "Both together", lambda q: q.ready + q.unacknowledged
    ),
    _queue("rabbitmq_queue_messages_bytes", "Bytes of these", lambda q: q.size),
    _queue(
        "rabbitmq_queue_messages_paged_out", "Those whose bodies are on disk alone",
        lambda q: q.stowed,
    ),
    _queue(
        "rabbitmq_queue_messages_paged_out_bytes", "Bytes of these bodies",
        lambda q: q.stowed_bytes,
    ),
    _queue(
        "rabbitmq_queue_process_memory_bytes", "What they take in memory, with their upkeep",
        lambda q: q.memory_bytes,
    ),
    _queue(
        "rabbitmq_queue_consumers", "Consumers that are clients of this node",
        lambda q: q.consumers,
    ),
    _connection("rabbitmq_connection_channels", "Channels", lambda c: c.channels),
    _channel("rabbitmq_channel_consumers", "Consumers", lambda c: c.consumers),
    _channel(
        "rabbitmq_channel_messages_unacked", "Deliveries without an acknowledgement",
        lambda c: c.unacknowledged,
    ),
    _channel(
        "rabbitmq_channel_messages_unconfirmed", "Publishes without a confirm",
        lambda c: c.unconfirmed,
    ),
    _channel(
        "rabbitmq_channel_messages_uncommitted", "Publishes that wait for tx.commit",
        lambda c: c.uncommitted,
    ),
    _channel(
        "rabbitmq_channel_acks_uncommitted", "Settlements that wait for tx.commit",
        lambda c: c.acks_uncommitted,
    ),
    _channel(
        "rabbitmq_channel_prefetch", "Prefetch count of the channel; 0: none",
        lambda c: c.prefetch_global,
    ),
)  # fmt: skip

#: fedq's own.
FEDQ: Final[tuple[Metric, ...]] = (
    _node("fedq_uptime_seconds", "Since the first turn", lambda s: s.node.uptime_ms / 1e3),
    _node(
        "fedq_lease_held", "0: fenced, so it confirms and delivers nothing",
        lambda s: s.node.lease_held,
    ),
    _node("fedq_leader_known", "0: the map cannot be changed", lambda s: s.node.leader is not None),
    _node(
        "fedq_leader", "1: this node leads the Raft log",
        lambda s: s.node.leader == s.node.node,
    ),
    _node("fedq_raft_term", "Term of the Raft log", lambda s: s.raft.term),
    _node(
        "fedq_raft_committed_index", "Its newest entry that is known to be committed",
        lambda s: s.raft.committed,
    ),
    _node(
        "fedq_raft_applied_index", "Its newest entry that is in the cluster map here",
        lambda s: s.raft.applied,
    ),
    _count("fedq_map_version_total", "Changes of the cluster map", lambda s: s.node.map_version),
    _node("fedq_members", "Members of the cluster", lambda s: s.members),
    _node("fedq_members_up", "Those that are up", lambda s: s.members_up),
    _node(
        "fedq_troubles", "What `fedq cluster status` says of this node alone",
        lambda s: len(s.node.troubles),
    ),
    _node(
        "fedq_turn_longest_seconds", "The longest turn since the start: so long nobody was served",
        lambda s: s.took.turns.longest_s,
    ),
    _count("fedq_cpu_seconds_total", "Processor time of the process", lambda s: s.process.cpu_s),
    _node(
        "fedq_memory_held_bytes", "What is held against limits.memory_bytes",
        lambda s: s.node.memory_bytes,
    ),
    _node(
        "fedq_fragments", "Fragments that are served here, and exclusive queues",
        lambda s: s.total.fragments,
    ),
    _node("fedq_copies", "Copies of fragments that others serve", lambda s: s.backups),
    _node(
        "fedq_fragments_short", "Those served here with fewer copies in sync than they should have",
        lambda s: s.total.short,
    ),
    _node(
        "fedq_replication_events_waiting", "Events of these that not all copies have",
        lambda s: s.total.uncommitted,
    ),
    _node("fedq_exclusive_queues", "Exclusive queues", lambda s: s.node.private_queues),
    _node(
        "fedq_exclusive_messages_waiting", "Messages that wait in these, if their sum is bounded",
        lambda s: s.node.exclusive_waiting,
    ),
    _count(
        "fedq_exclusive_messages_dropped_total", "Messages that lengths of these cost them",
        lambda s: s.node.exclusive_dropped,
    ),
    _count(
        "fedq_slow_subscribers_closed_total",
        "Connections ended as too much waited in an exclusive queue of theirs",
        lambda s: s.node.slow_closed,
    ),
    _node(
        "fedq_publishers_waiting", "Connections that are not read, as some node is full",
        lambda s: s.node.alarms.connections,
    ),
    _node("fedq_journal_bytes", "Segments that are needed", lambda s: s.node.journal_bytes),
    _node(
        "fedq_journal_dead_bytes", "Of these, what the last checkpoint found dead",
        lambda s: s.node.journal_dead_bytes,
    ),
    _node("fedq_journal_segments", "How many these are", lambda s: s.node.journal_segments),
    _count(
        "fedq_scrub_passes_total", "Passes over the journal, looking for rot",
        lambda s: s.node.scrub.passes,
    ),
    _count(
        "fedq_scrub_segments_with_rot_total", "Segments in which it was found",
        lambda s: s.node.scrub.segments_with_rot,
    ),
    _count(
        "fedq_messages_mended_total", "Messages that were fetched anew from another copy",
        lambda s: s.node.scrub.messages_mended,
    ),
    _count(
        "fedq_messages_lost_total", "Messages that no copy had any more",
        lambda s: s.node.scrub.messages_lost,
    ),
    _node(
        "fedq_metrics_left_out", "Objects that had no room on the page by object",
        lambda s: s.left_out,
    ),
)  # fmt: skip

LABELLED: Final[tuple[Labelled, ...]] = (
    Labelled(
        "rabbitmq_identity_info", "Who is asked; always 1", ("rabbitmq_node",),
        lambda s: [((s.node.node,), 1)],
    ),
    Labelled(
        "fedq_build_info", "The release; always 1", ("version", "zone"),
        lambda s: [((s.version, text(s.node.zone)), 1)],
    ),
    Labelled(
        "fedq_publishers_waiting_for", "Connections that wait, by the member that is full",
        ("member",), lambda s: _waits(s),
    ),
)  # fmt: skip

HISTOGRAMS: Final[tuple[Timed, ...]] = (
    Timed(
        "fedq_turn_seconds", "How long turns took: while one is under way nobody else is served",
        lambda s: s.took.turns,
    ),
    Timed(
        "fedq_loop_lag_seconds", "How much later than planned ticks came: the event loop was busy",
        lambda s: s.took.late,
    ),
    Timed(
        "fedq_journal_sync_seconds", "What was written to the journal, until it was on disk",
        lambda s: s.took.syncs,
    ),
)  # fmt: skip


def _waits(samples: Samples) -> list[tuple[tuple[str, ...], float]]:
    sums: dict[str, int] = {}
    for wait in samples.node.alarms.waits:
        sums[wait.node] = sums.get(wait.node, 0) + wait.connections
    return [((node,), count) for node, count in sums.items()]


def objects(samples: Samples, of: Of) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The objects of a kind, each with the values of its labels."""
    if of is Of.QUEUE:
        for key, sums in samples.queues.items():
            yield (text(key.vhost), text(key.name)), sums
    elif of is Of.CONNECTION:
        for connection in samples.connections:
            yield (_name(samples, connection.connection),), connection
    elif of is Of.CHANNEL:
        for channel in samples.channels:
            yield (_name(samples, channel.connection), str(channel.number)), channel


def _name(samples: Samples, number: int) -> str:
    return f"{samples.node.node}.{samples.node.incarnation}.{number}"


METRICS: Final = (*RABBIT, *FEDQ)
