"""Which exchanges and bindings can be declared, in RabbitMQ's words (read off a 3.10.8)."""

from typing import Any

import orjson
import pytest

from fedq.core.errors import Refused
from fedq.core.ids import NodeId, QueueKey
from fedq.wiring.cluster_map.operations import Bind
from fedq.wiring.routing.exchange_arguments import refuse_binding, refuse_exchange
from tests.unit.wiring.maps import Wired, bind, exchange, queue

KEY = QueueKey("/", "e")
HASH = "x-consistent-hash"
DELAYED = "x-delayed-message"
FOR_E = "in exchange 'e' in vhost '/'"


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("direct", {}),
        ("fanout", {"alternate-exchange": "anything", "x-other": [1]}),
        ("topic", {"alternate-exchange": "", "hash-header": 5}),
        (HASH, {}),
        (HASH, {"hash-header": "h"}),
        (HASH, {"hash-header": ""}),
        (HASH, {"hash-property": "message_id"}),
        (HASH, {"hash-property": "correlation_id"}),
        (HASH, {"hash-property": "timestamp"}),
        (DELAYED, {"x-delayed-type": "topic", "alternate-exchange": "other"}),
        (DELAYED, {"x-delayed-type": HASH, "hash-header": "h"}),
    ],
)
def test_good_exchanges(kind: str, arguments: dict[str, Any]) -> None:
    assert refuse_exchange(KEY, kind, arguments) is None


@pytest.mark.parametrize(
    ("kind", "arguments", "code", "text"),
    [
        ("odd", {}, 503, "unknown exchange type 'odd'"),
        ("", {}, 503, "invalid exchange type ''"),
        ("direct", {"alternate-exchange": 5}, 406,
         f"invalid type 'signedint' for arg 'alternate-exchange' {FOR_E}"),
        (HASH, {"alternate-exchange": None}, 406,
         f"invalid type 'void' for arg 'alternate-exchange' {FOR_E}"),
        (HASH, {"hash-header": "h", "hash-property": "message_id"}, 406,
         "hash-header and hash-property are mutually exclusive"),
        (HASH, {"hash-property": "app_id"}, 406, "Unsupported property: app_id"),
        (HASH, {"hash-header": 5}, 406, f"invalid type 'signedint' for arg 'hash-header' {FOR_E}"),
        (HASH, {"hash-property": []}, 406, f"invalid type 'array' for arg 'hash-property' {FOR_E}"),
        (DELAYED, {}, 406, "Invalid argument, 'x-delayed-type' must be"),
        (DELAYED, {"x-delayed-type": 1}, 406, "Invalid argument, 'x-delayed-type' must be"),
        (DELAYED, {"x-delayed-type": DELAYED}, 406, "Invalid argument, 'x-delayed-type' must be"),
        (DELAYED, {"x-delayed-type": "odd"}, 406, "Invalid argument, 'x-delayed-type' must be"),
        (DELAYED, {"x-delayed-type": HASH, "hash-property": "type"}, 406, "Unsupported property"),
    ],
)  # fmt: skip
def test_exchanges_that_mean_nothing(
    kind: str, arguments: dict[str, Any], code: int, text: str
) -> None:
    refused = refuse_exchange(KEY, kind, arguments)
    assert refused is not None
    assert refused.reply_code == code
    assert refused.text.startswith(text)


@pytest.mark.parametrize("key", ["1", "+2", "007", "1000000"])
def test_weights(key: str) -> None:
    assert refuse_binding(HASH, {}, key, {}) is None
    assert refuse_binding(DELAYED, {"x-delayed-type": HASH}, key, {}) is None


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("0", "The binding key must be greater than 0"),
        ("-1", "The binding key must be greater than 0"),
        ("x", 'The binding key must be an integer: <<"x">>'),
        ("", "The binding key must be an integer: <<>>"),
        ("1.5", 'The binding key must be an integer: <<"1.5">>'),
        (" 1", 'The binding key must be an integer: <<" 1">>'),
        ("1_0", 'The binding key must be an integer: <<"1_0">>'),
        ("٣", 'The binding key must be an integer: <<"٣">>'),
        ("1000001", "The binding key must not be greater than 1000000"),
        ("9" * 255, "The binding key must not be greater than 1000000"),
    ],
)
def test_keys_that_are_no_weights(key: str, text: str) -> None:
    assert refuse_binding(HASH, {}, key, {}) == Refused(406, text)
    assert refuse_binding("direct", {}, key, {}) is None


def test_bindings_of_headers_exchanges() -> None:
    for kind, arguments in (("headers", {}), (DELAYED, {"x-delayed-type": "headers"})):
        assert refuse_binding(kind, arguments, "", {"x-match": "any"}) is None
        assert refuse_binding(kind, arguments, "", {"x-match": "some"}) is not None
    assert refuse_binding("topic", {}, "", {"x-match": "some"}) is None


def test_the_map_checks_exchanges_and_bindings() -> None:
    wired = Wired("a")
    wired.ok(queue("q"))
    assert wired.refused(exchange("e", arguments='{"alternate-exchange":5}'))[0] == 406
    assert wired.ok(exchange("e", HASH, arguments='{"alternate-exchange":"a","x":1}')) == 1
    assert wired.refused(bind("e", "q", "heavy"))[0] == 406
    assert wired.ok(bind("e", "q", "1")) == 1
    mark = Bind("/", "e", "node", NodeId("a"), "", "")
    assert wired.ok(mark) == 1, "a node's mark has no weight"


@pytest.mark.parametrize(
    ("known", "wanted", "words"),
    [
        ({"alternate-exchange": "a"}, {"alternate-exchange": "b"},
         "received 'b' but current is 'a'"),
        ({"alternate-exchange": "a"}, {},
         "received none but current is the value 'a' of type 'longstr'"),
        ({}, {"alternate-exchange": "b"},
         "received the value 'b' of type 'longstr' but current is none"),
        ({"alternate-exchange": "a"}, {"alternate-exchange": 5}, "received '5' but current is 'a'"),
        ({"x-other": 1, "hash-header": "h"}, {"hash-header": "i"}, None),
    ],
)  # fmt: skip
def test_an_exchange_declared_again(
    known: dict[str, Any], wanted: dict[str, Any], words: str | None
) -> None:
    wired = Wired("a")
    wired.ok(exchange("e", HASH, arguments=orjson.dumps(known).decode()))
    again = exchange("e", HASH, arguments=orjson.dumps(wanted).decode())
    if words is None:
        assert wired.ok(again) == 0
    else:
        text = f"inequivalent arg 'alternate-exchange' for exchange 'e' in vhost '/': {words}"
        assert wired.refused(again) == (406, text)


def test_a_delayed_exchange_keeps_its_type() -> None:
    wired = Wired("a")
    wired.ok(exchange("e", DELAYED, arguments='{"x-delayed-type":"topic"}'))
    text = wired.refused(exchange("e", DELAYED, arguments='{"x-delayed-type":"direct"}'))[1]
    assert text.endswith("received 'direct' but current is 'topic'")
