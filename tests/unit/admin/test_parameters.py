"""Parameters and shovels through the admin service, and on the command line."""

from collections.abc import Iterator

import grpc
import orjson
import pytest

from fedq.core.ids import QueueKey
from fedq.node.views.shovel_view import ShovelState
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc
from fedq.wiring.cluster_map.operations_parameters import ParameterKey
from tests.unit.admin.served import Served, a_cluster, served
from tests.unit.cli.command import fedq

VALUE = {
    "src-uri": "amqp://me:s3cret@example.com", "src-queue": "here",
    "dest-uri": "amqp://me:s3cret@/", "dest-queue": "there",
}  # fmt: skip
TEXT = orjson.dumps(VALUE).decode()


@pytest.fixture
def cluster() -> Iterator[Served]:
    with served(a_cluster()) as servers:
        yield servers


@pytest.fixture
def stub(cluster: Served) -> Iterator[admin_pb2_grpc.AdminStub]:
    with grpc.insecure_channel(cluster.address("n1")) as channel:
        yield admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]


def put(stub: admin_pb2_grpc.AdminStub, name: str, **more: str) -> bool:
    fields = {"vhost": "/", "component": "shovel", "value_json": TEXT, **more}
    request = pb.PutParameterRequest(parameter=pb.Parameter(name=name, **fields))
    changed: bool = stub.PutParameter(request).changed
    return changed


def test_parameters_are_put_listed_in_pages_and_dropped(stub: admin_pb2_grpc.AdminStub) -> None:
    for name in ("b", "a", "c"):
        assert put(stub, name)
        assert not put(stub, name)
    assert put(stub, "g", vhost="", component="", value_json="[1]")
    page = stub.ListParameters(pb.ListParametersRequest(page_size=2))
    assert [each.name for each in page.parameters] == ["a", "b"]
    assert "s3cret" not in str(page)
    token = page.next_page_token
    rest = stub.ListParameters(pb.ListParametersRequest(page_size=2, page_token=token))
    assert [each.name for each in rest.parameters] == ["c"]
    globals_ = stub.ListParameters(pb.ListParametersRequest(globals=True)).parameters
    assert [each.value_json for each in globals_] == ["[1]"]
    none = pb.ListParametersRequest(component="other")
    assert not stub.ListParameters(none).parameters
    gone = pb.DropParameterRequest(vhost="/", component="shovel", name="c")
    stub.DropParameter(gone)
    with pytest.raises(grpc.RpcError) as caught:
        stub.DropParameter(gone)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": ""}, "name is empty"), ({"value_json": "{"}, "the value is no JSON"),
        ({"value_json": " " * 70_000}, "longer than 65536 bytes"),
        ({"component": "foo"}, "component foo not found"), ({"vhost": ""}, "vhost is empty"),
        ({"component": ""}, "component is empty"), ({"value_json": "{}"}, '"src-uri" not found'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(
    cluster: Served, stub: admin_pb2_grpc.AdminStub, fields: dict[str, str], words: str
) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        put(stub, **{"name": "p", **fields})
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert words in (caught.value.details() or "")
    assert not cluster.shared.map.parameters


def test_the_command_line_sets_lists_and_clears(cluster: Served) -> None:
    at = ("--node", cluster.address("n1"))
    done = fedq("parameter", "set", "shovel", "move", TEXT, *at)
    assert done.out == "shovel parameter move in vhost / set\n"
    again = fedq("parameter", "set", "shovel", "move", TEXT, "--json", *at)
    assert again.value == {
        "vhost": "/", "component": "shovel", "name": "move", "changed": False
    }  # fmt: skip
    assert fedq("parameter", "set-global", "g", '{"a": 1}', *at).exit_code == 0
    shown = fedq("parameter", "list", *at)
    assert "me:***@example.com" in shown.out
    assert "s3cret" not in shown.out
    assert fedq("parameter", "list-global", "--json", *at).value["parameters"] == [
        {"name": "g", "value": {"a": 1}}
    ]
    assert fedq("parameter", "clear-global", "g", *at).out == "global parameter g cleared\n"
    wrong = fedq("parameter", "set", "foo", "p", "1", *at)
    assert wrong.exit_code != 0
    assert "component foo not found" in wrong.err
    assert list(cluster.shared.map.parameters) == [ParameterKey("/", "shovel", "move")]
    assert fedq("parameter", "clear", "shovel", "move", *at).exit_code == 0
    assert fedq("parameter", "clear", "shovel", "move", *at).exit_code == 1


def test_shovels_are_listed_wherever_they_run(
    cluster: Served, stub: admin_pb2_grpc.AdminStub
) -> None:
    put(stub, "move")
    error = "the source ended the connection"
    state = ShovelState("waiting", 1_800_000_000_000, 7, 70, 0, error, 2)
    cluster.shovels.setdefault("n3", {})[QueueKey("/", "move")] = state
    at = ("--node", cluster.address("n1"))
    shown = fedq("shovel", "list", *at)
    (row,) = shown.rows("VHOST")
    assert row[:6] == ["/", "move", "n3", "waiting", "7", "70"]
    assert error in shown.out
    told = fedq("shovel", "status", "move", *at).out
    assert "from:         queue here at amqp://example.com/%2F" in told
    assert "moved:        7 messages, 70 bytes" in told
    assert f"last error:   {error}" in told
    assert "s3cret" not in told
    missing = fedq("shovel", "status", "other", *at)
    assert missing.exit_code == 1
    assert "there is no shovel 'other' in vhost '/'" in missing.err
    cluster.stop_node("n3")
    found = fedq("shovel", "list", "--json", *at).value
    assert (found["silent"], found["shovels"][0]["state"]) == (["n3"], "unknown")
