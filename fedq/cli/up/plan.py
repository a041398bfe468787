"""What `fedq up` starts: directories, configurations, certificates and ports of a local cluster.

In: a directory, how many nodes, where their AMQP ports begin. Out: a `Plan`. A new cluster is
written whole or not at all; one that exists is taken as it is: its `node.yaml` files are the only
record of its names and ports, and whoever edits them is obeyed.

    DIR/certs/          the authority and a certificate for each node (more than one node)
    DIR/n1/node.yaml    its configuration, with paths relative to itself
    DIR/n1/data/        its journal and its part of the cluster map, and those of its workers
    DIR/n1/node.log     what it wrote to stderr
"""

import errno
import fcntl
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from fedq.cli.asking.endpoint import admin_address, load_configuration
from fedq.cli.processes.planning import plan_workers
from fedq.cli.terminal.failure import USAGE, CommandError
from fedq.core.ids import NodeId
from fedq.core.limits import MIB, VOTERS_MAX
from fedq.shell.config import certificates
from fedq.shell.config.values import (
    DEFAULT_ADMIN_PORT,
    DEFAULT_AMQP_PORT,
    DEFAULT_HTTP_PORT,
    DEFAULT_METRICS_PORT,
    Listener,
    NodeConfig,
    is_loopback,
    is_wildcard,
    join_address,
)
from fedq.shell.config.workers import PORT_STEP, worker_names
from fedq.shell.host.resources import memory_default

HOST: Final = "127.0.0.1"
NODES_DEFAULT: Final = 3
#: Where the search for ports of peers begins: away from those the kernel gives to clients.
PEER_PORT: Final = 25_672
#: How many ports are tried before giving up.
PORTS_TRIED_MAX: Final = 2_000
CONFIG_NAME: Final = "node.yaml"
LOCK_NAME: Final = "up.lock"


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node to start."""

    name: NodeId
    #: As a client on this machine writes it.
    amqp_url: str
    #: Of its web page and HTTP API; "": it has none.
    http_url: str
    #: "host:port" of its admin service.
    admin: str
    config: Path
    data: Path
    log: Path
    #: (host, port) of everything it will listen on.
    places: tuple[tuple[str, int], ...]
    #: Its own name, and those of its workers beyond the first.
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A local cluster, on disk and ready to be started."""

    directory: Path
    nodes: tuple[PlannedNode, ...]


def open_plan(
    directory: Path, count: int | None, amqp_port: int | None, *, has_http: bool = False,
    workers: int | None = None,
) -> Plan:  # fmt: skip
    """The cluster in the directory, made first if there is none. Raises `CommandError`.

    `has_http`: a new one has the HTTP API with its page, and metrics, on each node; `workers`: so
    many processes each.
    """
    files = sorted(directory.glob(f"*/{CONFIG_NAME}"))
    if not files:
        wanted = _Wanted(count or NODES_DEFAULT, amqp_port, has_http, workers or 1)
        _make(directory, wanted)
        files = sorted(directory.glob(f"*/{CONFIG_NAME}"))
    elif count is not None and count != len(files):
        raise CommandError(
            f"{directory} holds a cluster of {len(files)} nodes; leave --nodes out, or use another "
            "directory",
            USAGE,
        )
    elif amqp_port is not None:
        raise CommandError(
            f"{directory} holds a cluster, which keeps its ports; leave --amqp-port out, or edit "
            f"its {CONFIG_NAME} files",
            USAGE,
        )
    plan = Plan(directory, tuple(_planned(file, load_configuration(file)) for file in files))
    if workers is not None and any(len(node.members) != workers for node in plan.nodes):
        raise CommandError(
            f"{directory} holds a cluster, which keeps its workers; leave --workers out, or change "
            f"`workers` in its {CONFIG_NAME} files",
            USAGE,
        )
    if has_http and not all(node.http_url for node in plan.nodes):
        raise CommandError(
            f"{directory} holds a cluster, which keeps its ports; leave --http out, or add "
            f"`http: {{}}` to its {CONFIG_NAME} files",
            USAGE,
        )
    return plan


def check_ports(plan: Plan) -> None:
    """Says which port is in use before anything is started."""
    for node in plan.nodes:
        for host, port in node.places:
            if not is_free(port, host):
                raise CommandError(
                    f"port {port} of {node.name} is in use; stop what listens there, or change it "
                    f"in {node.config}"
                )


def _planned(file: Path, config: NodeConfig) -> PlannedNode:
    if config.admin is None:
        raise CommandError(
            f"{file}: `admin` is missing; without it nobody can watch the node", USAGE
        )
    if not is_loopback(config.admin.host):
        raise CommandError(
            f"{file}: `admin` is beyond this machine; a local cluster is watched on 127.0.0.1",
            USAGE,
        )
    workers = plan_workers(config)
    listeners = [*(each for _, each in config.client_listeners), config.admin]
    listeners += [each.peer_listener for each in workers if each.peer_listener is not None]
    listeners += [each.metrics for each in workers[1:] if each.metrics is not None]
    places = tuple((listener.host, listener.port) for listener in listeners)
    if any(port == 0 for _, port in places):
        raise CommandError(f"{file}: port 0 could be any port; write the one to use", USAGE)
    first = config.amqp[0]
    place, page = _place_of(first), ""
    if config.http is not None:
        page = f"{'https' if config.http.tls else 'http'}://{_place_of(config.http)}/"
    return PlannedNode(
        name=config.node,
        amqp_url=f"{'amqps' if first.tls else 'amqp'}://{place}",
        http_url=page,
        admin=admin_address(config),
        config=file,
        data=config.data,
        log=file.parent / "node.log",
        places=places,
        members=tuple(each.node for each in workers),
    )


