"""What a queue's arguments mean, and RabbitMQ's words for those that mean nothing.

The refusals were read off a RabbitMQ 3.10.8.
"""

from decimal import Decimal
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.errors import Refused
from fedq.core.ids import QueueKey
from fedq.core.policy import PLAIN, QueuePolicy
from fedq.wiring.cluster_map.queue_arguments import (
    QueueShape,
    arguments_differ,
    name_of,
    policy_of,
    refuse_declaration,
    shape_of,
)
from tests.unit.wiring.maps import Wired, queue

KEY = QueueKey("/", "q")
QUORUM = {"x-queue-type": "quorum"}
TOO_MANY = 9_223_372_036_854_775_807


def refused(arguments: dict[str, Any]) -> str:
    problem = policy_of(arguments, name_of(KEY))
    assert isinstance(problem, str)
    return problem


def read(arguments: dict[str, Any]) -> QueuePolicy:
    policy = policy_of(arguments)
    assert isinstance(policy, QueuePolicy), policy
    return policy


def test_each_argument_has_its_place() -> None:
    assert read({}) == PLAIN
    assert read(
        {
            "x-message-ttl": 0,
            "x-expires": 1,
            "x-max-length": 2,
            "x-max-length-bytes": 3,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "k",
            "x-dead-letter-strategy": "at-least-once",
            "x-delivery-limit": 4,
            "x-max-priority": 255,
            "x-single-active-consumer": True,
            "x-queue-type": "quorum",
        }
    ) == QueuePolicy(0, 1, 2, 3, "reject-publish-dlx", "", "k", 4, True, 255, True)


def test_types_of_queues() -> None:
    assert read({"x-queue-type": "classic"}) == PLAIN
    assert read(QUORUM) == QueuePolicy(counts_returns=True)
    assert read({"x-delivery-limit": 0}) == QueuePolicy(delivery_limit=0, counts_returns=True)
    assert read({"x-delivery-limit": -1}) == PLAIN, "a negative limit is none"


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-queue-mode": "lazy", "x-queue-version": 2},
        {"x-queue-mode": "default", "x-queue-version": 1},
        {"x-queue-master-locator": "min-masters"},
        {"x-overflow": "drop-head"},
        {"x-max-priority": 0},
        {"x-single-active-consumer": False},
        {"x-other": None, "x-ha-policy": [1], "odd": {"a": 1}},
    ],
)
def test_what_changes_nothing(arguments: dict[str, Any]) -> None:
    assert read(arguments) == PLAIN


def test_what_only_quorum_queues_know() -> None:
    without_effect = {
        "x-queue-leader-locator": "balanced",
        "x-quorum-initial-group-size": 3,
        "x-max-in-memory-length": 0,
        "x-max-in-memory-bytes": 1,
        "x-queue-master-locator": "random",
    }
    assert read({**QUORUM, **without_effect}) == QueuePolicy(counts_returns=True)


