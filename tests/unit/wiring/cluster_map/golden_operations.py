"""Operations of the map as golden files have them, and the names that they and the maps share."""

from typing import Final

from fedq.core.ids import Epoch, FragmentId, Incarnation, MapVersion, NodeId, QueueKey
from fedq.wiring.cluster_map.operations import (
    AddFragment,
    Bind,
    ClaimName,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    EndQueue,
    JoinEra,
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
from fedq.wiring.cluster_map.operations_members import (
    AdmitNode,
    ForgetNode,
    NameVoters,
    PromoteNode,
    ReplaceVoter,
    Speaks,
)
from fedq.wiring.cluster_map.operations_moves import DrainNode, MoveFragment, UndrainNode
from fedq.wiring.cluster_map.operations_parameters import (
    DropParameter,
    PutParameter,
)
from fedq.wiring.cluster_map.operations_policies import DropPolicy, PutPolicy
from fedq.wiring.cluster_map.operations_topics import (
    ClearTopicPermissions,
    SetTopicPermissions,
)
from fedq.wiring.cluster_map.operations_tracing import SetFirehose, StartTrace, StopTrace
from fedq.wiring.cluster_map.passwords import make_record

NORTH, SOUTH = NodeId("north"), NodeId("süd")
ORDERS, INVOICES = QueueKey("/", "orders"), QueueKey("shop \\ 2", 'the "new" invoices')
ONE, TWO, THREE = FragmentId(1), FragmentId(2), FragmentId(2**40)
LAZY: Final = '{"x-queue-mode":"lazy"}'
RECORD: Final = make_record("secret", bytes(range(16)), 1)


#: Every operation, as it is written today.
OPERATIONS: Final[list[Operation]] = [
    MemberUp(NORTH, Incarnation(3), "n:1", "n:2", "", "0a1b", 1_800_000_000_000, 2, "ff", True),
    MemberUp(SOUTH, Incarnation(1), "süd:1", "süd:2", "cellar"),
    MemberDown(SOUTH, Incarnation(2**53)),
    JoinEra(NORTH, Incarnation(3)),
    NewEra(),
    Speaks(NORTH, Incarnation(3), 5, 7),
    DeclareExchange("/", "log", "topic", True, False, True, '{"a":[1,null],"b":"ü"}'),
    DeleteExchange("/", "", True),
    DeclareQueue("/", 'the "new" one', True, False, LAZY, NORTH, 4, 3, "persistent"),
    DeclareQueue("shop \\ 2", "q", False, True, "", SOUTH, 1, 1),
    DeleteQueue("/", "q"),
    EndQueue(ONE),
    Bind("/", "log", "queue", "orders", "#.new", ""),
    Unbind("/", "log", "node", "süd", "", '{"x-match":"any"}'),
    ClaimName("/", "mine", SOUTH, Incarnation(7)),
    ReleaseName("/", "mine", SOUTH, Incarnation(7)),
    MarkConsumed("/", "q"),
    MarkUsed(TWO),
    AddFragment("/", "q", NORTH),
    RetireFragment(THREE, Epoch(4)),
    SetCopies(
        ONE, Epoch(8), SOUTH, (NORTH,), ((SOUTH, Incarnation(7)), (NORTH, Incarnation(3))), True
    ),
    AddVhost("shop"),
    DeleteVhost("/"),
    SetVhostLimits("/", (("max-connections", 5), ("max-queues", 0))),
    SetUserLimits("guest", (("max-channels", 2**31 - 1),)),
    PutUser("übung", RECORD, ("administrator", "ops"), True),
    SetPassword("guest", ""),
    SetTags("guest", ()),
    DeleteUser("guest"),
    SetPermissions("guest", "/", ".*", "^a|b$", ""),
    ClearPermissions("guest", "/"),
    FirstUsers((("guest", RECORD),)),
]


#: Those that came with version 11.
OPERATIONS_V11: Final[list[Operation]] = [AdoptCopy(THREE, Epoch(9), SOUTH, Incarnation(7))]

#: And with version 12.
OPERATIONS_V12: Final[list[Operation]] = [
    StartTrace("all", "", "", "", 1, "/", "fedq.trace.all"),
    StartTrace("shop-1", INVOICES.vhost, "amq.default", 'the "new"', 100, "shop \\ 2", "seen"),
    StopTrace("all"),
    SetFirehose(INVOICES.vhost, True),
]

#: And with version 13: drained nodes and moves.
OPERATIONS_MOVES: Final[list[Operation]] = [
    DrainNode(SOUTH, True),
    UndrainNode(SOUTH),
    MoveFragment(THREE, NORTH),
    MoveFragment(ONE, NodeId("")),
]


#: And with version 13.
OPERATIONS_V13: Final[list[Operation]] = [
    NameVoters(((NORTH, "north:1"), (SOUTH, "süd:1"))),
    AdmitNode(NodeId("east"), "[::1]:5", "0a1b"),
    PromoteNode(NodeId("east")),
    ForgetNode(SOUTH, 7),
    ForgetNode(NodeId("east"), 0),
]

#: And with version 15: voters that are replaced, and data directories that say whose they are.
OPERATIONS_VOTERS: Final[list[Operation]] = [
    MemberUp(SOUTH, Incarnation(8), "süd:1", "süd:2", "", "0a1b", 2**40, 7, "2c3d", True, "4e5f"),
    ReplaceVoter(SOUTH, 7, NodeId("east"), 2),
    ReplaceVoter(NORTH, 0, NodeId("east"), 2**40),
]


#: And with version 15: policies.
OPERATIONS_POLICIES: Final[list[Operation]] = [
    PutPolicy("/", "short", False, "^a|b$", "queues", -(2**59), '{"max-length":10}'),
    PutPolicy(INVOICES.vhost, 'the "new" one', True, "", "all", 7, '{"expires":1,"max-length":2}'),
    PutPolicy("/", "ü", False, "ü\\.", "exchanges", 0, '{"alternate-exchange":"amq.fanout"}'),
    DropPolicy("/", "short", False),
    DropPolicy(INVOICES.vhost, 'the "new" one', True),
]


#: And with version 15: permissions of topics.
OPERATIONS_TOPICS: Final[list[Operation]] = [
    SetTopicPermissions("übung", INVOICES.vhost, "log", "^{username}\\.", "^a|{vhost}$"),
    SetTopicPermissions("guest", "/", "", "", ".*"),
    ClearTopicPermissions("übung", INVOICES.vhost, "log", False),
    ClearTopicPermissions("guest", "/", "", True),
]

#: And with version 15: passwords as RabbitMQ keeps them.
OPERATIONS_HASHES: Final[list[Operation]] = [
    PutUser("übung", f"rabbit-sha256$00ff0a24${'5a' * 32}", (), False),
    PutUser("guest", f"rabbit-sha512$00ff0a24${'5a' * 64}", ("ops",), True),
    SetPassword("guest", f"rabbit-md5$00ff0a24${'5a' * 16}"),
]

#: And with version 15: parameters.
OPERATIONS_PARAMETERS: Final[list[Operation]] = [
    PutParameter("/", "shovel", 'the "new" one', '{"a":[1,null],"src-uri":"amqp://u:p@h"}'),
    PutParameter("", "", "ü", '"any"'),
    DropParameter(INVOICES.vhost, "shovel", "ü"),
    DropParameter("", "", "ü"),
]


#: And with version 15: fragments that are retired.
OPERATIONS_RETIRING: Final[list[Operation]] = [RetireIdle(THREE, Epoch(4), MapVersion(2**40))]


#: And with version 15: numbers of fragments that operators set.
OPERATIONS_SHAPES: Final[list[Operation]] = [
    ShapeQueue("/", "orders", 64),
    ShapeQueue(INVOICES.vhost, INVOICES.name, 0),
]
