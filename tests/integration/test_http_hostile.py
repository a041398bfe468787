"""Strangers and clumsy tools at the HTTP ports of a real node: all others go on as before."""

import base64
import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.integration.harness import Cluster
from tests.integration.ports import free_ports
from tests.integration.stock import PERSISTENT, connect

pytestmark = pytest.mark.slow

WITHIN_S = 60.0
GUEST = base64.b64encode(b"guest:guest").decode()


class Node:
    """A node with its HTTP ports."""

    def __init__(self, cluster: Cluster, http_port: int, metrics_port: int) -> None:
        self.cluster = cluster
        self.http_port = http_port
        self.metrics_port = metrics_port

    def ask(
        self, method: str, path: str, body: bytes | None = None, login: str = GUEST
    ) -> tuple[int, bytes]:
        """Status and body of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port, timeout=WITHIN_S)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            connection.putheader("authorization", f"Basic {login}")
            connection.putheader("content-length", str(len(body or b"")))
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """One node with both HTTP ports."""
    http_port, metrics_port = free_ports(2)
    cluster = Cluster(tmp_path, names=("a",))
    with (cluster.nodes["a"].directory / "node.yaml").open("a") as settings:
        settings.write(f"http:\n  port: {http_port}\nmetrics:\n  port: {metrics_port}\n")
    with cluster:
        yield Node(cluster, http_port, metrics_port)


def flood(node: Node, ended: threading.Event, answered: list[int]) -> None:
    """Asks with wrong passwords, and what costs most without one, until told to end."""
    number = 0
    while not ended.is_set():
        number += 1
        login = base64.b64encode(f"guest:{number}".encode()).decode()
        with suppress(OSError, http.client.HTTPException):
            answered.append(node.ask("GET", "/api/queues", login=login)[0])
            connection = http.client.HTTPConnection(
                "127.0.0.1", node.metrics_port, timeout=WITHIN_S
            )
            connection.request("GET", "/metrics/per-object")
            connection.getresponse().read()
            connection.close()


def test_clients_go_on_while_strangers_flood_the_ports(node: Node) -> None:
    ended = threading.Event()
    answered: list[int] = []
    # Wrong passwords are limited by place and user; one that is known to be right stays so.
    assert node.ask("GET", "/api/whoami")[0] == 200
    attackers = [
        threading.Thread(target=flood, args=(node, ended, answered), daemon=True) for _ in range(4)
    ]
    connection = connect(node.cluster.nodes["a"].amqp)
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    with ExitStack() as crowd:
        for port in (node.http_port, node.metrics_port) * 300:
            idle = crowd.enter_context(socket.create_connection(("127.0.0.1", port)))
            with suppress(OSError):
                idle.sendall(b"GET /api/overview HTTP/1.1\r\nhost: a\r\nx: ")
        for attacker in attackers:
            attacker.start()
        try:
            published = 0
            while published < 200 or len(answered) < 20:
                channel.basic_publish("", "orders", b"%d" % published, PERSISTENT)
                published += 1
        finally:
            ended.set()
        for attacker in attackers:
            attacker.join(WITHIN_S)
    assert channel.queue_declare("orders", passive=True).method.message_count == published
    assert set(answered) <= {401, 429}, "a wrong password opens nothing"
    assert node.cluster.nodes["a"].is_running
    status, body = node.ask("GET", "/api/queues/%2F/orders?columns=messages")
    assert (status, body) == (200, b'{"messages":%d}' % published)
    connection.close()


DEEP = b'{"arguments":' + b'{"a":' * 100 + b"1" + b"}" * 100 + b"}"
PUBLISH = b'{"properties":%s,"routing_key":"r","payload":"x","payload_encoding":"string"}'
ODD: tuple[tuple[str, str, bytes], ...] = (
    ("PUT", "/api/queues/%2F/" + "n" * 300, b"{}"),
    ("PUT", "/api/queues/%2F/q", DEEP),
    ("PUT", "/api/queues/%2F/q", b'{"arguments":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
    ("PUT", "/api/queues/%2F/q", b'{"arguments":{"x-max-length":-1}}'),
    ("PUT", "/api/queues/%2F/q", b'{"arguments":{"x-max-length":1e400}}'),
    ("PUT", "/api/queues/%2F/q", b'{"arguments":{"%s":1}}' % (b"k" * 300)),
    ("PUT", "/api/queues/%2F/q", b'{"arguments":[]}'),
    ("PUT", "/api/queues/%2F/q", b'{"durable":"maybe"}'),
    ("PUT", "/api/queues/%2F/amq.mine", b"{}"),
    ("PUT", "/api/queues/%FF/q", b"{}"),
    ("PUT", "/api/queues/none/q", b"{}"),
    ("PUT", "/api/exchanges/%2F/e", b'{"type":7}'),
    ("PUT", "/api/exchanges/%2F/amq.default", b"{}"),
    ("DELETE", "/api/exchanges/%2F/amq.default", b""),
    ("POST", "/api/bindings/%2F/e/none/q/none", b"{}"),
    ("POST", "/api/bindings/%2F/e/amq.topic/x/none", b"{}"),
    ("POST", "/api/bindings/%2F/e/amq.topic/q/none", b'{"routing_key":["a"]}'),
    ("DELETE", "/api/bindings/%2F/e/amq.topic/q/none/~", b""),
    ("POST", "/api/exchanges/%2F/amq.topic/publish", PUBLISH % b"[]"),
    ("POST", "/api/exchanges/%2F/amq.topic/publish", PUBLISH % b'{"nope":1}'),
    ("POST", "/api/exchanges/%2F/amq.topic/publish", PUBLISH % b'{"priority":256}'),
    ("POST", "/api/exchanges/%2F/amq.topic/publish", PUBLISH % b'{"delivery_mode":-1}'),
    ("POST", "/api/exchanges/%2F/amq.topic/publish", PUBLISH % b'{"user_id":"other"}'),
    ("POST", "/api/exchanges/%2F/amq.topic/publish", PUBLISH % (b'{"headers":%s}' % DEEP)),
    ("POST", "/api/exchanges/%2F/amq.topic/publish", (PUBLISH % b"{}").replace(b"string", b"x")),
    ("POST", "/api/queues/%2F/none/get", b'{"count":1,"ackmode":"x","encoding":"auto"}'),
    ("POST", "/api/queues/%2F/none/get", b'{"count":-1,"ackmode":"x","encoding":"auto"}'),
    ("PUT", "/api/users/u", b'{"tags":7,"password":"p"}'),
    ("PUT", "/api/users/u", b'{"tags":"","password":["p"]}'),
    ("PUT", "/api/users/u", b'{"tags":"","password_hash":"abc"}'),
    ("PUT", "/api/users/u", b'{"tags":"","password":"%s"}' % (b"p" * 2_000)),
    ("PUT", "/api/users/" + "u" * 300, b'{"tags":"","password":"p"}'),
    ("PUT", "/api/permissions/%2F/guest", b'{"configure":"(","write":"","read":""}'),
    ("PUT", "/api/permissions/%2F/guest", b'{"configure":1,"write":"","read":""}'),
    ("PUT", "/api/vhosts/" + "v" * 300, b"{}"),
    ("PUT", "/api/vhost-limits/%2F/nope", b'{"value":1}'),
    ("PUT", "/api/vhost-limits/%2F/max-queues", b'{"value":99999999999}'),
    ("PUT", "/api/vhost-limits/%2F/max-queues", b'{"value":true}'),
    ("DELETE", "/api/connections/a.1.99", b""),
    ("DELETE", "/api/connections/x", b""),
    ("DELETE", "/api/users/none", b""),
    ("POST", "/api/definitions", b"[]"),
    ("POST", "/api/definitions", b'{"queues":' + b"[" * 5_000 + b"]" * 5_000 + b"}"),
    ("POST", "/api/definitions", b'{"queues":[{"vhost":"/","name":"q","arguments":%s}]}' % DEEP),
    ("POST", "/api/definitions", b'{"queues":[{"vhost":"/","name":"%s"}]}' % (b"n" * 300)),
    ("POST", "/api/definitions", b'{"users":[{"name":"u","password_hash":"x"}]}'),
    ("POST", "/api/definitions", b'{"vhosts":[{"name":"' + b"v" * 300 + b'"}]}'),
    ("POST", "/api/definitions", b" " * (1 << 21)),
    ("POST", "/api/definitions/none", b"{}"),
    ("POST", "/page/app.js", b""),
    ("DELETE", "/", b""),
    ("GET", "/api/queues/%2F/%00", b""),
    ("GET", "/api/queues?sort=a.b.c&columns=a.b,a&page=1&name=%00&use_regex=true", b""),
)


def test_clumsy_requests_are_refused_and_hurt_nobody(node: Node) -> None:
    connection = connect(node.cluster.nodes["a"].amqp)
    channel: Any = connection.channel()
    statuses = [(node.ask(*asked)[0], asked[:2]) for asked in ODD]
    wrong = [each for each in statuses if not 400 <= each[0] < 500 and each[1][0] != "GET"]
    assert not wrong, wrong
    assert all(status < 500 for status, _ in statuses)
    assert channel.queue_declare("still-here").method.queue == "still-here"
    connection.close()
    assert node.ask("GET", "/api/queues/%2F?columns=name")[1] == b'[{"name":"still-here"}]'
    for path in ("/page/..%2ffiles.py", "/page/%2e%2e/files.py", "/page/app.js%0d%0ax-evil:1"):
        assert node.ask("GET", path)[0] == 404
    log = node.cluster.nodes["a"].log()
    assert "a request over HTTP failed" not in log
    assert "Traceback" not in log
