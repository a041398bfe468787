"""The cluster map under random histories: deterministic, total, consistent, and never unsafe."""

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from fedq.core import limits
from fedq.core.errors import NodeFailure, Refused
from fedq.core.ids import Epoch, FragmentId, Incarnation, NodeId
from fedq.wiring.cluster_map import invariants
from fedq.wiring.cluster_map.map import NOT_REACHED, ClusterMap
from fedq.wiring.cluster_map.operations import (
    AddFragment,
    Bind,
    ClaimName,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    EndQueue,
    MarkConsumed,
    MarkUsed,
    MemberDown,
    MemberUp,
    NewEra,
    Operation,
    ReleaseName,
    RetireFragment,
    SetCopies,
    Unbind,
    command_of,
    encode_command,
    encode_operation,
)
from fedq.wiring.cluster_map.operations_access import (
    AddVhost,
    ClearPermissions,
    DeleteUser,
    DeleteVhost,
    FirstUsers,
    PutUser,
    SetPassword,
    SetPermissions,
    SetTags,
    SetUserLimits,
    SetVhostLimits,
)
from fedq.wiring.cluster_map.operations_copies import AdoptCopy, RetireIdle, ShapeQueue
from fedq.wiring.cluster_map.operations_members import Speaks
from fedq.wiring.cluster_map.operations_moves import DrainNode, MoveFragment, UndrainNode
from fedq.wiring.cluster_map.operations_parameters import DropParameter, PutParameter
from fedq.wiring.cluster_map.operations_policies import DropPolicy, PutPolicy
from fedq.wiring.cluster_map.operations_topics import ClearTopicPermissions, SetTopicPermissions
from fedq.wiring.cluster_map.operations_tracing import SetFirehose, StartTrace, StopTrace
from fedq.wiring.cluster_map.passwords import make_record
from fedq.wiring.cluster_map.state import TABLES, FragmentChanged, FragmentInfo

nodes = st.sampled_from("abcd").map(NodeId)
incarnations = st.integers(1, 3).map(Incarnation)
epochs = st.integers(1, 4).map(Epoch)
fragments = st.integers(1, 5).map(FragmentId)
vhosts = st.sampled_from(["/", "/", "/", "/no"])
users = st.sampled_from(["ann", "ben"])
records = st.sampled_from(
    ["", make_record("one", bytes(16), 1), f"rabbit-md5$00ff0a24${'5a' * 16}"]
)
tags = st.sampled_from([(), ("administrator",)])
patterns = st.sampled_from([".*", "", "^a|b$", "(("])
exchanges = st.sampled_from(["e", "f", "amq.topic", "amq.match", ""])
queues = st.sampled_from(["q", "r", "amq.q"])
kinds = st.sampled_from(["queue", "exchange", "node"])
ends = st.sampled_from(["q", "r", "e", "f", "a", "b"])
keys = st.sampled_from(["", "k"])
texts = st.sampled_from(["", '{"x-match":"any"}', '{"x-match":"no"}'])
copies = st.lists(st.tuples(nodes, incarnations), max_size=3).map(tuple)

vhost_limits = st.sampled_from([(), (("max-queues", 1),), (("max-connections", 5),)])
user_limits = st.sampled_from([(), (("max-channels", 1), ("max-connections", 5))])

