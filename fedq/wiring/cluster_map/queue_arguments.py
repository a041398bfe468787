"""The arguments of queue.declare: checked, read as a policy, and compared.

Inputs: an argument table, fresh from a client or back from the cluster map. Outputs: a
`QueuePolicy`, or what is wrong, in RabbitMQ's words (those of 3.10).

Arguments that RabbitMQ takes for one type of queue only are taken for both where they mean
something here, as all queues have the same abilities: `x-delivery-limit` and
`x-dead-letter-strategy` for classic queues, `x-max-priority` for quorum queues. What would have no
effect is refused where RabbitMQ refuses it. What neither knows is kept and means nothing.

A time to live is accepted up to ten years, as RabbitMQ does. Names of dead-letter exchanges and
their routing keys must fit a short string (RabbitMQ takes longer ones, and cannot publish then).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from fedq.core import limits
from fedq.core.errors import PRECONDITION_FAILED, Refused
from fedq.core.ids import QueueKey
from fedq.core.policy import (
    DROP_HEAD,
    OVERFLOWS,
    PLAIN,
    SEGMENT_BYTES,
    QueuePolicy,
    StreamPolicy,
)
from fedq.core.versions import PARTED
from fedq.wiring.cluster_map.operations import REPLICATE_ALL, REPLICATE_NONE, REPLICATION_MODES
from fedq.wiring.cluster_map.stream_arguments import SEGMENT_BYTES_MAX, age_ms, refuse_age
from fedq.wiring.routing.arguments import VALUE_CHARACTERS_MAX, difference, type_name

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"
#: Ten years.
DURATION_MS_MAX: Final = 315_360_000_000
PRIORITY_MAX: Final = 255

#: Says what is wrong with a value, as it stands behind the colon; None for a good one.
_Check: TypeAlias = Callable[[Any], str | None]


class QueueShape(NamedTuple):
    """How a queue is to be spread and copied: fedq's own arguments."""

    #: `x-fedq-fragments`; None: as many as its semantics and load suggest.
    fragments: int | None
    #: `x-fedq-replicas`: copies of each fragment, the primary included.
    replicas: int
    #: `x-fedq-replicate`: which messages are copied; one of `operations.REPLICATION_MODES`.
    mode: str


# --- single values ---------------------------------------------------------------------------


def _text(text: str) -> str:
    """A text as Erlang writes it."""
    return f'"{text}"'


def _integer(value: Any) -> str | None:
    if isinstance(value, int) and type_name(value) in ("signedint", "long"):
        return None
    return _text(f"expected integer, got {type_name(value)}")


def _from_zero(value: Any) -> str | None:
    return _integer(value) or (f"{{value_negative,{value}}}" if value < 0 else None)


def _from_one(value: Any) -> str | None:
    return _from_zero(value) or (None if value else "{value_zero,0}")


def _duration(value: Any) -> str | None:
    problem = _from_zero(value)
    return problem or (f"{{value_too_large,{value}}}" if value > DURATION_MS_MAX else None)


def _expiry(value: Any) -> str | None:
    return _from_one(value) or _duration(value)


def _priority(value: Any) -> str | None:
    problem = _from_zero(value)
    return problem or (f"{{max_value_exceeded,{value}}}" if value > PRIORITY_MAX else None)


def _count_to(most: int) -> _Check:
    def check(value: Any) -> str | None:
        problem = _from_one(value)
        return problem or (_text(f"{value} is more than {most}") if value > most else None)

    return check


def _version(value: Any) -> str | None:
    problem = _from_zero(value)
    return problem or (None if value in (1, 2) else _text(f"unsupported queue version '{value}'"))


def _string(value: Any) -> str | None:
    return None if isinstance(value, str) else f"{{unacceptable_type,{type_name(value)}}}"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else f"{{unacceptable_type,{type_name(value)}}}"


def _short(value: Any) -> str | None:
    return _string(value) or _too_long(value)


def _too_long(value: str) -> str | None:
    if len(value.encode()) <= limits.NAME_BYTES_MAX:
        return None
    return _text(f"longer than {limits.NAME_BYTES_MAX} bytes")


