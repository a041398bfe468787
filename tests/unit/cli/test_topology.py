"""`fedq exchange list` and `fedq binding list` against a real admin service."""

from collections.abc import Iterator

import pytest

from fedq.wiring.cluster_map.operations import Bind, DeclareExchange, Operation
from fedq.wiring.cluster_map.operations_access import AddVhost
from fedq.wiring.cluster_map.state import Ok
from tests.unit.admin.served import Served, a_cluster, served
from tests.unit.cli.command import Outcome, fedq

KEYS = 1_200


def prepare(servers: Served, *operations: Operation) -> None:
    for operation in operations:
        results: list[object] = []
        servers.shared.ask(operation, results.append)
        assert isinstance(results[0], Ok), results


@pytest.fixture
def servers() -> Iterator[Served]:
    with served(a_cluster(["n1"])) as one:
        prepare(
            one,
            AddVhost("shop"),
            DeclareExchange("shop", "orders", "topic", True, False, False, '{"x-a":1}'),
            DeclareExchange("shop", "all", "fanout", True, False, True, ""),
            Bind("shop", "orders", "exchange", "all", "new.ü", ""),
        )
        yield one


def run(servers: Served, *arguments: str) -> Outcome:
    return fedq(*arguments, "--node", servers.address("n1"))


def test_exchanges_are_listed_as_rabbitmqctl_does(servers: Served) -> None:
    found = run(servers, "exchange", "list", "--vhost", "shop", "--json").value
    assert found["more"] is False
    own = [each for each in found["exchanges"] if not each["name"].startswith("amq.")]
    assert own == [
        {
            "vhost": "shop", "name": "", "type": "direct", "durable": True,
            "auto_delete": False, "internal": False, "arguments": {},
        },
        {
            "vhost": "shop", "name": "all", "type": "fanout", "durable": True,
            "auto_delete": False, "internal": True, "arguments": {},
        },
        {
            "vhost": "shop", "name": "orders", "type": "topic", "durable": True,
            "auto_delete": False, "internal": False, "arguments": {"x-a": 1},
        },
    ]  # fmt: skip
    everywhere = run(servers, "exchange", "list", "--json").value["exchanges"]
    assert {each["vhost"] for each in everywhere} == {"/", "shop"}
    assert "orders" in run(servers, "exchange", "list").out


def test_bindings_are_listed_page_by_page_and_each_once(servers: Served) -> None:
    bindings = [Bind("shop", "orders", "exchange", "all", f"k{n}", "") for n in range(KEYS)]
    prepare(servers, *bindings)
    found = run(servers, "binding", "list", "--limit", "5000", "--json").value
    keys = [each["routing_key"] for each in found["bindings"]]
    assert sorted(keys) == sorted(["new.ü", *(f"k{n}" for n in range(KEYS))])
    assert found["bindings"][0] | {"routing_key": ""} == {
        "vhost": "shop", "source_name": "orders", "source_kind": "exchange",
        "destination_name": "all", "destination_kind": "exchange", "routing_key": "",
        "arguments": {},
    }  # fmt: skip
    some = run(servers, "binding", "list", "--limit", "10")
    assert "the first 10; there are more" in some.out
    assert run(servers, "binding", "list", "--vhost", "/", "--json").value == {
        "bindings": [], "more": False,
    }  # fmt: skip
