"""Alternate and internal exchanges, exchanges bound to exchanges, copies (CC and BCC), user ids."""

from itertools import pairwise

import pytest

from tests.integration.harness import eventually
from tests.integration.stock import pika
from tests.integration.surface import Stage, bodies, everywhere, refused

pytestmark = pytest.mark.slow

Unroutable = pika.exceptions.UnroutableError


# --- alternate exchanges --------------------------------------------------------------------------


@everywhere
def test_what_finds_no_queue_goes_to_the_alternate(stage: Stage) -> None:
    alternate = stage.exchange("fanout")
    exchange = stage.exchange("direct", alternate_exchange=alternate)
    known, rest = stage.bound(exchange, "known"), stage.bound(alternate)
    stage.send(exchange, "known", b"1", mandatory=True)
    stage.send(exchange, "unknown", b"2", mandatory=True)
    assert bodies(stage.drain(known, 1)) == [b"1"]
    [message] = stage.drain(rest, 1)
    assert message.body == b"2"
    assert (message.method.exchange, message.method.routing_key) == (exchange, "unknown")


@everywhere
def test_alternates_of_alternates(stage: Stage) -> None:
    last = stage.exchange("fanout")
    middle = stage.exchange("topic", alternate_exchange=last)
    first = stage.exchange("headers", alternate_exchange=middle)
    some, rest = stage.bound(middle, "a.#"), stage.bound(last)
    stage.send(first, "a.b", b"1")
    stage.send(first, "b.a", b"2")
    assert bodies(stage.drain(some, 1)) == [b"1"]
    assert bodies(stage.drain(rest, 1)) == [b"2"]


@everywhere
def test_without_any_queue_at_the_end_it_is_returned(stage: Stage) -> None:
    alternate = stage.exchange("direct")
    exchange = stage.exchange("direct", alternate_exchange=alternate)
    with pytest.raises(Unroutable):
        stage.send(exchange, "key", b"x", mandatory=True)
    queue = stage.bound(alternate, "key")
    stage.send(exchange, "key", b"found", mandatory=True)
    assert bodies(stage.drain(queue, 1)) == [b"found"]


def test_a_missing_alternate_is_as_none(stage: Stage) -> None:
    exchange = stage.exchange("direct", alternate_exchange=f"{stage.name}-nowhere")
    stage.send(exchange, "key", b"dropped")
    with pytest.raises(Unroutable):
        stage.send(exchange, "key", b"x", mandatory=True)


@everywhere
def test_alternates_in_a_circle_end(stage: Stage) -> None:
    wanted = f"{stage.name}-second"
    first = stage.exchange("direct", alternate_exchange=wanted)
    stage.owner.exchange_declare(wanted, "direct", arguments={"alternate-exchange": first})
    with pytest.raises(Unroutable):
        stage.send(first, "key", b"x", mandatory=True)
    queue = stage.bound(wanted, "key")
    stage.send(first, "key", b"1", mandatory=True)
    assert bodies(stage.drain(queue, 1)) == [b"1"]
    stage.owner.exchange_delete(wanted)


def test_the_default_exchange_is_no_alternate(stage: Stage) -> None:
    exchange = stage.exchange("fanout", alternate_exchange="")
    queue = stage.queue()
    with pytest.raises(Unroutable):
        stage.send(exchange, queue, b"1", mandatory=True)


def test_an_exchange_keeps_its_alternate(stage: Stage) -> None:
    exchange = stage.exchange("direct", alternate_exchange="amq.fanout")
    same = {"alternate-exchange": "amq.fanout"}
    stage.consumer.exchange_declare(exchange, "direct", arguments=same)
    for other in ({"alternate-exchange": "amq.topic"}, {}):
        with refused(406, "inequivalent arg 'alternate-exchange'"):
            stage.channel().exchange_declare(exchange, "direct", arguments=other)


def test_an_alternate_is_named_by_a_string(stage: Stage) -> None:
    with refused(406, "invalid type 'signedint' for arg 'alternate-exchange'"):
        stage.owner.exchange_declare(
            f"{stage.name}-x", "direct", arguments={"alternate-exchange": 5}
        )


# --- internal exchanges ---------------------------------------------------------------------------


@everywhere
def test_nobody_publishes_to_an_internal_exchange(stage: Stage) -> None:
    exchange = stage.exchange("fanout", internal=True)
    queue = stage.bound(exchange)
    with refused(403, f"cannot publish to internal exchange '{exchange}' in vhost '/'"):
        stage.send(exchange, "", b"x")
    assert stage.depth(queue) == 0


@everywhere
def test_internal_exchanges_are_reached_through_others(stage: Stage) -> None:
    inner = stage.exchange("topic", internal=True)
    outer = stage.exchange("fanout")
    stage.owner.exchange_bind(inner, outer, "")
    queue = stage.bound(inner, "a.*")
    stage.send(outer, "a.b", b"1", mandatory=True)
    with pytest.raises(Unroutable):
        stage.send(outer, "b.a", b"x", mandatory=True)
    assert bodies(stage.drain(queue, 1)) == [b"1"]


def test_an_internal_exchange_stays_so(stage: Stage) -> None:
    exchange = stage.exchange("fanout", internal=True)
    stage.consumer.exchange_declare(exchange, "fanout", internal=True)
    with refused(406, "inequivalent arg 'internal'"):
        stage.channel().exchange_declare(exchange, "fanout")


