"""Permissions of topics and RabbitMQ's hashes over the API: word for word what RabbitMQ says."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fedq.core.errors import RESOURCE_ERROR, Refused
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_access import SetPermissions
from fedq.wiring.cluster_map.operations_topics import (
    ClearTopicPermissions,
    SetTopicPermissions,
    TopicKey,
)
from fedq.wiring.cluster_map.passwords import verify
from fedq.wiring.cluster_map.records import Grant, GrantKey
from tests.contract.http.definitions import ALL
from tests.contract.http.topics import SET, STEPS, recorded, sorted_rows
from tests.unit.admin.loop_thread import LoopThread
from tests.unit.admin.served import a_cluster
from tests.unit.http.tool import Tool, tool
from tests.unit.shell.fakes import until

HASH = "9Vt/DDOzm9WbbuV4TsW9UVlHqQbTq4i9ygioqg5W0kTvGDII"
SHA256 = "rabbit_password_hashing_sha256"


@pytest.fixture
def asked() -> Iterator[Tool]:
    with tool(a_cluster()) as made:
        yield made


def test_all_that_is_asked_is_answered_as_rabbitmq_does(asked: Tool) -> None:
    for step, (status, theirs) in zip(STEPS, recorded()["answers"], strict=True):
        method, path, body = step
        found, said = asked.ask(path, method=method, body=body)
        assert (found, sorted_rows(said)) == (status, theirs), step


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (SET | {"exchange": 1}, "exchange is no text"),
        (SET | {"write": None}, "write is no text"),
        (SET | {"write": "("}, "the write pattern is no regular expression"),
        (SET | {"exchange": "e" * 256}, "exchange is longer than"),
        (SET | {"read": "r" * 1_025}, "the read pattern is longer than"),
    ],
)
def test_what_is_wrong_is_said(asked: Tool, body: Any, reason: str) -> None:
    status, said = asked.ask("topic-permissions/%2F/plain", method="PUT", body=body)
    assert (status, said["error"]) == (400, "bad_request")
    assert said["reason"].startswith(reason)
    assert not asked.map.map.topic_permissions


def test_they_are_for_administrators(asked: Tool) -> None:
    asked.ask("topic-permissions/%2F/plain", method="PUT", body=SET)
    for user in ("monitor", "manager", "policy", "plain"):
        assert asked.ask("topic-permissions", user)[0] == 401
        for method in ("GET", "PUT", "DELETE"):
            assert asked.ask("topic-permissions/%2F/plain", user, method, SET)[0] == 401
        assert asked.ask("users/plain/topic-permissions", user)[0] == 401
        assert asked.ask("vhosts/%2F/topic-permissions", user)[0] == 401
    assert len(asked.map.map.topic_permissions) == 1


def test_definitions_carry_them(asked: Tool) -> None:
    asked.ask("topic-permissions/%2F/plain", method="PUT", body=SET)
    found = asked.ask("definitions")[1]
    assert found["topic_permissions"] == [{"user": "plain", "vhost": "/", **SET}]
    asked.ask("topic-permissions/%2F/plain", method="DELETE")
    said = {"topic_permissions": found["topic_permissions"]}
    assert asked.ask("definitions", method="POST", body=said)[0] == 204
    assert list(asked.map.map.topic_permissions) == [TopicKey("plain", "/", "t")]
    for row, words in (
        ({"user": "plain", "vhost": "/"}, "exchange is no text"),
        ({"user": "nobody", "vhost": "/", **SET}, "there is no user 'nobody'"),
        ({"user": "plain", "vhost": "no", **SET}, "there is no vhost 'no'"),
        ({"user": "plain", "vhost": "/", **SET, "write": "("}, "no regular expression"),
    ):
        said = {"topic_permissions": [row], "vhosts": [{"name": "new"}]}
        status, refused = asked.ask("definitions", method="POST", body=said)
        assert (status, words in refused["reason"]) == (400, True), refused
    assert "new" not in asked.map.map.vhosts


def test_limits_of_who_imports_come_back_whatever_fails(
    asked: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked.apply(SetPermissions("admin", "/", "^a", "", ""))
    for exchange in ("t", "u"):
        asked.apply(SetTopicPermissions("admin", "/", exchange, "^a", "^a"))
    before = dict(asked.map.map.topic_permissions)
    apply, asked_for = asked.map.ask, list[Operation]()

    def failing(operation: Operation, answer: Callable[[Any], None]) -> None:
        """Says nothing of what it does first, and does not what comes next."""
        asked_for.append(operation)
        if operation == SetTopicPermissions("admin", "/", "t", "^a", "^a"):
            answer(Refused(RESOURCE_ERROR, "no quorum"))
        elif isinstance(operation, ClearTopicPermissions):
            apply(operation, lambda _: answer(Refused(RESOURCE_ERROR, "no quorum")))
        else:
            apply(operation, answer)

    monkeypatch.setattr(asked.servers.service("n1").answers.access, "_ask", failing)
    row = {"name": "x", "vhost": "/", "type": "topic", "durable": True, "auto_delete": False}
    file = {"exchanges": [row]}
    assert asked.ask("definitions", method="POST", body=file)[0] >= 400
    assert any(isinstance(operation, ClearTopicPermissions) for operation in asked_for)
    left = TopicKey("admin", "/", "t")
    assert asked.map.map.topic_permissions == {
        key: grant for key, grant in before.items() if key != left
    }
    assert asked.map.map.grants[GrantKey("admin", "/")] == Grant("^a", "", "")


def test_who_hangs_up_lets_no_other_import_begin_in_between(
    asked: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = asked.servers.service("n1").answers.access
    ask, waiting = access._ask, list[Callable[[], None]]()

    def slow(operation: Operation, answer: Callable[[Any], None]) -> None:
        waiting.append(lambda: ask(operation, answer))

    monkeypatch.setattr(access, "_ask", slow)

    async def hang_up_and_ask_again() -> int:
        files = [{"vhosts": [{"name": name}]} for name in ("one", "two")]
        first, second = [
            asyncio.ensure_future(asked.asking("definitions", method="POST", body=file))
            for file in files
        ]
        await until(lambda: len(waiting) == 1)
        first.cancel()
        await asyncio.wait([first])
        # Longer than it would take to begin.
        assert await asyncio.wait_for(asked.asking("whoami"), 10)
        assert len(waiting) == 1
        waiting[0]()
        await until(lambda: len(waiting) == 2)
        waiting[1]()
        return (await second).status

    assert LoopThread.run(hang_up_and_ask_again()) == 204
    assert {"one", "two"} <= set(asked.map.map.vhosts)


def test_shovels_of_a_file_begin_when_all_else_is_there(
    asked: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    access = asked.servers.service("n1").answers.access
    ask = access._ask

    def noting(operation: Operation, answer: Callable[[Any], None]) -> None:
        done.append(type(operation).__name__)
        ask(operation, answer)

    monkeypatch.setattr(access, "_ask", noting)
    value = {
        "src-uri": "amqp://example.com", "src-queue": "a",
        "dest-uri": "amqp://example.com", "dest-queue": "b",
    }  # fmt: skip
    file = {
        "vhosts": [{"name": "new"}],
        "users": [{"name": "new", "tags": "", "password_hash": HASH}],
        "permissions": [
            {"user": "new", "vhost": "new", "configure": "", "write": "", "read": ""}
        ],
        "parameters": [{"vhost": "new", "component": "shovel", "name": "s", "value": value}],
    }  # fmt: skip
    assert asked.ask("definitions", method="POST", body=file)[0] < 300
    assert done == ["AddVhost", "PutUser", "SetPermissions", "PutParameter"]


def test_users_of_a_rabbitmq_come_in_whole_and_go_back_alike(asked: Tool) -> None:
    theirs = json.loads(ALL.read_text("utf-8"))
    said = {
        name: theirs[name]
        for name in ("users", "vhosts", "permissions", "topic_permissions", "parameters")
    }
    status, told = asked.ask("definitions", method="POST", body=said)
    assert (status, told) == (204, None), "something differs"
    known = asked.map.map.users
    assert [verify(known[name].password, "geheim") for name in ("app", "eve")] == [True, True]
    assert verify(known["guest"].password, "guest")
    found = asked.ask("definitions")[1]
    names = [user["name"] for user in theirs["users"]]
    ours = {user["name"]: user for user in found["users"] if user["name"] in names}
    assert ours == {user["name"]: user for user in theirs["users"]}
    assert found["topic_permissions"] == theirs["topic_permissions"]


def test_a_user_is_put_with_a_hash(asked: Tool) -> None:
    body = {"tags": "", "password_hash": HASH, "hashing_algorithm": SHA256}
    assert asked.ask("users/new", method="PUT", body=body) == (201, None)
    assert verify(asked.map.map.users["new"].password, "geheim")
    assert asked.ask("users/new", method="PUT", body={"tags": "", "password_hash": HASH})[0] == 204
    both = {"error": "bad_request", "reason": "both_password_and_password_hash_are_provided"}
    assert asked.ask("users/new", method="PUT", body=body | {"password": "x"}) == (400, both)
    for bad in ("!!!", "AAAA", 7):
        wrong = body | {"password_hash": bad}
        assert asked.ask("users/new", method="PUT", body=wrong)[0] == 400
    assert asked.ask("users/new", method="PUT", body={"tags": "", "password_hash": ""})[0] == 204
    assert asked.map.map.users["new"].password == ""


@pytest.mark.parametrize(
    "said",
    [
        {"users": [{"name": "new", "tags": "", "password_hash": HASH}]},
        {"topic_permissions": [{"user": "plain", "vhost": "/", **SET}]},
    ],
)
def test_a_file_is_refused_as_a_whole_where_a_node_is_too_old(asked: Tool, said: Any) -> None:
    asked.map.too_new = Refused(RESOURCE_ERROR, "that needs version 15")
    status, refused = asked.ask(
        "definitions", method="POST", body={"vhosts": [{"name": "new"}], **said}
    )
    assert (status, refused["reason"]) == (400, "nothing was imported: that needs version 15")
    assert "new" not in asked.map.map.vhosts
