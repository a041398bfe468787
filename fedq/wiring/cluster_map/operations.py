"""The replicated operations of the cluster map, and the JSON form in which Raft carries them.

A command is `{"v": 1, "id": "<request id>", "bytes_max": <number>, "ops": [{"op": "<name>", …},
…]}`: what one node gathered in a few milliseconds. `bytes_max` bounds what the map may weigh when
it is applied; commands of earlier versions have none. With `"in_order": true`, since version 15,
what comes behind a refused operation is refused, too (docs/adr/0110). Inputs: operations; outputs:
bytes, and back.

Invariants: `decode_command(encode_command(r, o))` gives `r` and `o` again (with arguments in their
canonical form); decoding raises nothing but `CommandError`, whatever the bytes (`UnknownCommand`
for what a newer release may have written: that must not be passed over); every
field of a decoded operation has its type and is within its limit, so that applying need not look.
The form is for ever: a field is never renamed, and a new meaning is a new operation or version.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import orjson

from fedq.core import limits
from fedq.core.ids import Epoch, FragmentId, Incarnation, NodeId
from fedq.wiring.cluster_map.operation_fields import (
    Check,
    flag,
    name,
    number,
    one_of,
    text,
    up_to,
)
from fedq.wiring.cluster_map.operation_fields import arguments_of as arguments_of
from fedq.wiring.cluster_map.operation_fields import canonical_arguments as canonical_arguments
from fedq.wiring.cluster_map.operations_access import ACCESS_FORMS, AccessOperation
from fedq.wiring.cluster_map.operations_copies import (
    ADOPT_FIELDS,
    RETIRE_FIELDS,
    RETIRE_IDLE_FIELDS,
    SET_COPIES_FIELDS,
    SHAPE_FIELDS,
    AdoptCopy,
    RetireIdle,
    ShapeQueue,
)
from fedq.wiring.cluster_map.operations_copies import RetireFragment as RetireFragment
from fedq.wiring.cluster_map.operations_members import MEMBER_FORMS, form_of_process
from fedq.wiring.cluster_map.operations_members import JoinEra as JoinEra
from fedq.wiring.cluster_map.operations_members import MemberDown as MemberDown
from fedq.wiring.cluster_map.operations_members import MemberOperation as MemberOperation
from fedq.wiring.cluster_map.operations_members import MemberUp as MemberUp
from fedq.wiring.cluster_map.operations_members import NewEra as NewEra
from fedq.wiring.cluster_map.operations_moves import MOVING_FORMS, MovingOperation
from fedq.wiring.cluster_map.operations_tracing import TRACING_FORMS, TracingOperation

COMMAND_VERSION: Final = 1
REQUEST_BYTES_MAX: Final = 128
#: No command may ask for more.
BYTES_MAX: Final = 1 << 60
#: What the braces, the version, the bound and the longest request id take of a command, in bytes.
_ENVELOPE_BYTES: Final = REQUEST_BYTES_MAX + 64
#: What is left of a command for its operations, with a comma behind each.
OPERATIONS_BYTES_MAX: Final = limits.COMMAND_BYTES_MAX - _ENVELOPE_BYTES

#: Kinds of destination of a binding. A "node" holds private queues: the map only counts it, so
#: that an exchange with private bindings is not taken for unused; routing to it is interest.
DESTINATION_KINDS: Final = ("queue", "exchange", "node")
REPLICATE_ALL: Final = "all"
REPLICATE_PERSISTENT: Final = "persistent"
REPLICATE_NONE: Final = "none"
REPLICATION_MODES: Final = (REPLICATE_ALL, REPLICATE_PERSISTENT, REPLICATE_NONE)

# --- wiring ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeclareExchange:
    """`exchange.declare`; `arguments` is a JSON object as text, "" for none."""

    vhost: str
    name: str
    type: str
    durable: bool
    auto_delete: bool
    internal: bool
    arguments: str


@dataclass(frozen=True, slots=True)
class DeleteExchange:
    """`exchange.delete`."""

    vhost: str
    name: str
    if_unused: bool


@dataclass(frozen=True, slots=True)
class DeclareQueue:
    """`queue.declare` of a shared queue, at `node`, in so many fragments of `replicas` copies."""

    vhost: str
    name: str
    durable: bool
    auto_delete: bool
    arguments: str
    node: NodeId
    fragments: int
    replicas: int
    mode: str = "all"


@dataclass(frozen=True, slots=True)
class DeleteQueue:
    """`queue.delete`, when its conditions are known to hold."""

    vhost: str
    name: str


@dataclass(frozen=True, slots=True)
class EndQueue:
    """Ends the queue of which `fragment` is the first: not one of its name declared since.

    For whoever decided about one queue (its last consumer left, nobody used it, it was empty): a
    fragment's number is never given again.
    """

    fragment: FragmentId


@dataclass(frozen=True, slots=True)
class Bind:
    """`queue.bind` or `exchange.bind`; for a destination "node" see `DESTINATION_KINDS`."""

    vhost: str
    source: str
    destination_kind: str
    destination: str
    routing_key: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Unbind:
    """`queue.unbind` or `exchange.unbind`."""

    vhost: str
    source: str
    destination_kind: str
    destination: str
    routing_key: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ClaimName:
    """A client of `node` declares an exclusive queue of its own naming."""

    vhost: str
    name: str
    node: NodeId
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class ReleaseName:
    """The claimed queue of `ClaimName` is gone."""

    vhost: str
    name: str
    node: NodeId
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class MarkConsumed:
    """As `MarkUsed`, by the queue's name; commands of earlier versions have it."""

    vhost: str
    name: str


