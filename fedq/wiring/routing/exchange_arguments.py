"""The types and arguments of exchanges, and of bindings to them: what is refused, and compared.

Inputs: declarations and bindings; outputs: refusals with the codes and words of RabbitMQ 3.10 and
its plug-ins for consistent hashing and delayed messages.

Arguments with a meaning: `alternate-exchange` for every type, `hash-header` or `hash-property` for
`x-consistent-hash`, `x-delayed-type` for `x-delayed-message` (whose other arguments are those of
that type). Others are kept and mean nothing.
"""

from collections.abc import Mapping
from typing import Any, Final

from fedq.core.errors import COMMAND_INVALID, PRECONDITION_FAILED, Refused
from fedq.core.ids import QueueKey
from fedq.wiring.routing import headers
from fedq.wiring.routing.arguments import VALUE_CHARACTERS_MAX, binary_text, difference, type_name
from fedq.wiring.routing.exchange_kinds import CONSISTENT_HASH, DELAYED, EXCHANGE_TYPES
from fedq.wiring.routing.hashing import HASH_PROPERTIES, WEIGHT_MAX, weight_of

ALTERNATE: Final = "alternate-exchange"
DELAYED_TYPE: Final = "x-delayed-type"


def name_of(key: QueueKey) -> str:
    """The name of an exchange in a refusal."""
    return f"exchange '{key.name}' in vhost '{key.vhost}'"


def routing_type(kind: str, arguments: Mapping[str, Any]) -> str:
    """The type by which an exchange routes: for one that delays, its `x-delayed-type`."""
    if kind != DELAYED:
        return kind
    delayed = arguments.get(DELAYED_TYPE)
    return delayed if isinstance(delayed, str) else ""


def refuse_exchange(key: QueueKey, kind: str, arguments: Mapping[str, Any]) -> Refused | None:
    """Why no exchange can be declared like this; None if one can. Its name is not looked at."""
    if refusal := _refuse_type(kind):
        return refusal
    alternate = arguments.get(ALTERNATE, "")
    if not isinstance(alternate, str):
        text = f"invalid type '{type_name(alternate)}' for arg '{ALTERNATE}' in {name_of(key)}"
        return Refused(PRECONDITION_FAILED, text)
    routing = kind
    if kind == DELAYED:
        routing = routing_type(kind, arguments)
        if routing == DELAYED or routing not in EXCHANGE_TYPES:
            text = f"Invalid argument, '{DELAYED_TYPE}' must be an existing exchange type"
            return Refused(PRECONDITION_FAILED, f"{text} other than {DELAYED}")
    return _refuse_hash(key, arguments) if routing == CONSISTENT_HASH else None


def _refuse_type(kind: str) -> Refused | None:
    if kind in EXCHANGE_TYPES:
        return None
    word = "unknown" if kind else "invalid"
    text = f"{word} exchange type '{kind[:VALUE_CHARACTERS_MAX]}'"
    return Refused(COMMAND_INVALID, f"{text}; expected {', '.join(EXCHANGE_TYPES)}")


def _refuse_hash(key: QueueKey, arguments: Mapping[str, Any]) -> Refused | None:
    if "hash-header" in arguments and "hash-property" in arguments:
        text = "hash-header and hash-property are mutually exclusive"
        return Refused(PRECONDITION_FAILED, text)
    for name in ("hash-header", "hash-property"):
        value = arguments.get(name, "")
        if not isinstance(value, str):
            text = f"invalid type '{type_name(value)}' for arg '{name}' in {name_of(key)}"
            return Refused(PRECONDITION_FAILED, text)
    wanted = arguments.get("hash-property", HASH_PROPERTIES[0])
    if wanted in HASH_PROPERTIES:
        return None
    text = f"Unsupported property: {wanted[:VALUE_CHARACTERS_MAX]}"
    return Refused(PRECONDITION_FAILED, f"{text}; expected {', '.join(HASH_PROPERTIES)}")


def refuse_binding(
    kind: str, exchange_arguments: Mapping[str, Any], routing_key: str, arguments: Mapping[str, Any]
) -> Refused | None:
    """Why nothing can be bound like this to an exchange of type `kind`; None if it can."""
    routing = routing_type(kind, exchange_arguments)
    if routing == "headers":
        return headers.refuse_arguments(arguments)
    if routing != CONSISTENT_HASH:
        return None
    weight = weight_of(routing_key)
    if weight is None:
        text = f"The binding key must be an integer: {binary_text(routing_key)}"
    elif weight < 1:
        text = "The binding key must be greater than 0"
    elif weight > WEIGHT_MAX:
        text = f"The binding key must not be greater than {WEIGHT_MAX}"
    else:
        return None
    return Refused(PRECONDITION_FAILED, text)


def arguments_differ(
    key: QueueKey, wanted: Mapping[str, Any], known: Mapping[str, Any]
) -> Refused | None:
    """The refusal of a declaration whose arguments are not those of the exchange that is there.

    As in RabbitMQ, only the alternate exchange and the type of a delayed one are compared.
    """
    text = difference(name_of(key), wanted, known, (ALTERNATE, DELAYED_TYPE))
    return Refused(PRECONDITION_FAILED, text) if text is not None else None