def test_shape() -> None:
    assert shape_of({}) == QueueShape(None, 2, "all")
    given = {"x-fedq-fragments": 3, "x-fedq-replicas": 1, "x-fedq-replicate": "persistent"}
    assert read(given) == PLAIN
    assert shape_of(given) == QueueShape(3, 1, "persistent")
    assert shape_of({"x-fedq-replicate": "persistent"}) == QueueShape(None, 2, "persistent")
    assert shape_of({"x-fedq-replicate": "none"}) == QueueShape(None, 1, "none")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("x-message-ttl", -1, "{value_negative,-1}"),
        ("x-message-ttl", TOO_MANY, f"{{value_too_large,{TOO_MANY}}}"),
        ("x-message-ttl", 315_360_000_001, "{value_too_large,315360000001}"),
        ("x-message-ttl", 1.5, '"expected integer, got double"'),
        ("x-message-ttl", "5", '"expected integer, got longstr"'),
        ("x-message-ttl", True, '"expected integer, got bool"'),
        ("x-message-ttl", None, '"expected integer, got void"'),
        ("x-message-ttl", b"b", '"expected integer, got binary"'),
        ("x-message-ttl", [1], '"expected integer, got array"'),
        ("x-message-ttl", {"a": 1}, '"expected integer, got table"'),
        ("x-message-ttl", Decimal("1.5"), '"expected integer, got decimal"'),
        ("x-expires", 0, "{value_zero,0}"),
        ("x-expires", -1, "{value_negative,-1}"),
        ("x-expires", 315_360_000_001, "{value_too_large,315360000001}"),
        ("x-max-length", -1, "{value_negative,-1}"),
        ("x-max-length-bytes", "x", '"expected integer, got longstr"'),
        ("x-overflow", "x", "invalid_overflow"),
        ("x-overflow", 5, "{unacceptable_type,signedint}"),
        ("x-overflow", TOO_MANY, "{unacceptable_type,long}"),
        ("x-dead-letter-routing-key", 5, "{unacceptable_type,signedint}"),
        ("x-dead-letter-routing-key", "k", "routing_key_but_no_dlx_defined"),
        ("x-dead-letter-exchange", "é" * 128, '"longer than 255 bytes"'),
        ("x-dead-letter-strategy", "x", "invalid_dlx_strategy"),
        ("x-max-priority", -1, "{value_negative,-1}"),
        ("x-max-priority", 256, "{max_value_exceeded,256}"),
        ("x-single-active-consumer", 1, "{unacceptable_type,signedint}"),
        ("x-queue-type", "x", "\"unsupported queue type 'x'\""),
        ("x-queue-type", None, "{unacceptable_type,void}"),
        ("x-queue-mode", "x", "\"unsupported queue mode 'x'\""),
        ("x-queue-mode", 0, "{unacceptable_type,signedint}"),
        ("x-queue-version", 0, "\"unsupported queue version '0'\""),
        ("x-queue-version", -1, "{value_negative,-1}"),
        ("x-queue-master-locator", "x", "invalid_queue_locator_arg"),
        ("x-delivery-limit", "x", '"expected integer, got longstr"'),
        ("x-fedq-fragments", 0, "{value_zero,0}"),
        ("x-fedq-fragments", 65, '"65 is more than 64"'),
        ("x-fedq-replicas", 6, '"6 is more than 5"'),
        ("x-fedq-replicate", "some", '"expected one of all, persistent, none"'),
    ],
)
def test_a_value_that_means_nothing_is_refused(name: str, value: object, problem: str) -> None:
    assert refused({name: value}) == f"invalid arg '{name}' for queue 'q' in vhost '/': {problem}"


def test_refusals_in_other_words() -> None:
    for value, kind in ((5, "signedint"), (None, "void"), ([], "array"), (b"", "binary")):
        assert refused({"x-dead-letter-exchange": value}) == (
            f"invalid type '{kind}' for arg 'x-dead-letter-exchange' in queue 'q' in vhost '/'"
        )
    for name in ("x-max-age", "x-queue-leader-locator", "x-quorum-initial-group-size"):
        assert refused({name: 1}) == (
            f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_classic_queue"
        )
    for name in ("x-max-age", "x-queue-mode", "x-queue-version", "x-initial-cluster-size"):
        assert refused({**QUORUM, name: 1}) == (
            f"invalid arg '{name}' for queue 'q' in vhost '/' of queue type rabbit_quorum_queue"
        )


def test_an_absurd_value_makes_no_long_sentence() -> None:
    assert len(refused({"x-queue-type": "x" * 100_000})) < 250
    assert len(refused({"x-queue-mode": "x" * 100_000})) < 250


@pytest.mark.parametrize(
    ("durable", "exclusive", "auto_delete", "server_named", "text"),
    [
        (True, False, False, False, None),
        (False, False, False, False, "invalid property 'non-durable' for queue 'q' in vhost '/'"),
        (True, True, False, False, "invalid property 'exclusive-owner' for queue 'q' in vhost '/'"),
        (False, True, True, False, "invalid property 'auto-delete' for queue 'q' in vhost '/'"),
        (True, True, True, True,
         "Cannot declare a server-named queue for type rabbit_quorum_queue"),
    ],
)  # fmt: skip
def test_a_quorum_queue_is_durable_and_has_a_name(
    durable: bool, exclusive: bool, auto_delete: bool, server_named: bool, text: str | None
) -> None:
    properties = {"durable": durable, "exclusive": exclusive, "auto_delete": auto_delete}
    answer = refuse_declaration(KEY, QUORUM, server_named=server_named, **properties)
    assert answer == (None if text is None else Refused(406, text))
    # Before its arguments are looked at, as in RabbitMQ.
    worse = refuse_declaration(
        KEY, QUORUM | {"x-expires": -1}, server_named=server_named, **properties
    )
    assert worse is not None
    assert (worse.text == text) == server_named
    for arguments in ({}, {"x-queue-type": "classic"}):
        assert refuse_declaration(KEY, arguments, server_named=server_named, **properties) is None


