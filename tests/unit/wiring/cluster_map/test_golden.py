"""The map's forms for ever: snapshots and operations once written still read, and read the same.

Inputs: `tests/golden/map-v1*`, and what is in them as plain records. None of them is rewritten: a
new form gets a file beside the old one.
"""

from dataclasses import replace
from typing import get_args

import orjson

from fedq.core import limits
from fedq.core.errors import Refused
from fedq.core.ids import Epoch, Incarnation, MapVersion, NodeId, QueueKey
from fedq.wiring.cluster_map.operations import (
    Bind,
    Command,
    DeclareQueue,
    DeleteQueue,
    MemberUp,
    NewEra,
    Operation,
    command_of,
    decode_command,
    encode_operation,
)
from fedq.wiring.cluster_map.operations_parameters import (
    ParameterKey,
)
from fedq.wiring.cluster_map.operations_policies import Policy
from fedq.wiring.cluster_map.operations_topics import (
    TopicGrant,
    TopicKey,
)
from fedq.wiring.cluster_map.operations_tracing import Trace
from fedq.wiring.cluster_map.snapshot import Remembered, decode, encode
from fedq.wiring.cluster_map.state import (
    TABLES,
    Binding,
    Claim,
    Exchange,
    FragmentInfo,
    Grant,
    GrantKey,
    MapState,
    Member,
    Ok,
    Place,
    Queue,
    User,
)
from tests.unit.golden import GOLDEN
from tests.unit.wiring.cluster_map.golden_operations import (
    INVOICES,
    LAZY,
    NORTH,
    ONE,
    OPERATIONS,
    OPERATIONS_HASHES,
    OPERATIONS_MOVES,
    OPERATIONS_PARAMETERS,
    OPERATIONS_POLICIES,
    OPERATIONS_RETIRING,
    OPERATIONS_SHAPES,
    OPERATIONS_TOPICS,
    OPERATIONS_V11,
    OPERATIONS_V12,
    OPERATIONS_V13,
    OPERATIONS_VOTERS,
    ORDERS,
    RECORD,
    SOUTH,
    THREE,
    TWO,
)


def before_others() -> tuple[MapState, Remembered]:
    """A map of the first release: members, exchanges, queues, bindings, fragments, claims."""
    state = MapState()
    state.version = MapVersion(2**40)
    state.era = {SOUTH: Incarnation(7), NORTH: Incarnation(2)}
    state.era_number, state.next_fragment = 3, THREE + 1
    state.members = {
        SOUTH: Member(Incarnation(7), True, MapVersion(9), "süd:1", "süd:2", "cellar"),
        NORTH: Member(Incarnation(3), False, MapVersion(8), "[::1]:1", "", ""),
    }
    state.add_vhost("/")
    state.add_vhost(INVOICES.vhost)
    state.exchanges[QueueKey("/", "log")] = Exchange("topic", False, True, True, '{"a":[1,null]}')
    state.queues = {
        ORDERS: Queue(True, False, "", [TWO, ONE], 3, "persistent"),
        INVOICES: Queue(False, True, LAZY, [THREE], 1, "none"),
    }
    for binding in (
        Binding("/", "log", "queue", "orders", "#.new", ""),
        Binding("/", "amq.topic", "exchange", "log", "", '{"x-match":"any"}'),
        Binding("/", "log", "node", "süd", "*", ""),
    ):
        state.add_binding(binding)
    both = {SOUTH: Incarnation(7), NORTH: Incarnation(3)}
    state.fragments = {
        ONE: FragmentInfo(ONE, ORDERS, SOUTH, (NORTH,), both, Epoch(8), 5, 2),
        THREE: FragmentInfo(THREE, INVOICES, SOUTH, (), {SOUTH: Incarnation(6)}, Epoch(1), 1, 1),
        TWO: FragmentInfo(TWO, ORDERS, NORTH, (SOUTH,), {NORTH: Incarnation(3)}, Epoch(4), 4, 4),
    }
    state.claims = {QueueKey("/", "mine"): Claim(SOUTH, Incarnation(7))}
    remembered: Remembered = {
        "süd-7-1": (Ok(), Ok(THREE), Refused(406, 'no "new" one')),
        "north-3-9": (Refused(404, ""),),
    }
    return state, remembered


