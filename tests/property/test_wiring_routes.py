"""The router against a router without memory, and the routers of two nodes against each other."""

import random as random_module
from collections.abc import Callable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import NodeId, QueueKey
from fedq.core.message import make_route
from fedq.wiring.routing.exchanges import Destination, ToExchange
from fedq.wiring.routing.route import Route
from fedq.wiring.routing.routes import Router
from tests.property.plain_router import Answer, Arguments, Binding, PlainRouter, Properties, Spec

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
NAMES = ["u", "v", "w", "x"]
HASH = "x-consistent-hash"
ROUTING_KEYS = ["", "k", "k.l", "m"]
#: Publishes differ in what exchanges may look at.
PROPERTIES: list[Properties] = [
    {},
    {"headers": {"n": 1}, "message_id": "one"},
    {"headers": {"n": 2}, "message_id": "two"},
]

alternates = st.sampled_from([None, None, *NAMES, "missing"])
specs = st.one_of(
    st.builds(Spec, st.sampled_from(["direct", "fanout", "topic"]), alternates, st.booleans()),
    st.builds(Spec, st.sampled_from(["direct", "headers", HASH]), alternates),
    st.builds(Spec, st.just(HASH), alternates, st.booleans(), hash_header=st.just("n")),
    st.builds(Spec, st.just(HASH), alternates, hash_property=st.just("message_id")),
)
names = st.sampled_from(NAMES)
shared: st.SearchStrategy[Destination] = st.sampled_from(
    [QueueKey("/", "q"), QueueKey("/", "r"), *(ToExchange(QueueKey("/", name)) for name in NAMES)]
)
keys = st.sampled_from(["", "k", "k.l", "k.*", "#", "1", "1", "2000"])
arguments: st.SearchStrategy[Arguments] = st.sampled_from([(), (("n", 1),), (("n", 2),)])
bindings = st.builds(Binding, names, shared | st.sampled_from([-1, -2, B, C]), keys, arguments)
steps: st.SearchStrategy[tuple[str, Binding, Spec]] = st.tuples(
    st.sampled_from(
        ["add", "bind", "bind", "bind", "unbind", "unbind all", "everything", "selective", "remove"]
    ),
    bindings,
    specs,
)


class Pair:
    """The router, and the plain one that is told the same."""

    def __init__(self, me: NodeId) -> None:
        self.router, self.plain = Router(me), PlainRouter(me)

    def add(self, name: str, spec: Spec) -> None:
        self.plain.add(name, spec)
        self.router.add_exchange(QueueKey("/", name), *spec.declaration())

    def bind(self, binding: Binding) -> None:
        self.plain.bind(binding)
        self.router.bind(*_parts(binding))

    def step(self, verb: str, binding: Binding, spec: Spec) -> None:
        key = QueueKey("/", binding.source)
        match verb:
            case "add":
                self.add(binding.source, spec)
            case "bind":
                self.bind(binding)
            case "unbind":
                self.plain.unbind(binding)
                self.router.unbind(*_parts(binding))
            case "unbind all":
                self.plain.unbind_all(binding.destination)
                self.router.unbind_all(binding.destination)
            case "everything":
                if binding.source in self.plain.exchanges:
                    self.plain.everything.add((binding.source, B))
                self.router.set_everything(key, B, True)
            case "selective":
                self.plain.everything.discard((binding.source, B))
                self.router.set_everything(key, B, False)
            case _:
                self.plain.remove(binding.source)
                self.router.remove_exchange(key)

    def check(self, exchange: str) -> None:
        for key in ROUTING_KEYS:
            self._check_key(exchange, key)
        for properties in PROPERTIES:
            for several in (["k", "m"], ["m", "k.l", "k"], ["m", "m"]):
                answer = self.router.route_keys("/", exchange, several, _giving(properties))
                _compare(answer, self.plain.route(exchange, several, properties))

    def _check_key(self, exchange: str, key: str) -> None:
        answers: list[Route | None] = []
        for properties in PROPERTIES:
            answer = self.router.route("/", make_route(exchange, key), _giving(properties))
            answers.append(answer)
            _compare(answer, self.plain.route(exchange, [key], properties))
            again = self.router.route_keys("/", exchange, [key], _giving(properties))
            kept = None if answer is None else answer._replace(by_route_alone=False)
            assert kept == again, "what is kept has another order than a fresh walk"
        if any(answer is not None and answer.by_route_alone for answer in answers):
            assert all(answer == answers[0] for answer in answers), "it depends on properties"


