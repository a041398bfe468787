"""Workers: the processes of one host that share its AMQP ports, each a node (docs/adr/0098).

In: a host's configuration, and how many workers it is to have. Out: the configuration of each; or a
`ConfigError`. The first worker is the node that the file describes. Worker K beyond it is a node of
its own: NAME.K, with its data in `workers/K` below `data`. It joins the first one, and its other
ports are those of the file plus 100 for each worker before it.

Links between workers go over Unix sockets, in a directory of their user's own.

Invariants: no two workers share anything but the AMQP ports; what the file says of the whole host
(memory) is divided among them, what it says of a node holds for each.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

from fedq.core.addresses import is_node_name, split_address
from fedq.core.ids import NodeId
from fedq.core.limits import MIB
from fedq.shell.config import certificates
from fedq.shell.config.values import Listener, NodeConfig, join_address

#: Below `data`, the directories of the workers beyond the first.
DIRECTORY: Final = "workers"
#: From one worker to the next.
PORT_STEP: Final = 100
#: In that directory, those of the sockets.
_SOCKETS: Final = "sockets"
#: What the system takes as the path of a socket.
_SOCKET_PATH_BYTES_MAX: Final = 107
#: What gRPC reads as more than a path: it would listen, or dial, elsewhere.
_OF_URLS: Final = "%?#"
#: Where the first worker listens for the others if the file does not say where it does for peers.
DEFAULT_PEER: Final = Listener("127.0.0.1", 15_681)
_PORT_MAX: Final = 65_535


def worker_name(host: NodeId, number: int) -> NodeId:
    """The name of a host's worker; `number` counts from 1."""
    return host if number == 1 else NodeId(f"{host}.{number}")


def worker_names(host: NodeId, count: int) -> list[NodeId]:
    """The names of a host's workers."""
    return [worker_name(host, number) for number in range(1, count + 1)]


def worker_data(data: Path, number: int) -> Path:
    """The data directory of a worker of the host with this one."""
    return data if number == 1 else data / DIRECTORY / str(number)


def left_behind(data: Path, count: int) -> list[int]:
    """The workers that have data, and are not among the first `count`."""
    found = [int(each.name) for each in (data / DIRECTORY).glob("[1-9]*") if each.name.isdigit()]
    return sorted(number for number in found if number > count)


def workers_of(config: NodeConfig, count: int, memory_bytes: int) -> tuple[NodeConfig, ...]:
    """The configuration of each worker; of one alone: as it is. Raises `ConfigError`.

    `memory_bytes`: what all of them may hold together.
    """
    if count == 1:
        return (config,)
    _check(config, count)
    share = max(memory_bytes // count, MIB)
    own = config.peer_listener
    if own is None and config.node in config.peers:
        own = Listener(*split_address(config.peers[config.node]))
    first = replace(config, peer=own or DEFAULT_PEER, memory_bytes_max=share, shares_ports=True)
    others = [_further(first, number) for number in range(2, count + 1)]
    workers = (first, *others)
    _check_ports(workers)
    _check_certificate(workers)
    near = _sockets(workers)
    return tuple(replace(each, near=near) for each in workers)


def _sockets(workers: tuple[NodeConfig, ...]) -> dict[str, Path]:
    """The socket of each worker, by its peer address; none if their paths do not do for that."""
    place = (workers[0].data / DIRECTORY / _SOCKETS).absolute()
    found = {each.peer_address: place / str(number) for number, each in enumerate(workers, 1)}
    return found if all(map(_does_for_socket, found.values())) else {}


def _does_for_socket(path: Path) -> bool:
    """Whether the system takes this path of a socket, and gRPC, for which it is part of a URL."""
    text = str(path)
    return len(text.encode()) <= _SOCKET_PATH_BYTES_MAX and not any(c in text for c in _OF_URLS)


def _further(first: NodeConfig, number: int) -> NodeConfig:
    """The configuration of a worker beyond the first."""
    assert first.peer is not None, "workers have a listener for peers"
    step = PORT_STEP * (number - 1)
    host, port = split_address(first.peer_address)
    others = [address for node, address in first.peers.items() if node != first.node]
    return replace(
        first,
        node=worker_name(first.node, number),
        data=worker_data(first.data, number),
        peers={},
        peer=_shifted(first.peer, step),
        peer_advertised=join_address(host, port + step),
        join=(first.peer_address, *others, *first.join),
        # The first one answers for all of the cluster.
        admin=None,
        http=None,
        metrics=None if first.metrics is None else _shifted(first.metrics, step),
    )


def _shifted(listener: Listener, step: int) -> Listener:
    return replace(listener, port=listener.port + step)


def _check(config: NodeConfig, count: int) -> None:
    for key, listener in config.client_listeners:
        if not listener.port:
            raise config.error(
                f"{key}.port", "0 could be any port, and workers share one: write the one to use"
            )
    if config.peer is not None and not config.peer.port:
        raise config.error("peer.port", "0 could be any port: workers need one that others know")
    longest = worker_name(config.node, count)
    if not is_node_name(longest):
        raise config.error("node", f"{longest} is too long for the name of a worker: 63 at most")
    for number in range(2, count + 1):
        name = worker_name(config.node, number)
        if name in config.peers:
            raise config.error(
                f"peers.{name}", f"is the name of worker {number} of this host: choose another one"
            )


def _check_ports(workers: tuple[NodeConfig, ...]) -> None:
    """Raises `ConfigError` if two listeners would have one port, or one is beyond all ports."""
    first = workers[0]
    seen = {listener.port: key for key, listener in first.client_listeners}
    if first.admin is not None:
        seen.setdefault(first.admin.port, "admin")
    first_peer = first.peer_listener
    assert first_peer is not None, "workers have a listener for peers"
    seen.setdefault(first_peer.port, "peer")
    for each in workers[1:]:
        for key, listener in (("peer", each.peer), ("metrics", each.metrics)):
            if listener is None:
                continue
            if listener.port > _PORT_MAX:
                raise first.error(
                    "workers", f"{each.node} would need port {listener.port} for `{key}`: begin "
                    f"with a lower one there, at most {_PORT_MAX - PORT_STEP * (len(workers) - 1)}"
                )  # fmt: skip
            if listener.port in seen:
                raise first.error(
                    "workers", f"{each.node} would listen on port {listener.port} for `{key}`, "
                    f"where `{seen[listener.port]}` is: choose another port for one of them"
                )  # fmt: skip
            seen[listener.port] = key


def _check_certificate(workers: tuple[NodeConfig, ...]) -> None:
    """Raises `ConfigError` if the host's certificate does not speak for all of its workers."""
    first = workers[0]
    if first.certificates is None:
        return
    for each in workers:
        try:
            certificates.check_node_certificate(first.certificates, each.node)
        except certificates.CertificateError as error:
            hint = f"`fedq certs node {first.node} --workers {len(workers)} HOST` makes one for all"
            raise first.error("certificates", f"{error}: {hint}") from error
