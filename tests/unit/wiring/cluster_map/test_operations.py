"""Commands survive their journey, and what is no command is refused with a reason."""

from collections.abc import Sequence

import orjson
import pytest

from fedq.core import limits
from fedq.core.ids import Epoch, FragmentId, Incarnation, NodeId
from fedq.wiring.cluster_map.operations import (
    AddFragment,
    ClaimName,
    CommandError,
    DeleteExchange,
    DeleteQueue,
    EndQueue,
    MarkConsumed,
    MarkUsed,
    NewEra,
    Operation,
    ReleaseName,
    RetireFragment,
    SetCopies,
    Unbind,
    decode_command,
    encode_command,
    encode_operation,
    fitting,
)
from tests.unit.wiring.maps import bind, down, exchange, queue, up

A = NodeId("a")
ONE = Incarnation(1)
EVERY_OPERATION: Sequence[Operation] = (
    up("a", 3, "zürich"),
    down("a"),
    NewEra(),
    exchange("events", arguments='{"x":[1,{"y":null}]}'),
    DeleteExchange("/", "events", True),
    queue("work", durable=False, fragments=3),
    DeleteQueue("/", "work"),
    bind("events", "work", "k.#"),
    Unbind("/", "events", "exchange", "other", "", ""),
    ClaimName("/", "mine", A, ONE),
    ReleaseName("/", "mine", A, ONE),
    MarkConsumed("/", "brief"),
    EndQueue(FragmentId(7)),
    MarkUsed(FragmentId(7)),
    AddFragment("/", "work", A),
    RetireFragment(FragmentId(7), Epoch(2)),
    SetCopies(FragmentId(7), Epoch(2), A, (NodeId("b"),), ((A, ONE),), False),
)


def test_a_command_arrives_as_it_was_sent() -> None:
    command = decode_command(encode_command("a/1/77", EVERY_OPERATION))
    assert command.request == "a/1/77"
    assert command.operations == tuple(EVERY_OPERATION)


def test_arguments_come_out_in_one_form() -> None:
    sent = [queue("q", arguments=text) for text in ('{"b":1, "a":2}', '{"a":2,"b":1}', "{}", "")]
    decoded = decode_command(encode_command("r", sent)).operations
    assert decoded[0] == decoded[1]
    assert decoded[2] == decoded[3]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"v": 2}, "it is of version 2, not 1"),
        ({"v": True}, "not of version 1"),
        ({"id": ""}, "no id"),
        ({"id": 7}, "no id"),
        ({"id": "x" * 129}, "no id"),
        ({"ops": []}, "no list of 1 to 200 operations"),
        ({"ops": {}}, "no list"),
        ({"ops": [{"op": "new_era"}] * 201}, "no list"),
        ({"ops": [{"op": "format_disk"}]}, "it has an operation 'format_disk'"),
        ({"ops": [{}]}, "an operation has no name"),
        ({"in_order": 1}, "neither true nor false"),
        ({"in_order": None}, "neither true nor false"),
        ({"ops": [[]]}, "an operation has no name"),
        ({"ops": [{"op": []}]}, "an operation has no name"),
        ({"ops": [{"op": "new_era", "more": 1}]}, "its new_era has fields that are unknown"),
        ({"ops": [{"op": "member_down", "node": "a"}]}, "1 fields instead of 2"),
        ({"ops": [{"op": "member_down", "node": "", "incarnation": 1}]}, "node is empty"),
        ({"ops": [{"op": "member_down", "node": "a", "incarnation": 0}]}, "is not a number"),
        ({"ops": [{"op": "member_down", "node": "a", "incarnation": True}]}, "is not a number"),
        ({"ops": [{"op": "member_down", "node": "a", "incarnation": 1.0}]}, "is not a number"),
        ({"ops": [{"op": "delete_queue", "vhost": "/", "name": "é" * 128}]}, "longer than 255"),
        ({"ops": [{"op": "delete_queue", "vhost": "/", "nom": "q"}]}, "fields that are unknown"),
    ],
)
def test_what_is_no_command_is_refused(change: dict[str, object], reason: str) -> None:
    form = {"v": 1, "id": "r", "ops": [{"op": "new_era"}], **change}
    with pytest.raises(CommandError, match=reason):
        decode_command(orjson.dumps(form))


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("fragments", 65, "more than 64"),
        ("replicas", 6, "more than 5"),
        ("replicas", 0, "not a number"),
        ("mode", "some", "none of all, persistent, none"),
        ("durable", 1, "neither true nor false"),
        ("arguments", "[]", "not a JSON object"),
        ("arguments", "{", "declare_queue.arguments"),
        ("arguments", {}, "not a string"),
        ("arguments", '{"a":' + "[" * 300 + "]" * 300 + "}", "declare_queue.arguments"),
        ("arguments", '{"a":' + "[" * 3000 + "]" * 3000 + "}", "declare_queue.arguments"),
    ],
)
def test_fields_out_of_bounds_are_named(field: str, value: object, reason: str) -> None:
    form = orjson.loads(encode_command("r", [queue("q")]))
    form["ops"][0][field] = value
    with pytest.raises(CommandError, match=reason) as caught:
        decode_command(orjson.dumps(form))
    assert caught.value.request == "r"


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"7", b"\xff", b"{", b" " * 50_000])
def test_bytes_that_are_not_even_an_object(data: bytes) -> None:
    with pytest.raises(CommandError):
        decode_command(data)


def test_a_command_beyond_the_limits_is_not_made() -> None:
    many = [NewEra()] * (limits.OPERATIONS_PER_COMMAND_MAX + 1)
    with pytest.raises(ValueError, match="200 operations"):
        encode_command("r", many)
    with pytest.raises(ValueError, match="1 to 200"):
        encode_command("r", [])
    big = [queue("q" * 250, arguments='{"x":"' + "y" * 1_000 + '"}')] * 100
    with pytest.raises(ValueError, match="bytes"):
        encode_command("r", big)
    with pytest.raises(ValueError, match="not UTF-8"):
        encode_command("r", [queue("\udc80")])


def test_what_fits_can_be_sent() -> None:
    big = [queue("q" * 250, arguments='{"x":"' + "y" * 1_000 + '"}')] * 100
    count = fitting(encode_operation(each) for each in big)
    assert 20 < count < 100
    decode_command(encode_command("r" * 128, big[:count]))
    assert fitting([encode_operation(NewEra())] * 500) == limits.OPERATIONS_PER_COMMAND_MAX
    assert fitting([]) == 0
