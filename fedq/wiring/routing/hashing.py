"""Consistent hashing (weighted rendezvous): each publish goes to one destination, by weight.

Inputs: bindings, whose keys are weights; publishes. Output: one destination for each publish, the
same for equal values of what is hashed (the routing key, a header or a property).

Weighted rendezvous hashing: every destination draws a number from the hash of the value and of its
own name, divided by its weight; the lowest wins. A destination that comes or goes moves only the
values that it gets or had. Several bindings of one destination add their weights up.

What holds in a cluster: all nodes send equal values to the same queue, as long as they have heard
of the same bindings, since nothing but names and weights enters the draw. A shared queue draws
by its own name. The private queues of a node draw together, by the node's name: with one draw, on
every node, whose weight is the sum over *different* bindings (weight and arguments) of that node's
private queues, because that is what the other nodes hear of them (`fedq.proxy.fanout`). Whichever
node wins then chooses among its private queues by their own weights. So two private queues of one
node with equal bindings share what one of them would get. A node that says "everything" (more than
`limits.INTEREST_KEYS_PER_EXCHANGE_MAX` different bindings) draws with that number as its weight.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from math import log
from typing import Any, Final, NamedTuple

from fedq.core import limits
from fedq.core.ids import NodeId, QueueKey
from fedq.wiring.routing.exchanges import Arguments, Destination, Found, Properties, ToExchange
from fedq.wiring.routing.exchanges import arguments_text as text_of

WEIGHT_MAX: Final = 1_000_000
#: The properties by which an exchange may be told to hash; the first is as good as any other.
HASH_PROPERTIES: Final = ("message_id", "correlation_id", "timestamp")

#: A draw costs as many steps as there are destinations: so many values are remembered, if short.
_REMEMBERED_MAX: Final = 10_000
_REMEMBERED_CHARACTERS_MAX: Final = 100

_MASK: Final = (1 << 64) - 1
_SCALE: Final = 2.0**-64


class _Bucket(NamedTuple):
    """A destination that can be drawn, or all of a node's."""

    seed: int
    weight: int
    #: None: the private queues of this node.
    destination: Destination | None


