"""What a policy may ask of queues and exchanges, and what comes of it beside their own arguments.

Inputs: definitions of policies, fresh from a client or back from the cluster map; arguments of
queues and exchanges. Outputs: what is wrong with a definition, in RabbitMQ's words (those of 3.10),
or the arguments that a queue, or an exchange, has by its policies.

As in RabbitMQ, of a number that both an argument and a policy set the smaller one counts, as of
the policies of a user and of an operator; of anything else the argument counts, and then what the
user says. A policy with a setting that queues of a type do not have is none of theirs. What
declarations take and changes nothing (`x-queue-mode`) may stand in a policy, and changes
nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import orjson

from fedq.core import limits
from fedq.core.policy import OVERFLOWS
from fedq.wiring.cluster_map.queue_arguments import (
    CLASSIC,
    DURATION_MS_MAX,
    QUORUM,
    STREAM,
)
from fedq.wiring.cluster_map.stream_arguments import SEGMENT_BYTES_MAX, age_ms
from fedq.wiring.routing.arguments import VALUE_CHARACTERS_MAX, binary_text
from fedq.wiring.routing.exchange_arguments import ALTERNATE

Definition: TypeAlias = Mapping[str, Any]

#: The settings of operators' policies.
OF_OPERATORS: Final = (
    "delivery-limit", "expires", "max-in-memory-bytes", "max-in-memory-length", "max-length",
    "max-length-bytes", "message-ttl",
)  # fmt: skip
_OF_STREAMS_ALONE: Final = (
    "max-age", "stream-max-segment-size-bytes", "initial-cluster-size",
)  # fmt: skip
#: By type of a queue: the settings that it does not have; a policy with one is none of its.
_NOT_OF: Final = {
    CLASSIC: frozenset([*_OF_STREAMS_ALONE, "queue-leader-locator"]),
    QUORUM: frozenset([*_OF_STREAMS_ALONE, "queue-mode", "queue-master-locator"]),
    STREAM: frozenset(
        [
            "dead-letter-exchange", "dead-letter-routing-key", "dead-letter-strategy",
            "delivery-limit", "expires", "max-in-memory-bytes", "max-in-memory-length",
            "max-length", "message-ttl", "overflow", "queue-master-locator", "queue-mode",
        ]
    ),
}  # fmt: skip
_OF_QUEUES: Final = (
    "message-ttl", "expires", "max-length", "max-length-bytes", "overflow",
    "dead-letter-exchange", "dead-letter-routing-key", "delivery-limit",
)  # fmt: skip
_OF_STREAMS: Final = ("max-length-bytes", "max-age", "stream-max-segment-size-bytes")
#: Numbers beyond this mean nothing that can be counted.
_NUMBER_MAX: Final = 1 << 60


def _number(lowest: int, what: str, most: int = _NUMBER_MAX) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
            return f"{erlang_text(value)} is not a valid {what}"
        if value > most:
            return f"{value} is not a valid {what}: it is more than {most}"
        return None

    return check


def _text(what: str) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return f"{erlang_text(value)} is not a valid {what}"
        if len(value.encode("utf-8", "surrogateescape")) > limits.NAME_BYTES_MAX:
            return f"this is not a valid {what}: it is longer than {limits.NAME_BYTES_MAX} bytes"
        return None

    return check


def _word(what: str, words: tuple[str, ...]) -> Callable[[Any], str | None]:
    def check(value: Any) -> str | None:
        if isinstance(value, str) and value in words:
            return None
        return f"{erlang_text(value)} is not a valid {what}"

    return check


def _age(value: Any) -> str | None:
    if isinstance(value, str) and age_ms(value) is not None:
        return None
    return f"{erlang_text(value)} is not a valid maximum age: say a number and one of Y M D h m s"


#: Setting -> what says what is wrong with a value; None for a good one.
_CHECKS: Final[dict[str, Callable[[Any], str | None]]] = {
    ALTERNATE: _text("alternate exchange name"),
    "dead-letter-exchange": _text("dead letter exchange name"),
    "dead-letter-routing-key": _text("dead letter routing key"),
    "dead-letter-strategy": _word("dead letter strategy", ("at-most-once", "at-least-once")),
    "delivery-limit": _number(0, "delivery limit"),
    "expires": _number(1, "queue expiry", DURATION_MS_MAX),
    "initial-cluster-size": _number(1, "cluster size"),
    "max-age": _age,
    "max-in-memory-bytes": _number(0, "maximum memory in bytes"),
    "max-in-memory-length": _number(0, "maximum memory in messages"),
    "max-length": _number(0, "maximum length"),
    "max-length-bytes": _number(0, "maximum length in bytes"),
    "message-ttl": _number(0, "message TTL", DURATION_MS_MAX),
    "overflow": _word("overflow value", OVERFLOWS),
    "queue-leader-locator": _word(
        "queue leader locator", ("client-local", "balanced", "least-leaders", "random")
    ),
    "queue-master-locator": _word(
        "queue master locator", ("min-masters", "client-local", "random")
    ),
    "queue-mode": _word("queue-mode value", ("default", "lazy")),
    "queue-version": _number(1, "queue version", 2),
    "stream-max-segment-size-bytes": _number(0, "segment size", SEGMENT_BYTES_MAX),
}
#: What RabbitMQ has that there is not, and what there is instead.
_INSTEAD: Final = {
    "ha-": "every queue has copies (x-fedq-replicas of its declaration)",
    "federation-": "the nodes of a cluster are the federation",
    "consumer-timeout": "nobody is cut off for a late acknowledgement",
}


def erlang_text(value: object) -> str:
    """A value of JSON about as Erlang writes it; cut, if it is long."""
    if isinstance(value, str):
        return binary_text(value)
    try:
        return orjson.dumps(value).decode()[:VALUE_CHARACTERS_MAX]
    except orjson.JSONEncodeError:
        return "what is nested too deeply"


def is_known(setting: str, operator: bool) -> bool:
    """Whether a policy, or one of operators, may have this setting."""
    return setting in (OF_OPERATORS if operator else _CHECKS)


def refuse_definition(definition: Definition, operator: bool) -> str | None:
    """What is wrong with a definition; None: nothing."""
    if not definition:
        return "no policy provided"
    unknown = sorted([setting for setting in definition if not is_known(setting, operator)])
    for setting, check in _CHECKS.items():
        problem = check(definition[setting]) if setting in definition else None
        if problem is not None and setting not in unknown:
            return problem
    if not unknown:
        return None
    shown = [f"{{{binary_text(each)},{erlang_text(definition[each])}}}" for each in unknown]
    hints = [text for start, text in _INSTEAD.items() if unknown[0].startswith(start)]
    return "; ".join([f"[{','.join(shown)}] are not recognised policy settings", *hints])


def is_for(definition: Definition, kind: str) -> bool:
    """Whether a queue of this type has all settings of a definition."""
    return _NOT_OF[kind].isdisjoint(definition)


# --- what comes of it --------------------------------------------------------------------------


def merged(user: Definition, operator: Definition) -> dict[str, Any]:
    """The definition that two policies have together: of numbers of both the smaller one."""
    found = dict(user)
    for setting, value in operator.items():
        if setting in found:
            value = min(found[setting], value)
        found[setting] = value
    return dict(sorted(found.items()))


def queue_arguments_by(arguments: Mapping[str, Any], definition: Definition) -> dict[str, Any]:
    """The arguments that a queue has by its own ones and by the definition of its policies."""
    found = dict(arguments)
    is_stream = arguments.get("x-queue-type") == STREAM
    for setting in _OF_STREAMS if is_stream else _OF_QUEUES:
        if setting in definition:
            name = f"x-{setting}"
            found[name] = _resolved(setting, found.get(name), definition[setting])
    if "x-dead-letter-routing-key" in found and "x-dead-letter-exchange" not in found:
        del found["x-dead-letter-routing-key"]
    return found


def exchange_arguments_by(arguments: Mapping[str, Any], definition: Definition) -> dict[str, Any]:
    """The arguments that an exchange has by its own ones and by the definition of its policies."""
    found = dict(arguments)
    if ALTERNATE in definition:
        found.setdefault(ALTERNATE, definition[ALTERNATE])
    return found


def _resolved(setting: str, own: Any, asked: Any) -> Any:
    """The value that counts: `own` of the declaration (None: none), or the policy's."""
    if own is None:
        return asked
    if setting == "max-age":
        return own if (age_ms(own) or 0) <= (age_ms(asked) or 0) else asked
    if not isinstance(asked, int):
        return own
    # A delivery limit below 0 is none.
    return min(own, asked) if own >= 0 else asked
