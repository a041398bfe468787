"""The replicated operations of the cluster map, and the JSON form in which Raft carries them.

A command is `{"v": 1, "id": "<request id>", "ops": [{"op": "<name>", …}, …]}`: what one node
gathered in a few milliseconds. Inputs: operations; outputs: bytes, and back.

Invariants: `decode_command(encode_command(r, o))` gives `r` and `o` again (with arguments in their
canonical form); decoding raises nothing but `CommandError`, whatever the bytes; every
field of a decoded operation has its type and is within its limit, so that applying need not look.
The form is for ever: a field is never renamed, and a new meaning is a new operation or version.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import orjson

from fedq.core import limits
from fedq.core.ids import Epoch, FragmentId, Incarnation, NodeId

COMMAND_VERSION: Final = 1
REQUEST_BYTES_MAX: Final = 128
#: What the braces, the version and the longest request id take of a command, in bytes.
_ENVELOPE_BYTES: Final = REQUEST_BYTES_MAX + 64
_NUMBER_MAX: Final = 1 << 60

#: Kinds of destination of a binding. A "node" holds private queues: the map only counts it, so
#: that an exchange with private bindings is not taken for unused; routing to it is interest.
DESTINATION_KINDS: Final = ("queue", "exchange", "node")
REPLICATION_MODES: Final = ("all", "persistent", "none")

# --- members ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemberUp:
    """The process `incarnation` of `node` runs and can be reached; "host:port" addresses."""

    node: NodeId
    incarnation: Incarnation
    peer_address: str
    amqp_address: str
    zone: str


@dataclass(frozen=True, slots=True)
class MemberDown:
    """The process `incarnation` of `node` is gone, or silent for so long that it counts as gone."""

    node: NodeId
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class JoinEra:
    """The process has heard of the non-durable objects from one that knew them."""

    node: NodeId
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class NewEra:
    """Every process that knew the non-durable objects is gone: forget them."""


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
    """That queue is gone."""

    vhost: str
    name: str
    node: NodeId
    incarnation: Incarnation


# --- fragments -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddFragment:
    """The queue gets a fragment whose primary is `node`."""

    vhost: str
    queue: str
    node: NodeId


@dataclass(frozen=True, slots=True)
class RetireFragment:
    """The fragment is drained: it goes, and the queue lives on in its others."""

    fragment: FragmentId
    expected_epoch: Epoch


@dataclass(frozen=True, slots=True)
class SetCopies:
    """Who holds a fragment from now on: the one compare-and-set of failover and copying.

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


MemberOperation: TypeAlias = MemberUp | MemberDown | JoinEra | NewEra
FragmentOperation: TypeAlias = AddFragment | RetireFragment | SetCopies
WiringOperation: TypeAlias = (
    DeclareExchange
    | DeleteExchange
    | DeclareQueue
    | DeleteQueue
    | Bind
    | Unbind
    | ClaimName
    | ReleaseName
)
Operation: TypeAlias = MemberOperation | FragmentOperation | WiringOperation


class CommandError(ValueError):
    """Bytes that are no command of a version this node knows; `request` is "" if unreadable."""

    def __init__(self, request: str, text: str) -> None:
        super().__init__(text)
        self.request = request


# --- checks of single fields -----------------------------------------------------------------
# Each returns the value as operations hold it, or raises ValueError with what is wrong.


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("is not a string")
    if len(value.encode()) > limits.name_bytes_max:
        raise ValueError(f"is longer than {limits.name_bytes_max} bytes")
    return value


def _node(value: object) -> str:
    name = _text(value)
    if not name:
        raise ValueError("is empty")
    return name


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < _NUMBER_MAX:
        raise ValueError("is not a number from 1")
    return value


def _up_to(most: int) -> Callable[[object], int]:
    def check(value: object) -> int:
        number = _number(value)
        if number > most:
            raise ValueError(f"is more than {most}")
        return number

    return check


def _one_of(words: tuple[str, ...]) -> Callable[[object], str]:
    def check(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"is none of {', '.join(words)}")
        return value

    return check