def _one_of(words: tuple[str, ...], otherwise: str) -> _Check:
    def check(value: Any) -> str | None:
        return _string(value) or (None if value in words else otherwise)

    return check


def _mode(value: Any) -> str | None:
    if isinstance(value, str) and value not in ("default", "lazy"):
        return _text(f"unsupported queue mode '{value[:VALUE_CHARACTERS_MAX]}'")
    return _string(value)


def _type(value: Any) -> str | None:
    if isinstance(value, str) and value not in (CLASSIC, QUORUM, STREAM):
        return _text(f"unsupported queue type '{value[:VALUE_CHARACTERS_MAX]}'")
    return _string(value)


# --- tables ----------------------------------------------------------------------------------

#: The arguments with a meaning, in the order in which they are checked and compared.
_CHECKS: Final[dict[str, _Check]] = {
    "x-queue-type": _type,
    "x-expires": _expiry,
    "x-message-ttl": _duration,
    "x-dead-letter-exchange": _short,
    "x-dead-letter-routing-key": _short,
    "x-dead-letter-strategy": _one_of(("at-most-once", "at-least-once"), "invalid_dlx_strategy"),
    "x-max-length": _from_zero,
    "x-max-length-bytes": _from_zero,
    "x-max-in-memory-length": _from_zero,
    "x-max-in-memory-bytes": _from_zero,
    "x-max-priority": _priority,
    "x-overflow": _one_of(OVERFLOWS, "invalid_overflow"),
    "x-delivery-limit": _integer,
    "x-queue-mode": _mode,
    "x-queue-version": _version,
    "x-single-active-consumer": _flag,
    "x-quorum-initial-group-size": _from_one,
    "x-queue-leader-locator": _one_of(("client-local", "balanced"), "invalid_queue_locator_arg"),
    "x-queue-master-locator": _one_of(
        ("min-masters", "client-local", "random"), "invalid_queue_locator_arg"
    ),
    "x-max-age": refuse_age,
    "x-stream-max-segment-size-bytes": _from_zero,
    "x-initial-cluster-size": _from_one,
    "x-fedq-fragments": _count_to(limits.FRAGMENTS_PER_QUEUE_MAX),
    "x-fedq-replicas": _count_to(limits.REPLICAS_MAX),
    "x-fedq-replicate": _one_of(
        REPLICATION_MODES, _text(f"expected one of {', '.join(REPLICATION_MODES)}")
    ),
}

_OF_STREAMS: Final = (
    "x-max-age",
    "x-stream-max-segment-size-bytes",
    "x-initial-cluster-size",
)
#: What has no effect on a queue of this type, and is refused by RabbitMQ.
_VOID: Final[dict[str, tuple[str, ...]]] = {
    CLASSIC: (
        *_OF_STREAMS,
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-quorum-initial-group-size",
        "x-queue-leader-locator",
    ),
    QUORUM: (*_OF_STREAMS, "x-queue-mode", "x-queue-version"),
}
#: What a stream may be declared with, in the order in which it is checked and compared.
_STREAM_CHECKS: Final[dict[str, _Check]] = {
    "x-queue-type": _type,
    "x-max-length-bytes": _from_zero,
    "x-max-age": refuse_age,
    "x-stream-max-segment-size-bytes": _from_zero,
    "x-initial-cluster-size": _from_one,
    "x-queue-leader-locator": _one_of(
        ("client-local", "balanced", "least-leaders", "random"), "invalid_queue_locator_arg"
    ),
    "x-fedq-fragments": _CHECKS["x-fedq-fragments"],
    "x-fedq-replicas": _CHECKS["x-fedq-replicas"],
    "x-fedq-replicate": _CHECKS["x-fedq-replicate"],
}


def type_of(arguments: Mapping[str, Any]) -> str:
    """The type of a queue: "classic", unless its arguments say another one; "" if none is said."""
    kind = arguments.get("x-queue-type", CLASSIC)
    return kind if isinstance(kind, str) else ""


