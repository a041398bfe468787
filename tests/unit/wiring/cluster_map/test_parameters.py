"""Runtime parameters in the map: which come and go, and what is wrong with some."""

from typing import Any

import orjson
import pytest

from fedq.core import limits
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_ERROR, Refused
from fedq.core.ids import Incarnation, NodeId, QueueKey
from fedq.node.views.shovel_view import ShovelView, places
from fedq.wiring.cluster_map import invariants
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import Operation, encode_command, encode_operation
from fedq.wiring.cluster_map.operations_access import AddVhost, DeleteVhost
from fedq.wiring.cluster_map.operations_members import MemberDown, MemberUp
from fedq.wiring.cluster_map.operations_parameters import (
    DropParameter,
    ParameterChanged,
    ParameterKey,
    PutParameter,
)
from fedq.wiring.cluster_map.parameters import refuse_parameter
from fedq.wiring.cluster_map.shovel_definitions import (
    first_uris,
    masked,
    refuse_shovel,
    shovel_of,
)
from fedq.wiring.cluster_map.state import Ok

GOOD: dict[str, Any] = {
    "src-uri": "amqp://a:s3cret@example.com", "src-queue": "q", "dest-uri": "amqp://a:s3cret@/",
    "dest-queue": "r",
}  # fmt: skip


class Log:
    """A map, and operations that are applied to it."""

    def __init__(self) -> None:
        self.map = ClusterMap()
        self._count = 0

    def do(self, operation: Operation) -> Ok | Refused:
        self._count += 1
        self.applied = self.map.apply(encode_command(str(self._count), [operation]))
        invariants.check(self.map)
        again = ClusterMap()
        again.restore(self.map.snapshot())
        assert again.snapshot() == self.map.snapshot()
        assert again.bytes_held == self.map.bytes_held
        return self.applied.results[0]

    def put(self, name: str, value: Any = GOOD, vhost: str = "/") -> Ok | Refused:
        return self.do(PutParameter(vhost, "shovel", name, orjson.dumps(value).decode()))


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_parameter_comes_is_confirmed_replaced_and_goes(log: Log) -> None:
    key = ParameterKey("/", "shovel", "p")
    assert log.put("p") == Ok(1)
    assert log.applied.changes == [ParameterChanged("parameters", key)]
    assert log.put("p") == Ok()
    assert log.applied.changes == []
    assert log.put("p", GOOD | {"dest-queue": "s"}) == Ok(1)
    assert orjson.loads(log.map.parameters[key])["dest-queue"] == "s"
    assert log.do(DropParameter(*key)) == Ok(1)
    gone = log.do(DropParameter(*key))
    assert isinstance(gone, Refused)
    assert (gone.reply_code, "s3cret" in gone.text) == (NOT_FOUND, False)


def test_what_one_release_of_python_may_read_and_another_not_is_no_affair_of_the_map(
    log: Log,
) -> None:
    odd = GOOD | {"src-uri": ["amqp://a:s3c[ret]@example.com", "nonsense s3cret"]}
    assert log.put("p", odd) == Ok(1)
    key, text = next(iter(log.map.parameters.items()))
    refused = refuse_parameter(PutParameter(*key, text))
    assert refused is not None
    assert refused.startswith("src-uri is not a valid URI: ")
    # A node that cannot read it shows nothing of it.
    assert "s3c" not in refused + str(masked(odd)) + str(first_uris(shovel_of(odd)))


def test_they_go_with_their_virtual_host_and_global_ones_stay(log: Log) -> None:
    log.do(AddVhost("v"))
    log.put("p", vhost="v")
    log.put("q")
    log.do(PutParameter("", "", "g", "[1]"))
    log.do(DeleteVhost("v"))
    assert sorted(log.map.parameters) == [("", "", "g"), ("/", "shovel", "q")]
    refused = log.put("p", vhost="v")
    assert isinstance(refused, Refused)
    assert refused.reply_code == NOT_FOUND
    # Of a component, but of no virtual host: nobody's.
    refused = log.do(PutParameter("", "shovel", "p", orjson.dumps(GOOD).decode()))
    assert isinstance(refused, Refused)


@pytest.mark.parametrize("component", ["no", "policy", "operator_policy", "vhost-limits", ""])
def test_a_component_that_there_is_not_is_refused(log: Log, component: str) -> None:
    refused = log.do(PutParameter("/", component, "p", "{}"))
    assert isinstance(refused, Refused)
    assert refused.reply_code == PRECONDITION_FAILED


