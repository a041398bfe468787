"""Where publishes go, and the names that lead home."""

import re
from collections.abc import Mapping
from typing import Any

import pytest

from fedq.core.ids import NodeId, QueueKey
from fedq.core.message import make_route
from fedq.wiring.routing.exchanges import ToExchange
from fedq.wiring.routing.headers import HeaderPattern, refuse_arguments
from fedq.wiring.routing.names import node_of, server_name
from fedq.wiring.routing.route import Route
from fedq.wiring.routing.routes import Bound, Router

A, B = NodeId("a"), NodeId("b")
WORK, LOGS = QueueKey("/", "work"), QueueKey("/", "logs")
NOWHERE = Route((), (), ())


def no_properties() -> Mapping[str, Any]:
    raise AssertionError("nothing here looks at properties")


def at(name: str) -> QueueKey:
    return QueueKey("/", name)


@pytest.fixture
def router() -> Router:
    router = Router(A)
    for kind in ("direct", "fanout", "topic", "headers"):
        router.add_exchange(at(kind), kind)
    return router


def go(router: Router, exchange: str, key: str = "", headers: Any = None) -> Route | None:
    """Where it goes, whatever that depends on."""
    route = make_route(exchange, key)
    properties = no_properties if headers is None else lambda: {"headers": headers}
    first = router.route("/", route, properties)
    again = router.route("/", route, properties)
    assert again == first
    return None if first is None else first._replace(by_route_alone=False)


def test_a_missing_exchange_is_told_from_an_empty_one(router: Router) -> None:
    assert go(router, "nowhere") is None
    assert go(router, "direct", "k") == NOWHERE
    assert router.route("/other", make_route("direct", "k"), no_properties) is None
    router.remove_exchange(at("direct"))
    assert go(router, "direct", "k") is None


def test_each_destination_comes_once_and_by_kind(router: Router) -> None:
    for key in ("a.*", "#", "a.b"):
        for destination in (WORK, -7, B):
            assert router.bind(at("topic"), destination, key, None)
            assert not router.bind(at("topic"), destination, key, {})
    router.bind(at("topic"), LOGS, "a.#", None)
    route = go(router, "topic", "a.b")
    assert route is not None
    assert sorted(route.queues) == [LOGS, WORK]
    assert (route.private, route.nodes) == ((-7,), (B,))
    assert go(router, "topic", "c") == Route((WORK,), (-7,), (B,))


def test_the_default_exchange_leads_to_names(router: Router) -> None:
    router.add_queue(WORK, WORK)
    router.add_queue(at("mine"), -1)
    router.add_queue(at("theirs"), B)
    assert go(router, "", "work") == Route((WORK,), (), ())
    assert go(router, "", "mine") == Route((), (-1,), ())
    assert go(router, "", "theirs") == Route((), (), (B,))
    assert go(router, "", "none") == NOWHERE
    assert router.route("/other", make_route("", "work"), no_properties) == NOWHERE
    router.remove_queue(WORK)
    assert go(router, "", "work") == NOWHERE


def test_replies_to_server_named_queues_need_no_wiring(router: Router) -> None:
    assert go(router, "", server_name(B, 3, 99)) == Route((), (), (B,))
    mine = server_name(A, 3, 99)
    assert go(router, "", mine) == NOWHERE
    router.add_queue(at(mine), -5)
    assert go(router, "", mine) == Route((), (-5,), ())


def test_bindings_that_differ_in_arguments_are_two(router: Router) -> None:
    for exchange in ("direct", "fanout", "topic"):
        assert router.bind(at(exchange), WORK, "k", {"n": 1})
        assert router.bind(at(exchange), WORK, "k", {"n": 2})
        assert router.unbind(at(exchange), WORK, "k", {"n": 1})
        assert not router.unbind(at(exchange), WORK, "k", {"n": 1})
        assert go(router, exchange, "k") == Route((WORK,), (), ())
        assert router.unbind(at(exchange), WORK, "k", {"n": 2})
        assert go(router, exchange, "k") == NOWHERE


def test_exchanges_pass_on_and_cycles_end(router: Router) -> None:
    router.bind(at("fanout"), ToExchange(at("topic")), "", None)
    router.bind(at("topic"), ToExchange(at("direct")), "k", None)
    router.bind(at("direct"), ToExchange(at("fanout")), "k", None)
    assert go(router, "fanout", "k") == NOWHERE
    router.bind(at("direct"), WORK, "k", None)
    for exchange in ("fanout", "topic", "direct"):
        assert go(router, exchange, "k") == Route((WORK,), (), ())
    router.remove_exchange(at("topic"))
    assert go(router, "fanout", "k") == NOWHERE
    router.add_exchange(at("topic"), "topic")
    assert go(router, "fanout", "k") == NOWHERE, "its bindings went with the old one"


