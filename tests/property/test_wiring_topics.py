"""The topic trie against the plain definition, and the router against a router without memory."""

import random
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import NodeId, QueueKey
from fedq.core.message import make_route
from fedq.wiring.exchanges import Destination, ToExchange
from fedq.wiring.headers import HeaderPattern
from fedq.wiring.routes import Router
from fedq.wiring.topics import TopicTrie

WORDS = ["a", "b", "c", "", "*", "#"]
patterns = st.lists(st.sampled_from(WORDS), max_size=6).map(".".join)
keys = st.lists(st.sampled_from(["a", "b", "c", "d", "", "#"]), max_size=7).map(".".join)


def matches(pattern: list[str], key: list[str]) -> bool:
    """RabbitMQ's definition, word for word."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return matches(pattern[1:], key) or (bool(key) and matches(pattern, key[1:]))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


def split(text: str) -> list[str]:
    return text.split(".") if text else []


@given(st.lists(st.tuples(patterns, st.integers(0, 5)), max_size=30), st.lists(keys, max_size=8))
def test_the_trie_finds_what_the_definition_says(
    bindings: list[tuple[str, int]], published: list[str]
) -> None:
    trie: TopicTrie[int] = TopicTrie()
    for pattern, target in bindings:
        trie.add(pattern, target)
    for key in published:
        found: dict[int, int] = {}
        trie.match(key, found)
        assert sorted(found) == sorted(
            {target for pattern, target in bindings if matches(split(pattern), split(key))}
        )


@given(st.lists(st.tuples(patterns, st.integers(0, 3)), max_size=30), st.data())
def test_what_is_removed_leaves_nothing(
    bindings: list[tuple[str, int]], data: st.DataObject
) -> None:
    trie: TopicTrie[int] = TopicTrie()
    for pattern, target in bindings:
        trie.add(pattern, target)
    left = list(data.draw(st.permutations(bindings)))
    while left:
        trie.remove(*left.pop())
        assert sorted(trie.targets()) == sorted(
            target for _, target in {(pattern, target) for pattern, target in left}
        )
    assert trie.is_empty()


def test_thousands_of_bindings() -> None:
    rng = random.Random(7)
    vocabulary = [f"w{number}" for number in range(12)]

    def pattern() -> str:
        size = rng.randint(0, 5)
        return ".".join(rng.choice([*vocabulary, "*", "*", "#"]) for _ in range(size))

    trie: TopicTrie[int] = TopicTrie()
    bindings = [(pattern(), target) for target in range(5_000)]
    for text, target in bindings:
        trie.add(text, target)
    for _ in range(25):
        key = ".".join(rng.choices(vocabulary, k=rng.randint(0, 6)))
        found: dict[int, int] = {}
        trie.match(key, found)
        assert sorted(found) == [
            target for text, target in bindings if matches(split(text), split(key))
        ]


def test_many_hashes_do_not_explode() -> None:
    trie: TopicTrie[int] = TopicTrie()
    trie.add("#.a." * 60 + "#", 1)
    found: dict[int, int] = {}
    trie.match(".".join(["a"] * 59), found)
    assert not found
    trie.match(".".join(["a"] * 120), found)
    assert sorted(found) == [1]


# --- the router ------------------------------------------------------------------------------

EXCHANGES = {"d": "direct", "f": "fanout", "t": "topic", "h": "headers"}
B = NodeId("b")
Binding = tuple[str, Destination, str, tuple[tuple[str, int], ...]]
destinations: st.SearchStrategy[Destination] = st.sampled_from(
    [QueueKey("/", "q"), QueueKey("/", "r"), -1, -2, B]
    + [ToExchange(QueueKey("/", name)) for name in EXCHANGES]
)
bindings = st.tuples(
    st.sampled_from([*EXCHANGES]),
    destinations,
    st.sampled_from(["", "k", "k.l", "k.*", "#"]),
    st.sampled_from([(), (("n", 1),), (("n", 2),)]),
)
steps = st.one_of(
    st.tuples(st.just("bind"), bindings),
    st.tuples(st.just("unbind"), bindings),
    st.tuples(st.just("unbind all"), bindings),
    st.tuples(st.just("everything"), bindings),
    st.tuples(st.just("selective"), bindings),
    st.tuples(st.just("remove"), bindings),
    st.tuples(st.just("add"), bindings),
)


class PlainRouter:
    """A list of bindings, walked for every publish."""

    def __init__(self) -> None:
        self.exchanges = {*EXCHANGES}
        self.bindings: list[Binding] = []
        self.everything: set[str] = set()

    def step(self, verb: str, binding: Binding) -> None:
        source, destination, _, _ = binding
        if verb == "bind" and source in self.exchanges and binding not in self.bindings:
            self.bindings.append(binding)
        elif verb == "unbind" and binding in self.bindings:
            self.bindings.remove(binding)
        elif verb == "unbind all":
            self.bindings = [each for each in self.bindings if each[1] != destination]
        elif verb == "everything" and source in self.exchanges:
            self.everything.add(source)
        elif verb == "selective":
            self.everything.discard(source)
        elif verb == "add":
            self.exchanges.add(source)
        elif verb == "remove":
            self.exchanges.discard(source)
            self.everything.discard(source)
            gone = ToExchange(QueueKey("/", source))
            self.bindings = [
                each for each in self.bindings if each[0] != source and each[1] != gone
            ]

    def route(self, source: str, key: str, headers: Mapping[str, Any]) -> set[Destination] | None:
        if source not in self.exchanges:
            return None
        found: set[Destination] = set()
        visited, left = {source}, [source]
        while left:
            exchange = left.pop()
            if exchange in self.everything:
                found.add(B)
            for bound, destination, pattern, arguments in self.bindings:
                if bound != exchange:
                    continue
                if not self._matches(EXCHANGES[bound], pattern, dict(arguments), key, headers):
                    continue
                if isinstance(destination, ToExchange):
                    name = destination.key.name
                    if name in self.exchanges and name not in visited:
                        visited.add(name)
                        left.append(name)
                else:
                    found.add(destination)
        return found

    @staticmethod
    def _matches(
        kind: str,
        pattern: str,
        arguments: dict[str, int],
        key: str,
        headers: Mapping[str, Any],
    ) -> bool:
        if kind == "direct":
            return pattern == key
        if kind == "topic":
            return matches(split(pattern), split(key))
        return kind == "fanout" or HeaderPattern(arguments).matches(headers)


@given(st.lists(steps, max_size=40))
def test_the_router_never_remembers_what_is_no_longer_so(
    history: list[tuple[str, Binding]],
) -> None:
    router, plain = Router(NodeId("a")), PlainRouter()
    for name, kind in EXCHANGES.items():
        router.add_exchange(QueueKey("/", name), kind)
    for verb, binding in history:
        source, destination, pattern, arguments = binding
        key = QueueKey("/", source)
        plain.step(verb, binding)
        match verb:
            case "bind":
                router.bind(key, destination, pattern, dict(arguments))
            case "unbind":
                router.unbind(key, destination, pattern, dict(arguments))
            case "unbind all":
                router.unbind_all(destination)
            case "everything" | "selective":
                router.set_everything(key, B, verb == "everything")
            case "add":
                router.add_exchange(key, EXCHANGES[source])
            case _:
                router.remove_exchange(key)
        for exchange in EXCHANGES:
            for routing_key in ("", "k", "k.l"):
                headers: dict[str, Any] = {"n": len(routing_key)}
                answer = router.route("/", make_route(exchange, routing_key), headers.copy)
                wanted = plain.route(exchange, routing_key, headers)
                if answer is None or wanted is None:
                    assert answer is None
                    assert wanted is None
                    continue
                found: list[Destination] = [*answer.queues, *answer.private, *answer.nodes]
                assert len(found) == len(wanted)
                assert {*found} == wanted
