"""Policies over the API: RabbitMQ's paths, answers and rights."""

from collections.abc import Iterator
from typing import Any

import pytest

from fedq.core.errors import RESOURCE_ERROR, Refused
from fedq.core.ids import QueueKey
from fedq.core.limits import ARGUMENTS_BYTES_MAX
from fedq.wiring.cluster_map.operations_access import AddVhost, SetTags
from tests.unit.admin.served import a_cluster
from tests.unit.http.tool import Tool, tool

P, OPS = "policies/%2F", "operator-policies/%2F"
BODY = {"pattern": "^a", "definition": {"max-length": 5}, "priority": 2, "apply-to": "queues"}
#: About as deep as JSON is read.
DEEP = b"[" * 900 + b"]" * 900


@pytest.fixture
def asked() -> Iterator[Tool]:
    with tool(a_cluster()) as made:
        made.apply(AddVhost("other"))
        yield made


@pytest.mark.parametrize("path", [P, OPS])
def test_a_policy_is_put_shown_replaced_and_deleted(asked: Tool, path: str) -> None:
    assert asked.ask(f"{path}/one", method="PUT", body=BODY) == (201, None)
    row = {"vhost": "/", "name": "one", **BODY}
    assert asked.ask(f"{path}/one") == (200, row)
    assert asked.ask(path) == (200, [row])
    assert asked.ask(path.partition("/")[0]) == (200, [row])
    assert asked.ask(f"{path.partition('/')[0]}/other") == (200, [])
    plain = {"pattern": "", "definition": {"expires": 5}}
    assert asked.ask(f"{path}/one", method="PUT", body=plain) == (204, None)
    assert asked.ask(f"{path}/one")[1] == {**row, **plain, "priority": 0, "apply-to": "all"}
    assert asked.ask(f"{path}/one", method="DELETE") == (204, None)
    gone = {"error": "Object Not Found", "reason": "Not Found"}
    assert asked.ask(f"{path}/one") == (404, gone)
    assert asked.ask(f"{path}/one", method="DELETE") == (404, gone)
    assert asked.ask(f"{path.partition('/')[0]}/none/x", method="PUT", body=BODY)[0] == 404


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "[{key_missing,pattern},{key_missing,definition}]"),
        ({"pattern": "a"}, "[{key_missing,definition}]"),
        (b"[]", "not_json"),
        (b"{", "not_json"),
        (BODY | {"pattern": 1}, "pattern should be a binary but was 1"),
        (BODY | {"pattern": "a" * 2_000}, "pattern is longer than 1024 bytes"),
        (BODY | {"pattern": "("}, "pattern should be regular expression but is invalid: "),
        (BODY | {"definition": {}}, "no policy provided"),
        (BODY | {"definition": [1]}, "definition should be a JSON object, actually was [1]"),
        (BODY | {"definition": {"foo": 1}}, '[{<<"foo">>,1}] are not recognised policy settings'),
        (BODY | {"definition": {"max-length": "x"}}, '<<"x">> is not a valid maximum length'),
        (BODY | {"definition": {"x": "y" * ARGUMENTS_BYTES_MAX}}, "definition takes more than"),
        (b'{"pattern":"","definition":{"a":%b}}' % DEEP, "definition is nested too deeply"),
        (b'{"definition":{},"pattern":%b}' % DEEP, "pattern should be a binary but was what is"),
        (BODY | {"priority": "x"}, 'priority should be a number, actually was <<"x">>'),
        (BODY | {"priority": None}, "priority should be a number, actually was null"),
        (BODY | {"priority": 1.5}, "priority should be a number, actually was 1.5"),
        (BODY | {"priority": 1 << 61}, "priority should be less than"),
        (
            BODY | {"apply-to": "x"},
            "apply-to 'x' unrecognised; should be 'queues', 'exchanges' or 'all'",
        ),
        (BODY | {"apply-to": None}, "apply-to 'null' unrecognised"),
        (BODY | {"apply-to": ["queues"]}, "apply-to '[\"queues\"]' unrecognised"),
    ],
)
def test_what_is_wrong_is_said_in_rabbitmqs_words_and_nothing_changes(
    asked: Tool, body: Any, reason: str
) -> None:
    status, said = asked.ask(f"{P}/one", method="PUT", body=body)
    assert (status, said["error"]) == (400, "bad_request")
    if "key_missing" in reason or reason == "not_json":
        assert said["reason"] == reason
    else:
        assert said["reason"].startswith(f"Validation failed\n\n{reason}"), said
        assert said["reason"].endswith("\n")
    assert asked.ask("policies") == (200, [])


def test_a_name_is_bounded(asked: Tool) -> None:
    status, said = asked.ask(f"{P}/{'n' * 300}", method="PUT", body=BODY)
    assert status == 400
    assert "longer than 255 bytes" in said["reason"]


