"""A router without memory or cleverness: a list of bindings, walked for every publish.

It knows every type of exchange by its definition. Of consistent hashing it repeats the draw, which
is fixed for ever: nodes of different versions must choose alike.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from math import log
from typing import Any, NamedTuple

from fedq.core.ids import NodeId, QueueKey
from fedq.wiring.routing.exchanges import Destination, ToExchange
from fedq.wiring.routing.headers import HeaderPattern
from tests.property.test_wiring_topics import matches, split

Arguments = tuple[tuple[str, int], ...]
Properties = Mapping[str, Any]


class Spec(NamedTuple):
    """An exchange: what it routes by, and what it was declared with."""

    kind: str
    alternate: str | None = None
    delays: bool = False
    hash_header: str | None = None
    hash_property: str | None = None

    def declaration(self) -> tuple[str, dict[str, Any]]:
        """Its type and arguments."""
        arguments: dict[str, Any] = {}
        if self.alternate is not None:
            arguments["alternate-exchange"] = self.alternate
        if self.hash_header is not None:
            arguments["hash-header"] = self.hash_header
        if self.hash_property is not None:
            arguments["hash-property"] = self.hash_property
        if not self.delays:
            return self.kind, arguments
        return "x-delayed-message", {**arguments, "x-delayed-type": self.kind}


class Binding(NamedTuple):
    """A binding of an exchange of virtual host "/"."""

    source: str
    destination: Destination
    key: str
    arguments: Arguments


class Answer(NamedTuple):
    """Where a publish goes, and whether it is delayed if it goes anywhere."""

    destinations: set[Destination]
    delayed: bool


class PlainRouter:
    """See the module's docstring."""

    def __init__(self, me: NodeId) -> None:
        self.me = me
        self.exchanges: dict[str, Spec] = {}
        self.bindings: list[Binding] = []
        self.everything: set[tuple[str, NodeId]] = set()

    def bind(self, binding: Binding) -> None:
        if binding.source in self.exchanges and binding not in self.bindings:
            self.bindings.append(binding)

    def unbind(self, binding: Binding) -> None:
        self.bindings = [each for each in self.bindings if each != binding]

    def unbind_all(self, destination: Destination) -> None:
        self.bindings = [each for each in self.bindings if each.destination != destination]

    def add(self, name: str, spec: Spec) -> None:
        self.exchanges.setdefault(name, spec)

    def remove(self, name: str) -> None:
        if self.exchanges.pop(name, None) is None:
            return  # Of what is not there nothing goes, not even a binding that leads to it.
        self.everything = {each for each in self.everything if each[0] != name}
        self.unbind_all(ToExchange(QueueKey("/", name)))
        self.bindings = [each for each in self.bindings if each.source != name]

    def route(self, source: str, keys: Sequence[str], properties: Properties) -> Answer | None:
        if source not in self.exchanges:
            return None
        found: set[Destination] = set()
        visited, left = {source}, [source]
        delayed = False
        while left:
            name = left.pop()
            spec = self.exchanges[name]
            delayed = delayed or spec.delays
            matched = self._matched(name, spec, keys, properties)
            following = [each.key.name for each in matched if isinstance(each, ToExchange)]
            if not matched and spec.alternate is not None:
                following = [spec.alternate]
            for exchange in following:
                if exchange in self.exchanges and exchange not in visited:
                    visited.add(exchange)
                    left.append(exchange)
            found |= {each for each in matched if not isinstance(each, ToExchange)}
            if spec.kind != "x-consistent-hash":
                found |= {node for exchange, node in self.everything if exchange == name}
        return Answer(found, delayed)

    def _matched(
        self, name: str, spec: Spec, keys: Sequence[str], properties: Properties
    ) -> set[Destination]:
        bindings = [each for each in self.bindings if each.source == name]
        if spec.kind != "x-consistent-hash":
            return {
                each.destination
                for each in bindings
                if any(_fits(spec.kind, each, key, properties) for key in keys)
            }
        value: object = list(keys)
        if spec.hash_header is not None:
            value = properties.get("headers", {}).get(spec.hash_header)
        elif spec.hash_property is not None:
            value = properties.get(spec.hash_property)
        everything = {node for exchange, node in self.everything if exchange == name}
        return self._chosen(bindings, everything, ascii(value))

    def _chosen(
        self, bindings: list[Binding], everything: set[NodeId], value: str
    ) -> set[Destination]:
        mine = [each for each in bindings if isinstance(each.destination, int)]
        weights: dict[Destination, int] = {}
        for each in bindings:
            if each not in mine:
                weights[each.destination] = weights.get(each.destination, 0) + _weight(each)
        for node in everything:
            weights[node] = max(1_000, weights.get(node, 0))
        own = {(each.key, each.arguments): _weight(each) for each in mine}
        if own:
            weights[self.me] = sum(own.values())
        winner = draw(weights, value)
        if winner is None or not own or winner != self.me:
            return {winner} if winner is not None else set()
        inner: dict[Destination, int] = {}
        for each in mine:
            inner[each.destination] = inner.get(each.destination, 0) + _weight(each)
        chosen = draw(inner, value)
        assert chosen is not None
        return {chosen}


def draw(weights: Mapping[Destination, int], value: str) -> Destination | None:
    """The destination that wins the draw for this value."""
    numbers = {
        destination: -log((_mixed(_name(destination), value) + 1) / 2.0**64) / weight
        for destination, weight in weights.items()
        if weight
    }
    return min(numbers, key=lambda destination: numbers[destination]) if numbers else None


def _mixed(name: str, value: str) -> int:
    x = _hash(name) ^ _hash(value)
    x = x * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def _name(destination: Destination) -> str:
    if isinstance(destination, ToExchange):
        return f"exchange {destination.key.name}"
    if isinstance(destination, QueueKey):
        return f"queue {destination.name}"
    if isinstance(destination, int):
        return f"private {destination}"
    return f"node {destination}"


def _weight(binding: Binding) -> int:
    return int(binding.key) if binding.key.isdigit() else 0


def _fits(kind: str, binding: Binding, key: str, properties: Properties) -> bool:
    if kind == "direct":
        return binding.key == key
    if kind == "topic":
        return matches(split(binding.key), split(key))
    if kind == "fanout":
        return True
    return HeaderPattern(dict(binding.arguments)).matches(properties.get("headers", {}))