def all_there_is() -> tuple[MapState, Remembered]:
    """A map with everything that came since."""
    state, remembered = before_others()
    state.members[SOUTH] = replace(state.members[SOUTH], start="0a1b", started_ms=1_800_000_000_000)
    state.members[NORTH] = replace(state.members[NORTH], start="ff", started_ms=1, behind=True)
    state.queues[INVOICES] = replace(state.queues[INVOICES], consumed=True)
    state.digest, state.seeded, state.cluster_version = 2**64 - 1, True, 6
    state.speaks = {NORTH: (5, 7), SOUTH: (6, 6)}
    state.users = {"guest": User(RECORD, ("administrator", "ops")), "übung": User("", ())}
    state.grants = {
        GrantKey("guest", "/"): Grant(".*", "^a|b$", ""),
        GrantKey("übung", INVOICES.vhost): Grant("", "", "\\d"),
    }
    state.vhost_limits = {"/": (("max-connections", 5), ("max-queues", 0))}
    state.user_limits = {"guest": (("max-channels", 2**31 - 1),), "übung": ()}
    return state, remembered


def tables(state: MapState) -> dict[str, object]:
    """All of a map, in the order in which it is kept."""
    return {
        name: list(table.items()) if isinstance(table := getattr(state, name), dict) else table
        for name in TABLES
    }


def test_the_golden_snapshot_still_reads_and_is_still_written_alike() -> None:
    golden = (GOLDEN / "map-v1.snapshot").read_bytes()
    state, remembered = all_there_is()
    read, read_remembered = decode(golden, limits.MAP_OBJECTS_MAX)
    assert tables(read) == tables(state)
    assert list(read_remembered.items()) == list(remembered.items())
    assert encode(state, remembered) == golden


def test_the_golden_snapshot_with_traces_still_reads_and_is_still_written_alike() -> None:
    golden = (GOLDEN / "map-v12.snapshot").read_bytes()
    state, remembered = all_there_is()
    state.cluster_version = 12
    for vhost in state.vhosts:
        state.add_trace_exchange(vhost)
    state.traces = {
        "all": Trace("", "", "", 1, "/", "fedq.trace.all"),
        "shop-1": Trace(INVOICES.vhost, "amq.default", "q", 100, INVOICES.vhost, "seen"),
    }
    state.firehose = {INVOICES.vhost: None}
    read, _ = decode(golden, limits.MAP_OBJECTS_MAX)
    assert tables(read) == tables(state)
    assert encode(state, remembered) == golden


def test_the_golden_snapshot_with_moves_still_reads_and_is_still_written_alike() -> None:
    golden = (GOLDEN / "map-v13-moves.snapshot").read_bytes()
    state, remembered = all_there_is()
    state.cluster_version = 13
    state.drained, state.moves = {NORTH: True}, {TWO: SOUTH}
    read, _ = decode(golden, limits.MAP_OBJECTS_MAX)
    assert tables(read) == tables(state)
    assert encode(state, remembered) == golden


def test_the_golden_snapshot_with_a_roster_still_reads_and_is_still_written_alike() -> None:
    golden = (GOLDEN / "map-v13.snapshot").read_bytes()
    state, remembered = all_there_is()
    add_roster(state)
    read, _ = decode(golden, limits.MAP_OBJECTS_MAX)
    assert tables(read) == tables(state)
    assert encode(state, remembered) == golden


def test_the_golden_snapshot_with_policies_still_reads_and_is_still_written_alike() -> None:
    golden = (GOLDEN / "map-v15-policies.snapshot").read_bytes()
    state, remembered = all_there_is()
    add_policies(state)
    read, _ = decode(golden, limits.MAP_OBJECTS_MAX)
    assert tables(read) == tables(state)
    assert encode(state, remembered) == golden


def test_the_golden_snapshot_with_topics_still_reads_and_is_still_written_alike() -> None:
    golden = (GOLDEN / "map-v15-topics.snapshot").read_bytes()
    state, remembered = all_there_is()
    add_topics(state)
    read, _ = decode(golden, limits.MAP_OBJECTS_MAX)
    assert tables(read) == tables(state)
    assert encode(state, remembered) == golden


