"""Overviews as the messages of `protos/admin.proto`: one function for each kind of value.

Text that came from clients may hold bytes that are no UTF-8 (kept as surrogates); it is shown
with backslash escapes, because a message cannot carry it otherwise.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from fedq import __version__
from fedq.admin.own_process import OwnProcess
from fedq.admin.refusal import invalid
from fedq.core.ids import ConnectionId, Incarnation, NodeId, QueueKey
from fedq.node.records.message_counts import MessageCounts
from fedq.node.records.unserved import Awaited
from fedq.node.views.alarm_view import AlarmOverview
from fedq.node.views.overview_types import (
    ChannelOverview,
    ConnectionOverview,
    ConsumerOverview,
    LocalFragment,
    MemberOverview,
    MemberRole,
    MemberState,
    NamedReaderOverview,
    NodeOverview,
    SubscriberOverview,
    TrafficOverview,
)
from fedq.node.views.storage_types import CopyOverview, CopyRole, FragmentCause, ShapeOverview
from fedq.shell.durations import BOUNDS_US, Durations
from fedq.shell.pb import admin_pb2 as pb

_MEMBER_STATES = {
    MemberState.UP: pb.MEMBER_STATE_UP,
    MemberState.DOWN: pb.MEMBER_STATE_DOWN,
    MemberState.ABSENT: pb.MEMBER_STATE_ABSENT,
}
#: Why fragments are there.
CAUSES: Final = {
    FragmentCause.DECLARED: pb.FRAGMENT_CAUSE_DECLARED,
    FragmentCause.FIXED: pb.FRAGMENT_CAUSE_FIXED,
    FragmentCause.TRAFFIC: pb.FRAGMENT_CAUSE_TRAFFIC,
}
_COPY_ROLES = {
    CopyRole.PRIMARY: pb.COPY_ROLE_PRIMARY,
    CopyRole.BACKUP: pb.COPY_ROLE_BACKUP,
    CopyRole.KEPT: pb.COPY_ROLE_KEPT,
}


def text(value: str) -> str:
    """`value` with whatever is no valid Unicode escaped."""
    return value.encode("utf-8", "backslashreplace").decode("utf-8")


def figures(node: NodeOverview, turns: Durations, process: OwnProcess) -> pb.NodeFigures:
    """A node's own figures, and what its turns took."""
    if node.leader is None:
        role = pb.RAFT_ROLE_LOOKING
    elif node.leader == node.node:
        role = pb.RAFT_ROLE_LEADER
    else:
        role = pb.RAFT_ROLE_FOLLOWER
    return pb.NodeFigures(
        node=node.node,
        incarnation=node.incarnation,
        zone=node.zone,
        version=__version__,
        raft_role=role,
        leader=node.leader or "",
        map_version=node.map_version,
        lease_held=node.lease_held,
        stopping=node.stopping,
        uptime_ms=node.uptime_ms,
        connections=node.connections,
        channels=node.channels,
        consumers=node.consumers,
        private_queues=node.private_queues,
        memory_bytes=node.memory_bytes,
        journal_bytes=node.journal_bytes,
        journal_segments=node.journal_segments,
        journal_dead_bytes=node.journal_dead_bytes,
        troubles=node.troubles,
        notes=node.notes,
        admin_address=process.admin_address(),
        failed_logins=node.failed_logins,
        scrub=pb.Scrub(**asdict(node.scrub)),
        alarms=_alarms(node.alarms),
        turns=pb.Turns(
            bounds_us=BOUNDS_US,
            counts=turns.counts,
            total_us=turns.total_us,
            longest_us=turns.longest_us,
        ),
        traffic=_client_traffic(node.counts),
        closed=node.closed,
    )


