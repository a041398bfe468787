"""Clients over TLS: with passwords, with certificates, and the ways in which it must not work."""

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedq.core.ids import NodeId
from fedq.shell.config.certificates import (
    make_authority,
    make_client_certificate,
    make_node_certificate,
)
from fedq.shell.config.values import CertificateFiles
from tests.integration.harness import Cluster
from tests.integration.ports import LOOPBACK, free_ports
from tests.integration.stock import Address, connect, pika
from tests.integration.wire import HEADER
from tests.unit.cli.command import fedq

pytestmark = pytest.mark.slow


class Secure:
    """A node with a TLS listener, and everybody's certificates."""

    def __init__(self, directory: Path) -> None:
        make_authority(directory / "certs")
        self.own = make_node_certificate(
            directory / "certs", NodeId("alone"), ["localhost", LOOPBACK]
        )
        self.robot = make_client_certificate(directory / "clients", "robot")
        self.unknown = make_client_certificate(directory / "clients", "nobody")
        self.stranger = make_client_certificate(directory / "strangers", "robot")
        self.plain, self.secure = (Address(LOOPBACK, port) for port in free_ports(2))
        tls = {
            "certificate": str(self.own.certificate),
            "key": str(self.own.key),
            "authority": str(self.robot.authority),
            "fail_if_no_peer_cert": False,
            "login_from": "common_name",
        }
        self.configuration: dict[str, Any] = {
            "amqp": {
                "listen": [
                    {"host": LOOPBACK, "port": self.plain.port},
                    {"host": LOOPBACK, "port": self.secure.port, "tls": tls},
                ]
            },
            "users": {"guest": "guest", "robot": "only its certificate opens this"},
        }

    def options(self, files: CertificateFiles | None = None) -> pika.SSLOptions:
        """How a client speaks TLS, with a certificate or without one."""
        context = ssl.create_default_context(cafile=str(self.own.authority))
        if files is not None:
            context.load_cert_chain(files.certificate, files.key)
        return pika.SSLOptions(context, "localhost")


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    """A node that tests share and leave alive."""
    directory = tmp_path_factory.mktemp("tls")
    secure = Secure(directory)
    cluster = Cluster(directory / "nodes", names=("alone",), more=secure.configuration)
    cluster.nodes["alone"].amqp = secure.plain
    with cluster:
        yield secure


def works(connection: Any) -> bool:
    """Whether a message larger than a TLS record and a frame comes back whole."""
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    body = bytes(range(256)) * 2_000
    channel.basic_publish("", queue, body)
    found = next(iter(channel.consume(queue, inactivity_timeout=20)))[2] == body
    connection.close()
    return bool(found)


def test_a_password_over_tls(node: Secure) -> None:
    assert works(connect(node.secure, ssl_options=node.options()))
    assert works(connect(node.secure, ssl_options=node.options(node.robot)))
    assert works(connect(node.plain))


def test_commands_publish_and_consume_over_tls(node: Secure, tmp_path: Path) -> None:
    connection = connect(node.plain)
    connection.channel().queue_declare("commands")
    connection.close()
    file = tmp_path / "lines"
    file.write_bytes(b"".join(b"%d %s\n" % (number, b"x" * 5_000) for number in range(300)))
    options = ("--url", f"amqps://{LOOPBACK}:{node.secure.port}", "--ca", str(node.own.authority))
    done = fedq("publish", "commands", "--lines", "--file", str(file), "--json", *options)
    assert (done.exit_code, done.value["confirmed"]) == (0, 300)
    taken = fedq("consume", "commands", "--count", "300", "--prefetch", "40", *options)
    assert (taken.exit_code, taken.out) == (0, file.read_text())


def test_a_certificate_is_a_login(node: Secure) -> None:
    credentials = pika.credentials.ExternalCredentials()
    options = node.options(node.robot)
    assert works(connect(node.secure, ssl_options=options, credentials=credentials))


def test_a_certificate_of_an_unknown_user_is_403(node: Secure) -> None:
    credentials = pika.credentials.ExternalCredentials()
    options = node.options(node.unknown)
    with pytest.raises(
        (pika.exceptions.ProbableAuthenticationError, pika.exceptions.AuthenticationError)
    ) as refused:
        connect(node.secure, ssl_options=options, credentials=credentials)
    assert "403" in str(refused.value)


@pytest.mark.parametrize("is_secure", [False, True])
def test_without_a_certificate_there_is_no_external(node: Secure, is_secure: bool) -> None:
    credentials = pika.credentials.ExternalCredentials()
    options = node.options() if is_secure else None
    address = node.secure if is_secure else node.plain
    with pytest.raises(pika.exceptions.AuthenticationError):
        connect(address, ssl_options=options, credentials=credentials)


def test_certificates_of_another_authority_are_refused(node: Secure) -> None:
    with pytest.raises((pika.exceptions.AMQPConnectionError, OSError)):
        connect(node.secure, ssl_options=node.options(node.stranger))
    context = ssl.create_default_context(cafile=str(node.stranger.authority))
    with pytest.raises((pika.exceptions.AMQPConnectionError, OSError)):
        connect(node.secure, ssl_options=pika.SSLOptions(context, "localhost"))
    assert works(connect(node.secure, ssl_options=node.options()))


def test_plain_amqp_on_the_tls_port_gets_no_answer_in_amqp(node: Secure) -> None:
    with socket.create_connection(node.secure, timeout=10) as client:
        client.sendall(HEADER)
        answer = client.recv(4_096)
        assert HEADER not in answer
        assert len(answer) < 100, "a TLS alert at most"
    assert works(connect(node.secure, ssl_options=node.options()))


def test_tls_on_the_plain_port_is_told_our_protocol(node: Secure) -> None:
    context = ssl.create_default_context()
    with (
        socket.create_connection(node.plain, timeout=10) as client,
        pytest.raises(ssl.SSLError),
    ):
        context.wrap_socket(client, server_hostname="localhost")


def test_a_handshake_that_stalls_is_cut_off(node: Secure) -> None:
    with socket.create_connection(node.secure, timeout=30) as client:
        # The beginning of a ClientHello, and never the rest.
        client.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
        assert works(connect(node.secure, ssl_options=node.options())), "others are served"
        with contextlib.suppress(ConnectionResetError):
            assert len(client.recv(4_096)) < 100
