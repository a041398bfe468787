"""Policies through the admin service, and on the command line."""

from collections.abc import Iterator

import grpc
import pytest

from fedq.core.ids import QueueKey
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from fedq.wiring.cluster_map.policy_book import Standing
from tests.unit.admin.served import Served, a_cluster, add_queue, served
from tests.unit.cli.command import fedq


@pytest.fixture
def cluster() -> Iterator[Served]:
    with served(a_cluster()) as servers:
        yield servers


@pytest.fixture
def stub(cluster: Served) -> Iterator[admin_pb2_grpc.AdminStub]:
    with grpc.insecure_channel(cluster.address("n1")) as channel:
        yield admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]


def test_policies_are_put_listed_in_pages_and_dropped(stub: admin_pb2_grpc.AdminStub) -> None:
    for name in ("b", "a", "c"):
        policy = pb.Policy(name=name, pattern="^q", definition_json='{ "max-length": 3 }')
        request = pb.PutPolicyRequest(policy=policy)
        assert stub.PutPolicy(request).changed
        assert not stub.PutPolicy(request).changed
    page = stub.ListPolicies(pb.ListPoliciesRequest(page_size=2))
    assert [each.name for each in page.policies] == ["a", "b"]
    rest = stub.ListPolicies(pb.ListPoliciesRequest(page_token=page.next_page_token))
    assert rest.policies[0] == pb.Policy(
        vhost="/", name="c", pattern="^q", apply_to="all", definition_json='{"max-length":3}'
    )
    assert not stub.ListPolicies(pb.ListPoliciesRequest(operator=True)).policies
    assert not stub.ListPolicies(pb.ListPoliciesRequest(vhost="other")).policies
    stub.DropPolicy(pb.DropPolicyRequest(name="c"))
    with pytest.raises(grpc.RpcError) as caught:
        stub.DropPolicy(pb.DropPolicyRequest(name="c"))
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (pb.Policy(), "name is empty"),
        (pb.Policy(name="p"), "the definition is no JSON"),
        (pb.Policy(name="p", definition_json="[]"), "should be a JSON object"),
        (pb.Policy(name="p", definition_json="{}"), "no policy provided"),
        (pb.Policy(name="p", definition_json='{"max-length":-1}'), "not a valid maximum length"),
        (pb.Policy(name="p", pattern="(", definition_json="{}"), "regular expression"),
        (pb.Policy(name="p", apply_to="x", definition_json='{"expires":1}'), "apply-to 'x'"),
        (pb.Policy(name="p", definition_json=" " * 70_000), "longer than 65536 bytes"),
        (
            pb.Policy(name="p", priority=-(1 << 62), definition_json='{"expires":1}'),
            "priority should be less",
        ),
    ],
)
def test_what_is_wrong_is_said(
    cluster: Served, stub: admin_pb2_grpc.AdminStub, policy: pb.Policy, words: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.PutPolicy(pb.PutPolicyRequest(policy=policy))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in (caught.value.details() or "")
    assert not cluster.shared.map.policies


def test_the_command_line_sets_lists_and_clears(cluster: Served) -> None:
    at = ("--node", cluster.address("n1"))
    definition = '{"max-length": 3}'
    done = fedq("policy", "set", "short", "^q", definition, "--priority", "-4", *at)
    assert done.out == "policy short in vhost / set\n"
    again = fedq("policy", "set", "short", "^q", definition, "--priority", "-4", *at)
    assert "was so already" in again.out
    operators = fedq("policy", "set", "o", "", definition, "--operator", "--json", *at)
    assert operators.value == {
        "vhost": "/", "name": "o", "operator": True, "pattern": "", "apply-to": "all",
        "priority": 0, "definition": {"max-length": 3}, "changed": True,
    }  # fmt: skip
    shown = fedq("policy", "list", *at)
    assert shown.rows("VHOST") == [["/", "short", "^q", "all", "-4", '{"max-length":3}']]
    found = fedq("policy", "list", "--operator", "--json", *at).value["policies"]
    assert [each["name"] for each in found] == ["o"]
    assert fedq("policy", "clear", "short", *at).out == "policy short in vhost / cleared\n"
    missing = fedq("policy", "clear", "short", *at)
    assert missing.exit_code == 1
    assert "there is no policy 'short' in vhost '/'" in missing.err
    wrong = fedq("policy", "set", "p", "(", definition, *at)
    assert wrong.exit_code != 0
    assert "regular expression" in wrong.err
    assert list(cluster.shared.map.operator_policies) == [QueueKey("/", "o")]


def test_a_queue_shows_its_policies() -> None:
    cluster = a_cluster()
    key = add_queue(cluster, "orders", {"n2": (1, 0, 0)})
    for overview in cluster.values():
        overview.stands[key] = Standing("short", "all", {"max-length": 3})
    with served(cluster) as servers:
        at = ("--node", servers.address("n1"))
        shown = fedq("queue", "show", "orders", *at)
        value = fedq("queue", "show", "orders", "--json", *at).value
    assert 'policy short and operator policy all: {"max-length":3}' in shown.out
    assert (value["policy"], value["operator_policy"]) == ("short", "all")
    assert value["effective_policy_definition"] == {"max-length": 3}
