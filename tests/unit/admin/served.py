"""Hand-filled overviews behind real gRPC servers: the other side of every admin and CLI test.

Virtual hosts, users and permissions are those of a real cluster map that all members share.

Each member has an `AdminService` of its own on a free port of loopback; members reach each other
there. One event loop in one thread serves them all, as grpc.aio wants it.
"""

import asyncio
import itertools
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import grpc
import grpc.aio

from fedq.admin.access_answers import AccessAnswers
from fedq.admin.own_process import OwnProcess
from fedq.admin.service import AdminService
from fedq.core.errors import Refused
from fedq.core.ids import (
    ConnectionId,
    Epoch,
    FragmentId,
    Incarnation,
    MapVersion,
    NodeId,
    QueueKey,
)
from fedq.node.cluster.proposals import Result as Outcome
from fedq.node.views.access_overview import LimitsOverview, UserOverview, VhostOverview, limits_of
from fedq.node.views.overview_types import (
    ChannelOverview,
    ClientPage,
    ClientPlace,
    ClusterOverview,
    ConnectionOverview,
    ConsumerOverview,
    FragmentOverview,
    LocalFragment,
    MemberOverview,
    MemberState,
    NamedReaderOverview,
    NodeOverview,
    QueueOverview,
    Readiness,
    SubscriberOverview,
)
from fedq.node.views.shovel_view import ShovelState, ShovelView
from fedq.node.views.storage_types import CopyOverview
from fedq.shell.durations import Durations
from fedq.wiring.cluster_map.operations import Operation, encode_command
from fedq.wiring.cluster_map.operations_topics import TopicGrant, TopicKey
from fedq.wiring.cluster_map.operations_tracing import StartTrace, Trace
from fedq.wiring.cluster_map.policy_book import NO_STANDING, Standing
from fedq.wiring.cluster_map.state import Binding, Exchange, Grant, GrantKey
from fedq.wiring.cluster_map.tracing import refuse_trace
from tests.unit.admin.loop_thread import LoopThread as LoopThread
from tests.unit.admin.set_in_map import SetInMap

NAMES = ("n1", "n2", "n3")