binding = (vhosts, exchanges, kinds, ends, keys, texts)
operations: st.SearchStrategy[Operation] = st.one_of(
    st.builds(MemberUp, nodes, incarnations, st.just("p"), st.just("c"), st.sampled_from("xy")),
    st.builds(MemberUp, nodes, incarnations, st.just("p"), st.just("c"), st.sampled_from("xy")),
    st.builds(MemberDown, nodes, incarnations),
    st.builds(NewEra),
    st.builds(
        DeclareExchange,
        vhosts,
        exchanges,
        st.sampled_from(["topic", "headers", "odd"]),
        st.booleans(),
        st.booleans(),
        st.just(False),
        st.just(""),
    ),
    st.builds(DeleteExchange, vhosts, exchanges, st.booleans()),
    st.builds(
        DeclareQueue,
        vhosts,
        queues,
        st.booleans(),
        st.just(False),
        st.just(""),
        nodes,
        st.integers(1, 3),
        st.integers(1, 3),
    ),
    st.builds(DeleteQueue, vhosts, queues),
    st.builds(Bind, *binding),
    st.builds(Unbind, *binding),
    st.builds(ClaimName, vhosts, queues, nodes, incarnations),
    st.builds(ReleaseName, vhosts, queues, nodes, incarnations),
    st.builds(MarkConsumed, vhosts, queues),
    st.builds(EndQueue, fragments),
    st.builds(MarkUsed, fragments),
    st.builds(AddVhost, vhosts),
    st.builds(DeleteVhost, vhosts),
    st.builds(SetVhostLimits, vhosts, vhost_limits),
    st.builds(SetUserLimits, users, user_limits),
    st.builds(PutUser, users, records, tags, st.booleans()),
    st.builds(SetPassword, users, records),
    st.builds(SetTags, users, tags),
    st.builds(DeleteUser, users),
    st.builds(SetPermissions, users, vhosts, patterns, patterns, patterns),
    st.builds(ClearPermissions, users, vhosts),
    st.builds(FirstUsers, st.lists(st.tuples(users, records), max_size=2).map(tuple)),
    st.builds(
        DeclareQueue,
        vhosts,
        st.just("seen"),
        st.just(True),
        st.just(False),
        st.just('{"x-queue-type":"stream"}'),
        nodes,
        st.just(1),
        st.integers(1, 3),
    ),
    st.builds(
        StartTrace,
        st.sampled_from(["all", "other", "no name"]),
        st.sampled_from(["", "/", "/no"]),
        st.sampled_from(["", "e", "amq.default"]),
        st.sampled_from(["", "q", "seen"]),
        st.sampled_from([1, 100]),
        vhosts,
        st.sampled_from(["seen", "seen", "q"]),
    ),
    st.builds(StopTrace, st.sampled_from(["all", "other"])),
    st.builds(SetFirehose, vhosts, st.booleans()),
    st.builds(
        PutPolicy,
        vhosts,
        st.sampled_from(["one", "two"]),
        st.booleans(),
        patterns,
        st.sampled_from(["queues", "all"]),
        st.integers(-1, 1),
        st.sampled_from(
            ['{"max-length":1}', '{"overflow":"reject-publish"}', '{"max-length":-1}', "", "{}"]
        ),
    ),
    st.builds(SetTopicPermissions, users, vhosts, st.sampled_from(["t", "u"]), patterns, patterns),
    st.builds(ClearTopicPermissions, users, vhosts, st.sampled_from(["t", "u"]), st.booleans()),
    st.builds(
        PutParameter,
        st.one_of(vhosts, st.just("")),
        st.sampled_from(["shovel", "", "no"]),
        st.sampled_from(["one", "two"]),
        st.sampled_from(
            ['{"src-uri":"amqp://h","src-queue":"q","dest-uri":"amqp://h"}', "{}", '"x"', "1.5"]
        ),
    ),
    st.builds(
        DropParameter,
        st.one_of(vhosts, st.just("")),
        st.sampled_from(["shovel", ""]),
        st.sampled_from(["one", "two"]),
    ),
    st.builds(DropPolicy, vhosts, st.sampled_from(["one", "two"]), st.booleans()),
    st.builds(DrainNode, nodes, st.booleans()),
    st.builds(UndrainNode, nodes),
    st.builds(MoveFragment, fragments, st.one_of(nodes, st.just(NodeId("")))),
    st.builds(Speaks, nodes, incarnations, st.just(5), st.sampled_from([11, 12])),
    st.builds(AddFragment, vhosts, queues, nodes),
    st.builds(RetireFragment, fragments, epochs),
    st.builds(RetireIdle, fragments, epochs, st.integers(0, 40)),
    st.builds(ShapeQueue, vhosts, queues, st.integers(0, 4)),
    st.builds(AdoptCopy, fragments, epochs, nodes, incarnations),
    st.builds(
        SetCopies,
        fragments,
        epochs,
        nodes,
        st.lists(nodes, max_size=3).map(tuple),
        copies,
        st.booleans(),
    ),
)
requests = st.integers(0, 12).map(str)
commands = st.builds(encode_command, requests, st.lists(operations, min_size=1, max_size=5))