def test_the_golden_snapshot_with_parameters_still_reads_and_is_still_written_alike() -> None:
    golden = (GOLDEN / "map-v15-parameters.snapshot").read_bytes()
    state, remembered = all_there_is()
    add_parameters(state)
    read, _ = decode(golden, limits.MAP_OBJECTS_MAX)
    assert tables(read) == tables(state)
    assert encode(state, remembered) == golden


def add_topics(state: MapState) -> None:
    state.cluster_version = 15
    state.topic_permissions = {
        TopicKey("übung", INVOICES.vhost, "log"): TopicGrant("^{username}\\.", "^a|b$"),
        TopicKey("guest", "/", ""): TopicGrant("", ".*"),
    }
    state.users["guest"] = User(f"rabbit-md5$00ff0a24${'5a' * 16}", ())


def add_parameters(state: MapState) -> None:
    state.cluster_version = 15
    state.parameters = {
        ParameterKey("", "", "ü"): "[1,null]",
        ParameterKey(INVOICES.vhost, "shovel", 'the "new"'): '{"src-uri":"amqp://u:p@h"}',
    }


def add_policies(state: MapState) -> None:
    state.cluster_version = 15
    state.policies = {
        QueueKey("/", "short"): Policy("^a|b$", "queues", -(2**59), '{"max-length":10}', 5),
        INVOICES: Policy("", "all", 0, '{"overflow":"reject-publish"}', 1),
    }
    state.operator_policies = {QueueKey("/", "ü"): Policy("ü", "all", 7, '{"expires":1}', 2)}
    state.refusing = {INVOICES.vhost: None}


def add_roster(state: MapState) -> None:
    state.cluster_version = 13
    state.voters = (NORTH, SOUTH)
    state.roster = {
        SOUTH: Place("süd:1", "", True),
        NORTH: Place("north:1", "", True),
        NodeId("east"): Place("[::1]:5", "0a1b", False),
    }
    state.forgotten = {NodeId("west"): 2**40, NodeId("nobody"): 0}


def test_a_snapshot_of_the_first_release_still_reads() -> None:
    golden = (GOLDEN / "map-v1-first.snapshot").read_bytes()
    state, remembered = before_others()
    read, read_remembered = decode(golden, limits.MAP_OBJECTS_MAX)
    assert tables(read) == tables(state)
    assert list(read_remembered.items()) == list(remembered.items())


def lines(name: str) -> list[bytes]:
    """The operations in a golden file."""
    return (GOLDEN / name).read_bytes().splitlines()


def test_the_golden_operations_still_read_and_are_still_written_alike() -> None:
    golden = lines("map-v1.operations")
    assert [encode_operation(operation) for operation in OPERATIONS] == golden
    assert decode_command(command_of("a request", golden)) == Command(
        "a request", tuple(OPERATIONS), limits.MAP_BYTES_MAX
    )


def test_what_came_later_still_reads_and_is_still_written_alike() -> None:
    golden = lines("map-v11.operations")
    assert [encode_operation(operation) for operation in OPERATIONS_V11] == golden
    command = decode_command(command_of("a request", golden))
    assert command.operations == tuple(OPERATIONS_V11)


def test_what_came_with_traces_still_reads_and_is_still_written_alike() -> None:
    golden = lines("map-v12.operations")
    assert [encode_operation(operation) for operation in OPERATIONS_V12] == golden
    command = decode_command(command_of("a request", golden))
    assert command.operations == tuple(OPERATIONS_V12)


def test_what_came_with_moves_still_reads_and_is_still_written_alike() -> None:
    golden = lines("map-v13-moves.operations")
    assert [encode_operation(operation) for operation in OPERATIONS_MOVES] == golden
    command = decode_command(command_of("a request", golden))
    assert command.operations == tuple(OPERATIONS_MOVES)


def test_what_came_with_the_roster_still_reads_and_is_still_written_alike() -> None:
    golden = lines("map-v13.operations")
    assert [encode_operation(operation) for operation in OPERATIONS_V13] == golden
    command = decode_command(command_of("a request", golden))
    assert command.operations == tuple(OPERATIONS_V13)


def test_what_came_with_policies_still_reads_and_is_still_written_alike() -> None:
    golden = lines("map-v15-policies.operations")
    assert [encode_operation(operation) for operation in OPERATIONS_POLICIES] == golden
    command = decode_command(command_of("a request", golden))
    assert command.operations == tuple(OPERATIONS_POLICIES)