@dataclass(frozen=True, slots=True)
class MarkUsed:
    """The fragment's queue, auto-delete, has its first consumer: it goes with the last one."""

    fragment: FragmentId


# --- fragments -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddFragment:
    """The queue gets a fragment whose primary is `node`."""

    vhost: str
    queue: str
    node: NodeId


@dataclass(frozen=True, slots=True)
class SetCopies:
    """Sets who holds a fragment: the one compare-and-set of failover and copying.

    `in_sync` pairs each node with the incarnation whose memory holds the copy, as its proposer saw
    it. Without it a backup that restarts between the proposal and its commit would be taken for
    in sync with an empty memory.
    """

    fragment: FragmentId
    expected_epoch: Epoch
    primary: NodeId
    backups: tuple[NodeId, ...]
    in_sync: tuple[tuple[NodeId, Incarnation], ...]
    #: The primary lost its memory and serves again from its disk.
    restart: bool


FragmentOperation: TypeAlias = (
    AddFragment | RetireFragment | RetireIdle | SetCopies | AdoptCopy | ShapeQueue
)
WiringOperation: TypeAlias = (
    DeclareExchange
    | DeleteExchange
    | DeclareQueue
    | DeleteQueue
    | EndQueue
    | Bind
    | Unbind
    | ClaimName
    | ReleaseName
    | MarkConsumed
    | MarkUsed
)
Operation: TypeAlias = (
    MemberOperation
    | FragmentOperation
    | WiringOperation
    | AccessOperation
    | TracingOperation
    | MovingOperation
)


class CommandError(ValueError):
    """Bytes that are no command of a version this node knows; `request` is "" if unreadable."""

    def __init__(self, request: str, text: str) -> None:
        super().__init__(text)
        self.request = request


class UnknownCommand(CommandError):
    """A command of a newer release: nobody may go on without it, as if it had changed nothing."""


class _UnknownOperation(ValueError):
    """An operation, or a form of one, that this release does not have."""


# --- the table of forms ----------------------------------------------------------------------

_BINDING: Final[dict[str, Check]] = {
    "vhost": text,
    "source": text,
    "destination_kind": one_of(DESTINATION_KINDS),
    "destination": text,
    "routing_key": text,
    "arguments": canonical_arguments,
}
_CLAIM: Final[dict[str, Check]] = {
    "vhost": text,
    "name": name,
    "node": name,
    "incarnation": number,
}


#: Name on the wire -> the operation's class and the check of each field.
_FORMS: Final[dict[str, tuple[Callable[..., Operation], dict[str, Check]]]] = {
    **MEMBER_FORMS,
    "declare_exchange": (
        DeclareExchange,
        {
            "vhost": text,
            "name": text,
            "type": text,
            "durable": flag,
            "auto_delete": flag,
            "internal": flag,
            "arguments": canonical_arguments,
        },
    ),
    "delete_exchange": (DeleteExchange, {"vhost": text, "name": text, "if_unused": flag}),
    "declare_queue": (
        DeclareQueue,
        {
            "vhost": text,
            "name": name,
            "durable": flag,
            "auto_delete": flag,
            "arguments": canonical_arguments,
            "node": name,
            "fragments": up_to(limits.FRAGMENTS_PER_QUEUE_MAX),
            "replicas": up_to(limits.REPLICAS_MAX),
            "mode": one_of(REPLICATION_MODES),
        },
    ),
    "delete_queue": (DeleteQueue, {"vhost": text, "name": text}),
    "end_queue": (EndQueue, {"fragment": number}),
    "bind": (Bind, _BINDING),
    "unbind": (Unbind, _BINDING),
    "claim_name": (ClaimName, _CLAIM),
    "release_name": (ReleaseName, _CLAIM),
    "mark_consumed": (MarkConsumed, {"vhost": text, "name": name}),
    "mark_used": (MarkUsed, {"fragment": number}),
    "add_fragment": (AddFragment, {"vhost": text, "queue": text, "node": name}),
    "retire_fragment": (RetireFragment, RETIRE_FIELDS),
    "set_copies": (SetCopies, SET_COPIES_FIELDS),
    "retire_idle": (RetireIdle, RETIRE_IDLE_FIELDS),
    "adopt_copy": (AdoptCopy, ADOPT_FIELDS),
    "shape_queue": (ShapeQueue, SHAPE_FIELDS),
    **ACCESS_FORMS,
    **TRACING_FORMS,
    **MOVING_FORMS,
}
_NAMES: Final[Mapping[object, str]] = {form[0]: name for name, form in _FORMS.items()}

