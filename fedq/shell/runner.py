"""One running node: opens what it needs, in order, and closes it again.

In: a `NodeConfig`, services of the floors above. Out: a node that serves, its bound ports, and in
the end an exit code. The order of the start is the order of trust: certificates and ports first
(nothing has happened yet if they are wrong), then the disk, then peers, and clients last. A clean
stop goes the other way; the peers' port closes last, because a refused connection there proves
to the others that this node is gone.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec

import grpc.aio

from fedq.core.errors import NodeFailure
from fedq.core.ids import NodeId
from fedq.journal.recovered import Recovered
from fedq.node.cluster.proposals import Result
from fedq.node.node import Node
from fedq.shell.clients import listeners
from fedq.shell.clients.amqp_server import AmqpServer
from fedq.shell.clients.shared_ports import SharedPorts
from fedq.shell.clients.verifier import Verifier
from fedq.shell.cluster_mark import ClusterMark
from fedq.shell.config import certificates
from fedq.shell.config.expiry import ExpiryWatch, files_of
from fedq.shell.config.secret_files import open_to_all
from fedq.shell.config.values import NodeConfig, join_address
from fedq.shell.disk.beside import BesideTurns
from fedq.shell.disk.durable_files import disk_failure
from fedq.shell.disk.journal_files import JournalFiles
from fedq.shell.disk.quarantine import QuarantineStore
from fedq.shell.disk.vouching import log_findings
from fedq.shell.durations import NodeDurations
from fedq.shell.host.process import SpareKeeper, clients_max
from fedq.shell.host.resources import ResourceWatch, resident_bytes
from fedq.shell.host.system_clock import monotonic_ms, wait_until
from fedq.shell.identity import Identity, IdentityFile, RaftMark, raft_memory
from fedq.shell.introductions import make_desk, remember_set, take_address
from fedq.shell.last_act import LastAct
from fedq.shell.lost_queues import recover_naming
from fedq.shell.map_machine import MapMachine
from fedq.shell.neighbours import Neighbours
from fedq.shell.node_settings import log_timing, memory_bytes, node_settings
from fedq.shell.opening import begin_start, enter_cluster, founders, open_journal
from fedq.shell.peers.admitting import Admitting
from fedq.shell.peers.certificates import NodeCertificates
from fedq.shell.peers.client import PeerClient
from fedq.shell.peers.desk import PeerDesk
from fedq.shell.peers.questions import channel_for_questions
from fedq.shell.peers.server import PeerServer, PeerSink
from fedq.shell.raft.journal import RaftStorageError
from fedq.shell.raft.log import RaftLog
from fedq.shell.renewal import Renewable, RenewableListener, RenewableNode, Renewal
from fedq.shell.services import GrpcServers, Service
from fedq.shell.turn import Effects, Turn
from fedq.wiring.cluster_map.operations_members import AdmitNode

#: Opens a channel to the gRPC services of another member, given its name and "host:port".
Connect = Callable[[NodeId, str], grpc.aio.Channel]
MakeService = Callable[[Node, Connect], Service]

#: How long a clean stop waits for the node to tell its clients, beyond the time to hand over,
_STOP_S: Final = 2.0
#: and then for clients to close their side.
_FAREWELL_S: Final = 2.0

logger = logging.getLogger("fedq.node")

P = ParamSpec("P")


class BoundPorts(NamedTuple):
    """The addresses where a node listens."""

    amqp: tuple[int, ...]
    peer: int | None
    admin: int | None


class _Parts(NamedTuple):
    """The parts of a started node."""

    node: Node
    turn: Turn
    journal: JournalFiles
    raft: RaftLog
    amqp: AmqpServer
    peers: PeerClient
    desk: PeerDesk
    grpc: GrpcServers
    verifier: Verifier
    beside: BesideTurns


class NodeRunner:
    """A node on the running event loop."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config
        self._make_services: dict[str, MakeService] = {}
        self._parts: _Parts | None = None
        self._peer_server: PeerServer | None = None
        self._bound: list[tuple[str, list[socket.socket], listeners.ClientSecurity | None]] = []
        self._amqp_ports: tuple[int, ...] = ()
        #: Set once the node has ended, must end, or is told to.
        self.ending = asyncio.Event()
        self._failure: str | None = None
        self._identity_file: IdentityFile | None = None
        #: Who votes as long as the log names nobody, and this node.
        self._founders: dict[NodeId, str] = {}
        self._neighbours = Neighbours(config.node, {}, {})
        self._stopping: asyncio.Task[None] | None = None
        #: What proves this node to peers that dial it; None without certificates.
        self._certificates: NodeCertificates | None = None
        self._spares: SpareKeeper | None = None
        self._expiry: ExpiryWatch | None = None
        self._renewal: Renewal | None = None
        self._watch: ResourceWatch | None = None
        self._shared_ports: SharedPorts | None = None
        self._last_act = LastAct(config.node, config.data)
        self.durations = NodeDurations()
        #: The memory of the process before it held anything.
        self._resident_before = 0
        #: Set once clients can connect.
        self.started = asyncio.Event()

    # --- before the start ---

    def add_admin_service(self, name: str, make: MakeService) -> None:
        """A gRPC service, by its full name, for the admin port and the peers' port.

        `make` is called with the node and a way to reach other members before the servers start.
        """
        assert self._parts is None, "services are added before the start"
        self._make_services[name] = make

    # --- start ---

    async def start(self) -> None:
        """Returns when clients can connect.

        Raises `ConfigError` for what the operator can change in the configuration, and
        `NodeFailure` for a data directory that cannot be trusted; both say what to do.
        """
        assert self._parts is None, "a runner runs once"
        self._check_certificates()
        for line in open_to_all(self._config):
            logger.warning("%s", line)
        loop = asyncio.get_running_loop()
        self._spares = SpareKeeper(loop)
        self._expiry = ExpiryWatch(files_of(self._config), loop)
        self._resident_before = resident_bytes()
        journal = None
        try:
            self._bind_clients()
            journal, identity, recovered = await self._open_data()
            parts = self._build(journal, identity, recovered)
        except BaseException:
            self._close_sockets()
            if journal is not None:
                journal.close()
            raise
        self._parts = parts
        try:
            await self._start_parts(parts)
        except BaseException:
            await self._close(parts)
            raise
        self._watch = ResourceWatch(
            asyncio.get_running_loop(), self._config.data, self._resident_before,
            self._bytes_waiting, self._on_resources,
        )  # fmt: skip
        self.started.set()
        for place in self.amqp_urls:
            logger.info("fedq %s ready: %s", self._config.node, place)

    def _check_certificates(self) -> None:
        files = self._config.certificates
        if files is None:
            return
        try:
            certificates.check_node_certificate(files, self._config.node)
            self._certificates = NodeCertificates(files)
        except certificates.CertificateError as error:
            raise self._config.error("certificates", str(error)) from error

    def _bind_clients(self) -> None:
        config = self._config
        secure: list[Renewable] = []
        if self._certificates is not None and config.certificates is not None:
            secure.append(RenewableNode(config.certificates, self._certificates))
        for index, listener in enumerate(config.amqp):
            key = f"amqp.listen[{index}]"
            tls = listeners.client_tls(config, key, listener.tls) if listener.tls else None
            options = listeners.SHARED if config.shares_ports else listeners.ALONE
            bound = listeners.bind(config, key, listener, options)
            self._bound.append((key, bound, tls))
            if tls is not None and listener.tls is not None:
                secure.append(RenewableListener(key, listener.tls, tls.context))
        self._renewal = Renewal(config, secure)
        self._amqp_ports = tuple(bound[0].getsockname()[1] for _, bound, _ in self._bound)
        GrpcServers.check_ports(config)

    async def _open_data(self) -> tuple[JournalFiles, Identity, Recovered]:
        config = self._config
        journal = open_journal(config, self.on_synced, self.on_journal_failed, self.durations.syncs)
        try:
            file, identity = begin_start(config)
            self._identity_file = file
            identity = await enter_cluster(config, file, identity, self._certificates, self.ending)
            self._founders = founders(config, identity, self._amqp_address)
            known = config.peers if identity.joined else self._founders
            self._neighbours = Neighbours(config.node, known, dict(identity.roster))
            # Reading may take a while, and whoever wants to stop the process should not wait.
            recovered = await asyncio.to_thread(
                recover_naming, journal, config.data, identity.incarnation,
                has_past=bool(identity.past), is_alone=not self._neighbours,
                body_bytes_max=memory_bytes(config) // 8,
            )  # fmt: skip
        except OSError as error:
            journal.close()
            raise disk_failure(error, self._journal_directory) from error
        except BaseException:
            journal.close()
            raise
        log_findings(recovered, self._journal_directory)
        return journal, identity, recovered

    def _mark_raft(self, raft: RaftLog) -> None:
        """Notes how far the Raft log has come, so that older files are known for what they are."""
        mark = raft.mark
        if self._identity_file is not None and mark.applied and not raft.is_learner:
            self._identity_file.mark_raft(RaftMark(mark.term, mark.applied))

    def _build(self, journal: JournalFiles, identity: Identity, recovered: Recovered) -> _Parts:
        config, connections_max = self._config, self._connections_max
        settings = node_settings(
            config, identity, journal.vouch.since, self._founders, self._neighbours,
            self._amqp_address, self._last_act, connections_max,
        )  # fmt: skip
        node = Node(settings, recovered)
        turn = Turn(node, self.durations, now_ms=monotonic_ms, on_fatal=self._on_fatal)
        proof = None if self._certificates is None else self._certificates.proof
        neighbours = self._neighbours
        desk = make_desk(config, identity, neighbours, node, turn, proof)
        amqp = AmqpServer(node, turn.input, connections_max, config.logins_per_address)
        file = self._identity_file
        assert file is not None, "the start is counted first"
        desk.belongs_to = lambda: file.cluster
        mark = ClusterMark(file, asyncio.get_running_loop())
        machine = MapMachine(node, turn, mark.note)
        machine.follow_roster(lambda: node.state.roster_changes, neighbours.follow)
        verifier = Verifier(lambda number, verdict: turn.input(node.on_verified, number, verdict))
        raft = RaftLog(
            config.node, settings.voters, config.data / "raft", joins=settings.joins,
            send=lambda peer, data: peers.send_raft(peer, data),
            machine=machine, failed=turn.fail, memory=raft_memory(identity),
            timing=log_timing(config),
            remember=partial(remember_set, file, node, turn),
        )  # fmt: skip
        desk.on_address = partial(take_address, config, neighbours.try_at)
        desk.on_behind, desk.on_cluster = raft.learn_first, raft.found_nothing
        peers = PeerClient(
            desk, node, turn.input, raft, self._certificates, turn.fail, config.near
        )  # fmt: skip
        server = self._peer_server = PeerServer(
            desk, neighbours, PeerSink(node, turn.input, raft.receive),
            is_secure=config.certificates is not None,
        )  # fmt: skip
        neighbours.connect(node.state, raft, peers, file, server.drop)
        connect = partial(channel_for_questions, self._certificates, desk)
        services = {name: make(node, connect) for name, make in self._make_services.items()}
        beside = BesideTurns(config.data, node, turn.input)
        turn.connect(
            Effects(
                append=journal.append,
                drop_segments=journal.drop,
                read=beside.reader.read,
                scratch=beside.scratch.write,
                send=peers.send,
                writers=amqp.writers,
                close=amqp.close,
                cut=amqp.cut,
                set_reading=amqp.set_reading,
                propose=raft.propose,
                end_pass=amqp.reading.end_pass,
                set_aside=QuarantineStore(config.data).put,
                verify=verifier.verify,
                tell_stop=self._last_act.tell,
            )
        )
        servers = GrpcServers(config, services, self._certificates)
        return _Parts(node, turn, journal, raft, amqp, peers, desk, servers, verifier, beside)

    async def _start_parts(self, parts: _Parts) -> None:
        config = self._config
        parts.turn.start()
        # Before the first frame of a peer, which may build on the map that is restored here.
        try:
            parts.raft.start()
        except RaftStorageError as error:
            raise NodeFailure(str(error)) from error
        except OSError as error:
            raise disk_failure(error, config.data) from error
        self._mark_raft(parts.raft)
        assert self._peer_server is not None, "it was built with the other parts"

        def ask(operation: AdmitNode, answer: Callable[[Result], None]) -> None:
            parts.turn.input(parts.node.on_change_asked, operation, answer)

        admitting = Admitting(
            parts.desk, parts.node.state.map, ask, is_secure=config.certificates is not None
        )
        await parts.grpc.start_peer((self._peer_server, admitting), parts.desk)
        await parts.grpc.start_admin()
        self._neighbours.start()
        self._last_act.begin(parts.peers, asyncio.get_running_loop())
        for _, sockets, tls in self._bound:
            while sockets:
                await parts.amqp.listen(sockets.pop(), tls)
        if config.shares_ports:
            securities = [tls for _, _, tls in self._bound]
            self._shared_ports = SharedPorts(config, parts.amqp, securities, parts.node.state)
        await parts.grpc.set_serving(True)

    # --- what others want to know ---

    @property
    def node(self) -> Node:
        """The node; only after the start."""
        assert self._parts is not None
        return self._parts.node

    @property
    def raft(self) -> RaftLog:
        """The node's Raft log; only after the start."""
        assert self._parts is not None
        return self._parts.raft

    @property
    def bound_ports(self) -> BoundPorts:
        """Where the node listens; only after the start."""
        assert self._parts is not None
        grpc_servers = self._parts.grpc
        return BoundPorts(self._amqp_ports, grpc_servers.peer_port, grpc_servers.admin_port)

    @property
    def amqp_urls(self) -> list[str]:
        """One URL for each AMQP listener."""
        pairs = zip(self._config.amqp, self._amqp_ports, strict=True)
        return [listeners.url_of(listener, port) for listener, port in pairs]

    def is_linked(self, peer: NodeId) -> bool:
        """Whether the link to a peer is up."""
        return self._parts is not None and self._parts.peers.is_up(peer)

    @property
    def failure(self) -> str | None:
        """Why the node could not go on; None as long as it can."""
        return self._failure

    @property
    def _amqp_address(self) -> str:
        if self._config.amqp_address:
            return self._config.amqp_address
        return join_address(listeners.reachable(self._config.amqp[0].host), self._amqp_ports[0])

    @property
    def _journal_directory(self) -> Path:
        return self._config.data / "journal"

    @property
    def _connections_max(self) -> int:
        allowed = clients_max()
        wanted = self._config.connections_max
        if wanted is None or wanted <= allowed:
            return wanted or allowed
        logger.warning(
            "limits.connections is %d, but the process may open descriptors for %d clients only; "
            "raise its limit (ulimit -n, LimitNOFILE)",
            wanted,
            allowed,
        )
        return allowed

    def _bytes_waiting(self) -> int:
        """The bytes for clients or the disk that are not written, and those of peers in part."""
        assert self._parts is not None
        parts = self._parts
        written = parts.turn.bytes_waiting() + parts.amqp.bytes_waiting()
        begun = 0 if self._peer_server is None else self._peer_server.bytes_begun()
        return written + begun + parts.journal.backlog_bytes

    # --- what happens above and below ---

    def input(self, method: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Calls one of the node's `on_…` methods inside a turn; only after the start."""
        assert self._parts is not None
        self._parts.turn.input(method, *args, **kwargs)

    def on_synced(self, number: int) -> None:
        """Takes note that journal chunks up to this number are on disk."""
        if self._parts is not None:
            self._parts.turn.input(self._parts.node.on_synced, number)

    def on_journal_failed(self, reason: str) -> None:
        """Takes note that the journal is lost."""
        if self._parts is not None:
            self._parts.turn.input(self._parts.node.on_journal_failed, reason)

    def _on_resources(self, waiting: int, resident: int, disk_free: int) -> None:
        if self._parts is not None:
            parts = self._parts
            free = 0 if parts.journal.is_full else disk_free
            parts.turn.input(parts.node.on_resources, waiting, resident, free)
            parts.turn.input(parts.node.on_log_owed, parts.raft.sync_owed_ms)

    def _on_fatal(self, reason: str) -> None:
        logger.critical("fedq %s stops: %s", self._config.node, reason)
        self._failure = reason
        if self._parts is not None:
            newer = self._parts.node.overtaken_by
            if newer is not None and self._identity_file is not None:
                self._identity_file.raise_number(newer)
            self._parts.raft.abort()
            self._parts.amqp.stop_listening()
            self._parts.amqp.abort_all()
        self.ending.set()

    # --- stop ---

    async def wait(self) -> int:
        """Waits until the node has ended or must end; returns the exit code: 0 clean, 1 not."""
        await self.ending.wait()
        await self.stop()
        return 0 if self._failure is None else 1

    def request_stop(self) -> None:
        """Ends `wait`, which then stops the node cleanly; the second time at once."""
        if self.ending.is_set() and self._parts is not None:
            self._parts.turn.fail("it was told twice to stop")
        self.ending.set()

    async def stop(self) -> None:
        """Hands over, tells the clients, closes everything. Does nothing the second time."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop())
        await asyncio.shield(self._stopping)

    async def _stop(self) -> None:
        parts = self._parts
        if parts is None:
            return
        parts.amqp.stop_listening()
        if not parts.turn.is_stopped:
            await parts.grpc.set_serving(False)
            parts.turn.input(parts.node.stop)
            stop_s = self._config.timing.stop_wait_ms / 1_000 + _STOP_S
            await wait_until(lambda: parts.node.stopped or parts.turn.is_stopped, stop_s)
            await wait_until(
                lambda: not parts.amqp.connections or parts.turn.is_stopped, _FAREWELL_S
            )
        await self._close(parts)
        self.ending.set()
        logger.info("fedq %s stopped", self._config.node)

    async def _close(self, parts: _Parts) -> None:
        await self._last_act.end(self._failure is not None)
        parts.amqp.stop_listening()
        parts.amqp.abort_all()
        self._mark_raft(parts.raft)
        await parts.raft.stop()
        parts.turn.stop()
        parts.verifier.stop()
        await parts.peers.stop()
        await asyncio.to_thread(parts.beside.close)
        await asyncio.to_thread(parts.journal.close)
        self._close_sockets()
        # Last, see the module's docstring.
        await parts.grpc.stop()

    def _close_sockets(self) -> None:
        for part in (self._spares, self._expiry, self._renewal, self._watch):
            if part is not None:
                part.stop()
        for _, sockets, _ in self._bound:
            while sockets:
                sockets.pop().close()
