"""What the cluster map weighs: an upper bound of the bytes that its snapshot takes.

Inputs: the map's tables and the changes of an operation that was applied. Outputs: the sum, and
what an operation may add before it is applied. The weight of an object is that of its row in the
snapshot, with the worst that escaping in JSON does to its texts, and with room for its numbers.

Counts beside that what bounds and placement ask for: queues of virtual hosts, copies of nodes.
Invariant: all sums are over all objects, whether they came one by one or by a snapshot.
"""

from dataclasses import replace
from typing import Any, Final, TypeAlias, TypeVar

import orjson

from fedq.core import limits
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.wiring.cluster_map.operations import (
    AddFragment,
    Bind,
    ClaimName,
    DeclareExchange,
    DeclareQueue,
    MemberUp,
    Operation,
    encode_operation,
)
from fedq.wiring.cluster_map.operations_access import (
    AddVhost,
    PutUser,
    SetPassword,
    SetPermissions,
    SetTags,
    SetUserLimits,
    SetVhostLimits,
)
from fedq.wiring.cluster_map.operations_copies import ShapeChanged, ShapeQueue
from fedq.wiring.cluster_map.operations_members import AdmitNode, NameVoters
from fedq.wiring.cluster_map.operations_moves import (
    DrainChanged,
    DrainNode,
    MoveChanged,
    MoveFragment,
)
from fedq.wiring.cluster_map.operations_parameters import ParameterChanged, PutParameter
from fedq.wiring.cluster_map.operations_policies import PolicyChanged, PutPolicy, RefusingNoted
from fedq.wiring.cluster_map.operations_topics import (
    SetTopicPermissions,
    TopicPermissionsChanged,
)
from fedq.wiring.cluster_map.operations_tracing import SetFirehose, StartTrace, TracingChanged
from fedq.wiring.cluster_map.rows import Result, row_of
from fedq.wiring.cluster_map.state import (
    PREDECLARED,
    BindingAdded,
    BindingRemoved,
    Change,
    ClaimReleased,
    ClaimTaken,
    ExchangeAdded,
    ExchangeRemoved,
    FragmentAdded,
    FragmentChanged,
    FragmentInfo,
    FragmentRemoved,
    LimitsChanged,
    MapState,
    MemberChanged,
    MemberSpeaks,
    Ok,
    PermissionsChanged,
    QueueAdded,
    QueueRemoved,
    RosterChanged,
    UserChanged,
    VhostAdded,
    VhostRemoved,
)

#: What a row may grow by without a change that names it: a flag, the version it came up at.
_ROW_BYTES: Final = 32
#: A fragment's number in its queue's row, and the numbers of its own row as they grow.
_FRAGMENT_BYTES: Final = 128
#: A fragment that does not exist yet, without its queue's name: its nodes.
_NEW_FRAGMENT_BYTES: Final = 512

#: A claim's row beside its texts: brackets, commas, a process's number.
_CLAIM_BYTES: Final = 64
#: A remembered request's row beside its texts, and what a result takes: its number, brackets.
_REQUEST_BYTES: Final = 8
_RESULT_BYTES: Final = 24

_CLIENTS: Final = DeclareExchange | DeclareQueue | Bind | AddFragment
_OPERATORS: Final = (
    AddVhost
    | PutUser
    | SetPassword
    | SetTags
    | SetPermissions
    | SetTopicPermissions
    | SetVhostLimits
    | SetUserLimits
    | MemberUp
    | NameVoters
    | AdmitNode
    | StartTrace
    | SetFirehose
    | PutPolicy
    | PutParameter
    | DrainNode
    | MoveFragment
    | ShapeQueue
)

_Rows: TypeAlias = dict[Any, int]
_Key = TypeVar("_Key")


