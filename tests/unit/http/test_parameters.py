"""Parameters, global ones and shovels over the API: RabbitMQ's paths, answers and rights."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from fedq.core.ids import QueueKey
from fedq.core.limits import ARGUMENTS_BYTES_MAX
from fedq.http.api.definitions import importing
from fedq.node.views.shovel_view import ShovelState
from fedq.wiring.cluster_map.operations_access import AddVhost
from fedq.wiring.cluster_map.operations_parameters import ParameterKey
from tests.unit.admin.served import a_cluster
from tests.unit.http.tool import Tool, tool

SHOVELS = "parameters/shovel/%2F"
VALUE = {
    "src-uri": "amqp://me:geheim@example.com/a%2Fb", "src-queue": "here",
    "dest-uri": ["amqps://you:s3cret@127.0.0.1:5679"], "dest-queue": "there",
}  # fmt: skip
SHOWN = {
    **VALUE, "src-uri": "amqp://me:***@example.com/a%2Fb",
    "dest-uri": ["amqps://you:***@127.0.0.1:5679/%2F"],
}  # fmt: skip
GONE = {"error": "Object Not Found", "reason": "Not Found"}


@pytest.fixture
def asked() -> Iterator[Tool]:
    with tool(a_cluster()) as made:
        made.apply(AddVhost("other"))
        yield made


def test_a_parameter_is_put_shown_without_passwords_and_deleted(asked: Tool) -> None:
    body = {"value": VALUE, "vhost": "/", "component": "shovel", "name": "one"}
    assert asked.ask(f"{SHOVELS}/one", method="PUT", body=body) == (201, None)
    assert asked.ask(f"{SHOVELS}/one", method="PUT", body=body) == (204, None)
    row = {"vhost": "/", "component": "shovel", "name": "one", "value": SHOWN}
    assert asked.ask(f"{SHOVELS}/one") == (200, row)
    for path in ("parameters", "parameters/shovel", SHOVELS):
        assert asked.ask(path) == (200, [row])
    for path in ("parameters/other", "parameters/shovel/other"):
        assert asked.ask(path) == (200, [])
    kept = asked.map.map.parameters[ParameterKey("/", "shovel", "one")]
    assert orjson.loads(kept) == VALUE
    assert asked.ask(f"{SHOVELS}/one", method="DELETE") == (204, None)
    assert asked.ask(f"{SHOVELS}/one") == (404, GONE)
    assert asked.ask(f"{SHOVELS}/one", method="DELETE") == (404, GONE)


def test_a_global_parameter_may_be_anything(asked: Tool) -> None:
    for value in ({"a": [1, None]}, "text", 1.5, None, True):
        assert asked.ask("global-parameters/g", method="PUT", body={"value": value})[0] < 300
        assert asked.ask("global-parameters/g") == (200, {"name": "g", "value": value})
    assert asked.ask("global-parameters") == (200, [{"name": "g", "value": True}])
    assert asked.ask("parameters") == (200, [])
    status, said = asked.ask("global-parameters/cluster_name", method="PUT", body={"value": "x"})
    assert (status, "cannot be set" in said["reason"]) == (400, True)
    assert asked.ask("global-parameters/g", method="DELETE") == (204, None)
    assert asked.ask("global-parameters/g", method="DELETE") == (404, GONE)


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("parameters/foo/%2F/p", 1, "component foo not found"),
        ("parameters/policy/%2F/p", {}, "policies may not be set using this method"),
        (f"{SHOVELS}/p", {}, 'Key "src-uri" not found in shovel'),
        (f"{SHOVELS}/p", VALUE | {"x": 1}, "Unrecognised terms [x] in shovel"),
        (
            f"{SHOVELS}/p",
            VALUE | {"src-uri": "ftp:h"},
            "src-uri is not a valid URI: a",
        ),
        (f"{SHOVELS}/p", {"x": "y" * ARGUMENTS_BYTES_MAX}, "value takes more than 4096 bytes"),
        (f"{SHOVELS}/{'n' * 300}", VALUE, "name is empty, or longer than 255 bytes"),
    ],
)
def test_what_is_wrong_is_said_in_rabbitmqs_words(
    asked: Tool, path: str, value: Any, reason: str
) -> None:
    status, said = asked.ask(path, method="PUT", body={"value": value})
    assert (status, said["error"]) == (400, "bad_request")
    assert said["reason"].startswith(f"Validation failed\n\n{reason}"), said
    status, said = asked.ask(path, method="PUT", body={})
    assert (status, said["reason"]) == (400, "[{key_missing,value}]")
    assert not asked.map.map.parameters


@pytest.mark.parametrize(
    ("user", "sees", "may"),
    [("manager", 401, 401), ("monitor", 401, 401), ("policy", 200, 401), ("admin", 200, 201)],
)
def test_who_may(asked: Tool, user: str, sees: int, may: int) -> None:
    for path in ("parameters", "global-parameters"):
        assert asked.ask(path, user)[0] == sees
    assert asked.ask(f"{SHOVELS}/p", user, "PUT", {"value": VALUE})[0] == may
    assert asked.ask(f"{SHOVELS}/p", user, "DELETE")[0] == (204 if may == 201 else 401)


@pytest.mark.parametrize(
    "uri",
    [
        "amqp://me:s3cret@127.0.0.1", "amqp://me:s3cret@[::1]", "amqp://me:s3cret@LOCALHOST",
        "amqp://me:s3cret@169.254.169.254", "amqp://me:s3cret@[fe80::1]", "amqp://0.0.0.0",
        "amqp://[::ffff:127.0.0.1]", "amqp://guest:guest@/", "amqp://a.localhost",
    ],
)  # fmt: skip
def test_a_policymaker_makes_shovels_but_none_to_what_only_the_node_reaches(
    asked: Tool, uri: str
) -> None:
    permission = {"configure": "", "write": "", "read": ""}
    asked.ask("permissions/%2F/policy", method="PUT", body=permission)
    good = VALUE | {"dest-uri": "amqp://me:mine@/"}
    assert asked.ask(f"{SHOVELS}/p", "policy", "PUT", {"value": good})[0] == 201
    assert [row["name"] for row in asked.ask("parameters", "policy")[1]] == ["p"]
    for end in ("src-uri", "dest-uri"):
        bad = good | {end: ["amqp://example.com", uri]}
        status, said = asked.ask(f"{SHOVELS}/q", "policy", "PUT", {"value": bad})
        assert (status, said["error"]) == (401, "not_authorised")
        assert "only administrators may name" in said["reason"]
        assert "s3cret" not in said["reason"]
        assert asked.ask(f"{SHOVELS}/q", "admin", "PUT", {"value": bad})[0] < 300


def test_shovels_are_shown_as_they_fare_wherever_they_run(asked: Tool) -> None:
    for name in ("one", "two"):
        asked.ask(f"{SHOVELS}/{name}", method="PUT", body={"value": VALUE})
    state = ShovelState("running", 1_800_000_000_000, 7, 700, 2, "", 1)
    asked.servers.shovels.setdefault("n2", {})[QueueKey("/", "one")] = state
    status, rows = asked.ask("shovels")
    assert status == 200
    one, two = rows
    assert (one["name"], one["node"], one["state"]) == ("one", "n2", "running")
    assert (one["messages_moved"], one["bytes_moved"], one["type"]) == (7, 700, "dynamic")
    assert (one["src_uri"], one["source"]) == ("amqp://example.com/a%2Fb", "queue here")
    assert (two["state"], "reason" in two) == ("unknown", False)
    assert "geheim" not in str(rows)
    assert asked.ask("shovels/other") == (200, [])
    assert asked.ask("shovels/vhost/%2F/one") == (200, one)
    assert asked.ask("shovels/vhost/%2F/three") == (404, GONE)
    assert asked.ask("shovels", "manager")[0] == 401
    assert asked.ask("shovels/vhost/%2F/one", "manager", "DELETE")[0] == 401
    assert asked.ask("shovels/vhost/%2F/one", method="DELETE") == (204, None)
    assert [row["name"] for row in asked.ask("shovels")[1]] == ["two"]


def test_definitions_carry_parameters_both_ways(asked: Tool) -> None:
    asked.ask(f"{SHOVELS}/one", method="PUT", body={"value": VALUE})
    asked.ask("global-parameters/g", method="PUT", body={"value": [1]})
    said = asked.ask("definitions")[1]
    assert said["parameters"] == [
        {"vhost": "/", "component": "shovel", "name": "one", "value": VALUE}
    ]
    assert {"name": "g", "value": [1]} in said["global_parameters"]
    asked.ask(f"{SHOVELS}/one", method="DELETE")
    asked.ask("global-parameters/g", method="DELETE")
    file = {"parameters": said["parameters"], "global_parameters": said["global_parameters"]}
    assert asked.ask("definitions", method="POST", body=file)[0] < 300
    assert asked.ask(f"{SHOVELS}/one")[1]["value"] == SHOWN
    assert asked.ask("global-parameters/g")[1]["value"] == [1]
    said["parameters"][0]["value"]["src-uri"] = "amqp://me:***@example.com"
    status, refused = asked.ask("definitions", method="POST", body=file)
    assert (status, "say the password itself" in refused["reason"]) == (400, True)


def test_shovels_of_a_file_begin_when_all_else_is_there(
    asked: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[int] = []

    async def put_user(*_: Any) -> None:
        before.append(len(asked.map.map.parameters))

    monkeypatch.setattr(importing, "_put_user", put_user)
    row = {"vhost": "/", "component": "shovel", "name": "one", "value": VALUE}
    file = {"parameters": [row], "users": [{"name": "you", "password": "s3cret-word", "tags": ""}]}
    assert asked.ask("definitions", method="POST", body=file)[0] < 300
    assert (before, len(asked.map.map.parameters)) == ([0], 1)
