"""What `fedq migrate` would do with a file of definitions, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedq.cli.cluster.migration_plan import moved_by, plan_of, shovel_name, shovel_value
from fedq.core.ids import QueueKey
from tests.contract.http.definitions import ALL
from tests.unit.cli.command import fedq

SAID: dict[str, Any] = {
    "vhosts": [{"name": "/"}, {"name": "shop"}],
    "users": [{"name": "guest", "password_hash": "x"}],
    "permissions": [{"user": "guest", "vhost": "/"}],
    "parameters": [
        {"component": "shovel", "vhost": "/", "name": "s", "value": {}},
        {"component": "vhost-limits", "vhost": "/", "name": "limits", "value": {}},
    ],
    "queues": [
        {"vhost": "shop", "name": "b", "durable": True, "auto_delete": False, "arguments": {}},
        {"vhost": "/", "name": "gone", "durable": True, "auto_delete": True, "arguments": {}},
        {"vhost": "/", "name": "log", "arguments": {"x-queue-type": "stream"}},
        {"vhost": "/", "name": "a", "arguments": {"x-queue-type": "quorum"}},
    ],
    "exchanges": [], "bindings": [], "policies": [],
}  # fmt: skip


def test_queues_are_moved_and_the_rest_is_said() -> None:
    plan = plan_of(SAID, None)
    assert plan.queues == (("/", "a"), ("shop", "b"))
    assert [each.partition(" in ")[0] for each in plan.left] == ["queue 'gone'", "queue 'log'"]
    assert "users" not in plan.definitions
    assert [row["component"] for row in plan.definitions["parameters"]] == ["vhost-limits"]
    one = plan_of(SAID, "shop")
    assert one.queues == (("shop", "b"),)
    assert one.definitions["vhosts"] == [{"name": "shop"}]


def test_rabbitmqs_own_export_has_a_plan() -> None:
    assert plan_of(json.loads(ALL.read_text("utf-8")), None).queues


@pytest.mark.parametrize("said", [[], {}, {"queues": {}}, {"queues": [1]}, {"queues": [{}]}])
def test_what_are_no_definitions_is_refused(said: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        plan_of(said, None)


def test_a_dry_run_does_nothing_and_says_what_would_be_done(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(SAID), "utf-8")
    command = ("migrate", "--from", "amqp://u:s3cret@example.com", "--definitions", str(file))
    done = fedq(*command, "--dry-run")
    assert done.exit_code == 0
    assert "queue 'a' in vhost '/' would be moved" in done.out
    assert "queue 'log' in vhost '/' is not moved: it is a stream" in done.out
    assert "s3cret" not in done.out
    found = fedq(*command, "--dry-run", "--json").value
    assert [each["name"] for each in found["queues"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "--from: a URI begins with amqp://"),
        (("--from", "amqp://u:s3cret@/"), "is of this cluster"),
        (("--from", "amqp://u:s3cret@h"), "--definitions FILE or --management URL"),
        (("--from", "amqp://u:s3cret@h", "--definitions", "/none"), "cannot read /none"),
    ],
)
def test_what_is_wrong_with_the_command_is_said(arguments: tuple[str, ...], words: str) -> None:
    done = fedq("migrate", *arguments)
    assert done.exit_code == 2
    assert words in done.err
    assert "s3cret" not in done.err


def test_shovels_that_somebody_else_made_are_not_taken_for_its_own() -> None:
    for key in (QueueKey("/", "a.b"), QueueKey("shop", "n" * 200)):
        name, value = shovel_name(7, key), shovel_value(key, "amqp://h", "amqp://u:p@/", "never")
        assert moved_by(name, key.vhost, value) == key
        assert moved_by("migrate.orders", key.vhost, value) is None
        assert moved_by(f"my{name}", key.vhost, value) is None
        assert moved_by(name, key.vhost, value | {"ack-mode": "no-ack"}) is None
        assert moved_by(name, key.vhost, value | {"dest-queue": "other"}) is None
    exchange = {"src-uri": "amqp://h", "src-exchange": "e", "dest-uri": "amqp://h"}
    assert moved_by("migrate.1.e", "/", exchange) is None
    assert moved_by("migrate.1.e", "/", "***") is None


def test_an_address_that_is_none_is_said_without_its_password() -> None:
    refused = fedq("migrate", "--end", "--url", "http//me:s3cret@127.0.0.1:15672")
    assert refused.exit_code == 2
    assert "127.0.0.1:15672" in refused.err
    assert "s3cret" not in refused.err


def test_queues_that_expire_unused_are_left_where_they_are() -> None:
    expires = {"definition": {"expires": 60_000, "max-length": 3}}
    value = {"pattern": "oper", "apply-to": "queues", **expires}
    said = {
        "vhosts": [{"name": "/"}, {"name": "shop"}],
        "queues": [
            {"vhost": "/", "name": "own", "arguments": {"x-expires": 1_000}},
            {"vhost": "/", "name": "tmp.1"}, {"vhost": "shop", "name": "tmp.1"},
            {"vhost": "/", "name": "by.operators"}, {"vhost": "/", "name": "kept"},
        ],
        "policies": [
            {"vhost": "/", "name": "p", "pattern": "^tmp", **expires},
            {"vhost": "/", "name": "q", "pattern": "", "definition": {"max-length": 3}},
        ],
        "parameters": [
            {"vhost": "/", "component": "operator_policy", "name": "o", "value": value}
        ],
    }  # fmt: skip
    plan = plan_of(said, None)
    assert plan.queues == (("/", "kept"), ("shop", "tmp.1"))
    assert len(plan.left) == 3
    assert all("deleted with its messages" in each for each in plan.left)
    said["policies"] = [{"vhost": "/", "name": "p", "pattern": "(?<", **expires}]
    assert plan_of(said, "/").queues == ()
