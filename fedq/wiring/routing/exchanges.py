"""The specification's types of exchange: tables from routing keys (or headers) to destinations.

Inputs: bindings that come and go, and publishes; output: the destinations of a publish, as keys of
a dict (its values mean nothing). The router (`fedq.wiring.routing.routes`) sees to it that a
binding is added once and removed once; two bindings of one destination that differ only in their
arguments count as two.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from fedq.core.ids import NodeId, QueueKey
from fedq.wiring.routing.headers import HeaderIndex, HeaderPattern
from fedq.wiring.routing.topics import TopicTrie


class ToExchange(NamedTuple):
    """An exchange as the destination of a binding."""

    key: QueueKey


#: A shared queue, a private queue of this node (its fragment's id, < 0), a node whose private
#: queues want to hear it, or another exchange.
Destination: TypeAlias = QueueKey | int | NodeId | ToExchange

#: A binding's arguments, decoded; None for none.
Arguments: TypeAlias = Mapping[str, Any] | None

#: Decodes a message's properties; called only if an exchange looks at them.
Properties: TypeAlias = Callable[[], Mapping[str, Any]]

Found: TypeAlias = dict[Destination, int]


class Table(Protocol):
    """The bindings of one exchange."""

    #: Whether the same routing key always leads to the same destinations.
    by_key_alone: bool
    #: Whether a binding's key is the only routing key it matters to.
    by_exact_key: bool

    def add(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Adds a binding that is not there."""

    def remove(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Removes a binding that is there."""

    def match(self, keys: Sequence[str], properties: Properties, found: Found) -> int:
        """Adds the destinations of a publish to `found`; it may have several routing keys.

        Returns what that cost, in units of work (`fedq.core.work`), beyond the look at one key.
        """

    def destinations(self) -> Iterator[Destination]:
        """All destinations; one with several bindings may come several times."""


class DirectTable:
    """A table by exactly the routing key (specification 3.1.3.1), with a dictionary."""

    __slots__ = ("_by_key",)
    by_key_alone = True
    by_exact_key = True

    def __init__(self) -> None:
        self._by_key: dict[str, Found] = {}

    def add(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Adds a binding under its key."""
        counts = self._by_key.setdefault(key, {})
        counts[destination] = counts.get(destination, 0) + 1

    def remove(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Removes a binding from under its key."""
        counts = self._by_key[key]
        _discount(counts, destination)
        if not counts:
            del self._by_key[key]

    def match(self, keys: Sequence[str], properties: Properties, found: Found) -> int:
        """Adds the destinations bound with one of the routing keys."""
        looked = 0
        for key in keys:
            counts = self._by_key.get(key)
            if counts is not None:
                found.update(counts)
                looked += len(counts)
        return len(keys) - 1 + looked // _COPIED_PER_UNIT

    def destinations(self) -> Iterator[Destination]:
        """All destinations, key by key."""
        for counts in self._by_key.values():
            yield from counts


class FanoutTable:
    """A table of everything to everyone (specification 3.1.3.2)."""

    __slots__ = ("_counts",)
    by_key_alone = True
    by_exact_key = False

    def __init__(self) -> None:
        self._counts: Found = {}

    def add(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Adds a binding, whatever its key."""
        self._counts[destination] = self._counts.get(destination, 0) + 1

    def remove(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Removes a binding, whatever its key."""
        _discount(self._counts, destination)

    def match(self, keys: Sequence[str], properties: Properties, found: Found) -> int:
        """Adds all destinations."""
        found.update(self._counts)
        return len(self._counts) // _COPIED_PER_UNIT

    def destinations(self) -> Iterator[Destination]:
        """All destinations, each once."""
        yield from self._counts


class TopicTable:
    """A table by patterns of words (specification 3.1.3.4), with a trie of numbered destinations.

    A number stands for one destination from its first binding to its last, then for another one.
    """

    __slots__ = ("_bindings", "_free", "_names", "_numbers", "_trie", "match_numbers", "others")
    by_key_alone = True
    by_exact_key = False

    def __init__(self) -> None:
        self._trie = TopicTrie()
        #: The destinations of a routing key, in order, by their numbers.
        self.match_numbers: Callable[[bytes], tuple[int, ...]] = self._trie.match
        #: How many destinations are anything but shared queues.
        self.others = 0
        self._numbers: dict[Destination, int] = {}
        #: By number: the destination, and how many bindings it has. Free numbers keep the old ones.
        self._names: list[Destination] = []
        self._bindings: list[int] = []
        self._free: list[int] = []

    def add(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Adds a binding's pattern to the trie."""
        number = self._numbers.get(destination)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._names[number] = destination
            else:
                number = len(self._names)
                self._names.append(destination)
                self._bindings.append(0)
            self._numbers[destination] = number
            self.others += not isinstance(destination, QueueKey)
        self._bindings[number] += 1
        self._trie.add(_bytes_of(key), number)

    def remove(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Removes a binding's pattern from the trie; an unbound destination loses its number."""
        number = self._numbers[destination]
        self._trie.remove(_bytes_of(key), number)
        self._bindings[number] -= 1
        if not self._bindings[number]:
            del self._numbers[destination]
            self.others -= not isinstance(destination, QueueKey)
            self._free.append(number)

    @property
    def walked(self) -> int:
        """What all matches so far have cost, in units of work."""
        return self._trie.walked // _WALKED_PER_UNIT

    def match(self, keys: Sequence[str], properties: Properties, found: Found) -> int:
        """Adds the destinations whose patterns match one of the routing keys."""
        before, looked, numbers = self._trie.walked, 0, dict[int, None]()
        for key in keys:
            matched = self._trie.match(_bytes_of(key))
            numbers.update(dict.fromkeys(matched))
            looked += len(matched)
            if len(numbers) == len(self._numbers):
                break
        found.update(dict.fromkeys(self.named(tuple(numbers)), 1))
        walked = (self._trie.walked - before) // _WALKED_PER_UNIT
        return len(keys) - 1 + walked + looked // _COPIED_PER_UNIT

    def named(self, numbers: tuple[int, ...]) -> list[Destination]:
        """The destinations that these numbers stand for."""
        names = self._names
        return [names[number] for number in numbers]

    def destinations(self) -> Iterator[Destination]:
        """All destinations, each once."""
        yield from self._numbers


class HeadersTable:
    """A table by the message's headers (specification 3.1.3.3), with an index of patterns."""

    __slots__ = ("_patterns",)
    by_key_alone = False
    by_exact_key = False

    def __init__(self) -> None:
        self._patterns: HeaderIndex[tuple[Destination, str, str]] = HeaderIndex()

    def add(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Adds a binding's header pattern to the index."""
        name = (destination, key, arguments_text(arguments))
        self._patterns.add(name, HeaderPattern(arguments or {}))

    def remove(self, destination: Destination, key: str, arguments: Arguments) -> None:
        """Removes a binding's header pattern from the index."""
        self._patterns.remove((destination, key, arguments_text(arguments)))

    def match(self, keys: Sequence[str], properties: Properties, found: Found) -> int:
        """Adds the destinations whose patterns match the message's headers."""
        if not self._patterns:
            return 0
        table, before = properties().get("headers", {}), self._patterns.looked
        for destination, _, _ in self._patterns.match(table):
            found[destination] = 1
        return len(table) + self._patterns.looked - before

    def destinations(self) -> Iterator[Destination]:
        """All destinations, once for each binding."""
        for destination, _, _ in self._patterns:
            yield destination


#: How many destinations are copied, or branches of a trie looked at, in a unit of work.
_COPIED_PER_UNIT: Final = 16
_WALKED_PER_UNIT: Final = 32

#: The types whose tables need no arguments; `fedq.wiring.routing.exchange_types` knows them all.
TABLES: Mapping[str, Callable[[], Table]] = {
    "direct": DirectTable,
    "fanout": FanoutTable,
    "topic": TopicTable,
    "headers": HeadersTable,
}


def arguments_text(arguments: Arguments) -> str:
    """A text by which equal arguments are recognised, whatever their order."""
    return repr(sorted(arguments.items(), key=_name)) if arguments else ""


def _bytes_of(key: str) -> bytes:
    return key.encode("utf-8", "surrogateescape")


def _name(item: tuple[str, Any]) -> str:
    return item[0]


def _discount(counts: Found, destination: Destination) -> None:
    if counts[destination] > 1:
        counts[destination] -= 1
    else:
        del counts[destination]
