"""Declaring and deleting exchanges and queues, and claiming the names of exclusive queues.

Inputs: the map and a committed operation. Output: its result, with the reply codes of the
AMQP 0-9-1 specification (1.6, 1.7) and RabbitMQ's wording; changes are appended to the map's.

What is declared again with the same properties is confirmed; with others it is refused. Of the
arguments only those with a meaning are compared, as in RabbitMQ.
"""

from dataclasses import replace
from typing import Any, Final, assert_never

from fedq.core.errors import (
    ACCESS_REFUSED,
    COMMAND_INVALID,
    NOT_ALLOWED,
    PRECONDITION_FAILED,
    RESOURCE_ERROR,
    RESOURCE_LOCKED,
    Refused,
)
from fedq.core.ids import QueueKey
from fedq.wiring.cluster_map import queue_arguments
from fedq.wiring.cluster_map.bindings import bind, remove_exchange, remove_queue, unbind
from fedq.wiring.cluster_map.copies import copies_held, create_fragment
from fedq.wiring.cluster_map.operations import (
    Bind,
    ClaimName,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    EndQueue,
    MarkConsumed,
    MarkUsed,
    ReleaseName,
    Unbind,
    WiringOperation,
    arguments_of,
)
from fedq.wiring.cluster_map.operations_access import MAX_QUEUES
from fedq.wiring.cluster_map.placement import choose
from fedq.wiring.cluster_map.state import (
    Claim,
    ClaimReleased,
    ClaimTaken,
    Exchange,
    ExchangeAdded,
    MapState,
    Ok,
    Queue,
    QueueAdded,
)
from fedq.wiring.routing import exchange_arguments
from fedq.wiring.routing.exchange_arguments import refuse_exchange
from fedq.wiring.routing.names import node_of

_FRAGMENTS: Final = "x-fedq-fragments"


def apply(state: MapState, operation: WiringOperation) -> Ok | Refused:
    """Carries out one operation, or refuses it and changes nothing."""
    match operation:
        case DeclareExchange():
            return _declare_exchange(state, operation)
        case DeleteExchange():
            return _delete_exchange(state, operation)
        case DeclareQueue():
            return _declare_queue(state, operation)
        case DeleteQueue():
            return _delete_queue(state, operation)
        case EndQueue():
            return _end_queue(state, operation)
        case Bind():
            return bind(state, operation)
        case Unbind():
            return unbind(state, operation)
        case ClaimName():
            return _claim_name(state, operation)
        case ReleaseName():
            return _release_name(state, operation)
        case MarkConsumed():
            return _mark_consumed(state, QueueKey(operation.vhost, operation.name))
        case MarkUsed():
            info = state.fragments.get(operation.fragment)
            return Ok() if info is None else _mark_consumed(state, info.queue)
        case _:
            assert_never(operation)


# --- exchanges -------------------------------------------------------------------------------


def _declare_exchange(state: MapState, operation: DeclareExchange) -> Ok | Refused:
    _, name = key = QueueKey(operation.vhost, operation.name)
    if not name:
        return Refused(ACCESS_REFUSED, "operation not permitted on the default exchange")
    refusal = refuse_exchange(key, operation.type, arguments_of(operation.arguments))
    if refusal and refusal.reply_code == COMMAND_INVALID:
        return refusal
    wanted = Exchange(
        operation.type,
        operation.durable,
        operation.auto_delete,
        operation.internal,
        operation.arguments,
    )
    known = state.exchanges.get(key)
    if known is not None:
        return _compare_exchanges(key, wanted, known)
    refusal = _refuse_name(state, "exchange", key, wanted.durable) or refusal
    refusal = refusal or state.refuse_if_full()
    if refusal:
        return refusal
    state.exchanges[key] = wanted
    state.changes.append(ExchangeAdded(key))
    return Ok(1)


