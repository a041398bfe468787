"""What a file of definitions asks for: what is made, what is wrong, what differs."""

import asyncio
import json
from typing import Any

import pytest

from fedq.amqp import method_types as m
from fedq.core.ids import QueueKey
from fedq.http.api.definitions.plan import OWN_HASHES, Known, Plan, plan_of, queue_keys
from fedq.wiring.cluster_map.operations_topics import SetTopicPermissions
from fedq.wiring.cluster_map.passwords import make_record
from fedq.wiring.cluster_map.rabbit_hashes import is_rabbit_hash
from tests.contract.http.definitions import ALL, ONE
from tests.unit.http.test_reading import asked as asked
from tests.unit.http.tool import Tool

KNOWN = Known(
    frozenset(("/", "here")), frozenset(("guest",)),
    {QueueKey("here", "amq.topic"): ("topic", True, False, False)},
    {QueueKey("here", "old"): (True, False, {"x-max-length": 3})},
)  # fmt: skip
RECORD = make_record("geheim", b"0" * 16)


def planned(vhost: str | None = None, **said: Any) -> Plan:
    """The plan of a file."""
    return asyncio.run(plan_of(said, vhost, KNOWN))


def test_a_hash_that_nobody_can_verify_is_refused_by_name() -> None:
    said = json.loads(ALL.read_text("utf-8"))
    for user in said["users"]:
        user["hashing_algorithm"] = "our_own_hash"
    plan = asyncio.run(plan_of(said, None, KNOWN))
    assert [each.partition(": ")[0] for each in plan.wrong] == [
        "users, 'eve'", "users, 'app'", "permissions, 'app'", "topic_permissions, 'app'",
    ]  # fmt: skip
    assert "our_own_hash" in plan.wrong[0]
    assert "fedq user add" in plan.wrong[0]


def test_a_real_export_is_taken_and_what_is_left_out_is_said() -> None:
    plan = asyncio.run(plan_of(json.loads(ALL.read_text("utf-8")), None, KNOWN))
    assert not plan.wrong
    assert all(is_rabbit_hash(each.record or "") for each in plan.users)
    assert plan.topics == [SetTopicPermissions("app", "shop", "events", "^a", ".*")]
    assert plan.vhosts == ["shop"]
    assert {each.name: (each.tags, dict(each.limits)) for each in plan.users} == {
        "guest": (("administrator",), {}), "app": ((), {"max-connections": 7}),
        "eve": (("monitoring", "management"), {}),
    }  # fmt: skip
    assert plan.limits == {"shop": {"max-queues": 50}}
    assert len(plan.queues) == 5
    assert [type(each) for each in plan.topology()["shop"]] == [
        *[m.ExchangeDeclare] * 3, *[m.QueueDeclare] * 4, m.ExchangeBind, *[m.QueueBind] * 2,
    ]  # fmt: skip
    told = sorted(each.partition(":")[0].partition(" ")[0] for each in plan.differs)
    assert told == []
    assert [(each.vhost, each.component) for each in plan.parameters] == [("", "")]
    assert [(each.vhost, each.name, each.definition) for each in plan.policies] == [
        ("shop", "ttl", '{"message-ttl":1000}')
    ]


def test_a_virtual_hosts_export_goes_into_another_one() -> None:
    plan = asyncio.run(plan_of(json.loads(ONE.read_text("utf-8")), "here", KNOWN))
    assert not plan.wrong
    assert set(plan.topology()) == {"here"}