@dataclass
class HandFilled:
    """An `Overview` whose every figure a test decides."""

    node_overview: NodeOverview
    cluster_overview: ClusterOverview
    queues: dict[QueueKey, QueueOverview] = field(default_factory=dict)
    stands: dict[QueueKey, Standing] = field(default_factory=dict)
    fragments: dict[QueueKey, list[LocalFragment]] = field(default_factory=dict)
    copied: dict[QueueKey, list[CopyOverview]] = field(default_factory=dict)
    readers: dict[FragmentId, list[NamedReaderOverview]] = field(default_factory=dict)
    consumers: dict[QueueKey, int] = field(default_factory=dict)
    clients: list[ConnectionOverview] = field(default_factory=list)
    channels: list[ChannelOverview] = field(default_factory=list)
    consuming: list[ConsumerOverview] = field(default_factory=list)
    subscribing: list[SubscriberOverview] = field(default_factory=list)
    ready: Readiness = Readiness.READY
    #: What clients were to be told, and which ones.
    closed: list[tuple[int | None, str | None, str | None, str]] = field(default_factory=list)

    def node(self) -> NodeOverview:
        return self.node_overview

    def readiness(self) -> Readiness:
        return self.ready

    def process(self) -> tuple[NodeId, Incarnation]:
        return self.node_overview.node, self.node_overview.incarnation

    def fragment_ids(self) -> list[FragmentId]:
        return [each.fragment for queue in self.queues.values() for each in queue.fragments]

    def cluster_tally(self) -> "HandFilled":
        return self

    def add(self, fragments: Iterable[FragmentId]) -> None:
        """Adds nothing: a test has decided the totals."""

    def found(self) -> ClusterOverview:
        return self.cluster_overview

    def members(self) -> Sequence[MemberOverview]:
        return self.cluster_overview.members

    def queue_keys(self) -> list[QueueKey]:
        return sorted(self.queues)

    def queue_names(self) -> list[QueueKey]:
        return list(self.queues)

    def queue(self, key: QueueKey) -> QueueOverview | None:
        return self.queues.get(key)

    def standings(self, keys: Sequence[QueueKey]) -> Sequence[Standing]:
        """One at a time."""
        return [self.stands.get(key, NO_STANDING) for key in keys[:1]]

    def local_fragments(self, key: QueueKey) -> Sequence[LocalFragment]:
        return self.fragments.get(key, [])

    def copies(self, key: QueueKey) -> Sequence[CopyOverview]:
        return self.copied.get(key, [])

    def named_readers(self, fragment: FragmentId) -> Sequence[NamedReaderOverview]:
        return self.readers.get(fragment, [])

    def local_consumers(self, key: QueueKey) -> int:
        return self.consumers.get(key, 0)

    def connections(self, limit: int) -> Sequence[ConnectionOverview]:
        return self.clients[:limit]

    def connection_page(
        self, vhost: str | None, begin: ClientPlace, most: int
    ) -> ClientPage[ConnectionOverview]:
        places = {ClientPlace(each.connection): each for each in self.clients}
        return _page({p: e for p, e in places.items() if p >= begin}, vhost, most)

    def channel_page(
        self, vhost: str | None, begin: ClientPlace, most: int
    ) -> ClientPage[ChannelOverview]:
        places = {ClientPlace(each.connection, each.number): each for each in self.channels}
        return _page({p: e for p, e in places.items() if p >= begin}, vhost, most)

    def consumer_page(
        self, vhost: str | None, begin: ClientPlace, most: int
    ) -> ClientPage[ConsumerOverview]:
        places = {
            ClientPlace(each.connection, each.channel, each.tag): each
            for each in self.consuming
            if vhost in (None, each.queue.vhost)
        }
        later = sorted(place for place in places if place > begin)
        found = [places[place] for place in later[:most]]
        return ClientPage(found, later[most - 1] if len(later) > most else None)

    def subscriber_page(
        self, vhost: str | None, begin: ClientPlace, most: int, slow: bool
    ) -> ClientPage[SubscriberOverview]:
        places = {
            ClientPlace(each.connection, 0, each.queue.name): each
            for each in self.subscribing
            if vhost in (None, each.queue.vhost) and (each.is_slow or not slow)
        }
        later = sorted(place for place in places if place > begin)
        found = [places[place] for place in later[:most]]
        return ClientPage(found, later[most - 1] if len(later) > most else None)

    def close(
        self, number: int | None, user: str | None, vhost: str | None, text: str,
        answer: Callable[[int], None],
    ) -> None:  # fmt: skip
        self.closed.append((number, user, vhost, text))
        answer(
            sum(
                number in (None, each.connection)
                and user in (None, each.user)
                and vhost in (None, each.vhost)
                for each in self.clients
            )
        )


Thing = TypeVar("Thing", ConnectionOverview, ChannelOverview)


def _page(later: dict[ClientPlace, Thing], vhost: str | None, most: int) -> ClientPage[Thing]:
    matching = sorted(place for place in later if vhost in (None, later[place].vhost))
    found = [later[place] for place in matching[:most]]
    return ClientPage(found, matching[most] if len(matching) > most else None)


def a_node(name: str, leader: str | None = "n1") -> NodeOverview:
    """A healthy node."""
    return NodeOverview(
        node=NodeId(name),
        incarnation=Incarnation(1),
        zone="",
        leader=None if leader is None else NodeId(leader),
        map_version=MapVersion(42),
        lease_held=True,
        stopping=False,
        uptime_ms=65_000,
        connections=0,
        channels=0,
        consumers=0,
        private_queues=0,
        memory_bytes=0,
        journal_bytes=0,
        journal_segments=1,
    )


def a_member(name: str, state: MemberState = MemberState.UP) -> MemberOverview:
    """A member whose peer address is not known yet; `Served` fills it in."""
    return MemberOverview(NodeId(name), state, Incarnation(1), "", "", "127.0.0.1:5672")


def a_cluster(names: Sequence[str] = NAMES) -> dict[str, HandFilled]:
    """A healthy cluster without queues, led by n1."""
    cluster = ClusterOverview(3, tuple(a_member(name) for name in names), 0, 0, 0, 0)
    return {name: HandFilled(a_node(name), cluster) for name in names}