def _compare_exchanges(key: QueueKey, wanted: Exchange, known: Exchange) -> Ok | Refused:
    pairs: tuple[tuple[str, str | bool, str | bool], ...] = (
        ("type", wanted.type, known.type),
        ("durable", wanted.durable, known.durable),
        ("auto_delete", wanted.auto_delete, known.auto_delete),
        ("internal", wanted.internal, known.internal),
    )
    return (
        _first_difference(exchange_arguments.name_of(key), pairs)
        or exchange_arguments.arguments_differ(
            key, arguments_of(wanted.arguments), arguments_of(known.arguments)
        )
        or Ok()
    )


def _delete_exchange(state: MapState, operation: DeleteExchange) -> Ok | Refused:
    vhost, name = key = QueueKey(operation.vhost, operation.name)
    if not name:
        return Refused(ACCESS_REFUSED, "operation not permitted on the default exchange")
    if name.startswith("amq."):
        text = f"deletion of system exchange '{name}' in vhost '{vhost}' not allowed"
        return Refused(ACCESS_REFUSED, text)
    if key not in state.exchanges:
        return Ok()
    if operation.if_unused and key in state.bindings_of_source:
        return Refused(PRECONDITION_FAILED, f"exchange '{name}' in vhost '{vhost}' in use")
    remove_exchange(state, key)
    return Ok(1)


# --- queues ----------------------------------------------------------------------------------


def _declare_queue(state: MapState, operation: DeclareQueue) -> Ok | Refused:
    vhost, name = key = QueueKey(operation.vhost, operation.name)
    if key in state.claims:
        return _locked(key)
    known = state.queues.get(key)
    if known is not None:
        pairs = (
            ("durable", operation.durable, known.durable),
            ("auto_delete", operation.auto_delete, known.auto_delete),
        )
        return (
            _first_difference(queue_arguments.name_of(key), pairs)
            or queue_arguments.arguments_differ(
                key, _wanted(state, key, operation), arguments_of(known.arguments)
            )
            or Ok()
        )
    sites = state.open_sites()
    if not sites:
        return Refused(RESOURCE_ERROR, f"no node is up to hold queue '{name}' in vhost '{vhost}'")
    arguments = arguments_of(operation.arguments)
    parted = operation.fragments > 1 and arguments.get("x-queue-type") == queue_arguments.STREAM
    count = operation.fragments if parted else min(operation.fragments, len(sites))
    refusal = (
        _refuse_name(state, "queue", key, operation.durable)
        or queue_arguments.refuse_declaration(
            key,
            arguments,
            durable=operation.durable,
            exclusive=False,
            auto_delete=operation.auto_delete,
        )
        or queue_arguments.refuse_parted(
            queue_arguments.name_of(key), arguments, state.cluster_version
        )
        or refuse_beyond_limit(state, key)
        or state.refuse_if_full(1 + count)
    )
    if refusal:
        return refusal
    state.queues[key] = Queue(
        operation.durable,
        operation.auto_delete,
        operation.arguments,
        [],
        operation.replicas,
        operation.mode,
    )
    state.changes.append(QueueAdded(key))
    first = [operation.node] if operation.node in sites else []
    others = choose(f"queue {vhost}/{name}", sites, first, count - len(first))
    nodes, held = [*first, *others], copies_held(state)
    for number in range(count):
        # A stream has as many as it asks for, also where nodes are fewer.
        create_fragment(state, key, nodes[number % len(nodes)], held, sites)
    return Ok(1)


def _wanted(state: MapState, key: QueueKey, operation: DeclareQueue) -> dict[str, Any]:
    """What a declaration of a queue that is there asks for, as far as it is compared.

    Where an operator has set the number of fragments, nobody is refused for another one.
    """
    wanted = arguments_of(operation.arguments)
    if key in state.shapes:
        wanted.pop(_FRAGMENTS, None)
        known = arguments_of(state.queues[key].arguments)
        wanted |= {name: value for name, value in known.items() if name == _FRAGMENTS}
    return wanted


def _delete_queue(state: MapState, operation: DeleteQueue) -> Ok | Refused:
    key = QueueKey(operation.vhost, operation.name)
    if key in state.claims:
        return _locked(key)
    if key not in state.queues:
        return Ok()
    remove_queue(state, key)
    return Ok(1)