QUEUE = {"vhost": "here", "name": "q", "durable": True, "auto_delete": False, "arguments": {}}
EXCHANGE = QUEUE | {"type": "topic", "internal": False}
BINDING = {
    "vhost": "here", "source": "amq.topic", "destination": "q", "destination_type": "queue",
    "routing_key": "a", "arguments": {},
}  # fmt: skip
DEEP: dict[str, Any] = {}
for _ in range(60):
    DEEP = {"a": DEEP}


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"queues": {}}, "queues is no list"), ({"queues": [7]}, "queues, number 1: it is no"),
        ({"queues": [QUEUE | {"vhost": "none"}]}, "there is no vhost 'none'"),
        ({"queues": [QUEUE | {"name": 3}]}, "name is no text"),
        ({"queues": [QUEUE | {"durable": "yes"}]}, "durable is neither true nor false"),
        ({"queues": [QUEUE | {"name": "amq.x"}]}, "are the broker's"),
        ({"queues": [QUEUE | {"name": "n" * 300}]}, "queues, 'nnnn"),
        ({"queues": [QUEUE | {"arguments": {"x-max-length": -1}}]}, "x-max-length"),
        ({"queues": [QUEUE | {"arguments": {"x-consumer-timeout": 1}}]}, "it has no effect"),
        ({"queues": [QUEUE | {"arguments": DEEP}]}, "queues, 'q'"),
        ({"queues": [QUEUE | {"name": "old"}]}, "x-max-length"),
        ({"queues": [QUEUE | {"name": "old", "durable": False}]}, "with other properties"),
        ({"exchanges": [EXCHANGE | {"type": "x-random"}]}, "no exchanges of type 'x-random'"),
        ({"exchanges": [EXCHANGE | {"name": "amq.topic", "type": "direct"}]}, "'topic' here"),
        ({"bindings": [BINDING]}, "there is no queue 'q' in vhost 'here'"),
        ({"bindings": [BINDING | {"source": "none"}]}, "there is no exchange 'none'"),
        ({"bindings": [BINDING | {"destination_type": "node"}]}, "queue or exchange"),
        ({"users": [{"name": "u", "tags": 7}]}, "tags is neither"),
        ({"users": [{"name": "", "tags": ""}]}, "name is empty"),
        ({"users": [{"name": "u", "tags": "", "password": "p" * 2_000}]}, "longer than"),
        ({"users": [{"name": "u", "limits": {"max-foo": 1}}]}, "no limit of this"),
        ({"users": [{"name": "u", "limits": {"max-channels": True}}]}, "no number"),
        (
            {"users": [{"name": "u", "password_hash": "x", "hashing_algorithm": OWN_HASHES}]},
            "cannot be verified here",
        ),
        ({"permissions": [{"user": "nobody", "vhost": "/"}]}, "there is no user 'nobody'"),
        (
            {"permissions": [{"user": "guest", "vhost": "/", "configure": "("}]},
            "the configure pattern is no regular expression",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(said: dict[str, Any], text: str) -> None:
    plan = planned(**said)
    assert len(plan.wrong) == 1, plan.wrong
    assert text in plan.wrong[0]


POLICY = {"vhost": "here", "name": "p", "pattern": "^a", "definition": {"max-length": 3}}
OPERATORS = {"vhost": "here", "component": "operator_policy", "name": "o"}


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ({"policies": [POLICY | {"pattern": "("}]}, "pattern should be regular expression"),
        ({"policies": [POLICY | {"definition": {"max-length": -1}}]}, "not a valid maximum length"),
        ({"policies": [POLICY | {"definition": {}}]}, "no policy provided"),
        ({"policies": [POLICY | {"priority": "1"}]}, "priority should be a number"),
        ({"policies": [POLICY | {"vhost": "none"}]}, "there is no vhost 'none'"),
        ({"policies": [POLICY | {"name": ""}]}, "name is empty"),
        ({"parameters": [OPERATORS | {"value": 3}]}, "its value is no table"),
        ({"parameters": [OPERATORS | {"value": {"pattern": "a"}}]}, "should be a JSON object"),
    ],
)
def test_policies_that_are_wrong_are_said(said: dict[str, Any], text: str) -> None:
    plan = planned(**said)
    assert len(plan.wrong) == 1, plan.wrong
    assert text in plan.wrong[0]


def test_of_a_policy_what_fedq_has_not_is_left_out_and_told() -> None:
    mixed = POLICY | {"definition": {"ha-mode": "all", "max-length": 3}}
    mirrored = POLICY | {"name": "m", "definition": {"ha-mode": "all"}}
    value = {"pattern": "", "definition": {"expires": 9}, "priority": 4, "apply-to": "queues"}
    plan = planned(policies=[mixed, mirrored], parameters=[OPERATORS | {"value": value}])
    assert not plan.wrong
    assert [(each.name, each.operator, each.definition) for each in plan.policies] == [
        ("o", True, '{"expires":9}'), ("p", False, '{"max-length":3}'),
    ]  # fmt: skip
    assert all("ha-mode" in each and "left out" in each for each in plan.differs)
    assert len(plan.differs) == 2