def _giving(properties: Properties) -> Callable[[], Properties]:
    return lambda: properties


def _parts(binding: Binding) -> tuple[QueueKey, Destination, str, dict[str, int]]:
    source, destination, key, arguments = binding
    return QueueKey("/", source), destination, key, dict(arguments)


def _compare(answer: Route | None, wanted: Answer | None) -> None:
    if answer is None or wanted is None:
        assert answer is None
        assert wanted is None
        return
    found: list[Destination] = [*answer.queues, *answer.private, *answer.nodes]
    assert len(found) == len({*found}), "a destination twice"
    assert {*found} == wanted.destinations
    assert answer.delayed == wanted.delayed or not found


@given(st.tuples(specs, specs, specs), st.lists(steps, max_size=30))
def test_the_router_never_remembers_what_is_no_longer_so(
    declared: Sequence[Spec], history: list[tuple[str, Binding, Spec]]
) -> None:
    pair = Pair(A)
    for name, spec in zip(NAMES, declared, strict=False):
        pair.add(name, spec)
    for verb, binding, spec in history:
        pair.step(verb, binding, spec)
        for exchange in NAMES:
            pair.check(exchange)


# --- two nodes -------------------------------------------------------------------------------

#: (node, number of its private queue, exchange, key, arguments).
privates = st.tuples(st.sampled_from([A, B]), st.integers(-3, -1), names, keys, arguments)


def _delivered(
    at: NodeId, routers: dict[NodeId, Router], exchange: str, key: str, properties: Properties
) -> list[tuple[NodeId | None, Destination]]:
    """Every queue that gets a publish of a client at this node, relays included."""
    route = make_route(exchange, key)
    answer = routers[at].route("/", route, _giving(properties))
    assert answer is not None
    queues: list[tuple[NodeId | None, Destination]] = [(None, key) for key in answer.queues]
    queues += [(at, number) for number in answer.private]
    for node in answer.nodes:
        relayed = routers[node].route_private("/", route, _giving(properties))
        queues += [(node, number) for number in relayed]
    return queues


@given(
    st.tuples(specs, specs, specs, specs),
    st.lists(st.builds(Binding, names, shared, keys, arguments), max_size=8),
    st.lists(privates, max_size=8),
    st.randoms(use_true_random=False),
)
def test_wherever_a_client_publishes_the_same_queues_hear_it(
    declared: Sequence[Spec],
    bound: list[Binding],
    private: list[tuple[NodeId, int, str, str, Arguments]],
    rng: random_module.Random,
) -> None:
    routers = {A: Router(A), B: Router(B)}
    for node, router in routers.items():
        for name, spec in zip(NAMES, declared, strict=True):
            router.add_exchange(QueueKey("/", name), *spec.declaration())
        known = list(bound)
        for holder, number, name, key, table in private:
            known.append(Binding(name, number if holder == node else holder, key, table))
        rng.shuffle(known)
        for binding in known:
            router.bind(*_parts(binding))
    for exchange, spec in zip(NAMES, declared, strict=True):
        for key in ROUTING_KEYS:
            for properties in PROPERTIES:
                heard = _delivered(A, routers, exchange, key, properties)
                assert sorted(heard, key=repr) == sorted(
                    _delivered(B, routers, exchange, key, properties), key=repr
                )
                assert len(heard) == len({*heard}), "a queue twice"
                to_exchanges = any(isinstance(each.destination, ToExchange) for each in bound)
                if spec.kind == HASH and not spec.alternate and not to_exchanges:
                    assert len(heard) <= 1