class Weights:
    """What each object of one map weighs, by table and key, and the sum."""

    __slots__ = ("_fragments", "_tables", "copies_of", "queues_of", "total")

    def __init__(self) -> None:
        self._tables: dict[str, _Rows] = {}
        self.total = 0
        #: How many queues, and names of exclusive ones, each virtual host has.
        self.queues_of: dict[str, int] = {}
        #: How many copies of fragments each node has, and those that are counted.
        self.copies_of: dict[NodeId, int] = {}
        self._fragments: dict[FragmentId, FragmentInfo] = {}

    def recount(self, state: MapState) -> None:
        """Weighs the whole map anew."""
        self._tables, self.queues_of = {}, {}
        self._fragments, self.copies_of = {}, {}
        self.total = 0
        for vhost in state.vhosts:
            self._weigh(state, "vhosts", vhost)
        for table in (
            "members", "exchanges", "queues", "bindings", "fragments", "claims", "users", "grants",
            "vhost_limits", "user_limits", "traces", "firehose", "drained", "moves", "roster",
            "forgotten", "policies", "operator_policies", "refusing", "shapes",
            "topic_permissions", "parameters",
        ):  # fmt: skip
            for key in getattr(state, table):
                self._weigh(state, table, key)
        for fragment in state.fragments:
            self._count_copies(state, fragment)

    def note(self, state: MapState, changes: list[Change]) -> None:
        """Weighs anew what these changes were about."""
        for change in changes:
            match change:
                case ExchangeAdded(key) | ExchangeRemoved(key):
                    self._weigh(state, "exchanges", key)
                case QueueAdded(key) | QueueRemoved(key, _):
                    self._weigh(state, "queues", key)
                case BindingAdded(binding) | BindingRemoved(binding):
                    self._weigh(state, "bindings", binding)
                case FragmentAdded() | FragmentChanged() | FragmentRemoved():
                    self._weigh(state, "fragments", change.id)
                    self._count_copies(state, change.id)
                case ClaimTaken(key, _) | ClaimReleased(key, _):
                    self._weigh(state, "claims", key)
                case MemberChanged(node) | MemberSpeaks(node):
                    self._weigh(state, "members", node)
                case UserChanged(user):
                    self._weigh(state, "users", user)
                case PermissionsChanged(grant):
                    self._weigh(state, "grants", grant)
                case (
                    LimitsChanged() | TracingChanged() | RosterChanged() | PolicyChanged()
                    | RefusingNoted() | ShapeChanged() | TopicPermissionsChanged()
                    | ParameterChanged()
                ):  # fmt: skip
                    self._weigh(state, change.table, change[1])
                case DrainChanged(node):
                    self._weigh(state, "drained", node)
                case MoveChanged(number):
                    self._weigh(state, "moves", number)
                case VhostAdded(vhost) | VhostRemoved(vhost):
                    self._weigh(state, "vhosts", vhost)
                    self._weigh(state, "refusing", vhost)
                    # The default exchange comes and goes without a change of its own.
                    self._weigh(state, "exchanges", QueueKey(vhost, ""))

    def _weigh(self, state: MapState, table: str, key: Any) -> None:
        rows, held = self._tables.setdefault(table, {}), getattr(state, table)
        weight = _weight(table, key, held[key]) if key in held else 0
        self.total += weight - rows.get(key, 0)
        if table in ("queues", "claims"):
            self._count(key.vhost, bool(weight) - (key in rows))
        if weight:
            rows[key] = weight
        else:
            rows.pop(key, None)

    def _count(self, vhost: str, more: int) -> None:
        _add(self.queues_of, vhost, more)

    def _count_copies(self, state: MapState, fragment: FragmentId) -> None:
        before, after = self._fragments.pop(fragment, None), state.fragments.get(fragment)
        for node in before.copies if before is not None else ():
            _add(self.copies_of, node, -1)
        if after is not None:
            self._fragments[fragment] = after
            for node in after.copies:
                _add(self.copies_of, node, 1)


def _add(counts: dict[_Key, int], key: _Key, more: int) -> None:
    """Counts more, or fewer, of something; nothing is kept of what there is none of."""
    count = counts.get(key, 0) + more
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)


def may_add(operation: Operation) -> int:
    """The most bytes by which this operation makes the map heavier; 0 if that needs no room.

    Operators and members have a reserve: a map that clients have filled can still be managed.
    """
    if isinstance(operation, ClaimName):
        # By far the most frequent one: a subscriber's queue.
        texts = text_bytes(operation.vhost) + text_bytes(operation.name)
        return texts + text_bytes(operation.node) + _CLAIM_BYTES
    if isinstance(operation, _CLIENTS):
        size = len(encode_operation(operation)) + _ROW_BYTES
        if isinstance(operation, DeclareQueue):
            return size + operation.fragments * (size + _NEW_FRAGMENT_BYTES)
        return size + _NEW_FRAGMENT_BYTES
    if isinstance(operation, _OPERATORS):
        size = len(encode_operation(operation)) + _ROW_BYTES
        if isinstance(operation, AddVhost):
            size *= 2 + len(PREDECLARED)
        if isinstance(operation, ShapeQueue):
            size += operation.fragments * _NEW_FRAGMENT_BYTES
        return size - limits.MAP_RESERVE_BYTES
    return 0


def request_bytes(request: str, results: tuple[Result, ...]) -> int:
    """What a remembered request takes of a snapshot at most."""
    held = text_bytes(request) + _REQUEST_BYTES
    for result in results:
        held += _RESULT_BYTES
        if not isinstance(result, Ok):
            held += text_bytes(result.text)
    return held


def text_bytes(text: str) -> int:
    """How many bytes a text takes as JSON: its own, unless something in it is escaped."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return len(text) + 2
    return len(orjson.dumps(text))


def _weight(table: str, key: Any, record: Any) -> int:
    match table:
        case "vhosts":
            return len(orjson.dumps(key)) + _ROW_BYTES
        case "claims":
            texts = text_bytes(key.vhost) + text_bytes(key.name)
            return texts + text_bytes(record.node) + _CLAIM_BYTES
        case "fragments":
            more = _FRAGMENT_BYTES
        case "queues":
            more, record = _ROW_BYTES, replace(record, fragments=[])
        case _:
            more = _ROW_BYTES
    return len(orjson.dumps(row_of(table, key, record))) + more