def test_a_file_that_is_all_wrong_is_not_read_to_its_end() -> None:
    plan = planned(queues=[7] * 100_000)
    assert len(plan.wrong) == 1_001
    assert plan.wrong[-1] == "and more, which were not looked at"


def test_what_is_there_twice_has_to_be_the_same() -> None:
    assert not planned(queues=[QUEUE, QUEUE]).wrong
    assert "twice" in planned(queues=[QUEUE, QUEUE | {"auto_delete": True}]).wrong[0]


def test_others_go_on_while_a_long_file_is_read() -> None:
    async def ticks() -> int:
        said = {"queues": [QUEUE | {"name": f"q{number}"} for number in range(2_000)]}
        task = asyncio.ensure_future(plan_of(said, None, KNOWN))
        count = 0
        while not task.done():
            count += 1
            await asyncio.sleep(0)
        return count

    assert asyncio.run(ticks()) >= 100


def test_a_file_for_one_virtual_host_brings_no_users() -> None:
    assert len(planned("here", users=[{"name": "u"}], vhosts=[{"name": "v"}]).wrong) == 2


def test_what_fedq_has_not_is_told_and_left_out() -> None:
    found = planned(operator_policies=[{}], bindings=[])
    assert len(found.differs) == 1
    assert not found.wrong
    told = planned(vhosts=[{"name": "/", "description": "all"}, {"name": "here"}]).differs
    assert told == ["vhost '/': its description, tags and tracing are not kept"]


def test_passwords_of_fedqs_exports_are_taken_and_others_stay() -> None:
    users = [
        {"name": "own", "password_hash": RECORD, "hashing_algorithm": OWN_HASHES},
        {"name": "guest", "password_hash": "abc", "hashing_algorithm": "sha512"},
        {"name": "none", "password_hash": ""}, {"name": "new"},
    ]  # fmt: skip
    plan = planned(users=users)
    assert [each.record for each in plan.users] == [RECORD, None, "", ""]
    assert [each.partition(":")[0] for each in plan.differs] == ["user 'guest'"]
    assert planned(users=[{"name": "guest"}]).users[0].record is None


def test_exchanges_of_the_broker_are_there_in_new_virtual_hosts() -> None:
    queue, binding = QUEUE | {"vhost": "new"}, BINDING | {"vhost": "new"}
    plan = planned(vhosts=[{"name": "new"}], queues=[queue], bindings=[binding])
    assert not plan.wrong
    assert len(plan.bindings) == 1
    odd = BINDING | {"vhost": "new", "source": "amq.odd"}
    assert planned(vhosts=[{"name": "new"}], queues=[queue], bindings=[odd]).wrong


def test_only_names_of_queues_are_looked_up() -> None:
    said = {"queues": [QUEUE, {"name": 7}, 8, QUEUE | {"name": "b"}]}
    assert queue_keys(said, None) == [QueueKey("here", "q"), QueueKey("here", "b")]
    assert queue_keys({"queues": "x"}, None) == []


def test_definitions_are_for_administrators(asked: Tool) -> None:
    for path in ("definitions", "definitions/%2F"):
        for method in ("GET", "POST"):
            assert asked.ask(path, "monitor", method)[0] == 401
    status, found = asked.ask("definitions/%2F")
    assert (status, len(found["queues"])) == (200, 7)
    assert asked.ask("definitions", method="POST", body=b"[]")[0] == 400
    status, said = asked.ask("definitions", method="POST", body={"users": [{"name": 7}]})
    assert (status, said["reason"]) == (400, "nothing was imported: users, 7: name is no text")


def test_an_export_has_users_as_fedq_keeps_them(asked: Tool) -> None:
    _, found = asked.ask("definitions")
    admin = next(each for each in found["users"] if each["name"] == "admin")
    assert admin["hashing_algorithm"] == OWN_HASHES
    assert admin["password_hash"].startswith("scrypt$")
    assert [each["name"] for each in found["vhosts"]] == ["/", "other"]