@pytest.mark.parametrize(
    ("known", "wanted", "words"),
    [
        ({"x-message-ttl": 5}, {"x-message-ttl": 6}, "received '6' but current is '5'"),
        (
            {"x-message-ttl": 5}, {},
            "received none but current is the value '5' of type 'signedint'",
        ),
        (
            {}, {"x-single-active-consumer": False},
            "received the value 'false' of type 'bool' but current is none",
        ),
        (
            {"x-max-length": TOO_MANY}, {},
            f"received none but current is the value '{TOO_MANY}' of type 'long'",
        ),
        ({"x-message-ttl": 1}, {"x-message-ttl": True}, "received 'true' but current is '1'"),
        ({"x-message-ttl": 5}, {"x-message-ttl": "x"}, "received 'x' but current is '5'"),
        (
            {"x-queue-type": "classic"}, QUORUM, "received 'quorum' but current is 'classic'",
        ),
        (QUORUM, {}, "received none but current is the value 'quorum' of type 'longstr'"),
        (
            {}, {"x-fedq-fragments": 2},
            "received the value '2' of type 'signedint' but current is none",
        ),
    ],
)  # fmt: skip
def test_another_value_of_an_argument_with_a_meaning_is_refused(
    known: dict[str, Any], wanted: dict[str, Any], words: str
) -> None:
    (name,) = {**known, **wanted}
    text = f"inequivalent arg '{name}' for queue 'q' in vhost '/': {words}"
    assert arguments_differ(KEY, wanted, known) == Refused(406, text)


@pytest.mark.parametrize(
    ("known", "wanted"),
    [
        ({"x-other": 1}, {"x-other": 2}),
        ({"x-other": 1}, {}),
        ({}, {"x-ha-policy": "all", "x-consumer-timeout": 5}),
        ({"x-queue-type": "classic"}, {}),
        ({}, {"x-queue-type": "classic"}),
        ({"x-max-length": 5, "x-expires": 6}, {"x-expires": 6, "x-max-length": 5}),
    ],
)
def test_what_means_nothing_is_not_compared(known: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert arguments_differ(KEY, wanted, known) is None


def test_shared_queues_are_checked_by_the_map() -> None:
    wired = Wired("a")
    assert wired.refused(queue("q", arguments='{"x-message-ttl":-1}')) == (
        406,
        "invalid arg 'x-message-ttl' for queue 'q' in vhost '/': {value_negative,-1}",
    )
    text = orjson.dumps(QUORUM).decode()
    assert wired.refused(queue("q", arguments=text, durable=False))[0] == 406
    assert wired.ok(queue("q", arguments=text)) == 1
    assert wired.ok(queue("q", arguments=text)) == 0
    assert "received none but current" in wired.refused(queue("q"))[1]


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.sampled_from(["classic", "quorum", "stream", "drop-head", "lazy", "all", "at-least-once"]),
    st.binary(max_size=5),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
)
names = st.sampled_from(
    [
        "x-queue-type", "x-expires", "x-message-ttl", "x-dead-letter-exchange", "x-overflow",
        "x-dead-letter-routing-key", "x-max-length", "x-max-priority", "x-delivery-limit",
        "x-queue-mode", "x-single-active-consumer", "x-max-age", "x-fedq-replicas", "x-other",
    ]
)  # fmt: skip


@given(st.dictionaries(names, values, max_size=4), st.dictionaries(names, values, max_size=4))
def test_any_table_has_an_answer(first: dict[str, Any], second: dict[str, Any]) -> None:
    policy = policy_of(first)
    if isinstance(policy, QueuePolicy):
        assert policy.dead_letter_key is None or policy.dead_letter_exchange is not None
        assert policy.expires_ms is None or policy.expires_ms > 0
        assert 0 <= policy.max_priority <= 255
    assert arguments_differ(KEY, first, first) is None
    one, other = arguments_differ(KEY, first, second), arguments_differ(KEY, second, first)
    assert (one is None) == (other is None)