#: What would have no effect on any queue, and how to get what it asks for.
_WITHOUT_EFFECT: Final = {
    "x-consumer-timeout": "nobody is cut off for a late acknowledgement; leave it out",
}


# --- what others ask -------------------------------------------------------------------------


def name_of(key: QueueKey) -> str:
    """The name of a queue in a refusal."""
    return f"queue '{key.name}' in vhost '{key.vhost}'"


def policy_of(arguments: Mapping[str, Any], what: str = "queue") -> QueuePolicy | str:
    """What the arguments ask of the queue, or what is wrong with them; `what`: see `name_of`."""
    if not arguments:
        return PLAIN
    problem = _problem(arguments, what)
    if problem is not None:
        return problem
    if arguments.get("x-queue-type") == STREAM:
        return QueuePolicy(stream=_stream_policy(arguments))
    limit = arguments.get("x-delivery-limit", -1)
    return QueuePolicy(
        message_ttl_ms=arguments.get("x-message-ttl"),
        expires_ms=arguments.get("x-expires"),
        max_length=arguments.get("x-max-length"),
        max_bytes=arguments.get("x-max-length-bytes"),
        overflow=arguments.get("x-overflow", DROP_HEAD),
        dead_letter_exchange=arguments.get("x-dead-letter-exchange"),
        dead_letter_key=arguments.get("x-dead-letter-routing-key"),
        # As in later versions of RabbitMQ, a negative one is none.
        delivery_limit=limit if limit >= 0 else None,
        counts_returns=arguments.get("x-queue-type") == QUORUM or limit >= 0,
        max_priority=arguments.get("x-max-priority", 0),
        single_active=arguments.get("x-single-active-consumer", False),
    )


def _stream_policy(arguments: Mapping[str, Any]) -> StreamPolicy:
    age = arguments.get("x-max-age")
    return StreamPolicy(
        max_bytes=arguments.get("x-max-length-bytes"),
        max_age_ms=age_ms(age) if isinstance(age, str) else None,
        segment_bytes=arguments.get("x-stream-max-segment-size-bytes", SEGMENT_BYTES),
    )


def shape_of(arguments: Mapping[str, Any]) -> QueueShape:
    """How the queue is to be spread and copied; `policy_of` accepted the arguments."""
    mode = arguments.get("x-fedq-replicate", REPLICATE_ALL)
    replicas = arguments.get("x-fedq-replicas", limits.REPLICAS_DEFAULT)
    return QueueShape(
        arguments.get("x-fedq-fragments"), 1 if mode == REPLICATE_NONE else replicas, mode
    )


def is_parted(arguments: Mapping[str, Any]) -> bool:
    """Whether they declare a stream in several fragments; `policy_of` accepted them."""
    return arguments.get("x-queue-type") == STREAM and arguments.get("x-fedq-fragments", 1) > 1


def refuse_parted(what: str, arguments: Mapping[str, Any], version: int) -> Refused | None:
    """Why there can be no stream in several fragments in a cluster that speaks a version.

    In the words of releases that speak no other: all nodes say the same. 0: not settled yet.
    """
    if not version or version >= PARTED or not is_parted(arguments):
        return None
    fault = _text("a stream is in one fragment")
    return Refused(PRECONDITION_FAILED, f"invalid arg 'x-fedq-fragments' for {what}: {fault}")


def refuse_without_effect(what: str, arguments: Mapping[str, Any]) -> Refused | None:
    """Why a client may not ask for this, though a queue that is there may have been asked so."""
    for name, advice in _WITHOUT_EFFECT.items():
        if name in arguments:
            return Refused(
                PRECONDITION_FAILED, f"invalid arg '{name}' for {what}: it has no effect: {advice}"
            )
    return None


def refuse_contradiction(what: str, arguments: Mapping[str, Any]) -> Refused | None:
    """Why a client may not ask for both at a time; the map, of all releases, takes it."""
    replicas = arguments.get("x-fedq-replicas", 1)
    if arguments.get("x-fedq-replicate") != REPLICATE_NONE or replicas == 1:
        return None
    return Refused(
        PRECONDITION_FAILED,
        f"invalid arg 'x-fedq-replicate' for {what}: with 'none' there is one copy, and "
        f"x-fedq-replicas asks for {replicas}: leave one of them out",
    )


