"""What a node's operator decides, as plain values, and the one kind of error about it.

In: values that `fedq.shell.config.file` read and checked (or a test made). Out: the same,
immutable. Invariants: names and addresses are well-formed, `peers` contains the node itself,
paths are absolute or relative to the working directory.
"""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Final

from fedq.core.addresses import split_address
from fedq.core.ids import NodeId
from fedq.core.limits import (
    CHANNELS_MAX,
    CONSUMERS_PER_CHANNEL_MAX,
    CONSUMERS_PER_CONNECTION_MAX,
    DISK_FREE_BYTES_MIN,
    LOGINS_PER_ADDRESS_MAX,
    RETIRE_AGE_MS,
    RETIRE_IDLE_MS,
    SCRUB_BYTES_PER_SECOND,
    SCRUB_EVERY_MS,
)
from fedq.shell.config.exclusive_queues import DEFAULT as UNSAID
from fedq.shell.config.exclusive_queues import ExclusiveQueues

DEFAULT_AMQP_PORT: Final = 5672
DEFAULT_ADMIN_PORT: Final = 15692
DEFAULT_HTTP_PORT: Final = 15672
DEFAULT_METRICS_PORT: Final = 15691


class ConfigError(Exception):
    """The configuration cannot work. The text is one sentence with file, line and key."""

    def __init__(
        self, sentence: str, *, key: str = "", file: Path | None = None, line: int = 0
    ) -> None:
        place = "" if file is None else f"{file}:{line}: " if line else f"{file}: "
        super().__init__(f"{place}{key}: {sentence}" if key else f"{place}{sentence}")
        self.sentence = sentence
        self.key = key
        self.file = file
        #: Counted from 1; 0 when there is no such line.
        self.line = line


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files: who is trusted, who this node is, and the private key that proves it."""

    authority: Path
    certificate: Path
    key: Path


class LoginFrom(StrEnum):
    """What of a client's certificate is its user name (SASL EXTERNAL); RabbitMQ's words."""

    DISTINGUISHED_NAME = "distinguished_name"
    COMMON_NAME = "common_name"
    SUBJECT_ALTERNATIVE_NAME = "subject_alternative_name"


@dataclass(frozen=True, slots=True)
class ClientTls:
    """PEM files of an AMQP listener, and what it wants of its clients' certificates."""

    certificate: Path
    key: Path
    #: Whose certificates clients may show; None: they are not asked for any.
    authority: Path | None = None
    #: With an authority: a client without a certificate is turned away.
    certificate_required: bool = True
    login_from: LoginFrom = LoginFrom.DISTINGUISHED_NAME
    #: A certificate that has ended is shown to clients all the same.
    allows_expired: bool = False


@dataclass(frozen=True, slots=True)
class Listener:
    """Where to listen; port 0 takes any free one."""

    host: str
    port: int
    tls: ClientTls | None = None


