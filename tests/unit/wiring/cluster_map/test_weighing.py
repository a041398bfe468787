"""The cluster map is bounded in bytes: who fills it is refused, and who manages it is not."""

import orjson
import pytest

from fedq.core import limits
from fedq.core.errors import RESOURCE_ERROR, Refused
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import (
    DeclareExchange,
    DeleteExchange,
    Operation,
    encode_command,
    encode_operation,
    fitting,
)
from fedq.wiring.cluster_map.operations_access import AddVhost, PutUser
from fedq.wiring.cluster_map.state import Ok
from tests.unit.wiring.maps import up

#: One byte of a client is six in the map's JSON, and seven where JSON is quoted in JSON.
ODD = "\x01"


def heavy(number: int) -> DeclareExchange:
    name = str(number).rjust(200, ODD)
    arguments = orjson.dumps({"x": ODD * 5_000}).decode()
    return DeclareExchange("/", name, "direct", True, False, False, arguments)


def unbounded(request: str, *operations: Operation) -> bytes:
    """A command as earlier versions wrote them."""
    form = orjson.loads(encode_command(request, operations))
    del form["bytes_max"]
    return orjson.dumps(form)


def filled() -> tuple[ClusterMap, int]:
    """A map into which no further heavy exchange fits, and how many there are."""
    cluster = ClusterMap()
    cluster.apply(encode_command("up", [up("a")]))
    for number in range(limits.MAP_OBJECTS_MAX):
        (result,) = cluster.apply(encode_command(f"r{number}", [heavy(number)])).results
        if isinstance(result, Refused):
            assert result.reply_code == RESOURCE_ERROR
            assert "the cluster map is full" in result.text
            assert "delete exchanges, queues or bindings" in result.text
            return cluster, number
    raise AssertionError("the map took everything")


def test_arguments_of_odd_characters_do_not_outgrow_a_snapshot() -> None:
    cluster, count = filled()
    assert count > 1_000
    assert len(cluster.snapshot()) < limits.SNAPSHOT_BYTES_MAX // 3
    # What is there is confirmed, and what is deleted makes room.
    assert cluster.apply(encode_command("again", [heavy(0)])).results == (Ok(),)
    deleted = DeleteExchange("/", heavy(0).name, if_unused=False)
    after: list[Operation] = [deleted, heavy(count), heavy(0)]
    results = [
        cluster.apply(encode_command(f"more {place}", [operation])).results[0]
        for place, operation in enumerate(after)
    ]
    assert [isinstance(result, Ok) for result in results] == [True, True, False]
    # Who manages it still can, and so a member that comes up.
    managed: list[Operation] = [AddVhost("v"), PutUser("u", "", (), replace=False), up("b")]
    assert all(
        isinstance(result, Ok)
        for result in cluster.apply(encode_command("managed", managed)).results
    )
    restored = ClusterMap()
    restored.restore(cluster.snapshot())
    assert restored.bytes_held == cluster.bytes_held
    assert isinstance(restored.apply(encode_command("full", [heavy(0)])).results[0], Refused)


def test_a_log_and_a_snapshot_of_earlier_versions_beyond_the_bound_are_taken() -> None:
    cluster, count = filled()
    assert cluster.apply(unbounded("old", heavy(count))).results == (Ok(1),)
    assert cluster.bytes_held > limits.MAP_BYTES_MAX
    restored = ClusterMap()
    restored.restore(cluster.snapshot())
    assert restored.snapshot() == cluster.snapshot()


def test_what_is_remembered_of_requests_is_bounded_in_bytes() -> None:
    cluster = ClusterMap()
    refused: list[Operation] = [
        DeclareExchange("/", "amq." + ODD * 250, "direct", True, False, False, "")
    ] * limits.OPERATIONS_PER_COMMAND_MAX
    refused = refused[: fitting(map(encode_operation, refused))]
    for number in range(2_000):
        cluster.apply(encode_command(f"r{number}", refused))
    assert cluster.apply(encode_command("r1999", refused)).duplicate
    assert len(cluster.snapshot()) < limits.REQUESTS_REMEMBERED_BYTES_MAX + limits.MIB


@pytest.mark.parametrize("bound", ["1", -1, 1.5, True, None, 1 << 61])
def test_a_bound_that_is_no_number_of_bytes_is_refused(bound: object) -> None:
    form = orjson.loads(encode_command("r", [AddVhost("v")]))
    (refusal,) = ClusterMap().apply(orjson.dumps({**form, "bytes_max": bound})).results
    assert isinstance(refusal, Refused)
    assert "bytes_max" in refusal.text