def _alarms(alarms: AlarmOverview) -> pb.Alarms:
    """What a node is short of, and who waits."""
    return pb.Alarms(
        memory=alarms.memory,
        disk=alarms.disk,
        memory_bytes_max=alarms.memory_bytes_max,
        resident_bytes=max(0, alarms.resident_bytes),
        disk_free_bytes=alarms.disk_free_bytes,
        disk_free_bytes_min=alarms.disk_free_bytes_min,
        connections=alarms.connections,
        waits=[
            pb.PublishersWait(
                node=wait.node,
                queue=None if wait.queue is None else _queue_name(wait.queue),
                connections=wait.connections,
            )
            for wait in alarms.waits
        ],
    )


_MEMBER_ROLES = {
    MemberRole.VOTER: pb.MEMBER_ROLE_VOTER,
    MemberRole.OBSERVER: pb.MEMBER_ROLE_OBSERVER,
    MemberRole.JOINING: pb.MEMBER_ROLE_JOINING,
}


def member(overview: MemberOverview, says: pb.NodeFigures | None) -> pb.Member:
    """A member of the map; `says`: what the member answered, if it did."""
    return pb.Member(
        node=overview.node,
        state=_MEMBER_STATES[overview.state],
        incarnation=overview.incarnation,
        zone=overview.zone,
        peer_address=overview.peer_address,
        amqp_address=overview.amqp_address,
        figures=says,
        drain=None if overview.drained is None else pb.Drain(closes_clients=overview.drained),
        role=_MEMBER_ROLES[overview.role],
        speaks_oldest=overview.speaks[0],
        speaks_newest=overview.speaks[1],
    )


def connection_name(process: tuple[NodeId, Incarnation], number: ConnectionId) -> str:
    """The name of a connection in the cluster: never the name of another connection."""
    return f"{process[0]}.{process[1]}.{number}"


def read_connection_name(name: str) -> tuple[NodeId, Incarnation, ConnectionId]:
    """The parts of a connection's name in the cluster; raises AdminError."""
    node, _, numbers = name.rpartition(".")
    node, _, process = node.rpartition(".")
    if not node or not process.isdecimal() or not numbers.isdecimal():
        raise invalid(f"{text(name)!r} names no connection; `fedq connection list` shows the names")
    return NodeId(node), Incarnation(int(process)), ConnectionId(int(numbers))


def connection(process: tuple[NodeId, Incarnation], overview: ConnectionOverview) -> pb.Connection:
    """A client connection of a node."""
    return pb.Connection(
        node=process[0],
        name=connection_name(process, overview.connection),
        connection=overview.connection,
        client_address=overview.client_address,
        user=text(overview.user),
        vhost=text(overview.vhost),
        client_name=text(overview.client_name),
        channels=overview.channels,
        consumers=overview.consumers,
        unacknowledged=overview.unacknowledged,
        blocked=overview.blocked,
    )


def channel(process: tuple[NodeId, Incarnation], overview: ChannelOverview) -> pb.Channel:
    """A channel of a node's client."""
    return pb.Channel(
        node=process[0],
        connection=connection_name(process, overview.connection),
        number=overview.number,
        user=text(overview.user),
        vhost=text(overview.vhost),
        consumers=overview.consumers,
        unacknowledged=overview.unacknowledged,
        uncommitted=overview.uncommitted,
        acks_uncommitted=overview.acks_uncommitted,
        unconfirmed=overview.unconfirmed,
        prefetch_count=overview.prefetch,
        global_prefetch_count=overview.prefetch_global,
        confirm=overview.confirms,
        transactional=overview.transacts,
        flow=overview.flow,
    )


def consumer(process: tuple[NodeId, Incarnation], overview: ConsumerOverview) -> pb.Consumer:
    """A consumer of a node's client."""
    return pb.Consumer(
        node=process[0],
        queue=pb.QueueName(vhost=text(overview.queue.vhost), name=text(overview.queue.name)),
        connection=connection_name(process, overview.connection),
        channel=overview.channel,
        tag=text(overview.tag),
        ack_required=not overview.no_ack,
        prefetch_count=overview.prefetch,
        active=overview.active,
        priority=overview.priority,
    )


