"""A cheap, read-only view on a living node, for the admin floor: see `overview_types`."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from fedq.core.ids import FragmentId, Incarnation, NodeId, QueueKey
from fedq.fragments.fragment import Fragment
from fedq.fragments.upkeep.reserving import reserved_by_reader
from fedq.journal.debt import dead_bytes
from fedq.node.clients.elsewhere import has_room, sends_away
from fedq.node.clients.fencing import NOT_JOINED
from fedq.node.clients.memory import held_bytes
from fedq.node.node import Node
from fedq.node.records.state import NodeState
from fedq.node.records.troubles import notes, troubles
from fedq.node.streams.serving import base_of
from fedq.node.views import client_lists, queue_storage
from fedq.node.views.alarm_view import alarms_of
from fedq.node.views.cluster_tally import ClusterTally, members_of
from fedq.node.views.overview_types import (
    LOOK_WORK_MAX,
    ChannelOverview,
    ClientPage,
    ClientPlace,
    ConnectionOverview,
    ConsumerOverview,
    FragmentOverview,
    LocalFragment,
    MemberOverview,
    NamedReaderOverview,
    NodeOverview,
    QueueOverview,
    Readiness,
    ScrubOverview,
    SubscriberOverview,
    TrafficOverview,
)
from fedq.node.views.shape import cause_of
from fedq.node.views.storage_types import CopyOverview
from fedq.wiring.cluster_map.policy_book import NO_STANDING, Standing
from fedq.wiring.cluster_map.records import FragmentInfo
from fedq.wiring.cluster_map.state import MapState


class NodeView:
    """The `Overview` of one node; every call reads the present state."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    @property
    def _state(self) -> NodeState:
        return self._node.state

    def node(self) -> NodeOverview:
        """The node itself."""
        state = self._state
        clients = state.clients.values()
        return NodeOverview(
            node=state.me,
            incarnation=state.settings.incarnation,
            zone=state.settings.zone,
            leader=state.leader,
            map_version=state.map.version,
            lease_held=state.serving,
            stopping=state.stopping,
            uptime_ms=self._node.uptime_ms,
            connections=len(state.clients),
            channels=sum(len(client.channels) for client in clients),
            consumers=sum(client.consumers for client in clients),
            private_queues=len(state.private),
            memory_bytes=held_bytes(state),
            journal_bytes=state.plan.bytes_held,
            journal_segments=len(state.plan.segments),
            journal_dead_bytes=dead_bytes(state.plan),
            troubles=tuple(troubles(state)),
            notes=tuple(notes(state)),
            failed_logins=self._node.clients.access.failed_logins,
            exclusive_dropped=state.exclusive_dropped,
            exclusive_waiting=state.exclusive_waiting.messages,
            slow_closed=state.slow_closed,
            scrub=self.scrub(),
            alarms=alarms_of(state),
            counts=state.counts.copy(),
            closed="" if state.joined else state.closed or NOT_JOINED,
        )

    def readiness(self) -> Readiness:
        """Whether new clients should come to it."""
        state = self._state
        if state.stopping:
            return Readiness.STOPPING
        if not state.serving:
            return Readiness.FENCED
        if not state.joined:
            return Readiness.CLOSED
        if sends_away(state):
            return Readiness.DRAINED
        return Readiness.READY if has_room(state) else Readiness.FULL

    def scrub(self) -> ScrubOverview:
        """What reading the journal again has come to."""
        state, scrub = self._state, self._state.scrub
        return ScrubOverview(
            passes=scrub.passes,
            last_pass_unix_ms=scrub.last_pass_unix_ms,
            segment=scrub.segment,
            pass_bytes=scrub.pass_bytes,
            segments_with_rot=scrub.found,
            messages_mended=scrub.mended,
            messages_lost=state.messages_lost,
        )

    def process(self) -> tuple[NodeId, Incarnation]:
        """The node's name, and which of its processes this is."""
        return self._state.me, self._state.settings.incarnation

    def fragment_ids(self) -> list[FragmentId]:
        """All fragments of the map, in any order."""
        return list(self._state.map.fragments)

    def cluster_tally(self) -> ClusterTally:
        """Totals of the cluster, to be put together over some fragments at a time."""
        return ClusterTally(self._state)

    def members(self) -> tuple[MemberOverview, ...]:
        """All members without totals, ordered by node."""
        return members_of(self._state)

    def queue_keys(self) -> list[QueueKey]:
        """All shared queues, in order."""
        return sorted(self._state.map.queues)

    def queue_names(self) -> list[QueueKey]:
        """All shared queues, in any order."""
        return list(self._state.map.queues)

    def queue(self, key: QueueKey) -> QueueOverview | None:
        """One shared queue; None: the map has no such queue."""
        queue = self._state.map.queues.get(key)
        if queue is None:
            return None
        known = self._state.map
        infos = [known.fragments[fragment] for fragment in queue.fragments]
        return QueueOverview(
            key=key,
            durable=queue.durable,
            auto_delete=queue.auto_delete,
            arguments=queue.arguments,
            replicas=queue.replicas,
            fragments=tuple([_fragment_overview(known, info) for info in infos]),
        )

    def standings(self, keys: Sequence[QueueKey]) -> Sequence[Standing]:
        """The policies of the first of these queues: so many that the node is not kept by it."""
        state, found = self._state, list[Standing]()
        before = state.policies.walked
        for key in keys:
            queue = state.map.queues.get(key)
            if queue is None:
                found.append(NO_STANDING)
                continue
            found.append(state.standing_of(key, queue.arguments))
            if state.policies.walked - before >= LOOK_WORK_MAX:
                break
        return found

    def local_fragments(self, key: QueueKey) -> Sequence[LocalFragment]:
        """The fragments of the queue whose primary this node is."""
        state = self._state
        queue = state.map.queues.get(key)
        fragments: Iterable[FragmentId] = queue.fragments if queue is not None else ()
        return [
            LocalFragment(
                fragment=primary.fragment.fragment_id,
                reign=primary.fragment.reign,
                serving=state.serving and not primary.holds_back,
                ready=primary.fragment.ready_count,
                unacknowledged=primary.fragment.unacked_count,
                bytes_held=primary.fragment.bytes_held,
                active=primary.takers.active,
                traffic=_traffic_of(primary.fragment),
            )
            for fragment in fragments
            if (primary := state.primaries.get(fragment)) is not None
        ]

    def copies(self, key: QueueKey) -> Sequence[CopyOverview]:
        """What this node has of the queue's fragments, in memory and on its disk."""
        return list(queue_storage.copies_of(self._node, key))

    def named_readers(self, fragment: FragmentId) -> Sequence[NamedReaderOverview]:
        """The named readers of a fragment that this node serves, by name."""
        state = self._state
        primary, info = state.primaries.get(fragment), state.map.fragments.get(fragment)
        if primary is None or info is None:
            return ()
        if primary.fragment.log is None:
            return _queue_readers(primary.fragment)
        readers = state.readers_of(info.queue, fragment)
        groups = readers.groups if readers is not None else {}
        base = base_of(info)
        ranges = primary.fragment.messages.ranges()
        ends = [last for _, last in ranges]
        behind = [0, *accumulate([last - first + 1 for first, last in reversed(ranges)])]
        found: list[NamedReaderOverview] = []
        for name, position in sorted(primary.fragment.reader_places.items()):
            at = bisect_left(ends, position)
            lag = behind[len(ranges) - at]
            if at < len(ranges):
                lag -= max(0, position - ranges[at][0])
            group = groups.get(name)
            served = group.served if group is not None else None
            node = served[0] if served is not None else None
            found.append(NamedReaderOverview(name, max(0, position - base), lag, node))
        return found

    def local_consumers(self, key: QueueKey) -> int:
        """How many consumers of the queue belong to clients of this node."""
        hub = self._state.hubs.get(key)
        return hub.size if hub is not None else 0

    def connections(self, limit: int) -> Sequence[ConnectionOverview]:
        """The first `limit` client connections, oldest first."""
        return self.connection_page(None, ClientPlace(), limit).items

    def connection_page(
        self, vhost: str | None, begin: ClientPlace, most: int
    ) -> ClientPage[ConnectionOverview]:
        """A page of connections that begins there; `vhost` None: of all."""
        return client_lists.connection_page(self._state, vhost, begin, most)

    def channel_page(
        self, vhost: str | None, begin: ClientPlace, most: int
    ) -> ClientPage[ChannelOverview]:
        """A page of channels that begins there."""
        return client_lists.channel_page(self._state, vhost, begin, most)

    def consumer_page(
        self, vhost: str | None, begin: ClientPlace, most: int
    ) -> ClientPage[ConsumerOverview]:
        """A page of consumers that begins there."""
        return client_lists.consumer_page(self._state, vhost, begin, most)

    def subscriber_page(
        self, vhost: str | None, begin: ClientPlace, most: int, slow: bool
    ) -> ClientPage[SubscriberOverview]:
        """A page of exclusive queues that begins there."""
        return client_lists.subscriber_page(self._state, vhost, begin, most, slow)


def overview(node: Node) -> NodeView:
    """The view on a node."""
    return NodeView(node)


def _fragment_overview(known: MapState, info: FragmentInfo) -> FragmentOverview:
    return FragmentOverview(
        info.id, info.primary, info.backups, tuple(info.in_sync), info.epoch, info.reign,
        cause_of(known, info), known.moves.get(info.id),
    )  # fmt: skip


def _queue_readers(fragment: Fragment) -> list[NamedReaderOverview]:
    """Readers by reservation: the batch up to which all is settled, and what is reserved."""
    readers = fragment.queue_readers
    return [
        NamedReaderOverview(name, readers.settled(name) if readers is not None else 0, count, None)
        for name, (count, _) in sorted(reserved_by_reader(fragment).items())
    ]


def _traffic_of(fragment: Fragment) -> TrafficOverview:
    return TrafficOverview(
        fragment.came, fragment.handed_out, fragment.handed_again, fragment.acknowledged
    )