def add_queue(
    cluster: dict[str, HandFilled],
    name: str,
    parts: dict[str, tuple[int, int, int]],
    arguments: str = "{}",
    vhost: str = "/",
) -> QueueKey:
    """Adds a shared queue: node -> (ready, unacknowledged, consumers) of the fragment there.

    The backup of each fragment is on the node before it.
    """
    key = QueueKey(vhost, name)
    names = sorted(cluster)
    number = len(cluster[names[0]].queues) * 10
    fragments = []
    for at, (ready, unacknowledged, consumers) in parts.items():
        number += 1
        backup = NodeId(names[names.index(at) - 1])
        both = (NodeId(at), backup)
        fragment = FragmentId(number)
        fragments.append(FragmentOverview(fragment, NodeId(at), (backup,), both, Epoch(2), 1))
        local = LocalFragment(fragment, 1, True, ready, unacknowledged, 100 * ready)
        cluster[at].fragments.setdefault(key, []).append(local)
        cluster[at].consumers[key] = consumers
    for overview in cluster.values():
        overview.queues[key] = QueueOverview(key, True, False, arguments, 2, tuple(fragments))
        counts = overview.cluster_overview
        overview.cluster_overview = replace(
            counts, queues=counts.queues + 1, fragments=counts.fragments + len(fragments)
        )
    return key


def a_connection(number: int, client: str = "orders-worker") -> ConnectionOverview:
    """A client connection with two channels."""
    return ConnectionOverview(
        ConnectionId(number), f"127.0.0.1:{50_000 + number}", "guest", "/", client, 2, 1, 3, False
    )


def a_channel(connection: int, number: int, vhost: str = "/") -> ChannelOverview:
    """A channel in confirm mode with two consumers."""
    return ChannelOverview(
        ConnectionId(connection), number, "guest", vhost, 2, 7, 0, 0, 4, 10, 0, True, False, True
    )


def a_consumer(
    connection: int, tag: str, queue: str = "jobs", vhost: str = "/", active: bool | None = True
) -> ConsumerOverview:
    """A consumer on channel 1 with a prefetch count."""
    key = QueueKey(vhost, queue)
    return ConsumerOverview(key, ConnectionId(connection), 1, tag, False, 5, 0, active)


def a_subscriber(
    connection: int, queue: str, vhost: str = "/", ready: int = 0, dropped: int = 0
) -> SubscriberOverview:
    """An exclusive queue with a consumer."""
    return SubscriberOverview(
        QueueKey(vhost, queue), ConnectionId(connection), "guest", ready, 100 * ready, dropped, 1,
        ready > 0,
    )  # fmt: skip


def set_member(cluster: dict[str, HandFilled], name: str, **changes: Any) -> None:
    """Changes a member in every node's map."""
    for overview in cluster.values():
        view = overview.cluster_overview
        members = tuple(
            replace(member, **changes) if member.node == name else member for member in view.members
        )
        overview.cluster_overview = replace(view, members=members)