def test_what_came_with_topics_still_reads_and_is_still_written_alike() -> None:
    golden = lines("map-v15-topics.operations")
    assert [encode_operation(operation) for operation in OPERATIONS_TOPICS] == golden
    command = decode_command(command_of("a request", golden))
    assert command.operations == tuple(OPERATIONS_TOPICS)


def test_what_came_with_rabbitmqs_hashes_still_reads_and_is_still_written_alike() -> None:
    golden = lines("map-v15-hashes.operations")
    assert [encode_operation(operation) for operation in OPERATIONS_HASHES] == golden
    command = decode_command(command_of("a request", golden))
    assert command.operations == tuple(OPERATIONS_HASHES)


def test_what_came_with_parameters_still_reads_and_is_still_written_alike() -> None:
    golden = lines("map-v15-parameters.operations")
    assert [encode_operation(operation) for operation in OPERATIONS_PARAMETERS] == golden
    command = decode_command(command_of("a request", golden))
    assert command.operations == tuple(OPERATIONS_PARAMETERS)


def test_what_came_with_replaced_voters_still_reads_and_is_still_written_alike() -> None:
    golden = lines("map-v15-voters.operations")
    assert [encode_operation(operation) for operation in OPERATIONS_VOTERS] == golden
    command = decode_command(command_of("a request", golden))
    assert command.operations == tuple(OPERATIONS_VOTERS)


def test_what_came_with_retiring_still_reads_and_is_still_written_alike() -> None:
    golden = lines("map-v15-retiring.operations")
    assert [encode_operation(operation) for operation in OPERATIONS_RETIRING] == golden
    command = decode_command(command_of("a request", golden))
    assert command.operations == tuple(OPERATIONS_RETIRING)


def test_what_came_with_shapes_still_reads_and_is_still_written_alike() -> None:
    golden = lines("map-v15-shapes.operations")
    assert [encode_operation(operation) for operation in OPERATIONS_SHAPES] == golden
    command = decode_command(command_of("a request", golden))
    assert command.operations == tuple(OPERATIONS_SHAPES)


def test_the_golden_snapshot_with_shapes_still_reads_and_is_still_written_alike() -> None:
    golden = (GOLDEN / "map-v15-shapes.snapshot").read_bytes()
    state, remembered = all_there_is()
    state.shapes = {ORDERS: 2, INVOICES: 0}
    read, _ = decode(golden, limits.MAP_OBJECTS_MAX)
    assert tables(read) == tables(state)
    assert encode(state, remembered) == golden


def test_a_command_in_order_still_reads_and_is_still_written_alike() -> None:
    (golden,) = lines("map-v15-in-order.commands")
    operations = (
        DeclareQueue("/", "orders", True, False, "", NORTH, 1, 2, "all"), DeleteQueue("/", "old"),
    )  # fmt: skip
    encoded = [encode_operation(operation) for operation in operations]
    assert command_of("süd-7-2", encoded, in_order=True) == golden
    assert decode_command(golden) == Command("süd-7-2", operations, limits.MAP_BYTES_MAX, True)


def test_the_golden_operations_are_of_every_kind() -> None:
    later = (*OPERATIONS_V11, *OPERATIONS_V12, *OPERATIONS_MOVES, *OPERATIONS_V13)
    later += (*OPERATIONS_VOTERS, *OPERATIONS_POLICIES, *OPERATIONS_PARAMETERS)
    later += (*OPERATIONS_SHAPES, *OPERATIONS_TOPICS)
    written = [*OPERATIONS, *later, *OPERATIONS_RETIRING]
    assert {type(operation) for operation in written} == {*get_args(Operation)}


def test_a_command_of_the_first_release_still_reads() -> None:
    (golden,) = lines("map-v1-first.commands")
    assert orjson.loads(golden).keys() == {"v", "id", "ops"}
    command = decode_command(golden)
    assert command.request == "süd-7-1"
    assert command.bytes_max == 0
    assert command.operations == (
        MemberUp(SOUTH, Incarnation(7), "süd:1", "süd:2", "cellar"),
        NewEra(),
        DeclareQueue("/", "orders", True, False, LAZY, NORTH, 2, 3, "persistent"),
        Bind("/", "amq.topic", "queue", "orders", "#.new", ""),
    )