# --- exchanges bound to exchanges -----------------------------------------------------------------


@everywhere
def test_a_chain_of_exchanges(stage: Stage) -> None:
    chain = [stage.exchange(kind) for kind in ("topic", "direct", "fanout", "headers")]
    for source, target in pairwise(chain):
        stage.owner.exchange_bind(target, source, "a.b")
    queue = stage.queue()
    stage.bind(queue, chain[-1], "", **{"x-match": "all", "kind": "x"})
    stage.send(chain[0], "a.b", b"1", mandatory=True, headers={"kind": "x"})
    for key, kind in (("a.b", "y"), ("a.c", "x")):
        with pytest.raises(Unroutable):
            stage.send(chain[0], key, b"x", mandatory=True, headers={"kind": kind})
    [message] = stage.drain(queue, 1)
    assert (message.method.exchange, message.method.routing_key) == (chain[0], "a.b")


@everywhere
def test_a_circle_of_exchanges_delivers_once(stage: Stage) -> None:
    first, second = stage.exchange("fanout"), stage.exchange("fanout")
    stage.owner.exchange_bind(second, first)
    stage.owner.exchange_bind(first, second)
    queue = stage.bound(first)
    stage.bind(queue, second)
    stage.send(second, "", b"1")
    assert bodies(stage.drain(queue, 1)) == [b"1"]


@everywhere
def test_a_deleted_exchange_is_bound_no_more(stage: Stage) -> None:
    source, target = stage.exchange("fanout"), stage.exchange("fanout")
    stage.owner.exchange_bind(target, source)
    queue = stage.bound(target)
    stage.send(source, "", b"1", mandatory=True)
    stage.owner.exchange_delete(target)
    with pytest.raises(Unroutable):
        stage.send(source, "", b"x", mandatory=True)
    assert bodies(stage.drain(queue, 1)) == [b"1"]


def test_an_exchange_nobody_is_bound_to_goes(stage: Stage) -> None:
    source, target = f"{stage.name}-source", stage.exchange("fanout")
    stage.owner.exchange_declare(source, "direct", auto_delete=True)
    stage.consumer.exchange_bind(target, source, "key")
    stage.consumer.exchange_unbind(target, source, "key")

    def is_gone() -> bool:
        try:
            stage.channel().exchange_declare(source, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            return bool(error.reply_code == 404)
        return False

    eventually("the source is gone", is_gone)


def test_what_cannot_be_bound(stage: Stage) -> None:
    exchange = stage.exchange("fanout")
    for target, source, code in (
        (exchange, f"{stage.name}-nowhere", 404),
        (f"{stage.name}-nowhere", exchange, 404),
        (exchange, "", 403),
        ("", exchange, 403),
    ):
        with refused(code):
            stage.channel().exchange_bind(target, source, "key")


# --- copies ---------------------------------------------------------------------------------------


@everywhere
def test_copies_go_where_the_sender_says(stage: Stage) -> None:
    queue, copy, blind, other = (stage.queue() for _ in range(4))
    headers = {"CC": [copy], "BCC": [blind], "mine": 1}
    stage.put(queue, b"1", headers=headers)
    for where in (queue, copy, blind):
        [message] = stage.drain(where, 1)
        assert message.headers == {"CC": [copy], "mine": 1}
        assert message.method.routing_key == queue
    assert stage.depth(other) == 0


@everywhere
def test_copies_go_through_the_same_exchange(stage: Stage) -> None:
    exchange = stage.exchange("topic")
    first, second = stage.bound(exchange, "a.*"), stage.bound(exchange, "b.*")
    stage.send(exchange, "a.x", b"1", headers={"CC": ["b.x", "c.x"]})
    stage.send(exchange, "none", b"2", mandatory=True, headers={"BCC": ["b.y"]})
    assert bodies(stage.drain(first, 1)) == [b"1"]
    assert bodies(stage.drain(second, 2)) == [b"1", b"2"]


@everywhere
def test_nobody_gets_two(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"1", headers={"CC": [queue, queue], "BCC": [queue]})
    assert bodies(stage.drain(queue, 1)) == [b"1"]


def test_copies_to_nobody_are_returned_whole(stage: Stage) -> None:
    nowhere = f"{stage.name}-nowhere"
    with pytest.raises(Unroutable) as error:
        stage.send("", nowhere, b"x", mandatory=True, headers={"CC": [nowhere + "2"]})
    [message] = error.value.messages
    assert message.properties.headers["CC"] == [nowhere + "2"]


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_copies_are_an_array(stage: Stage, header: str) -> None:
    queue = stage.queue()
    with refused(406, f"\\b{header}\\b"):
        stage.put(queue, b"x", headers={header: "no array"})
    assert stage.depth(queue) == 0


# --- user ids -------------------------------------------------------------------------------------


@everywhere
def test_the_user_may_say_who_it_is(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"1", user_id="guest")
    [message] = stage.drain(queue, 1)
    assert message.properties.user_id == "guest"


@everywhere
def test_and_nobody_else(stage: Stage) -> None:
    queue = stage.queue()
    words = "user_id property set to 'root' but authenticated user was 'guest'"
    with refused(406, words):
        stage.put(queue, b"x", user_id="root")
    assert stage.depth(queue) == 0
