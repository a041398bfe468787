"""The HTTP ports over TLS, beside an AMQP listener that speaks TLS, too."""

import base64
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from fedq.core.ids import NodeId
from fedq.core.limits import HTTP_CONNECTIONS_MAX
from fedq.shell.config.certificates import make_authority, make_node_certificate
from tests.integration.harness import Cluster
from tests.integration.ports import LOOPBACK, free_ports
from tests.integration.waiting import patient

pytestmark = pytest.mark.slow

WITHIN_S = patient(30.0)
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()


class Secure:
    """A node whose HTTP ports speak TLS."""

    def __init__(self, directory: Path) -> None:
        make_authority(directory / "certs")
        own = make_node_certificate(directory / "certs", NodeId("alone"), [LOOPBACK])
        self._context = ssl.create_default_context(cafile=str(own.authority))
        self.http, self.metrics, amqps, plain = free_ports(4)
        tls = {"certificate": str(own.certificate), "key": str(own.key)}
        more: dict[str, Any] = {
            "http": {"port": self.http, "tls": dict(tls)},
            "metrics": {"port": self.metrics, "tls": dict(tls)},
            # The API logs in at the first one.
            "amqp": {"listen": [{"port": amqps, "tls": dict(tls)}, {"port": plain}]},
        }
        self.cluster = Cluster(directory / "nodes", names=("alone",), more=more)
        node = self.cluster.nodes["alone"]
        node.amqp = type(node.amqp)(LOOPBACK, plain)

    def ask(self, port: int, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and body of one request."""
        connection = http.client.HTTPSConnection(
            LOOPBACK, port, timeout=WITHIN_S, context=self._context
        )
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, data, {"authorization": LOGIN})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


@pytest.fixture
def secure(tmp_path: Path) -> Iterator[Secure]:
    """A node with TLS."""
    made = Secure(tmp_path)
    with made.cluster:
        yield made


def test_tools_work_over_tls_and_who_does_not_begin_it_makes_room(secure: Secure) -> None:
    assert secure.ask(secure.http, "PUT", "/api/queues/%2F/jobs", {"durable": True})[0] == 201
    message = {
        "properties": {}, "routing_key": "jobs", "payload": "hi", "payload_encoding": "string",
    }  # fmt: skip
    path = "/api/exchanges/%2F/amq.default/publish"
    assert secure.ask(secure.http, "POST", path, message) == (200, b'{"routed":true}')
    status, page = secure.ask(secure.metrics, "GET", "/metrics")
    assert (status, b"rabbitmq_queue_messages_ready 1.0" in page) == (200, True)

    with socket.create_connection((LOOPBACK, secure.http), WITHIN_S) as plain:
        plain.sendall(b"GET /api/overview HTTP/1.1\r\nhost: a\r\n\r\n")
        with suppress(ConnectionResetError):
            assert not plain.recv(100).startswith(b"HTTP")
    with ExitStack() as crowd:
        for _ in range(3 * HTTP_CONNECTIONS_MAX):
            silent = crowd.enter_context(socket.create_connection((LOOPBACK, secure.http)))
            with suppress(OSError):
                silent.sendall(b"\x16\x03\x01")
        assert secure.ask(secure.http, "GET", "/api/whoami")[0] == 200