@pytest.mark.parametrize(
    ("user", "may_put", "may_put_operators"),
    [("manager", False, False), ("monitor", False, False), ("admin", True, True)],
)
def test_who_may(asked: Tool, user: str, may_put: bool, may_put_operators: bool) -> None:
    assert asked.ask("policies", user)[0] == 200
    assert asked.ask(OPS, user)[0] == 200
    for method in ("PUT", "DELETE"):
        status, said = asked.ask(f"{P}/p", user, method, BODY)
        assert (status < 300) is may_put
        if not may_put:
            text = "User not authorised to access object"
            assert (status, said) == (401, {"error": "not_authorised", "reason": text})
        status, said = asked.ask(f"{OPS}/p", user, method, BODY)
        assert (status < 300) is may_put_operators
        if not may_put_operators:
            assert said == {"error": "not_authorised", "reason": "Not administrator user"}


def test_a_policymaker_makes_policies_where_he_has_permissions(asked: Tool) -> None:
    # He has none in this virtual host.
    assert asked.ask(f"{P}/p", "policy", "PUT", BODY)[0] == 401
    permission = {"configure": "", "write": "", "read": ""}
    asked.ask("permissions/%2F/policy", method="PUT", body=permission)
    assert asked.ask(f"{P}/p", "policy", "PUT", BODY)[0] == 201
    assert asked.ask(f"{OPS}/p", "policy", "PUT", BODY)[0] == 401
    assert [row["name"] for row in asked.ask("policies", "policy")[1]] == ["p"]
    asked.ask("policies/other/q", method="PUT", body=BODY)
    assert [row["name"] for row in asked.ask("policies", "policy")[1]] == ["p"]
    assert asked.ask(f"{P}/p", "policy", "DELETE")[0] == 204


def test_who_sees_everything_makes_policies_only_where_he_has_permissions(asked: Tool) -> None:
    asked.apply(SetTags("policy", ("monitoring", "policymaker")))
    assert asked.ask(P, "policy")[0] == 200
    for method in ("PUT", "DELETE"):
        assert asked.ask(f"{P}/p", "policy", method, BODY)[0] == 401
    assert asked.ask("policies") == (200, [])


def test_an_exchange_shows_its_policy(asked: Tool) -> None:
    assert "policy" not in asked.ask("exchanges/%2F/amq.topic")[1]
    body = {"pattern": "topic$", "definition": {"alternate-exchange": "amq.fanout"}}
    asked.ask(f"{P}/alternate", method="PUT", body=body)
    assert asked.ask("exchanges/%2F/amq.topic")[1]["policy"] == "alternate"
    shown = {row["name"]: row.get("policy") for row in asked.ask("exchanges/%2F")[1]}
    assert (shown["amq.topic"], shown["amq.direct"]) == ("alternate", None)


def test_definitions_carry_policies(asked: Tool) -> None:
    asked.ask(f"{P}/one", method="PUT", body=BODY)
    asked.ask(f"{OPS}/two", method="PUT", body=BODY)
    found = asked.ask("definitions")[1]
    assert found["policies"] == [{"vhost": "/", "name": "one", **BODY}]
    mine = {"vhost": "/", "component": "operator_policy", "name": "two", "value": BODY}
    assert found["parameters"] == [mine]
    of_vhost = asked.ask("definitions/%2F")[1]
    assert (of_vhost["policies"], of_vhost["parameters"]) == (found["policies"], [mine])
    for path in (P, OPS):
        for name in ("one", "two"):
            asked.ask(f"{path}/{name}", method="DELETE")
    said = {"policies": found["policies"], "parameters": found["parameters"]}
    assert asked.ask("definitions", method="POST", body=said)[0] == 204
    assert list(asked.map.map.policies) == [QueueKey("/", "one")]
    assert list(asked.map.map.operator_policies) == [QueueKey("/", "two")]
    # Into another one.
    assert asked.ask("definitions/other", method="POST", body=said)[0] == 204
    assert QueueKey("other", "two") in asked.map.map.operator_policies


def test_a_file_with_policies_is_refused_as_a_whole_where_a_node_is_too_old(asked: Tool) -> None:
    asked.map.too_new = Refused(RESOURCE_ERROR, "policies need version 15")
    said = {"vhosts": [{"name": "new"}], "policies": [{"vhost": "new", "name": "p", **BODY}]}
    status, refused = asked.ask("definitions", method="POST", body=said)
    assert (status, refused["error"]) == (400, "bad_request")
    assert refused["reason"] == "nothing was imported: policies need version 15"
    assert "new" not in asked.map.map.vhosts


def test_parameters_are_none(asked: Tool) -> None:
    for path in ("parameters", "parameters/shovel", "parameters/shovel/%2F"):
        assert asked.ask(path) == (200, [])
