"""The gRPC servers of a node: one for its peers, one for people and tools.

In: a configuration, the Peer service, further services of the floors above. Out: running servers
and their ports. The further services are reached on both: members ask each other on the peers'
port, people ask on the admin port, where health checks and reflection are, too.

Invariant: beyond loopback both servers demand certificates of the cluster's authority; without
them the admin port demands the node's token. The peers' port answers members' questions only, and,
with certificates, only to members that prove their names.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from fedq.shell.clients import listeners
from fedq.shell.clients.turnstile import Turnstile
from fedq.shell.config import admin_token
from fedq.shell.config.values import Listener, NodeConfig, is_loopback, join_address
from fedq.shell.peers.certificates import NodeCertificates
from fedq.shell.peers.channel import (
    ADMIN_SERVER_OPTIONS,
    PEER_SERVER_OPTIONS,
    SERVICE,
    Options,
)
from fedq.shell.peers.desk import PeerDesk
from fedq.shell.peers.questions import ProofGuard

#: Calls at a time on one server; two streams of each peer are among them.
_CALLS_MAX: Final = 256

logger = logging.getLogger("fedq.node")


class Service(Protocol):
    """A gRPC service that can be added to several servers before they start."""

    #: What members ask each other of it, by "/service/method".
    member_methods: frozenset[str]

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers with `server`, which must not have been started yet."""

    async def close(self) -> None:
        """Closes what the service has open."""


class PeerService(Protocol):
    """A part of the Peer service; it lives as long as its server."""

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers with `server`, which must not have been started yet."""


class GrpcServers:
    """The servers of one node."""

    __slots__ = (
        "_admin", "_certificates", "_config", "_health", "_peer", "_services", "_token_paths",
        "_turnstile", "admin_port", "peer_port",
    )  # fmt: skip

    def __init__(
        self, config: NodeConfig, services: Mapping[str, Service],
        certificates: NodeCertificates | None,
    ) -> None:  # fmt: skip
        """`services`: by the full name of each."""
        self._certificates = certificates
        self._config = config
        self._services = services
        self._peer: grpc.aio.Server | None = None
        self._admin: grpc.aio.Server | None = None
        self._health = health.aio.HealthServicer()
        self._turnstile = Turnstile(f"/{SERVICE}/")
        #: Where commands find the token of the admin port.
        self._token_paths: list[Path] = []
        #: The ports bound; None where there is no server.
        self.peer_port: int | None = None
        self.admin_port: int | None = None

    @staticmethod
    def check_ports(config: NodeConfig) -> None:
        """Raises `ConfigError` if a port is taken; gRPC itself would not say why it failed."""
        if config.peer_listener is not None:
            listeners.check_free(config, _peer_key(config), config.peer_listener)
        if config.admin is not None:
            listeners.check_free(config, "admin", config.admin)

    async def start_peer(self, services: Sequence[PeerService], desk: PeerDesk) -> None:
        """Listens for peers, if there may be any; `desk` knows them. Raises `ConfigError`."""
        listener = self._config.peer_listener
        if listener is None:
            return
        secure = self._config.certificates is not None
        methods = [service.member_methods for service in self._services.values()]
        asked: frozenset[str] = frozenset().union(*methods)
        guard: grpc.aio.ServerInterceptor = admin_token.MembersGuard((SERVICE,), asked)
        if secure:
            guard = ProofGuard(desk, desk.neighbours, asked)
        self._peer = _server(PEER_SERVER_OPTIONS, [guard, self._turnstile])
        for service in services:
            service.add_to(self._peer)
        for further in self._services.values():
            further.add_to(self._peer)
        key = _peer_key(self._config)
        # First: who finds the port open finds the socket, too.
        self._bind_near(self._peer, secure=secure)
        self.peer_port = self._bind(self._peer, key, listener, secure=secure)
        await self._peer.start()

    async def start_admin(self) -> None:
        """Listens for people, if the configuration says so. Raises `ConfigError`."""
        listener = self._config.admin
        if listener is None:
            return
        # On loopback commands need no certificate, but must be able to read the node's files.
        secure = not is_loopback(listener.host)
        token = "" if secure else self._make_token()
        guards: list[grpc.aio.ServerInterceptor] = []
        if not secure:
            guards.append(admin_token.TokenGuard(token))
        self._admin = _server(ADMIN_SERVER_OPTIONS, [*guards, self._turnstile])
        for further in self._services.values():
            further.add_to(self._admin)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._admin)
        names = (*self._services, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._admin)
        self.admin_port = self._bind(self._admin, "admin", listener, secure=secure)
        if token:
            self._token_paths = admin_token.publish(self.admin_port, token)
        await self._admin.start()

    async def set_serving(self, is_serving: bool) -> None:
        """Sets what health checks hear."""
        status = health_pb2.HealthCheckResponse
        answer = status.SERVING if is_serving else status.NOT_SERVING
        for name in ("", *self._services):
            await self._health.set(name, answer)

    async def stop(self) -> None:
        """Ends all calls and closes the ports."""
        for service in self._services.values():
            await service.close()
        while self._token_paths:
            self._token_paths.pop().unlink(missing_ok=True)
        for server in (self._admin, self._peer):
            if server is not None:
                await server.stop(grace=None)
        near = self._config.near.get(self._config.peer_address)
        if near is not None:
            near.unlink(missing_ok=True)

    def _make_token(self) -> str:
        data = self._config.data
        try:
            return admin_token.make(data)
        except OSError as error:
            raise self._config.error(
                "data", f"{data} cannot take the admin port's token: {error.strerror}"
            ) from error

    def _bind_near(self, server: grpc.aio.Server, *, secure: bool) -> None:
        """Listens at the Unix socket for other workers of this host, if it has some.

        A disk that takes no sockets costs that: they come over the port. Raises `ConfigError` if
        an old one stays in the way, at which they would try in vain.
        """
        near = self._config.near.get(self._config.peer_address)
        if near is None:
            return
        try:
            near.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            near.parent.chmod(0o700)
            near.unlink(missing_ok=True)
        except OSError as error:
            raise self._config.error(
                "data", f"{near} cannot be replaced: {error.strerror}; remove it"
            ) from error
        try:
            self._listen(server, f"unix:{near}", secure=secure)
        except RuntimeError as error:
            logger.warning("other workers come over the port, not over %s: %s", near, error)

    def _bind(self, server: grpc.aio.Server, key: str, listener: Listener, *, secure: bool) -> int:
        place = join_address(listener.host, listener.port)
        try:
            return self._listen(server, place, secure=secure)
        except RuntimeError as error:
            raise self._config.error(f"{key}.port", f"cannot listen on {place}") from error

    def _listen(self, server: grpc.aio.Server, place: str, *, secure: bool) -> int:
        if not secure:
            return server.add_insecure_port(place)
        assert self._certificates is not None, "the configuration was checked"
        return server.add_secure_port(place, self._certificates.server_credentials())


def _peer_key(config: NodeConfig) -> str:
    """Where the configuration says where to listen for peers."""
    return f"peers.{config.node}" if config.peer is None else "peer"


def _server(options: Options, guards: Sequence[grpc.aio.ServerInterceptor]) -> grpc.aio.Server:
    return grpc.aio.server(interceptors=guards, options=options, maximum_concurrent_rpcs=_CALLS_MAX)