def test_headers_are_decoded_once_and_never_remembered(router: Router) -> None:
    router.add_exchange(at("headers2"), "headers")
    router.bind(at("headers"), ToExchange(at("headers2")), "", {"to": "second"})
    router.bind(at("headers2"), WORK, "", {"x-match": "any", "n": 1, "m": 2})
    calls = []

    def properties() -> Mapping[str, Any]:
        calls.append(1)
        return {"headers": {"to": "second", "n": 1}}

    assert router.route("/", make_route("headers", ""), properties) == Route((WORK,), (), ())
    assert calls == [1]
    assert go(router, "headers", "", {"to": "second"}) == NOWHERE
    assert go(router, "headers", "", {"n": 1}) == NOWHERE
    assert router.route("/", make_route("headers", ""), dict) == NOWHERE, "no headers at all"


def test_a_node_may_want_everything(router: Router) -> None:
    router.set_everything(at("topic"), B, True)
    router.bind(at("topic"), B, "k", None)
    router.bind(at("fanout"), ToExchange(at("topic")), "", None)
    assert go(router, "topic", "x") == Route((), (), (B,))
    assert go(router, "fanout", "x") == Route((), (), (B,))
    router.set_everything(at("topic"), B, False)
    assert go(router, "topic", "x") == NOWHERE
    assert go(router, "topic", "k") == Route((), (), (B,))
    router.set_everything(at("nowhere"), B, True)
    assert go(router, "nowhere") is None


def test_a_node_that_went_wants_nothing(router: Router) -> None:
    router.add_queue(at("theirs"), B)
    router.bind(at("direct"), B, "k", None)
    router.set_everything(at("fanout"), B, True)
    router.forget_node(B)
    assert go(router, "", "theirs") == NOWHERE
    assert go(router, "direct", "k") == NOWHERE
    assert go(router, "fanout") == NOWHERE


def test_unbinding_a_queue_tells_what_was_bound(router: Router) -> None:
    router.bind(at("topic"), -1, "a.#", None)
    router.bind(at("headers"), -1, "", {"n": 1})
    router.bind(at("topic"), -2, "a.#", None)
    assert router.unbind_all(-1) == [
        Bound(at("topic"), "a.#", None),
        Bound(at("headers"), "", {"n": 1}),
    ]
    assert router.unbind_all(-1) == []
    assert go(router, "topic", "a") == Route((), (-2,), ())


def test_binding_to_nowhere_is_remembered_nowhere(router: Router) -> None:
    assert not router.bind(at("nowhere"), WORK, "k", None)
    assert not router.unbind(at("nowhere"), WORK, "k", None)
    router.add_exchange(at("nowhere"), "fanout")
    assert go(router, "nowhere") == NOWHERE


def test_keys_that_are_no_text_still_match(router: Router) -> None:
    route = b"\x06direct\x02\xff\xfe"
    key = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert router.route("/", route, no_properties) == NOWHERE
    router.bind(at("direct"), WORK, key, None)
    assert router.route("/", route, no_properties) == Route((WORK,), (), (), by_route_alone=True)


def test_an_alternate_exchange_gets_what_matches_nothing(router: Router) -> None:
    router.add_exchange(at("orders"), "direct", {"alternate-exchange": "unrouted"})
    assert go(router, "orders", "k") == NOWHERE
    router.add_exchange(at("unrouted"), "fanout")
    router.bind(at("unrouted"), LOGS, "", None)
    assert go(router, "orders", "k") == Route((LOGS,), (), ())
    router.bind(at("orders"), WORK, "k", None)
    assert go(router, "orders", "k") == Route((WORK,), (), ())
    assert go(router, "orders", "other") == Route((LOGS,), (), ())
    router.unbind(at("unrouted"), LOGS, "", None)
    assert go(router, "orders", "other") == NOWHERE
    router.remove_exchange(at("unrouted"))
    assert go(router, "orders", "other") == NOWHERE


def test_an_exchange_that_is_matched_needs_no_alternate(router: Router) -> None:
    router.add_exchange(at("source"), "fanout", {"alternate-exchange": "fanout"})
    router.bind(at("fanout"), LOGS, "", None)
    assert go(router, "source") == Route((LOGS,), (), ())
    router.bind(at("source"), ToExchange(at("direct")), "", None)
    assert go(router, "source") == NOWHERE, "though nothing is bound to that one"


def test_an_exchange_declared_anew_has_its_new_alternate_only(router: Router) -> None:
    router.bind(at("fanout"), LOGS, "", None)
    for arguments, found in (({"alternate-exchange": "fanout"}, (LOGS,)), (None, ())):
        router.add_exchange(at("orders"), "direct", arguments)
        assert go(router, "orders", "k") == Route(found, (), ())
        router.remove_exchange(at("orders"))


