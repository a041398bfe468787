"""What is asked of both brokers: the same queues and clients, then each path.

In: where a broker listens. Out: for each path its status and the shape of its answer.
"""

import base64
import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from tests.contract.http.shapes import Shape, shape_of
from tests.integration.stock import Address, connect, pika
from tests.integration.waiting import patient, until

WITHIN_S = patient(30.0)
_LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
_GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
_POLICY = {
    "pattern": "^p", "definition": {"max-length": 5}, "priority": 1, "apply-to": "queues",
}  # fmt: skip
_PUBLISH = {
    "properties": {"headers": {"a": 1}}, "routing_key": "a.b", "payload": "hi",
    "payload_encoding": "string",
}  # fmt: skip
#: What is made before, in order.
STEPS: tuple[tuple[str, str, object], ...] = (
    ("PUT", "queues/%2F/q1", {"durable": True, "arguments": {"x-max-length": 10}}),
    ("PUT", "queues/%2F/q2", {"durable": True}),
    ("PUT", "exchanges/%2F/e1", {"type": "topic", "durable": True}),
    ("POST", "bindings/%2F/e/e1/q/q2", {"routing_key": "a.#", "arguments": {"x": "y"}}),
    ("POST", "exchanges/%2F/e1/publish", _PUBLISH),
)
#: What is asked; `{connection}` and `{channel}` are names that the broker has given.
ASKED: tuple[tuple[str, str, object], ...] = (
    *(
        ("GET", path, None)
        for path in (
            "overview", "nodes", "vhosts", "vhosts/%2F", "vhosts/%2F/permissions", "connections",
            "connections/{connection}", "connections/{connection}/channels", "channels",
            "channels/{channel}", "consumers", "consumers/%2F", "exchanges", "exchanges/%2F",
            "exchanges/%2F/e1", "exchanges/%2F/e1/bindings/source", "queues", "queues/%2F",
            "queues/%2F/q1", "queues/%2F/q2/bindings", "queues?page=1&page_size=1&name=q",
            "queues?columns=name,messages&sort=name", "bindings", "bindings/%2F",
            "bindings/%2F/e/e1/q/q2", "users", "users/guest", "users/guest/permissions",
            "permissions", "permissions/%2F/guest", "whoami", "cluster-name", "policies",
            "parameters", "vhost-limits", "user-limits", "topic-permissions",
            "aliveness-test/%2F", "health/checks/alarms", "health/checks/local-alarms",
            "health/checks/virtual-hosts", "health/checks/port-listener/1",
            "health/checks/protocol-listener/amqp", "health/checks/node-is-quorum-critical",
            "queues/%2F/none", "nothing", "queues?page=99", "queues?page=1&page_size=501",
        )
    ),
    ("POST", "queues/%2F/q2/get", _GET),
    ("POST", "queues/%2F/q2/get", {"count": 1}),
    ("POST", "exchanges/%2F/e1/publish", _PUBLISH),
    ("PUT", "queues/%2F/q1", {"durable": False}),
    ("PUT", "exchanges/%2F/e1", {"type": "fanout"}),
    ("PUT", "users/u1", {"password": "p", "tags": "monitoring"}),
    ("PUT", "users/u1", {"password": "p", "tags": "management"}),
    ("PUT", "users/u2", {"password": "p"}),
    ("PUT", "permissions/%2F/u1", {"configure": "", "write": "", "read": ""}),
    ("PUT", "permissions/%2F/u1", {"configure": ""}),
    ("DELETE", "permissions/%2F/u1", None),
    ("DELETE", "users/u1", None),
    ("DELETE", "users/u1", None),
    ("PUT", "vhosts/v1", {}),
    ("PUT", "vhosts/v1", {}),
    ("DELETE", "vhosts/v1", None),
    ("DELETE", "queues/%2F/q2/contents", None),
    ("DELETE", "queues/%2F/q1?if-unused=true", None),
    ("DELETE", "queues/%2F/q2", None),
    ("DELETE", "exchanges/%2F/e1", None),
    ("DELETE", "exchanges/%2F/e1", None),
    ("DELETE", "connections/{connection}", None),
    ("PUT", "policies/%2F/p1", _POLICY),
    ("PUT", "policies/%2F/p1", _POLICY),
    ("GET", "policies", None),
    ("GET", "policies/%2F", None),
    ("GET", "policies/%2F/p1", None),
    ("GET", "policies/%2F/none", None),
    ("PUT", "policies/%2F/p2", {"pattern": "a"}),
    ("PUT", "policies/%2F/p2", _POLICY | {"pattern": "("}),
    ("PUT", "policies/%2F/p2", _POLICY | {"definition": {"nothing": 1}}),
    ("PUT", "policies/%2F/p2", _POLICY | {"definition": {"max-length": -1}}),
    ("PUT", "policies/%2F/p2", _POLICY | {"definition": {}}),
    ("PUT", "policies/%2F/p2", _POLICY | {"priority": "x"}),
    ("PUT", "policies/%2F/p2", _POLICY | {"apply-to": "x"}),
    ("PUT", "policies/none/p2", _POLICY),
    ("DELETE", "policies/%2F/p1", None),
    ("DELETE", "policies/%2F/p1", None),
    ("PUT", "operator-policies/%2F/o1", _POLICY),
    ("GET", "operator-policies", None),
    ("GET", "operator-policies/%2F", None),
    ("GET", "operator-policies/%2F/o1", None),
    ("PUT", "operator-policies/%2F/o2", _POLICY | {"definition": {"overflow": "drop-head"}}),
    ("DELETE", "operator-policies/%2F/o1", None),
    ("DELETE", "operator-policies/%2F/o1", None),
    ("GET", "parameters/shovel", None),
)  # fmt: skip


