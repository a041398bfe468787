"""Binding, unbinding, and what goes together: nothing that is removed leaves a binding behind.

Inputs: the map and committed `Bind` and `Unbind` operations, or the key of what goes. Output: the
result; changes are appended to the map's. An auto-delete exchange goes with the last binding of
which it is the source, which may take further ones with it.
"""

from collections.abc import Sequence

from fedq.core.errors import ACCESS_REFUSED, NOT_FOUND, PRECONDITION_FAILED, Refused
from fedq.core.ids import NodeId, QueueKey
from fedq.wiring.cluster_map.moves import end_move
from fedq.wiring.cluster_map.operations import Bind, Unbind, arguments_of
from fedq.wiring.cluster_map.operations_copies import ShapeChanged
from fedq.wiring.cluster_map.state import (
    Binding,
    BindingAdded,
    BindingRemoved,
    ExchangeRemoved,
    FragmentRemoved,
    MapState,
    Ok,
    QueueRemoved,
)
from fedq.wiring.routing.exchange_arguments import refuse_binding


def bind(state: MapState, operation: Bind) -> Ok | Refused:
    """Adds a binding; one that is there already is confirmed (specification 1.7.2.3)."""
    binding = _binding(operation)
    refusal = _refuse_ends(state, binding)
    if refusal:
        return refusal
    if binding.destination_kind != "node":
        exchange = state.exchanges[QueueKey(binding.vhost, binding.source)]
        refusal = refuse_binding(
            exchange.type,
            arguments_of(exchange.arguments),
            binding.routing_key,
            arguments_of(binding.arguments),
        )
        if refusal:
            return refusal
    if binding in state.bindings:
        return Ok()
    if refusal := state.refuse_if_full():
        return refusal
    state.add_binding(binding)
    state.changes.append(BindingAdded(binding))
    return Ok(1)


def unbind(state: MapState, operation: Unbind) -> Ok | Refused:
    """Removes a binding; one that is not there is no error, as in RabbitMQ."""
    binding = _binding(operation)
    if _names_default_exchange(binding):
        return _default_exchange()
    if binding not in state.bindings:
        return Ok()
    remove_bindings(state, [binding])
    return Ok(1)


def remove_bindings(state: MapState, bindings: Sequence[Binding]) -> None:
    """Removes these bindings, and the auto-delete exchanges that were left without any."""
    left = list(bindings)
    while left:
        binding = left.pop()
        if binding not in state.bindings:
            continue
        state.drop_binding(binding)
        state.changes.append(BindingRemoved(binding))
        source = QueueKey(binding.vhost, binding.source)
        exchange = state.exchanges.get(source)
        if exchange is None or not exchange.auto_delete or source in state.bindings_of_source:
            continue
        left.extend(state.bindings_of_destination.get(("exchange", source), ()))
        del state.exchanges[source]
        state.changes.append(ExchangeRemoved(source))


def remove_exchange(state: MapState, key: QueueKey) -> None:
    """Removes an exchange with all its bindings; nothing happens if it is gone already."""
    if key not in state.exchanges:
        return
    ends = [
        *state.bindings_of_source.get(key, ()),
        *state.bindings_of_destination.get(("exchange", key), ()),
    ]
    del state.exchanges[key]
    remove_bindings(state, ends)
    state.changes.append(ExchangeRemoved(key))


def remove_queue(state: MapState, key: QueueKey) -> None:
    """Removes a queue with its bindings and fragments."""
    remove_bindings(state, list(state.bindings_of_destination.get(("queue", key), ())))
    queue = state.queues.pop(key)
    for number in queue.fragments:
        state.changes.append(FragmentRemoved(number, state.fragments.pop(number)))
        end_move(state, number)
    if state.shapes.pop(key, None) is not None:
        state.changes.append(ShapeChanged("shapes", key))
    state.changes.append(QueueRemoved(key, tuple(queue.fragments)))


def _binding(operation: Bind | Unbind) -> Binding:
    return Binding(
        operation.vhost,
        operation.source,
        operation.destination_kind,
        operation.destination,
        operation.routing_key,
        operation.arguments,
    )


def _names_default_exchange(binding: Binding) -> bool:
    to_exchange = binding.destination_kind == "exchange"
    return not binding.source or (to_exchange and not binding.destination)


def _default_exchange() -> Refused:
    return Refused(ACCESS_REFUSED, "operation not permitted on the default exchange")


def _refuse_ends(state: MapState, binding: Binding) -> Refused | None:
    vhost, source, kind, name, _, _ = binding
    if _names_default_exchange(binding):
        return _default_exchange()
    if QueueKey(vhost, source) not in state.exchanges:
        return Refused(NOT_FOUND, f"no exchange '{source}' in vhost '{vhost}'")
    if kind == "queue" and QueueKey(vhost, name) not in state.queues:
        return Refused(NOT_FOUND, f"no queue '{name}' in vhost '{vhost}'")
    if kind == "exchange" and QueueKey(vhost, name) not in state.exchanges:
        return Refused(NOT_FOUND, f"no exchange '{name}' in vhost '{vhost}'")
    if kind == "node":
        member = state.members.get(NodeId(name))
        if member is None or not member.up:
            return Refused(PRECONDITION_FAILED, f"node '{name}' is not a member that is up")
    return None