def test_there_is_a_bound(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SHOVELS_MAX", 2)
    monkeypatch.setattr(limits, "PARAMETERS_MAX", 3)
    assert [log.put(name) for name in ("a", "b")] == [Ok(1), Ok(1)]
    refused = log.put("c")
    assert isinstance(refused, Refused)
    assert (refused.reply_code, "at most 2 shovels" in refused.text) == (RESOURCE_ERROR, True)
    assert log.do(PutParameter("", "", "g", "1")) == Ok(1)
    refused = log.do(PutParameter("", "", "h", "1"))
    assert isinstance(refused, Refused)
    assert "at most 3 parameters" in refused.text
    assert log.put("a", GOOD | {"dest-queue": "s"}) == Ok(1)


@pytest.mark.parametrize("value", ["", "{", "1" * 5_000, "[" * 2_000 + "]" * 2_000, "nul"])
def test_what_is_no_json_or_too_much_is_no_operation(value: str) -> None:
    command = ClusterMap().apply(
        b'{"v":1,"id":"x","ops":[%b]}' % encode_operation(PutParameter("/", "shovel", "p", value))
    )
    assert all(isinstance(result, Refused) for result in command.results)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"src-uri": None}, "src-uri is not a valid URI"), ({"src-uri": []}, "a list of 1 to 16"),
        ({"dest-uri": ["amqp://h"] * 17}, "a list of 1 to 16"),
        ({"src-exchange": "e"}, "Cannot specify 'src-exchange' and 'src-queue'"),
        ({"dest-exchange": "e"}, "Cannot specify 'dest-exchange' and 'dest-queue'"),
        ({"src-queue": ""}, "should be a name"), ({"src-queue": 1}, "src-queue should be binary"),
        ({"dest-queue": "n" * 256}, "longer than 255 bytes"),
        ({"dest-queue": ""}, "'dest-queue' should be a name"),
        ({"ack-mode": "x"}, "ack-mode should be one of"), ({"ack-mode": []}, "ack-mode should"),
        ({"src-prefetch-count": 0}, "src-prefetch-count"), ({"prefetch-count": True}, "src-pref"),
        ({"reconnect-delay": "x"}, "reconnect-delay should be number"),
        ({"reconnect-delay": -1}, "reconnect-delay should be from 0"),
        ({"src-delete-after": "x"}, "src-delete-after should be"),
        ({"src-delete-after": []}, "src-delete-after should be"),
        ({"delete-after": 5, "ack-mode": "no-ack"}, "Cannot specify 'no-ack' and numerical"),
        ({"src-protocol": "amqp10"}, "src-protocol should be amqp091"),
        ({"dest-add-forward-headers": 1}, "should be boolean"),
        ({"src-queue-args": []}, "should be a JSON object"),
        ({"src-uri ": "amqp://u:s3cret@h"}, "Unrecognised terms [src-uri ]"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_shovel_is_said_without_passwords(
    change: dict[str, Any], words: str
) -> None:
    assert refuse_shovel(GOOD) is None
    said = refuse_shovel(GOOD | change)
    assert said is not None
    assert words in said
    assert "s3cret" not in said


@pytest.mark.parametrize("key", ["src-uri", "dest-uri", "src-queue"])
def test_what_is_missing_is_said(key: str) -> None:
    assert refuse_shovel({name: GOOD[name] for name in GOOD if name != key})
    assert refuse_shovel([GOOD])


def test_old_names_mean_what_they_meant() -> None:
    old = {"prefetch-count": 7, "delete-after": "queue-length", "add-forward-headers": True}
    assert refuse_shovel(GOOD | old) is None
    found = shovel_of(GOOD | old)
    assert (found.prefetch, found.delete_after, found.adds_headers) == (7, "queue-length", True)
    assert "s3cret" not in str(masked(GOOD | old))


def test_every_node_finds_the_same_place_and_few_move_when_a_member_goes(log: Log) -> None:
    for number in range(60):
        log.put(f"s{number}")
    known = ShovelView(log.map)
    assert places(known) == {}
    for each in ("n1", "n2", "n3"):
        log.do(MemberUp(NodeId(each), Incarnation(1), f"{each}:1", f"{each}:2", ""))
    before = places(known)
    assert len(before) == 60
    assert {*before.values()} == {"n1", "n2", "n3"}
    log.do(MemberDown(NodeId("n2"), Incarnation(1)))
    after = places(known)
    moved = [key for key in before if before[key] != after[key]]
    assert all(before[key] == "n2" for key in moved)
    assert QueueKey("/", "s0") in after