def ask(port: int, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Status and JSON of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)
    headers = {"authorization": _LOGIN, "content-type": "application/json"}
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, f"/api/{path}", data, headers)
        response = connection.getresponse()
        said = response.read()
        return response.status, json.loads(said) if said else None
    finally:
        connection.close()


@contextmanager
def prepared(port: int, amqp: Address) -> Iterator[dict[str, str]]:
    """A broker with queues, and a client that consumes; what its client is called."""
    for method, path, body in STEPS:
        status, said = ask(port, method, path, body)
        assert status in (200, 201), f"{path}: {status} {said}"
    client = connect(amqp, client_properties={"connection_name": "worker"})
    channel = client.channel()
    channel.basic_qos(prefetch_count=5)
    channel.basic_consume("q1", lambda *_: None)
    try:
        for path in ("connections", "channels", "consumers"):
            until(f"{path} are shown", partial(_shown, port, path), WITHIN_S)
        until("messages are counted", lambda: _is_counted(port), WITHIN_S)
        # A node looks at its disk now and then, and says nothing of it before.
        until("the disk is measured", lambda: "disk_free" in _shown(port, "nodes")[0], WITHIN_S)
        (connected,), (opened,) = _shown(port, "connections"), _shown(port, "channels")
        yield {"connection": connected["name"], "channel": opened["name"]}
    finally:
        # It was closed over HTTP, and hears of it only now.
        with suppress(pika.exceptions.AMQPError):
            client.close()


def _shown(port: int, path: str) -> Any:
    return ask(port, "GET", path)[1]


def _is_counted(port: int) -> bool:
    queues = ask(port, "GET", "queues")[1]
    client = ask(port, "GET", "connections")[1]
    return sum(row.get("messages", 0) for row in queues) == 1 and "user" in client[0]


def told(port: int, amqp: Address) -> dict[str, tuple[int, Shape]]:
    """Status and shape of each answer, by what was asked and when."""
    found: dict[str, tuple[int, Shape]] = {}
    with prepared(port, amqp) as names:
        escaped = {
            what: name.replace(" ", "%20").replace(">", "%3E") for what, name in names.items()
        }
        for number, (method, path, body) in enumerate(ASKED):
            status, said = ask(port, method, path.format(**escaped), body)
            found[f"{number:02} {method} {path}"] = status, shape_of(said)
    return found