def test_alternates_in_a_circle_end(router: Router) -> None:
    for name, other in (("x", "y"), ("y", "z"), ("z", "x")):
        router.add_exchange(at(name), "direct", {"alternate-exchange": other})
    assert go(router, "x", "k") == NOWHERE
    router.bind(at("z"), WORK, "k", None)
    assert go(router, "x", "k") == go(router, "y", "k") == Route((WORK,), (), ())


def test_the_default_exchange_is_no_alternate(router: Router) -> None:
    router.add_queue(WORK, WORK)
    router.add_exchange(at("x"), "direct", {"alternate-exchange": ""})
    assert go(router, "x", "work") == NOWHERE


def test_a_cached_alternate_route_notices_every_change(router: Router) -> None:
    for name in ("one", "two"):
        router.add_exchange(at(name), "direct", {"alternate-exchange": "spare"})
    router.add_exchange(at("spare"), "direct")
    assert go(router, "two", "k") == NOWHERE
    router.bind(at("spare"), WORK, "k", None)
    assert go(router, "two", "k") == Route((WORK,), (), ())
    router.remove_exchange(at("one"))
    assert go(router, "two", "k") == Route((WORK,), (), ())
    router.unbind(at("spare"), WORK, "k", None)
    assert go(router, "two", "k") == NOWHERE


def test_several_keys_are_one_publish(router: Router) -> None:
    router.add_exchange(at("orders"), "direct", {"alternate-exchange": "fanout"})
    router.bind(at("fanout"), LOGS, "", None)
    router.bind(at("orders"), WORK, "k", None)
    router.bind(at("orders"), WORK, "l", None)
    router.bind(at("orders"), -1, "l", None)

    def several(*keys: str) -> Route | None:
        return router.route_keys("/", "orders", keys, no_properties)

    assert several("k", "l", "k") == Route((WORK,), (-1,), ())
    assert several("none", "k") == Route((WORK,), (), ()), "one match is enough"
    assert several("none", "nothing") == Route((LOGS,), (), ())
    assert router.route_keys("/", "nowhere", ["k"], no_properties) is None
    router.add_queue(WORK, WORK)
    router.add_queue(at("mine"), -1)
    names = ["work", "mine", "none", "work", server_name(B, 1, 1)]
    assert router.route_keys("/", "", names, no_properties) == Route((WORK,), (-1,), (B,))


def test_what_passes_a_delaying_exchange_is_delayed(router: Router) -> None:
    kind = {"x-delayed-type": "topic"}
    router.add_exchange(at("later"), "x-delayed-message", kind)
    router.bind(at("later"), WORK, "a.*", None)
    assert go(router, "later", "a.b") == Route((WORK,), (), (), delayed=True)
    router.bind(at("fanout"), ToExchange(at("later")), "", None)
    assert go(router, "fanout", "a.b") == Route((WORK,), (), (), delayed=True)
    router.remove_exchange(at("later"))
    router.add_exchange(at("later"), "topic")
    router.bind(at("later"), WORK, "a.*", None)
    assert go(router, "later", "a.b") == Route((WORK,), (), ())


def test_internal_exchanges(router: Router) -> None:
    router.add_exchange(at("inner"), "fanout", None, True)
    assert router.is_internal("/", "inner")
    assert not router.is_internal("/other", "inner")
    assert not router.is_internal("/", "fanout")
    router.remove_exchange(at("inner"))
    assert not router.is_internal("/", "inner")


def test_relayed_publishes_reach_private_queues_only(router: Router) -> None:
    for destination in (WORK, -1, -2, B):
        router.bind(at("fanout"), destination, "", None)

    def relayed(exchange: str, key: str = "") -> tuple[int, ...]:
        return router.route_private("/", make_route(exchange, key), no_properties)

    assert relayed("fanout") == (-1, -2)
    assert relayed("direct") == ()
    assert relayed("nowhere") == ()
    router.add_exchange(at("hash"), "x-consistent-hash")
    assert relayed("hash") == ()
    router.bind(at("hash"), WORK, "1000", None)
    router.bind(at("hash"), -1, "1", None)
    for number in range(20):
        assert relayed("hash", str(number)) == (-1,), "the other node has chosen this one"


def test_a_node_that_went_is_no_bucket_any_more(router: Router) -> None:
    router.add_exchange(at("hash"), "x-consistent-hash")
    router.bind(at("hash"), WORK, "1000", None)
    router.set_everything(at("hash"), B, True)
    drawn = {go(router, "hash", str(number)) for number in range(40)}
    assert drawn == {Route((), (), (B,)), Route((WORK,), (), ())}, "one of the two, never both"
    router.forget_node(B)
    for number in range(20):
        assert go(router, "hash", str(number)) == Route((WORK,), (), ())