@given(st.lists(commands, max_size=25), st.integers(0, 25))
def test_the_same_log_gives_the_same_map_and_a_snapshot_changes_nothing(
    log: list[bytes], cut: int
) -> None:
    first, second = ClusterMap(), ClusterMap()
    for number, command in enumerate(log):
        if number == cut:
            restored = ClusterMap()
            restored.restore(second.snapshot())
            second = restored
        assert first.apply(command) == second.apply(command)
        invariants.check(first)
    assert first.snapshot() == second.snapshot()


@given(st.lists(commands, max_size=25), st.lists(operations, min_size=1, max_size=6))
def test_a_command_in_order_is_the_same_without_what_is_behind_a_refusal(
    log: list[bytes], asked: list[Operation]
) -> None:
    first, second = ClusterMap(), ClusterMap()
    for command in log:
        first.apply(command)
        second.apply(command)
    encoded = [encode_operation(operation) for operation in asked]
    whole = first.apply(command_of("in order", encoded, in_order=True))
    refused = [isinstance(result, Refused) for result in whole.results]
    done = refused.index(True) + 1 if True in refused else len(refused)
    part = second.apply(command_of("in order", encoded[:done]))
    assert whole.results == (*part.results, *[NOT_REACHED] * (len(asked) - done))
    assert whole.changes == part.changes
    # What was asked, and what came of it, is in digest and memory: it differs.
    left_out = ("digest", "changes")
    tables = [name for name in TABLES if name not in left_out]
    assert all(getattr(first, name) == getattr(second, name) for name in tables)
    invariants.check(first)


@given(st.lists(commands, max_size=25), st.integers(0, 25))
def test_the_weight_is_at_least_what_the_snapshot_takes_and_not_much_more(
    log: list[bytes], cut: int
) -> None:
    cluster = ClusterMap()
    for number, command in enumerate(log):
        if number == cut:
            restored = ClusterMap()
            restored.restore(cluster.snapshot())
            assert restored.bytes_held == cluster.bytes_held
            assert restored.copies_of == cluster.copies_of
            cluster = restored
        cluster.apply(command)
        body = cluster.snapshot().partition(b"\n")[2].partition(b',"requests":[')[0]
        head = 1_024
        assert len(body) - head <= cluster.bytes_held
        assert cluster.bytes_held <= len(body) + 200 * cluster.object_count()


@given(st.lists(commands, max_size=25))
def test_copies_change_hands_only_safely(log: list[bytes]) -> None:
    cluster = ClusterMap()
    for command in log:
        versions = {number: info.epoch for number, info in cluster.fragments.items()}
        applied = cluster.apply(command)
        for number, info in cluster.fragments.items():
            assert info.epoch >= versions.get(number, 1)
        for change in applied.changes:
            if isinstance(change, FragmentChanged):
                check_change(change.before, change.after)


def check_change(before: FragmentInfo, after: FragmentInfo) -> None:
    assert after.epoch == before.epoch + 1
    assert after.primary in before.in_sync, "a primary that was not in sync"
    moved = after.primary != before.primary
    lost_memory = after.in_sync[after.primary] != before.in_sync[after.primary]
    assert (after.reign == after.epoch) == (moved or lost_memory)
    if lost_memory:
        assert list(after.in_sync) == [after.primary], "only a disk is left"


@given(st.binary(max_size=200))
def test_any_bytes_have_an_answer(data: bytes) -> None:
    cluster = ClusterMap()
    applied = cluster.apply(data)
    assert len(applied.results) == 1
    assert applied.changes == []
    assert cluster.version == 1


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(commands, st.data())
def test_any_field_may_hold_anything(command: bytes, data: st.DataObject) -> None:
    form = orjson.loads(command)
    operation = form["ops"][0]
    field = data.draw(st.sampled_from(sorted(operation)))
    operation[field] = data.draw(json_values)
    cluster = ClusterMap()
    up = MemberUp(NodeId("a"), Incarnation(1), "p", "c", "")
    cluster.apply(encode_command("up", [up]))
    bad = orjson.dumps(form)
    if len(bad) <= limits.COMMAND_BYTES_MAX:
        try:
            assert cluster.apply(bad).results
        except NodeFailure:
            assert field == "op", "only an operation of a newer release is not passed over"
            assert cluster.version == 1
        invariants.check(cluster)
        copy = ClusterMap()
        copy.restore(cluster.snapshot())
        assert copy.snapshot() == cluster.snapshot()
