"""Definitions of real nodes: RabbitMQ's export in, out again, and into another cluster."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.http.definitions import ALL
from tests.contract.http.story import ask
from tests.integration.harness import Cluster
from tests.integration.ports import free_ports
from tests.integration.stock import Address, connect, pika
from tests.unit.cli.command import fedq

pytestmark = pytest.mark.slow


@pytest.fixture
def ports(tmp_path: Path) -> Iterator[list[int]]:
    """The HTTP ports of two nodes that are clusters of their own."""
    found = free_ports(2)
    clusters = [Cluster(tmp_path / name, names=(name,)) for name in "ab"]
    for cluster, name, port in zip(clusters, "ab", found, strict=True):
        with (cluster.nodes[name].directory / "node.yaml").open("a") as settings:
            settings.write(f"http:\n  port: {port}\n")
    with clusters[0], clusters[1]:
        yield found


def definitions(port: int) -> dict[str, list[Any]]:
    """What a node exports, in an order that does not matter."""
    status, found = ask(port, "GET", "definitions")
    assert status == 200
    return {
        name: sorted(value, key=lambda each: json.dumps(each, sort_keys=True))
        for name, value in found.items()
        if isinstance(value, list)
    }


def can_log_in(port: int, name: str, password: str) -> bool:
    """Whether the node lets an AMQP client in as that user, whatever it may do then."""
    listeners = ask(port, "GET", "overview")[1]["listeners"]
    (amqp,) = [each["port"] for each in listeners if each["protocol"] == "amqp"]
    login = pika.PlainCredentials(name, password)
    try:
        connect(Address("127.0.0.1", amqp), credentials=login, virtual_host="shop").close()
    except pika.exceptions.ProbableAuthenticationError:
        return False
    except pika.exceptions.ConnectionClosedByBroker as closed:
        # Not in that virtual host.
        return bool(closed.reply_code == 530)
    except pika.exceptions.ProbableAccessDeniedError:
        return True
    return True


def test_rabbitmqs_definitions_go_round(ports: list[int], tmp_path: Path) -> None:
    first, second = ports
    said = json.loads(ALL.read_text("utf-8"))
    before = definitions(first)
    broken = said | {"users": [each | {"hashing_algorithm": "ours"} for each in said["users"]]}
    status, refused = ask(first, "POST", "definitions", broken)
    assert (status, "nothing was imported" in refused["reason"]) == (400, True)
    assert definitions(first) == before, "all or nothing"

    # Who imports is not limited to topics for as long as it takes.
    own = {"exchange": "events", "write": "", "read": ""}
    assert ask(first, "PUT", "vhosts/shop", {})[0] == 201
    assert ask(first, "PUT", "topic-permissions/shop/guest", own)[0] == 201
    said["topic_permissions"].append({"user": "guest", "vhost": "shop", **own})
    file = tmp_path / "rabbit.json"
    file.write_text(json.dumps(said), "utf-8")
    url = f"http://guest:guest@127.0.0.1:{first}"
    told = fedq("definitions", "import", str(file), "--url", url, "--json")
    assert told.exit_code == 0, told.err
    assert json.loads(told.out)["differs"] == []
    found = definitions(first)
    assert {"name": "mine", "value": {"a": 1}} in found["global_parameters"]
    for name in (
        "queues",
        "exchanges",
        "bindings",
        "permissions",
        "topic_permissions",
        "users",
        "vhosts",
        "parameters",
        "policies",
    ):
        wanted = sorted(said[name], key=lambda each: json.dumps(each, sort_keys=True))
        assert found[name] == wanted, name

    export = tmp_path / "fedq.json"
    assert fedq("definitions", "export", str(export), "--url", url).exit_code == 0
    assert export.stat().st_mode & 0o077 == 0
    other = f"http://guest:guest@127.0.0.1:{second}"
    told = fedq("definitions", "import", str(export), "--url", other)
    assert (told.exit_code, told.out) == (0, f"{export}: imported\n")
    assert definitions(second) == found
    assert ask(second, "POST", "definitions", json.loads(export.read_text("utf-8")))[0] == 204

    for port in (first, second):
        for name, password in (("app", "geheim"), ("eve", "geheim"), ("guest", "guest")):
            assert can_log_in(port, name, password), "RabbitMQ's passwords came along"
            assert not can_log_in(port, name, "wrong")
    for name, password in (("eve", "geheim"), ("guest", "guest")):
        url = f"http://{name}:{password}@127.0.0.1:{second}"
        asked = fedq("definitions", "export", "-", "--vhost", "shop", "--url", url)
        assert asked.exit_code == (0 if name == "guest" else 1), "passwords came along"
        assert ("Not administrator user" in asked.err) is (name == "eve")