def _end_queue(state: MapState, operation: EndQueue) -> Ok | Refused:
    info = state.fragments.get(operation.fragment)
    if info is None or state.queues[info.queue].fragments[0] != info.id:
        return Ok()
    remove_queue(state, info.queue)
    return Ok(1)


def _mark_consumed(state: MapState, key: QueueKey) -> Ok | Refused:
    queue = state.queues.get(key)
    if queue is None or queue.consumed:
        return Ok()
    state.queues[key] = replace(queue, consumed=True)
    return Ok(1)


# --- names of exclusive queues ---------------------------------------------------------------


def _claim_name(state: MapState, operation: ClaimName) -> Ok | Refused:
    key = QueueKey(operation.vhost, operation.name)
    claim = Claim(operation.node, operation.incarnation)
    held = state.claims.get(key)
    if held == claim:
        return Ok()
    if held is not None or key in state.queues:
        return _locked(key)
    if not state.is_up(*claim):
        return Refused(
            PRECONDITION_FAILED,
            f"process {claim.incarnation} of node '{claim.node}' is not a member that is up",
        )
    refusal = (
        _refuse_name(state, "queue", key, durable=True)
        or refuse_beyond_limit(state, key)
        or state.refuse_if_full()
    )
    if refusal:
        return refusal
    state.claims[key] = claim
    state.changes.append(ClaimTaken(key, claim))
    return Ok(1)


def _release_name(state: MapState, operation: ReleaseName) -> Ok | Refused:
    key = QueueKey(operation.vhost, operation.name)
    claim = Claim(operation.node, operation.incarnation)
    if state.claims.get(key) != claim:
        return Ok()
    del state.claims[key]
    state.changes.append(ClaimReleased(key, claim))
    return Ok(1)


def refuse_beyond_limit(state: MapState, key: QueueKey, more: int = 0) -> Refused | None:
    """Why the virtual host may have no further queue; `more`: what it has beside the map's."""
    limit = state.limit_of_vhost(key.vhost, MAX_QUEUES) if state.vhost_limits else None
    if limit is None or state.queues_of_vhost.get(key.vhost, 0) + more < limit:
        return None
    return Refused(
        PRECONDITION_FAILED,
        f"cannot declare queue '{key.name}' in vhost '{key.vhost}': queue limit in vhost "
        f"'{key.vhost}' ({limit}) is reached",
    )


# --- refusals --------------------------------------------------------------------------------


def _refuse_name(state: MapState, kind: str, key: QueueKey, durable: bool) -> Refused | None:
    """Why no new exchange or queue may have this name; None if one may."""
    if key.vhost not in state.vhosts:
        return Refused(NOT_ALLOWED, f"vhost '{key.vhost}' not found")
    if key.name.startswith("amq.") and (kind != "queue" or node_of(key.name) is None):
        return _reserved(kind, key.name)
    if not durable and not state.era_is_alive():
        # It would vanish with the new era that is about to begin.
        return Refused(
            RESOURCE_ERROR,
            f"{kind} '{key.name}' is not durable, and the cluster is only just starting: try again",
        )
    return None


def _reserved(kind: str, name: str) -> Refused:
    return Refused(ACCESS_REFUSED, f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def _locked(key: QueueKey) -> Refused:
    return Refused(
        RESOURCE_LOCKED,
        f"cannot obtain exclusive access to locked queue '{key.name}' in vhost '{key.vhost}'. It "
        "could be originally declared on another connection or the exclusive property value does "
        "not match that of the original declaration.",
    )


def _first_difference(
    what: str, pairs: tuple[tuple[str, str | bool, str | bool], ...]
) -> Refused | None:
    for name, wanted, known in pairs:
        if wanted != known:
            return Refused(
                PRECONDITION_FAILED,
                f"inequivalent arg '{name}' for {what}: received '{_word(wanted)}' but current is "
                f"'{_word(known)}'",
            )
    return None


def _word(value: str | bool) -> str:
    return value if isinstance(value, str) else str(value).lower()