class HashTable:
    """The bindings of one consistent-hash exchange."""

    __slots__ = (
        "_bindings", "_buckets", "_chosen", "_everything", "_header", "_me", "_private",
        "_property", "by_key_alone",
    )  # fmt: skip
    by_exact_key = False

    def __init__(self, arguments: Mapping[str, Any], me: NodeId) -> None:
        """`arguments` are the exchange's; `me`: this node."""
        self._me = me
        self._header = arguments.get("hash-header")
        self._property = arguments.get("hash-property")
        self.by_key_alone = self._header is None and self._property is None
        self._bindings: dict[Destination, dict[tuple[str, str], int]] = {}
        self._everything: dict[NodeId, None] = {}
        #: Made of the bindings when they are first needed.
        self._buckets: list[_Bucket] | None = None
        self._private: list[_Bucket] = []
        #: What the latest values led to.
        self._chosen: dict[str, Destination] = {}

    # --- bindings ---

    def add(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Adds a binding; a key that is no weight counts for nothing."""
        bindings = self._bindings.setdefault(destination, {})
        bindings[key, text_of(arguments)] = max(0, min(weight_of(key) or 0, WEIGHT_MAX))
        self._buckets = None

    def remove(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Removes a binding."""
        bindings = self._bindings[destination]
        del bindings[key, text_of(arguments)]
        if not bindings:
            del self._bindings[destination]
        self._buckets = None

    def set_everything(self, node: NodeId, wanted: bool) -> None:
        """Whether a node has so many bindings that it no longer tells them."""
        if wanted:
            self._everything[node] = None
        else:
            self._everything.pop(node, None)
        self._buckets = None

    def destinations(self) -> Iterator[Destination]:
        """All destinations, each once or more."""
        yield from self._bindings

    # --- publishes ---

    def match(self, keys: Sequence[str], properties: Properties, found: Found) -> int:
        """Adds one destination; none only if nothing is bound."""
        cost = len(keys) - 1
        buckets = self._buckets
        if buckets is None:
            buckets = self._build()
            cost += len(buckets) + len(self._private)
        if not buckets:
            return cost
        value = self._value(keys, properties)
        destination = self._chosen.get(value)
        if destination is None:
            destination = self._draw(buckets, value)
            cost += len(buckets) + len(self._private)
        found[destination] = 1
        return cost

    def _draw(self, buckets: list[_Bucket], value: str) -> Destination:
        drawn = _seed(value)
        destination = _lowest(buckets, drawn)
        if destination is None:
            destination = _lowest(self._private, drawn)
            assert destination is not None, "this node draws only with private queues"
        if len(value) <= _REMEMBERED_CHARACTERS_MAX:
            if len(self._chosen) >= _REMEMBERED_MAX:
                self._chosen = {}
            self._chosen[value] = destination
        return destination

    def match_private(self, keys: Sequence[str], properties: Properties) -> int | None:
        """The private queue for a publish of which another node has chosen this one.

        None if there is none, or if the publish may have come by way of a further exchange.
        """
        if self._buckets is None:
            self._build()
        if not self._private or any(isinstance(each, ToExchange) for each in self._bindings):
            return None
        destination = _lowest(self._private, _seed(self._value(keys, properties)))
        assert isinstance(destination, int)
        return destination

    def _value(self, keys: Sequence[str], properties: Properties) -> str:
        """What the exchange hashes, as a text that tells types apart; None for what is missing."""
        value: object = list(keys)
        if self._header is not None:
            value = _header_of(properties(), self._header)
        elif self._property is not None:
            value = properties().get(self._property)
        # ASCII, since what else repr escapes depends on the version of Python.
        return ascii(value)

    def _build(self) -> list[_Bucket]:
        self._private, self._chosen = [], {}
        own: dict[tuple[str, str], int] = {}
        buckets = [
            _Bucket(_seed(f"node {node}"), limits.INTEREST_KEYS_PER_EXCHANGE_MAX, node)
            for node in self._everything
        ]
        for destination, bindings in self._bindings.items():
            weight = sum(bindings.values())
            if not weight:
                continue
            bucket = _Bucket(_seed(_name(destination)), weight, destination)
            if isinstance(destination, int):
                self._private.append(bucket)
                own.update(bindings)
            else:
                buckets.append(bucket)
        if self._private:
            buckets.append(_Bucket(_seed(f"node {self._me}"), _own_weight(own.values()), None))
        self._buckets = buckets
        return buckets


def weight_of(key: str) -> int | None:
    """The number that a binding key stands for; None if it stands for none."""
    digits = key[1:] if key[:1] in ("+", "-") else key
    if not (digits.isascii() and digits.isdigit()):
        return None
    return int(key)


def _own_weight(weights: Iterable[int]) -> int:
    told = list(weights)
    most = limits.INTEREST_KEYS_PER_EXCHANGE_MAX
    return sum(told) if len(told) <= most else most


def _header_of(properties: Mapping[str, Any], name: str) -> object:
    headers = properties.get("headers", {})
    assert isinstance(headers, Mapping)
    return headers.get(name)


def _name(destination: Destination) -> str:
    """The name that a destination draws by: the same on every node, but for private queues."""
    if isinstance(destination, ToExchange):
        return f"exchange {destination.key.name}"
    if isinstance(destination, QueueKey):
        return f"queue {destination.name}"
    return f"private {destination}" if isinstance(destination, int) else f"node {destination}"


def _seed(text: str) -> int:
    # A name may hold surrogates where what a client sent was no UTF-8.
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def _lowest(buckets: Sequence[_Bucket], drawn: int) -> Destination | None:
    """The bucket with the lowest number: an exponential race, won in proportion to weights."""
    if len(buckets) == 1:
        return buckets[0].destination
    best, lowest = buckets[0].destination, float("inf")
    for seed, weight, destination in buckets:
        # SplitMix64's finish: each bit of the two hashes changes half of the bits.
        mixed = (seed ^ drawn) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        number = -log(((mixed ^ mixed >> 31) + 1) * _SCALE) / weight
        if number < lowest:
            best, lowest = destination, number
    return best