def canonical_arguments(value: object) -> str:
    """The one text for a table of arguments: keys sorted, no spaces, "" for an empty one.

    Raises ValueError if it is no JSON object, or nested too deeply.
    """
    if not isinstance(value, str):
        raise ValueError("is not a string")
    if not value:
        return ""
    table = orjson.loads(value)
    if not isinstance(table, dict):
        raise ValueError("is not a JSON object")
    if not table:
        return ""
    try:
        return orjson.dumps(table, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError as error:  # a TypeError: nested beyond what can be written
        raise ValueError(str(error)) from error


def arguments_of(text: str) -> dict[str, Any]:
    """The table that a canonical text stands for."""
    return dict(orjson.loads(text)) if text else {}


def _nodes(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > limits.replicas_max:
        raise ValueError(f"is not a list of at most {limits.replicas_max} nodes")
    return tuple(_node(item) for item in value)


def _copies(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, list) or len(value) > limits.replicas_max + 1:
        raise ValueError(f"is not a list of at most {limits.replicas_max + 1} copies")
    copies = []
    for item in value:
        if not isinstance(item, list) or len(item) != 2:
            raise ValueError("has an entry that is no pair of node and incarnation")
        copies.append((_node(item[0]), _number(item[1])))
    return tuple(copies)


# --- the table of forms ----------------------------------------------------------------------

_Check: TypeAlias = Callable[[object], object]

_BINDING: Final[dict[str, _Check]] = {
    "vhost": _text,
    "source": _text,
    "destination_kind": _one_of(DESTINATION_KINDS),
    "destination": _text,
    "routing_key": _text,
    "arguments": canonical_arguments,
}
_CLAIM: Final[dict[str, _Check]] = {
    "vhost": _text,
    "name": _node,
    "node": _node,
    "incarnation": _number,
}

#: Name on the wire -> the operation's class and the check of each field.
_FORMS: Final[dict[str, tuple[Callable[..., Operation], dict[str, _Check]]]] = {
    "member_up": (
        MemberUp,
        {
            "node": _node,
            "incarnation": _number,
            "peer_address": _text,
            "amqp_address": _text,
            "zone": _text,
        },
    ),
    "member_down": (MemberDown, {"node": _node, "incarnation": _number}),
    "join_era": (JoinEra, {"node": _node, "incarnation": _number}),
    "new_era": (NewEra, {}),
    "declare_exchange": (
        DeclareExchange,
        {
            "vhost": _text,
            "name": _text,
            "type": _text,
            "durable": _flag,
            "auto_delete": _flag,
            "internal": _flag,
            "arguments": canonical_arguments,
        },
    ),
    "delete_exchange": (DeleteExchange, {"vhost": _text, "name": _text, "if_unused": _flag}),
    "declare_queue": (
        DeclareQueue,
        {
            "vhost": _text,
            "name": _node,
            "durable": _flag,
            "auto_delete": _flag,
            "arguments": canonical_arguments,
            "node": _node,
            "fragments": _up_to(limits.fragments_per_queue_max),
            "replicas": _up_to(limits.replicas_max),
            "mode": _one_of(REPLICATION_MODES),
        },
    ),
    "delete_queue": (DeleteQueue, {"vhost": _text, "name": _text}),
    "bind": (Bind, _BINDING),
    "unbind": (Unbind, _BINDING),
    "claim_name": (ClaimName, _CLAIM),
    "release_name": (ReleaseName, _CLAIM),
    "add_fragment": (AddFragment, {"vhost": _text, "queue": _text, "node": _node}),
    "retire_fragment": (RetireFragment, {"fragment": _number, "expected_epoch": _number}),
    "set_copies": (
        SetCopies,
        {
            "fragment": _number,
            "expected_epoch": _number,
            "primary": _node,
            "backups": _nodes,
            "in_sync": _copies,
            "restart": _flag,
        },
    ),
}
_NAMES: Final[Mapping[object, str]] = {form[0]: name for name, form in _FORMS.items()}

# --- commands --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Command:
    """A request id, by which a repeated command is recognised, and its operations."""

    request: str
    operations: tuple[Operation, ...]


def _encode(operation: Operation) -> bytes:
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
    data = b'{"v":%d,"id":%b,"ops":[%b]}' % (
        COMMAND_VERSION,
        orjson.dumps(request),
        b",".join([_encode(operation) for operation in operations]),
    )
    if not 0 < len(operations) <= limits.operations_per_command_max:
        raise ValueError(f"a command holds 1 to {limits.operations_per_command_max} operations")
    if len(data) > limits.command_bytes_max:
        raise ValueError(f"a command takes at most {limits.command_bytes_max} bytes")
    return data


def fitting(operations: Sequence[Operation]) -> int:
    """How many of the first operations fit into one command (0: not even the first one)."""
    room = limits.command_bytes_max - _ENVELOPE_BYTES
    for number, operation in enumerate(operations):
        if number == limits.operations_per_command_max:
            return number
        room -= len(_encode(operation)) + 1
        if room < 0:
            return number
    return len(operations)


def decode_command(data: bytes) -> Command:
    """The command in `data`; raises `CommandError` and nothing else."""
    if len(data) > limits.command_bytes_max:
        raise CommandError("", f"a command takes at most {limits.command_bytes_max} bytes")
    try:
        form = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise CommandError("", f"the command is not JSON: {error}") from error
    request = form.get("id") if isinstance(form, dict) else None
    if not isinstance(request, str) or not 0 < len(request.encode()) <= REQUEST_BYTES_MAX:
        raise CommandError("", f"the command has no id of 1 to {REQUEST_BYTES_MAX} bytes")
    if type(form.get("v")) is not int or form["v"] != COMMAND_VERSION:
        raise CommandError(request, f"the command is not of version {COMMAND_VERSION}")
    items = form.get("ops")
    most = limits.operations_per_command_max
    if not isinstance(items, list) or not 0 < len(items) <= most:
        raise CommandError(request, f"the command has no list of 1 to {most} operations")
    try:
        return Command(request, tuple(_decode(item) for item in items))
    except ValueError as error:
        raise CommandError(request, str(error)) from error


def _decode(item: object) -> Operation:
    name = item.get("op") if isinstance(item, dict) else None
    if not isinstance(item, dict) or not isinstance(name, str) or name not in _FORMS:
        raise ValueError("an operation is unknown to this version of fedq: upgrade the node")
    make, checks = _FORMS[name]
    if len(item) != len(checks) + 1:
        raise ValueError(f"{name} has {len(item) - 1} fields instead of {len(checks)}")
    values = []
    for field, check in checks.items():
        try:
            values.append(check(item.get(field)))
        except ValueError as error:
            raise ValueError(f"{name}.{field} {error}") from error
    return make(*values)