def refuse_declaration(
    key: QueueKey,
    arguments: Mapping[str, Any],
    *,
    durable: bool,
    exclusive: bool,
    auto_delete: bool,
    server_named: bool = False,
) -> Refused | None:
    """Why no queue can be declared like this; None if one can. For shared and private queues."""
    if not arguments:
        return None
    kind = arguments.get("x-queue-type")
    is_named_only = kind in (QUORUM, STREAM)
    if server_named and is_named_only:
        # Before its arguments are looked at, as in RabbitMQ.
        text = f"Cannot declare a server-named queue for type rabbit_{kind}_queue"
        return Refused(PRECONDITION_FAILED, text)
    policy = policy_of(arguments, name_of(key))
    if isinstance(policy, str):
        return Refused(PRECONDITION_FAILED, policy)
    if not is_named_only:
        return None
    for wrong, word in (
        (auto_delete, "auto-delete"),
        (exclusive, "exclusive-owner"),
        (not durable, "non-durable"),
    ):
        if wrong:
            return Refused(PRECONDITION_FAILED, f"invalid property '{word}' for {name_of(key)}")
    segment = "x-stream-max-segment-size-bytes"
    if arguments.get(segment, 0) > SEGMENT_BYTES_MAX:
        return Refused(PRECONDITION_FAILED, f"Exceeded max value for {segment}")
    return None


def arguments_differ(
    key: QueueKey, wanted: Mapping[str, Any], known: Mapping[str, Any]
) -> Refused | None:
    """The refusal of a declaration whose arguments are not those of the queue that is there.

    Only what has a meaning is compared, as in RabbitMQ; no type is the same as "classic".
    """
    names: Iterable[str] = _CHECKS
    if {type_of(wanted), type_of(known)} == {CLASSIC}:
        names = [name for name in _CHECKS if name != "x-queue-type"]
    elif type_of(known) == STREAM:
        names = _STREAM_CHECKS
    text = difference(name_of(key), wanted, known, names)
    return Refused(PRECONDITION_FAILED, text) if text is not None else None


def _stream_problem(arguments: Mapping[str, Any], what: str) -> str | None:
    """What is wrong with the arguments of a stream: values first, then what it does not have."""
    exchange = arguments.get("x-dead-letter-exchange", "")
    if not isinstance(exchange, str):
        return f"invalid type '{type_name(exchange)}' for arg 'x-dead-letter-exchange' in {what}"
    for name, check in _STREAM_CHECKS.items():
        problem = check(arguments[name]) if name in arguments else None
        if problem is not None:
            return f"invalid arg '{name}' for {what}: {problem}"
    for name in arguments:
        if name in _CHECKS and name not in _STREAM_CHECKS:
            return f"invalid arg '{name}' for {what} of queue type rabbit_stream_queue"
    return None


def _problem(arguments: Mapping[str, Any], what: str) -> str | None:
    if arguments.get("x-queue-type") == STREAM:
        return _stream_problem(arguments, what)
    kind = QUORUM if arguments.get("x-queue-type") == QUORUM else CLASSIC
    for name in _CHECKS:
        if name not in arguments:
            continue
        if name in _VOID[kind]:
            return f"invalid arg '{name}' for {what} of queue type rabbit_{kind}_queue"
        value = arguments[name]
        if name == "x-dead-letter-exchange" and not isinstance(value, str):
            return f"invalid type '{type_name(value)}' for arg '{name}' in {what}"
        problem = _CHECKS[name](value)
        if problem is not None:
            return f"invalid arg '{name}' for {what}: {problem}"
    if "x-dead-letter-routing-key" in arguments and "x-dead-letter-exchange" not in arguments:
        name = "x-dead-letter-routing-key"
        return f"invalid arg '{name}' for {what}: routing_key_but_no_dlx_defined"
    return None