def _place_of(listener: Listener) -> str:
    """Where a client on this machine reaches it."""
    return join_address(HOST if is_wildcard(listener.host) else listener.host, listener.port)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keeps a second `fedq up` away from the directory for the time of the block."""
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CommandError(f"{directory} cannot be used: {error.strerror}", USAGE) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise CommandError(f"another `fedq up` runs on {directory}") from error
    finally:
        os.close(descriptor)


# --- a new cluster --------------------------------------------------------------------------------


class _Wanted(NamedTuple):
    """The cluster that is to be made."""

    nodes: int
    amqp_port: int | None
    has_http: bool
    workers: int


def _make(directory: Path, wanted: _Wanted) -> None:
    """Writes a new cluster beside the directory, then moves it into its place in one step."""
    assert 1 <= wanted.nodes <= VOTERS_MAX
    parent = directory.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=parent))
    except OSError as error:
        raise CommandError(f"{directory} cannot be made: {error.strerror}", USAGE) from error
    try:
        _write_cluster(new, wanted)
        # Replaces a directory that is empty, and no other.
        new.rename(directory)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise CommandError(
                f"{directory} exists and holds no cluster of `fedq up`; name an empty or a new "
                "directory",
                USAGE,
            ) from error
        raise CommandError(f"{directory} cannot be written: {error.strerror}", USAGE) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _write_cluster(directory: Path, wanted: _Wanted) -> None:
    count, amqp_port = wanted.nodes, wanted.amqp_port
    names = [NodeId(f"n{number}") for number in range(1, count + 1)]
    taken: dict[int, None] = {}
    amqp = _ports(DEFAULT_AMQP_PORT, count, taken) if amqp_port is None else (
        _exact_ports(amqp_port, count, taken)
    )  # fmt: skip
    admin = _ports(DEFAULT_ADMIN_PORT, count, taken)
    workers = wanted.workers
    peer = _ports(PEER_PORT, count, taken, workers)
    more: list[dict[str, object]] = [{} for _ in names]
    if workers > 1:
        for own_keys, port in zip(more, peer, strict=True):
            own_keys |= {"workers": workers, "peer": {"host": HOST, "port": port}}
    if wanted.has_http:
        for key, first in (("http", DEFAULT_HTTP_PORT), ("metrics", DEFAULT_METRICS_PORT)):
            each = workers if key == "metrics" else 1
            for own_keys, port in zip(more, _ports(first, count, taken, each), strict=True):
                own_keys[key] = {"host": HOST, "port": port}
    peers = {name: join_address(HOST, port) for name, port in zip(names, peer, strict=True)}
    if count > 1:
        _make_certificates(directory / "certs", names, workers)
    for index, name in enumerate(names):
        own = directory / name
        own.mkdir()
        text = _configuration(name, amqp[index], admin[index], peers, more[index])
        (own / CONFIG_NAME).write_text(text, "utf-8")


def _configuration(
    name: NodeId, amqp_port: int, admin_port: int, peers: Mapping[NodeId, str],
    more: Mapping[str, object],
) -> str:  # fmt: skip
    """The text of a `node.yaml`; `more` stands in it, too."""
    values: dict[str, object] = {
        "node": str(name),
        "data": "data",
        "amqp": {"listen": [{"host": HOST, "port": amqp_port}]},
        "admin": {"host": HOST, "port": admin_port},
        **more,
    }
    if len(peers) > 1:
        # They share the machine.
        values["limits"] = {"memory_bytes": max(memory_default() // len(peers), MIB)}
        values["peers"] = {str(peer): address for peer, address in peers.items()}
        values["certificates"] = {
            "authority": "../certs/ca.pem",
            "certificate": f"../certs/{name}.pem",
            "key": f"../certs/{name}.key",
        }
    heading = f"# {name} of a local cluster, made by `fedq up`; edit it while the node is down.\n"
    return heading + yaml.safe_dump(values, sort_keys=False)


def _make_certificates(directory: Path, names: list[NodeId], workers: int) -> None:
    try:
        certificates.make_authority(directory)
        for name in names:
            speaks_for = worker_names(name, workers)
            certificates.make_node_certificate(directory, name, ["localhost", HOST], speaks_for)
    except certificates.CertificateError as error:
        raise CommandError(str(error)) from error


# --- ports ----------------------------------------------------------------------------------------


def is_free(port: int, host: str = HOST) -> bool:
    """Whether a node could listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def _ports(first: int, count: int, taken: dict[int, None], workers: int = 1) -> list[int]:
    """The first free ports from `first` on that are not `taken`; takes them.

    With `workers`, those that the further workers derive from one are free, too, and taken.
    """
    found: list[int] = []
    for port in range(first, min(first + PORTS_TRIED_MAX, 65_536 - PORT_STEP * (workers - 1))):
        derived = range(port, port + PORT_STEP * workers, PORT_STEP)
        if all(each not in taken and is_free(each) for each in derived):
            found.append(port)
            taken.update(dict.fromkeys(derived))
        if len(found) == count:
            return found
    raise CommandError(f"no {count} free ports found from {first} on; stop what uses them")


def _exact_ports(first: int, count: int, taken: dict[int, None]) -> list[int]:
    """The port `first` and those that follow on it, which the user asked for."""
    wanted = list(range(first, first + count))
    for port in wanted:
        if port > 65_535:
            raise CommandError(f"--amqp-port {first}: {count} nodes need {count} ports", USAGE)
        if not is_free(port):
            raise CommandError(f"port {port} is in use; choose another --amqp-port")
    taken.update(dict.fromkeys(wanted))
    return wanted
