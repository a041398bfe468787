"""The TLS port: handshakes that are not finished, clients of a byte a second, plain bytes."""

import contextlib
import socket
import ssl
import time
from pathlib import Path
from typing import Final

import yaml

from fedq.core.ids import NodeId
from fedq.core.limits import MIB
from fedq.shell.config.certificates import make_authority, make_node_certificate
from tests.attacks.attacker import HEADER
from tests.attacks.crowds import hang_up
from tests.attacks.stage import AMPLE, AMPLE_GROWTH, Stage, attack
from tests.integration.harness import Cluster, serves
from tests.integration.ports import LOOPBACK, free_ports
from tests.integration.stock import Address
from tests.integration.waiting import until

LASTS_S: Final = 5.0
CONNECTIONS: Final = 600


def with_tls(cluster: Cluster) -> None:
    """Each node gets a TLS listener beside the other one."""
    for node in cluster.nodes.values():
        files = make_node_certificate(_authority(node.directory), NodeId(node.name), [LOOPBACK])
        path = node.directory / "node.yaml"
        content = yaml.safe_load(path.read_text())
        tls = {"certificate": str(files.certificate), "key": str(files.key)}
        [port] = free_ports(1)
        content["amqp"]["listen"].append({"host": LOOPBACK, "port": port, "tls": tls})
        path.write_text(yaml.safe_dump(content))


def _authority(directory: Path) -> Path:
    make_authority(directory / "certs")
    return directory / "certs"


def secure(stage: Stage) -> Address:
    """Where the attacked node speaks TLS."""
    path = stage.cluster.nodes[stage.name].directory / "node.yaml"
    place = yaml.safe_load(path.read_text())["amqp"]["listen"][1]
    return Address(place["host"], place["port"])


def _hello() -> bytes:
    """The first flight of a TLS handshake."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    coming, going = ssl.MemoryBIO(), ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(coming, going).do_handshake()
    return going.read()


def _again_and_again(stage: Stage, words: bytes) -> None:
    """Connections that say this and no more; the oldest hang up for new ones."""
    place = secure(stage)
    held: list[socket.socket] = []
    last = time.monotonic() + LASTS_S
    while time.monotonic() < last:
        one = socket.create_connection(place, timeout=5)
        with contextlib.suppress(OSError):
            one.sendall(words)
        held.append(one)
        if len(held) > CONNECTIONS:
            held.pop(0).close()
    hang_up(held)
    until("others are served", lambda: serves(stage.address))


@attack("H3", prepare=with_tls, more=AMPLE, growth_bytes=AMPLE_GROWTH)
def handshakes_that_are_not_finished(stage: Stage) -> None:
    """Thousands of connections send the first flight of a handshake, and never the second."""
    _again_and_again(stage, _hello())


@attack("H3", prepare=with_tls, more=AMPLE, growth_bytes=64 * MIB)
def plain_bytes_to_the_tls_port(stage: Stage) -> None:
    """Thousands of connections send AMQP without TLS, and a page of zeros."""
    _again_and_again(stage, HEADER + bytes(4_096))


@attack("H3", prepare=with_tls, more=AMPLE, growth_bytes=AMPLE_GROWTH)
def handshakes_of_a_byte_a_second(stage: Stage) -> None:
    """600 connections send a byte of a handshake each second, until they are cut off."""
    place, hello = secure(stage), _hello()
    held = [socket.create_connection(place, timeout=5) for _ in range(CONNECTIONS)]
    for at in range(10):
        for one in held:
            with contextlib.suppress(OSError):
                one.sendall(hello[at : at + 1])
        time.sleep(0.8)
    hang_up(held)
    until("others are served", lambda: serves(stage.address))