class SharedMap(SetInMap):
    """An `AccessOverview` of a map in which whatever is asked for takes effect at once."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = True
        self.too_new: Refused | None = None
        self._requests = itertools.count()

    def ask(self, operation: Operation, answer: Callable[[Outcome], None]) -> None:
        """As a node that proposes it; `answers` is false for one that is cut off."""
        if self.answers:
            command = encode_command(f"request {next(self._requests)}", [operation])
            answer(self.map.apply(command).results[0])

    def vhosts(self) -> Sequence[str]:
        return sorted(self.map.vhosts)

    def counted(self, names: Sequence[str]) -> Sequence[VhostOverview]:
        return [
            VhostOverview(
                name, sum(key.vhost == name for key in self.map.exchanges), 0,
                sum(key.vhost == name for key in self.map.grants),
            )
            for name in names
        ]  # fmt: skip

    def exchanges(self) -> Sequence[tuple[QueueKey, Exchange]]:
        return list(self.map.exchanges.items())

    def bindings(self) -> Sequence[Binding]:
        return list(self.map.bindings)

    def limits(self) -> Sequence[LimitsOverview]:
        return limits_of(self.map)

    def users(self) -> Sequence[str]:
        return sorted(self.map.users)

    def user(self, name: str) -> UserOverview:
        user = self.map.users[name]
        return UserOverview(name, user.tags, bool(user.password))

    def password_record(self, name: str) -> str | None:
        user = self.map.users.get(name)
        return None if user is None else user.password

    def grants(self) -> Sequence[GrantKey]:
        return sorted(self.map.grants)

    def grant(self, key: GrantKey) -> Grant:
        return self.map.grants[key]

    def topic_permissions(self) -> list[tuple[TopicKey, TopicGrant]]:
        return sorted(self.map.topic_permissions.items())

    def grants_of(self, keys: Sequence[GrantKey]) -> Sequence[tuple[GrantKey, Grant]]:
        return [(key, self.map.grants[key]) for key in keys if key in self.map.grants]

    def vhosts_of(self, user: str) -> Sequence[str]:
        return [key.vhost for key in self.map.grants if key.user == user]

    def traces(self) -> Sequence[tuple[str, Trace]]:
        return sorted(self.map.traces.items())

    def firehose(self) -> Sequence[str]:
        return sorted(self.map.firehose)

    def refuse_too_new(self, wanted: Operation) -> Refused | None:
        return self.too_new

    def refuse_trace(self, wanted: StartTrace) -> Refused | None:
        return refuse_trace(self.map, wanted)

    def has_queue(self, key: QueueKey) -> bool:
        return key in self.map.queues


class Served:
    """The admin services of a cluster; `ports` by node."""

    def __init__(self, cluster: dict[str, HandFilled]) -> None:
        self.cluster = cluster
        self.shared = SharedMap()
        self.turns = Durations()
        #: How shovels fare, by the member that runs them.
        self.shovels: dict[str, dict[QueueKey, ShovelState]] = {}
        self.ports: dict[str, int] = {}
        #: Members without an admin port, and those that were asked to stop.
        self.without_admin: list[str] = []
        self.stopped: list[str] = []
        self._stops: list[asyncio.Task[None]] = []
        self._servers: dict[str, grpc.aio.Server] = {}
        self._services: dict[str, AdminService] = {}

    async def start(self) -> None:
        for name, overview in self.cluster.items():
            server = grpc.aio.server()
            access = AccessAnswers(self.shared, self.shared.ask)
            service = AdminService(
                overview, lambda _, address: _channel(address), access, lambda *_: None,
                overview.close, lambda *_: None, self.turns,
                OwnProcess(partial(self._admin_address, name), partial(self._stop_process, name)),
                ShovelView(self.shared.map), partial(self._shovels_of, name),
            )  # fmt: skip
            service.add_to(server)
            self.ports[name] = server.add_insecure_port("127.0.0.1:0")
            self._servers[name], self._services[name] = server, service
            await server.start()
        for name, port in self.ports.items():
            set_member(self.cluster, name, peer_address=f"127.0.0.1:{port}")

    def _shovels_of(self, name: str) -> dict[QueueKey, ShovelState]:
        return self.shovels.get(name, {})

    def _admin_address(self, name: str) -> str:
        return "" if name in self.without_admin else self.address(name)

    def _stop_process(self, name: str) -> None:
        """As a process that stops: it answers, and then nobody listens there any more."""
        self.stopped.append(name)
        set_member(self.cluster, name, state=MemberState.DOWN)
        self._stops.append(asyncio.create_task(self._servers[name].stop(5.0)))

    async def stop(self) -> None:
        for name in list(self._servers):
            await self._stop_node(name)

    async def _stop_node(self, name: str) -> None:
        await self._services.pop(name).close()
        await self._servers.pop(name).stop(None)

    def stop_node(self, name: str) -> None:
        """That node's service is gone; the others' maps still say what they said."""
        LoopThread.run(self._stop_node(name))

    def service(self, name: str) -> AdminService:
        """That node's admin service."""
        return self._services[name]

    def address(self, name: str) -> str:
        """Where that node's admin service listens."""
        return f"127.0.0.1:{self.ports[name]}"


def _channel(address: str) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(address)


@contextmanager
def served(cluster: dict[str, HandFilled], servers: Served | None = None) -> Iterator[Served]:
    """Serves a cluster while the block runs."""
    servers = servers or Served(cluster)
    with LoopThread.running():
        LoopThread.run(servers.start())
        try:
            yield servers
        finally:
            LoopThread.run(servers.stop())


@contextmanager
def silent_address() -> Iterator[str]:
    """An address where connections are accepted and nothing is ever said."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