# --- commands --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Command:
    """A request id, by which a repeated command is recognised, and its operations."""

    request: str
    operations: tuple[Operation, ...]
    #: What the map may weigh with them, in bytes; 0 for no bound.
    bytes_max: int = 0
    #: Whether the first operation that is refused has all behind it refused.
    in_order: bool = False


def encode_operation(operation: Operation) -> bytes:
    """One operation, as commands carry it. ValueError for a name that is not UTF-8."""
    if isinstance(operation, MemberUp):
        name = form_of_process(operation)
    else:
        name = _NAMES[type(operation)]
    form: dict[str, object] = {"op": name}
    for field in _FORMS[name][1]:
        form[field] = getattr(operation, field)
    try:
        return orjson.dumps(form)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"{name} has a name that is not UTF-8: {error}") from error


def encode_command(request: str, operations: Sequence[Operation]) -> bytes:
    """One command. Raises ValueError if it breaks a limit: `fitting` says how much goes in."""
    return command_of(request, [encode_operation(operation) for operation in operations])


def command_of(request: str, encoded: Sequence[bytes], in_order: bool = False) -> bytes:
    """One command of encoded operations; raises ValueError as `encode_command` does."""
    data = b'{"v":%d,"id":%b,"bytes_max":%d,%b"ops":[%b]}' % (
        COMMAND_VERSION,
        orjson.dumps(request),
        limits.MAP_BYTES_MAX,
        b'"in_order":true,' if in_order else b"",
        b",".join(encoded),
    )
    if not 0 < len(encoded) <= limits.OPERATIONS_PER_COMMAND_MAX:
        raise ValueError(f"a command holds 1 to {limits.OPERATIONS_PER_COMMAND_MAX} operations")
    if len(data) > limits.COMMAND_BYTES_MAX:
        raise ValueError(f"a command takes at most {limits.COMMAND_BYTES_MAX} bytes")
    return data


def fitting(encoded: Iterable[bytes]) -> int:
    """How many of the first encoded operations fit into one command (0: not even the first)."""
    room = OPERATIONS_BYTES_MAX
    count = 0
    for one in encoded:
        room -= len(one) + 1
        if room < 0 or count == limits.OPERATIONS_PER_COMMAND_MAX:
            break
        count += 1
    return count


def decode_command(data: bytes) -> Command:
    """The command in `data`; raises `CommandError` and nothing else."""
    if len(data) > limits.COMMAND_BYTES_MAX:
        raise CommandError("", f"a command takes at most {limits.COMMAND_BYTES_MAX} bytes")
    try:
        form = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise CommandError("", f"the command is not JSON: {error}") from error
    request = form.get("id") if isinstance(form, dict) else None
    if not isinstance(request, str) or not 0 < len(request.encode()) <= REQUEST_BYTES_MAX:
        raise CommandError("", f"the command has no id of 1 to {REQUEST_BYTES_MAX} bytes")
    version = form.get("v")
    if type(version) is int and version > COMMAND_VERSION:
        raise UnknownCommand(request, f"it is of version {version}, not {COMMAND_VERSION}")
    if type(version) is not int or version != COMMAND_VERSION:
        raise CommandError(request, f"the command is not of version {COMMAND_VERSION}")
    items = form.get("ops")
    most = limits.OPERATIONS_PER_COMMAND_MAX
    if not isinstance(items, list) or not 0 < len(items) <= most:
        raise CommandError(request, f"the command has no list of 1 to {most} operations")
    bytes_max = form.get("bytes_max", 0)
    if type(bytes_max) is not int or not 0 <= bytes_max <= BYTES_MAX:
        raise CommandError(request, "the command's bytes_max is no number of bytes")
    in_order = form.get("in_order", False)
    if type(in_order) is not bool:
        raise CommandError(request, "the command's in_order is neither true nor false")
    try:
        return Command(request, tuple(_decode(item) for item in items), bytes_max, in_order)
    except _UnknownOperation as unknown:
        raise UnknownCommand(request, str(unknown)) from unknown
    except ValueError as error:
        raise CommandError(request, str(error)) from error


def _decode(item: object) -> Operation:
    name = item.get("op") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(name, str):
        raise ValueError("an operation has no name")
    if name not in _FORMS:
        raise _UnknownOperation(f"it has an operation {name[:40]!r}")
    make, checks = _FORMS[name]
    if not item.keys() <= {"op", *checks}:
        raise _UnknownOperation(f"its {name} has fields that are unknown here")
    if len(item) != len(checks) + 1:
        raise ValueError(f"{name} has {len(item) - 1} fields instead of {len(checks)}")
    values = []
    for field, check in checks.items():
        try:
            values.append(check(item.get(field)))
        except ValueError as error:
            raise ValueError(f"{name}.{field} {error}") from error
    return make(*values)
