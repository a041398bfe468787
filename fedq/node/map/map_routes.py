"""The router of a node, as the cluster map says: kept up with each change, or made anew.

Inputs: changes of exchanges, bindings, queues and claimed names. A change that the router fails at
makes a new one, without what it fails at: that is told, and all others are routed
(docs/adr/0042).

Changes `router`.
"""

from collections.abc import Mapping
from typing import Any, assert_never

from fedq.core.ids import QueueKey
from fedq.node.private.private_flow import PrivateFlow
from fedq.node.records.state import NodeState
from fedq.node.risk import Fault
from fedq.wiring.cluster_map.operations import arguments_of
from fedq.wiring.cluster_map.state import (
    Binding,
    BindingAdded,
    BindingRemoved,
    ClaimReleased,
    ClaimTaken,
    ExchangeAdded,
    ExchangeRemoved,
    QueueAdded,
    QueueRemoved,
)
from fedq.wiring.routing.exchanges import ToExchange
from fedq.wiring.routing.routes import Router

RouteChange = (
    BindingAdded | BindingRemoved | ExchangeAdded | ExchangeRemoved | QueueAdded | QueueRemoved
    | ClaimTaken | ClaimReleased
)  # fmt: skip


class MapRoutes:
    """Keeps the router of this node as the cluster map says."""

    __slots__ = ("private", "state")

    def __init__(self, state: NodeState, private: PrivateFlow) -> None:
        self.state = state
        self.private = private

    def anew(self) -> None:
        """A new router that says what the map says."""
        self._make({})

    def _make(self, without: dict[object, None]) -> None:
        """A new router, without exchanges and bindings that it fails at."""
        state = self.state
        while True:
            router = state.router = Router(state.me)
            at: object = None
            try:
                for key in state.map.exchanges:
                    at = key
                    if key.name and key not in without:
                        self._add_exchange(key)
                state.parted = {}
                for key in state.map.queues:
                    at = key, "queue"
                    state.note_parts(key)
                    if at not in without:
                        router.add_queue(key, key)
                for key, claim in state.map.claims.items():
                    at = key, "queue"
                    if claim.node != state.me and at not in without:
                        router.add_queue(key, claim.node)
                for binding in state.map.bindings:
                    at = binding
                    if binding not in without and _source_of(binding) not in without:
                        self._bind(binding)
            except Exception as error:
                # A router that is half changed is thrown away; each time it is one less.
                if at is None or at in without:
                    raise
                without[at] = None
                state.out.faults.append(Fault(f"nothing is routed by {at}", error))
                continue
            break
        self.private.route_again()

    def on_change(self, change: RouteChange) -> None:
        """Follows a change of the map; to stop at it would be to stop every node, at each start."""
        try:
            self._route(change)
        except Exception as error:
            self.state.out.faults.append(Fault("a change of the map cannot be routed", error))
            self.anew()

    def _route(self, change: RouteChange) -> None:
        """Routes as an exchange, a binding, a queue or a claimed name comes or goes."""
        router, me = self.state.router, self.state.me
        match change:
            case BindingAdded():
                self._bind(change.binding)
            case BindingRemoved():
                self._unbind(change.binding)
            case ExchangeAdded():
                if change.key in self.state.map.exchanges:
                    self._add_exchange(change.key)
            case ExchangeRemoved():
                router.remove_exchange(change.key)
            case QueueAdded():
                self.state.note_parts(change.key)
                router.add_queue(change.key, change.key)
            case QueueRemoved():
                router.remove_queue(change.key)
            case ClaimTaken():
                if change.claim.node != me:
                    router.add_queue(change.key, change.claim.node)
            case ClaimReleased():
                if change.claim.node != me:
                    router.remove_queue(change.key)
            case _:
                assert_never(change)

    def look_at_alternate(self, key: QueueKey) -> None:
        """Has an exchange that is in the map the alternate one that its policies ask for now."""
        arguments = self._arguments_of(key)
        self.state.router.set_alternate(key, arguments)

    def _add_exchange(self, key: QueueKey) -> None:
        exchange = self.state.map.exchanges[key]
        arguments = self._arguments_of(key)
        self.state.router.add_exchange(key, exchange.type, arguments, exchange.internal)

    def _arguments_of(self, key: QueueKey) -> Mapping[str, Any]:
        state, arguments = self.state, arguments_of(self.state.map.exchanges[key].arguments)
        before = state.policies.walked
        found = state.policies.exchange_arguments(key, arguments)
        state.work.spend(state.policies.walked - before)
        return found

    def _bind(self, binding: Binding) -> None:
        if binding.destination_kind != "node":
            self.state.router.bind(*_ends(binding), arguments_of(binding.arguments))

    def _unbind(self, binding: Binding) -> None:
        if binding.destination_kind != "node":
            self.state.router.unbind(*_ends(binding), arguments_of(binding.arguments))


def _ends(binding: Binding) -> tuple[QueueKey, QueueKey | ToExchange, str]:
    source = QueueKey(binding.vhost, binding.source)
    destination = QueueKey(binding.vhost, binding.destination)
    if binding.destination_kind == "exchange":
        return source, ToExchange(destination), binding.routing_key
    return source, destination, binding.routing_key


def _source_of(binding: Binding) -> QueueKey:
    return QueueKey(binding.vhost, binding.source)