def subscriber(process: tuple[NodeId, Incarnation], overview: SubscriberOverview) -> pb.Subscriber:
    """An exclusive queue and its owner."""
    return pb.Subscriber(
        node=process[0],
        queue=_queue_name(overview.queue),
        connection=connection_name(process, overview.connection),
        user=text(overview.user),
        messages_ready=overview.ready,
        bytes_held=overview.bytes_held,
        messages_dropped=overview.dropped,
        consumers=overview.consumers,
        stuck=overview.is_stuck,
    )


def awaited(overview: Awaited) -> pb.Awaited:
    """Fragments that wait for the same nodes."""
    queues = map(_queue_name, overview.queues)
    return pb.Awaited(nodes=overview.nodes, fragments=overview.fragments, queues=queues)


def _queue_name(key: QueueKey) -> pb.QueueName:
    """A queue's name to be shown."""
    return pb.QueueName(vhost=text(key.vhost), name=text(key.name))


def queue_names(keys: Sequence[QueueKey]) -> list[pb.QueueName]:
    """Queue keys for a request."""
    return [pb.QueueName(vhost=key.vhost, name=key.name) for key in keys]


def named_reader(overview: NamedReaderOverview) -> pb.NamedReader:
    """A name that a stream keeps a place for."""
    return pb.NamedReader(
        name=overview.name, offset=overview.offset, lag=overview.lag, node=overview.node or ""
    )


def local_fragment(
    overview: LocalFragment, readers: Sequence[NamedReaderOverview] = ()
) -> pb.LocalFragment:
    """A fragment as its primary sees it."""
    return pb.LocalFragment(
        fragment=overview.fragment,
        reign=overview.reign,
        serving=overview.serving,
        ready=overview.ready,
        unacknowledged=overview.unacknowledged,
        bytes=overview.bytes_held,
        active_node=overview.active or "",
        readers=map(named_reader, readers),
        traffic=_fragment_traffic(overview.traffic),
    )


def _fragment_traffic(overview: TrafficOverview) -> pb.FragmentTraffic:
    return pb.FragmentTraffic(
        published=overview.published,
        handed_out=overview.handed_out,
        handed_out_again=overview.handed_again,
        acknowledged=overview.acknowledged,
    )


def _client_traffic(counts: MessageCounts) -> pb.ClientTraffic:
    return pb.ClientTraffic(
        received=counts.received,
        confirmed=counts.confirmed,
        returned=counts.returned,
        unroutable=counts.unroutable,
        delivered=counts.delivered,
        delivered_without_ack=counts.delivered_settled,
        got=counts.got,
        got_nothing=counts.got_nothing,
        redelivered=counts.redelivered,
        acknowledged=counts.acknowledged,
    )


def _shape(overview: ShapeOverview) -> pb.FragmentShape:
    """Why a fragment is as it is."""
    return pb.FragmentShape(
        idle_ms=overview.idle_ms,
        retiring=overview.retiring,
        stays=overview.stays,
        waits=overview.waits,
    )


def copy(node: NodeId, overview: CopyOverview) -> pb.Copy:
    """What a node has of a fragment."""
    stream = overview.stream
    return pb.Copy(
        node=node,
        fragment=overview.fragment,
        role=_COPY_ROLES[overview.role],
        messages=overview.messages,
        messages_on_disk_alone=overview.stowed_messages,
        memory_bytes=overview.memory_bytes,
        on_disk_alone_bytes=overview.stowed_bytes,
        journal_bytes=overview.journal_bytes,
        journal_segments=overview.journal_segments,
        journal_dead_bytes=overview.dead_bytes,
        scratch_bytes=overview.scratch_bytes,
        reading_bytes=overview.reading_bytes,
        at_hand_bytes=overview.at_hand_bytes,
        age_ms=overview.age_ms,
        age_ms_max=overview.age_ms_max,
        whole=overview.whole,
        last=overview.last,
        last_reign=overview.last_reign,
        shape=None if overview.shape is None else _shape(overview.shape),
        stream=None
        if stream is None
        else pb.StreamFigures(
            first_offset=stream.first_offset,
            last_offset=stream.last_offset,
            segments=stream.segments,
            bytes=stream.size,
            readers=stream.readers,
        ),
    )