@dataclass(frozen=True, slots=True)
class Timing:
    """The pace of a node in milliseconds; see `NodeSettings` for what each one means."""

    heartbeat_ms: int = 100
    lease_ms: int = 700
    suspect_ms: int = 1_800
    backup_stall_ms: int = 1_500
    replace_backup_ms: int = 5_000
    replace_voter_ms: int = 300_000
    revive_wait_ms: int = 5_000
    stop_wait_ms: int = 10_000
    drain_grace_ms: int = 10_000
    #: How long the event loop may stand still before the process ends; 0: for ever.
    loop_hang_ms: int = 30_000
    #: So long a fragment had no traffic that is retired (0: none is), and so long it was led here.
    retire_idle_ms: int = RETIRE_IDLE_MS
    retire_age_ms: int = RETIRE_AGE_MS
    #: How long after one pass of the scrub began the next one does.
    scrub_every_ms: int = SCRUB_EVERY_MS


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Everything an operator decides about one node."""

    node: NodeId
    data: Path
    amqp: tuple[Listener, ...]
    #: How clients reach this node, "host:port"; "" = as its first listener says.
    amqp_address: str = ""
    #: Every voter with its peer address "host:port", this node among them; empty = alone.
    peers: Mapping[NodeId, str] = field(default_factory=dict)
    #: None: where `peers` says the others reach this node.
    peer: Listener | None = None
    #: How other nodes reach this one, "host:port", where `peers` does not say so; "" = as `peer`.
    peer_advertised: str = ""
    #: Peer addresses of a cluster that runs, which this node is to join.
    join: tuple[str, ...] = ()
    #: A new cluster lets clients in once so many members have come up.
    cluster_size: int = 1
    certificates: CertificateFiles | None = None
    admin: Listener | None = None
    #: For the HTTP API, and for Prometheus; None: there is none.
    http: Listener | None = None
    metrics: Listener | None = None
    #: Name -> password; kept out of `repr` and so out of logs.
    users: Mapping[str, str] = field(default_factory=lambda: {"guest": "guest"}, repr=False)
    #: Where some of these passwords stand; the others are in the configuration itself, if any.
    password_files: tuple[Path, ...] = ()
    has_plain_passwords: bool = False
    zone: str = ""
    #: How many processes share the AMQP ports of this host; None: as many as it has cores.
    workers: int | None = 1
    #: It is one of several workers: others listen on its AMQP ports, too.
    shares_ports: bool = False
    #: Peer addresses of this host's workers, its own too, and the Unix sockets of the same.
    near: Mapping[str, Path] = field(default_factory=dict)
    #: At most this many clients; None = as many as the process may open descriptors.
    connections_max: int | None = None
    #: Clients of one address that may be about to log in.
    logins_per_address: int = LOGINS_PER_ADDRESS_MAX
    fragment_threshold: int = 1_000
    #: None: a share of what the machine has.
    memory_bytes_max: int | None = None
    channels_max: int = CHANNELS_MAX
    consumers_per_channel_max: int = CONSUMERS_PER_CHANNEL_MAX
    consumers_per_connection_max: int = CONSUMERS_PER_CONNECTION_MAX
    exclusive: ExclusiveQueues = UNSAID
    disk_free_bytes_min: int = DISK_FREE_BYTES_MIN
    #: How much of its journal the node reads again in a second, looking for rot; 0: none.
    scrub_bytes_per_second: int = SCRUB_BYTES_PER_SECOND
    timing: Timing = Timing()
    #: Where it was read from, for messages: the file, and the line of each key.
    file: Path | None = field(default=None, compare=False)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False)

    def error(self, key: str, sentence: str) -> ConfigError:
        """An error about a key like `amqp.listen[0].port`, with its place in the file."""
        at = key
        while at and at not in self.lines:
            at = at[: max(at.rfind("."), at.rfind("["), 0)]
        return ConfigError(sentence, key=key, file=self.file, line=self.lines.get(at, 0))

    @property
    def client_listeners(self) -> list[tuple[str, Listener]]:
        """The listeners of AMQP and HTTP, which may speak TLS to clients, by their keys."""
        found = [(f"amqp.listen[{index}]", each) for index, each in enumerate(self.amqp)]
        others = (("http", self.http), ("metrics", self.metrics))
        return found + [(key, each) for key, each in others if each is not None]

    @property
    def peer_listener(self) -> Listener | None:
        """Where to listen for peers; None for a node that is alone, and to stay so."""
        if self.peer is not None:
            return self.peer
        if len(self.peers) < 2:
            return None
        return Listener(*split_address(self.peers[self.node]))

    @property
    def peer_address(self) -> str:
        """How other nodes reach this one, "host:port"; "" for one that is alone."""
        if self.node in self.peers:
            return self.peers[self.node]
        if self.peer_advertised or self.peer is None:
            return self.peer_advertised
        return join_address(self.peer.host, self.peer.port)


def join_address(host: str, port: int) -> str:
    """The inverse of `fedq.core.addresses.split_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host name or address."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host == "localhost"


def is_wildcard(host: str) -> bool:
    """Whether the host means every address of the machine."""
    return host in ("", "0.0.0.0", "::")
