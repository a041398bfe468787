"""RabbitMQ's own command line, `rabbitmqadmin` of 3.10, against a cluster of fedq."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.harness import Cluster
from tests.integration.ports import free_ports
from tests.integration.stock import connect, pika
from tests.integration.waiting import patient, until

SCRIPT = shutil.which("rabbitmqadmin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(SCRIPT is None, reason="rabbitmqadmin is not installed (rabbitmq-server)"),
]
WITHIN_S = patient(30.0)


class Admin:
    """`rabbitmqadmin`, asking one node."""

    def __init__(self, port: int) -> None:
        self._port = port

    def run(self, *words: str, user: str = "guest", password: str = "guest") -> tuple[int, str]:
        """Exit code and what it says."""
        command = [
            sys.executable, str(SCRIPT), "--host", "127.0.0.1", "--port", str(self._port),
            "--username", user, "--password", password, *words,
        ]  # fmt: skip
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=WITHIN_S, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def do(self, *words: str) -> str:
        """What it says when it succeeds."""
        code, said = self.run(*words)
        assert code == 0, said
        return said.strip()

    def rows(self, *words: str) -> list[dict[str, Any]]:
        """A list as JSON."""
        found: list[dict[str, Any]] = json.loads(self.do("--format", "raw_json", "list", *words))
        return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Cluster, dict[str, Admin]]]:
    """Three nodes, each with the API."""
    ports = dict(zip(("a", "b", "c"), free_ports(3), strict=True))
    made = Cluster(tmp_path)
    for name, port in ports.items():
        with (made.nodes[name].directory / "node.yaml").open("a") as settings:
            settings.write(f"http:\n  port: {port}\n")
    with made:
        yield made, {name: Admin(port) for name, port in ports.items()}


def test_it_declares_publishes_shows_and_deletes(
    cluster: tuple[Cluster, dict[str, Admin]],
) -> None:
    made, admins = cluster
    a, b = admins["a"], admins["b"]
    assert a.do("declare", "vhost", "name=shop/eu") == "vhost declared"
    in_shop = ("--vhost", "shop/eu")
    arguments = 'arguments={"x-max-length":5}'
    assert a.do(*in_shop, "declare", "queue", "name=a/b", arguments) == "queue declared"
    assert b.do(*in_shop, "declare", "exchange", "name=ex", "type=topic") == "exchange declared"
    binding = ("source=ex", "destination=a/b", "routing_key=x.#")
    assert a.do(*in_shop, "declare", "binding", *binding) == "binding declared"
    said = b.do(*in_shop, "publish", "exchange=ex", "routing_key=x.1", "payload=hello")
    assert said == "Message published"
    unrouted = a.do(*in_shop, "publish", "exchange=ex", "routing_key=y", "payload=hello")
    assert unrouted == "Message published but NOT routed"
    shown = b.do(*in_shop, "get", "queue=a/b", "ackmode=ack_requeue_true")
    assert "hello" in shown
    (queue,) = a.rows("queues", "name", "vhost", "messages", "arguments", "state")
    assert queue == {
        "name": "a/b", "vhost": "shop/eu", "messages": 1, "arguments": {"x-max-length": 5},
        "state": "running",
    }  # fmt: skip
    assert a.do(*in_shop, "purge", "queue", "name=a/b") == "queue purged"
    bound = [row for row in b.rows("bindings") if row["source"] == "ex"]
    key = f"properties_key={bound[0]['properties_key']}"
    kind = ("destination_type=queue", "destination=a/b")
    assert a.do(*in_shop, "delete", "binding", "source=ex", *kind, key) == "binding deleted"
    assert b.do(*in_shop, "delete", "queue", "name=a/b") == "queue deleted"
    assert a.do("delete", "vhost", "name=shop/eu") == "vhost deleted"
    assert made.ask("queue", "list")["queues"] == []


def test_it_manages_users_and_clients(cluster: tuple[Cluster, dict[str, Admin]]) -> None:
    made, admins = cluster
    a, c = admins["a"], admins["c"]
    a.do("declare", "user", "name=tom", "password=geheim", "tags=management")
    a.do("declare", "permission", "vhost=/", "user=tom", "configure=^t", "write=.*", "read=")
    assert c.run("list", "queues", user="tom", password="geheim")[0] == 0
    code, said = c.run("list", "users", user="tom", password="geheim")
    assert (code, "Access refused" in said) == (1, True)
    code, said = c.run("declare", "queue", "name=other", user="tom", password="geheim")
    assert code == 1, "his own permissions hold"
    c.run("declare", "queue", "name=toms", user="tom", password="geheim")
    assert [row["name"] for row in a.rows("queues")] == ["toms"]
    assert c.run("list", "queues", user="tom", password="wrong")[0] == 1

    connection = connect(made.nodes["b"].amqp)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=3)
    channel.queue_declare("jobs")
    channel.basic_consume("jobs", lambda *_: None)
    until("the consumer is shown", lambda: len(a.rows("consumers")) == 1, WITHIN_S)
    (client,) = [row for row in a.rows("connections") if row["node"] == "b"]
    assert client["user"] == "guest"
    (shown,) = a.rows("channels")
    assert shown["consumer_count"] == 1
    assert c.do("close", "connection", f"name={client['name']}") == "connection closed"
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="320"):
        connection.process_data_events(WITHIN_S)
    until("it is gone", lambda: a.rows("connections") == [], WITHIN_S)
    a.do("delete", "user", "name=tom")
    assert {row["name"]: row["running"] for row in c.rows("nodes")} == dict.fromkeys("abc", True)


def test_it_declares_lists_and_deletes_policies(
    cluster: tuple[Cluster, dict[str, Admin]],
) -> None:
    _, admins = cluster
    a, b, c = admins.values()
    policy = ("name=short", "pattern=^events", 'definition={"max-length":3}', "priority=4")
    assert a.do("declare", "policy", *policy, "apply-to=queues") == "policy declared"
    bound = ("name=bound", "pattern=", 'definition={"expires":600000}')
    assert b.do("declare", "operator_policy", *bound) == "operator_policy declared"
    assert c.rows("policies") == [
        {
            "vhost": "/", "name": "short", "pattern": "^events", "apply-to": "queues",
            "definition": {"max-length": 3}, "priority": 4,
        }
    ]  # fmt: skip
    assert [row["name"] for row in c.rows("operator_policies")] == ["bound"]
    a.do("declare", "queue", "name=events")
    for number in range(5):
        b.do("publish", "exchange=amq.default", "routing_key=events", f"payload={number}")
    columns = ("policy", "operator_policy", "effective_policy_definition", "messages")
    asked = {"expires": 600000, "max-length": 3}
    assert c.rows("queues", *columns) == [
        {
            "policy": "short", "operator_policy": "bound", "effective_policy_definition": asked,
            "messages": 3,
        }
    ]  # fmt: skip
    code, said = a.run("declare", "policy", "name=p", "pattern=(", 'definition={"max-length":3}')
    assert (code, "regular expression" in said) == (1, True)
    assert a.do("delete", "policy", "name=short") == "policy deleted"
    assert a.do("delete", "operator_policy", "name=bound") == "operator_policy deleted"
    assert c.rows("policies") == []


def test_it_exports_and_imports_definitions(
    cluster: tuple[Cluster, dict[str, Admin]], tmp_path: Path
) -> None:
    _, admins = cluster
    admins["a"].do("declare", "queue", "name=kept", "durable=true")
    admins["a"].do("declare", "binding", "source=amq.topic", "destination=kept", "routing_key=a.#")
    file = tmp_path / "definitions.json"
    admins["a"].do("export", str(file))
    admins["a"].do("delete", "queue", "name=kept")
    admins["b"].do("import", str(file))
    assert [row["name"] for row in admins["c"].rows("queues", "name")] == ["kept"]
    found = admins["c"].rows("bindings", "source", "destination", "routing_key")
    wanted = {"source": "amq.topic", "destination": "kept", "routing_key": "a.#"}
    assert wanted in [{key: row[key] for key in wanted} for row in found]
    file.write_text('{"queues": [{"name": "x", "vhost": "none"}]}', "utf-8")
    code, said = admins["a"].run("import", str(file))
    assert code != 0
    assert "there is no vhost 'none'" in said
