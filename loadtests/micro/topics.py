"""Claim: a topic lookup costs its words and what they reach, not the number of bindings.

10,000 mixed bindings as `fedq bench --bindings` makes them, of which a key matches about five.
Routes are asked for with keys that were never seen, so that no kept route helps, and with keys that
were. `FEDQ_PURE=1` measures the Python twin.
"""

from collections.abc import Iterator
from functools import partial

from fedq.bench.words import words_for
from fedq.core.ids import NodeId, QueueKey
from fedq.core.message import make_route
from fedq.wiring.routing.routes import Router
from fedq.wiring.routing.topics import TopicTrie
from loadtests.micro.timing import Case

BINDINGS, KEYS = 10_000, 50_000
WORDS = words_for(BINDINGS, KEYS, 1)
TOPIC = QueueKey("/", "amq.topic")


def trie_of(count: int) -> TopicTrie:
    """A trie of so many patterns, each with a target of its own."""
    trie = TopicTrie()
    for target, pattern in enumerate(WORDS.patterns[:count]):
        trie.add(pattern.encode(), target)
    return trie


def router_of(queues: int) -> Router:
    """A router with all bindings spread over so many queues."""
    router = Router(NodeId("a"))
    router.add_exchange(TOPIC, "topic")
    for number, pattern in enumerate(WORDS.patterns):
        router.bind(TOPIC, QueueKey("/", f"q{number % queues}"), pattern, None)
    return router


ALL_KEYS = [key.encode() for key in WORDS.keys]
ROUTES = [make_route("amq.topic", key) for key in WORDS.keys]


def look_up(trie: TopicTrie) -> int:
    """Looks up every key; returns how many targets matched."""
    return sum(len(trie.match(key)) for key in ALL_KEYS)


def route(router: Router, routes: list[bytes]) -> None:
    """Asks for every route."""
    for each in routes:
        router.route("/", each, dict)


def rebind(router: Router) -> None:
    """A binding comes, one publish is routed, and the binding goes."""
    router.bind(TOPIC, QueueKey("/", "new"), "a1.*.new.#", None)
    router.route("/", ROUTES[0], dict)
    router.unbind(TOPIC, QueueKey("/", "new"), "a1.*.new.#", None)


def new_routes(router: Router) -> None:
    """All routes, none of which is kept from before."""
    router.bind(TOPIC, QueueKey("/", "q0"), "nothing.comes.here", {"n": 1})
    route(router, ROUTES)
    router.unbind(TOPIC, QueueKey("/", "q0"), "nothing.comes.here", {"n": 1})


def cases() -> Iterator[Case]:
    """What is measured, with what it needs made when it is its turn."""
    for count in (100, BINDINGS):
        yield Case(f"topic lookup, {count:,} patterns", KEYS, partial(look_up, trie_of(count)))
    for queues in (1, 100):
        router, text = router_of(queues), f"10,000 bindings, {queues} queues"
        yield Case(f"topic route, new keys, {text}", KEYS, partial(new_routes, router))
        few = ROUTES[:1_000]
        yield Case(f"topic route, known keys, {text}", len(few), partial(route, router, few))
    router = router_of(100)
    yield Case("topic bind, route, unbind, 10,000 bindings", 1, partial(rebind, router))
    yield Case("topic set-up of 10,000 bindings", BINDINGS, partial(router_of, 100))


CASES = cases()