def test_the_cache_stays_within_its_weight() -> None:
    router = Router(A, cache_bytes_max=5_000)
    router.add_exchange(at("fanout"), "fanout")
    router.bind(at("fanout"), WORK, "", None)
    for number in range(500):
        assert go(router, "fanout", str(number)) == Route((WORK,), (), ())
    router.bind(at("fanout"), LOGS, "", None)
    assert go(router, "fanout", "499") == Route((WORK, LOGS), (), ())


@pytest.mark.parametrize(
    ("pattern", "headers", "matches"),
    [
        ({}, {}, True),
        ({}, {"n": 1}, True),
        ({"n": 1, "m": 2}, {"n": 1, "m": 2, "o": 3}, True),
        ({"n": 1, "m": 2}, {"n": 1}, False),
        ({"n": 1}, {"n": True}, False),
        ({"n": 1}, {"n": "1"}, False),
        ({"n": None}, {"n": "anything"}, True),
        ({"n": None}, {}, False),
        ({"x-match": "any"}, {"n": 1}, False),
        ({"x-match": "any", "n": 1, "m": 2}, {"m": 2}, True),
        ({"x-match": "any", "n": 1, "m": 2}, {"m": 1}, False),
        ({"x-match": "all", "x-n": 1}, {}, True),
        ({"x-match": "all-with-x", "x-n": 1}, {}, False),
        ({"x-match": "all-with-x", "x-n": 1}, {"x-n": 1}, True),
        ({"x-match": "any", "x-n": 1}, {"x-n": 1}, False),
        ({"x-match": "any-with-x", "x-n": 1}, {"x-n": 1}, True),
    ],
)
def test_headers_match(pattern: dict[str, Any], headers: dict[str, Any], matches: bool) -> None:
    assert refuse_arguments(pattern) is None
    assert HeaderPattern(pattern).matches(headers) is matches


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("", "value <<>>; expected all, any, all-with-x, or any-with-x"),
        ("ALL", 'value <<"ALL">>; expected all, any, all-with-x, or any-with-x'),
        (1, "type signedint (value 1); expected longstr"),
        (None, "type void (value undefined); expected longstr"),
        (["all"], 'type array (value ["all"]); expected longstr'),
    ],
)
def test_a_match_kind_that_means_nothing_is_refused(kind: object, text: str) -> None:
    refused = refuse_arguments({"x-match": kind})
    assert refused is not None
    assert refused.text == f"Invalid x-match field {text}"


@pytest.mark.parametrize("node", ["a", "rack-1.host_2.example", "amq.gen-a", "Knoten-ä", "a-1-2"])
def test_a_server_name_tells_its_node(node: str) -> None:
    name = server_name(NodeId(node), 255, 0xBEEF)
    assert re.fullmatch("amq.gen-[A-Za-z0-9_-]+", name)
    assert node_of(name) == node
    assert node_of(f"amq.gen-{node}.ff-beef") == node, "a name of an earlier version"
    assert name != server_name(NodeId(node), 255, 0xBEEE)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "work",
        "amq.gen-",
        "amq.gen-a",
        "amq.gen-a.1",
        "amq.gen-.1-2",
        "amq.gen-a.1-x",
        "amq.gen-a-1",
        "amq.gen--1-2",
        "amq.gen-a-1-x",
        "amq.gen-a_-1-2",
        "amq.gen-_61-1-2",
        "amq.gen-a_ff-1-2",
        "amq.gen-ä-1-2",
    ],
)
def test_other_names_tell_none(name: str) -> None:
    assert node_of(name) is None


@pytest.mark.parametrize(
    ("exchange", "key", "alone"),
    [
        ("", "work", True), ("direct", "k", True), ("fanout", "k", True), ("topic", "k", True),
        ("headers", "k", False), ("passing", "k", False),
    ],
)  # fmt: skip
def test_an_answer_says_whether_it_is_that_of_all_publishes_with_this_route(
    router: Router, exchange: str, key: str, alone: bool
) -> None:
    for name in ("direct", "fanout", "topic", "headers"):
        router.bind(at(name), WORK, "k", None)
    router.add_queue(WORK, WORK)
    router.add_exchange(at("passing"), "fanout")
    router.bind(at("passing"), ToExchange(at("headers")), "", None)
    for _ in range(2):
        answer = router.route("/", make_route(exchange, key), dict)
        assert answer is not None
        assert (answer.queues, answer.by_route_alone) == ((WORK,), alone)
