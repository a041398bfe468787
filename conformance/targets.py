"""What suites run against: one fedq node, three of them, or a RabbitMQ that is installed.

Input: a directory of the run's own. Output: a context manager that yields a `Target` with the ports
clients use, plain and TLS. In the cluster of three, clients get a node that does not lead the
cluster map's consensus. Everything that is started ends with the context.
"""

import os
import random
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from fedq.core.ids import NodeId
from fedq.shell.config.certificates import make_authority, make_node_certificate
from fedq.shell.config.values import CertificateFiles
from loadtests.macro.brokers import RabbitBroker, RabbitNode
from tests.integration.harness import Cluster, NodeProcess
from tests.integration.ports import LOOPBACK, free_ports, is_free
from tests.integration.waiting import until

STANDARD_PORT: Final = 5672
STANDARD_TLS_PORT: Final = 5671
#: Suites that insist on AMQP's ports may call them by a name that has this address first.
LOOPBACK_6: Final = "::1"


class Target(NamedTuple):
    """A broker that runs."""

    name: str
    port: int
    tls_port: int
    #: The authority that signed the broker's certificate.
    authority: Path
    #: What went wrong with the broker's own processes, "" if nothing.
    complaint: Callable[[], str]


def certificates(directory: Path) -> CertificateFiles:
    """A new authority, and a certificate for a broker on loopback, in `directory`."""
    make_authority(directory)
    return make_node_certificate(directory, NodeId("broker"), [LOOPBACK, "localhost"])


def has_loopback_6() -> bool:
    """Whether this machine has the other loopback, too."""
    with suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
        probe.bind((LOOPBACK_6, 0))
        return True
    return False


def client_ports(standard: bool) -> tuple[int, int]:
    """(plain, TLS): AMQP's own where a suite insists on them, else free ones."""
    if not standard:
        plain, tls = free_ports(2)
        return plain, tls
    if not (is_free(STANDARD_PORT) and is_free(STANDARD_TLS_PORT)):
        raise OSError(f"ports {STANDARD_PORT} and {STANDARD_TLS_PORT} are not free")
    return STANDARD_PORT, STANDARD_TLS_PORT


def _listen(node: NodeProcess, ports: tuple[int, int], files: CertificateFiles) -> None:
    """Adds listeners for the suite to the node's configuration."""
    path = node.directory / "node.yaml"
    configuration = yaml.safe_load(path.read_text())
    tls = {"certificate": str(files.certificate), "key": str(files.key)}
    configuration["amqp"]["listen"] += [
        {"host": LOOPBACK, "port": ports[0]},
        {"host": LOOPBACK, "port": ports[1], "tls": tls},
    ]
    if ports[0] == STANDARD_PORT and has_loopback_6():
        configuration["amqp"]["listen"].append({"host": LOOPBACK_6, "port": ports[0]})
    path.write_text(yaml.safe_dump(configuration))


def _complaint_of(cluster: Cluster) -> str:
    """Nodes that ended by themselves, and errors in their logs."""
    said = []
    for node in cluster.nodes.values():
        if not node.is_running:
            said.append(f"node {node.name} ended by itself:\n{node.log()}")
        elif "Traceback" in (log := node.log()):
            said.append(f"node {node.name} logged an error:\n{log}")
    return "\n".join(said)


@contextmanager
def _one(directory: Path, standard: bool) -> Iterator[Target]:
    files, ports = certificates(directory / "certificates"), client_ports(standard)
    cluster = Cluster(directory, names=("one",))
    _listen(cluster.nodes["one"], ports, files)
    with cluster:
        yield Target("one", *ports, files.authority, lambda: _complaint_of(cluster))


@contextmanager
def _three(directory: Path, standard: bool) -> Iterator[Target]:
    files, ports = certificates(directory / "certificates"), client_ports(standard)
    with Cluster(directory) as cluster:
        leader = until("the cluster has a leader", cluster.leader)
        follower = next(name for name in cluster.nodes if name != leader)
        # Only now it is known which node does not lead; one that restarts does not lead, either.
        cluster.terminate(follower)
        _listen(cluster.nodes[follower], ports, files)
        cluster.restart(follower)
        yield Target("three", *ports, files.authority, lambda: _complaint_of(cluster))


class _RabbitWithTls(RabbitBroker):
    """The RabbitMQ of the load tests with listeners on given ports, one of them for TLS."""

    def __init__(self, directory: Path, ports: tuple[int, int], files: CertificateFiles) -> None:
        super().__init__(directory, cores="")
        self._settings = directory.parent / "rabbitmq.conf"
        other_loopback = ports[0] == STANDARD_PORT and has_loopback_6()
        # RabbitMQ 3.10's TLS wants to be told that clients need not show a certificate.
        self._settings.write_text(
            f"listeners.tcp.suite = {LOOPBACK}:{ports[0]}\n"
            f"listeners.tcp.own = {LOOPBACK}:{self.address.port}\n"
            f"listeners.ssl.suite = {LOOPBACK}:{ports[1]}\n"
            f"ssl_options.certfile = {files.certificate}\n"
            f"ssl_options.keyfile = {files.key}\n"
            f"ssl_options.cacertfile = {files.authority}\n"
            "ssl_options.verify = verify_none\n"
            "ssl_options.fail_if_no_peer_cert = false\n"
            + (f"listeners.tcp.six = {LOOPBACK_6}:{ports[0]}\n" if other_loopback else "")
        )

    def _environment(self, node: RabbitNode) -> dict[str, str]:
        usual = super()._environment(node)
        # These would add a listener of their own.
        del usual["RABBITMQ_NODE_IP_ADDRESS"], usual["RABBITMQ_NODE_PORT"]
        return usual | {"RABBITMQ_CONFIG_FILE": str(self._settings)}


@contextmanager
def _rabbitmq(directory: Path, standard: bool) -> Iterator[Target]:
    if not RabbitBroker.is_installed():
        raise OSError("RabbitMQ is not installed")
    files, ports = certificates(directory / "certificates"), client_ports(standard)
    with _RabbitWithTls(directory / "rabbitmq", ports, files) as broker:
        yield Target(broker.name, *ports, files.authority, lambda: "")


TARGETS: Final[dict[str, Callable[[Path, bool], AbstractContextManager[Target]]]] = {
    "one": _one,
    "three": _three,
    "rabbitmq": _rabbitmq,
}


def fresh_directory(base: Path, name: str) -> Path:
    """A new directory for one run; short, since paths of sockets must be."""
    directory = base / f"{name}-{os.getpid()}-{random.getrandbits(24):06x}"
    directory.mkdir(parents=True)
    return directory
