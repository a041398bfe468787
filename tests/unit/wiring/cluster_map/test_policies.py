"""Policies in the map: which come and go, what is wrong with some, and which one counts."""

from typing import Any

import orjson
import pytest

from fedq.core import limits
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_ERROR, Refused
from fedq.core.ids import QueueKey
from fedq.core.policy import PLAIN, QueuePolicy
from fedq.wiring.cluster_map import invariants
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import Operation, encode_command
from fedq.wiring.cluster_map.operations_access import AddVhost, DeleteVhost
from fedq.wiring.cluster_map.operations_policies import DropPolicy, PolicyChanged, PutPolicy
from fedq.wiring.cluster_map.policy_book import NO_STANDING, PolicyBook, Standing
from fedq.wiring.cluster_map.policy_definitions import refuse_definition
from fedq.wiring.cluster_map.queue_arguments import policy_of
from fedq.wiring.cluster_map.state import Ok

Q = QueueKey("/", "orders.new")


class Log:
    """A map, operations that are applied to it, and what its policies come to."""

    def __init__(self) -> None:
        self.map = ClusterMap()
        self.book = PolicyBook(self.map)
        self._count = 0

    def do(self, operation: Operation) -> Ok | Refused:
        self._count += 1
        self.applied = self.map.apply(encode_command(str(self._count), [operation]))
        for change in self.applied.changes:
            if isinstance(change, PolicyChanged):
                self.book.forget(change.key.vhost)
        invariants.check(self.map)
        again = ClusterMap()
        again.restore(self.map.snapshot())
        assert again.snapshot() == self.map.snapshot()
        assert again.bytes_held == self.map.bytes_held
        return self.applied.results[0]

    def put(self, name: str, pattern: str, definition: dict[str, Any], **more: Any) -> Ok | Refused:
        fields = {"vhost": "/", "operator": False, "apply_to": "all", "priority": 0, **more}
        text = orjson.dumps(definition).decode()
        return self.do(PutPolicy(name=name, pattern=pattern, definition=text, **fields))

    def policy(self, arguments: dict[str, Any], key: QueueKey = Q) -> QueuePolicy:
        found = policy_of(self.book.queue_arguments(key, arguments))
        assert isinstance(found, QueuePolicy)
        return found


@pytest.fixture
def log() -> Log:
    return Log()


def test_a_policy_comes_is_confirmed_replaced_and_goes(log: Log) -> None:
    assert log.put("p", "^orders", {"max-length": 5}) == Ok(1)
    assert log.put("p", "^orders", {"max-length": 5}) == Ok()
    assert log.applied.changes == []
    assert log.book.of_queue(Q, {}) == Standing("p", "", {"max-length": 5})
    assert log.put("p", "^orders", {"max-length": 6}) == Ok(1)
    assert log.policy({}).max_length == 6
    assert log.do(DropPolicy("/", "p", False)) == Ok(1)
    assert log.policy({}) == PLAIN
    gone = log.do(DropPolicy("/", "p", False))
    assert isinstance(gone, Refused)
    assert gone.reply_code == NOT_FOUND


def test_the_highest_priority_counts_and_among_equals_the_first_name(log: Log) -> None:
    log.put("b", "orders", {"max-length": 1}, priority=2)
    log.put("c", "orders", {"max-length": 2}, priority=2)
    log.put("a", "orders", {"message-ttl": 3}, priority=-1)
    log.put("other", "^new", {"max-length": 4}, priority=9)
    assert log.book.of_queue(Q, {}) == Standing("b", "", {"max-length": 1})
    log.do(DropPolicy("/", "b", False))
    log.do(DropPolicy("/", "c", False))
    # One policy counts, and no other: nothing is put together.
    assert log.policy({}) == PLAIN._replace(message_ttl_ms=3)


def test_a_policy_without_a_pattern_is_of_every_name(log: Log) -> None:
    log.put("p", "", {"max-length": 5})
    assert log.policy({}).max_length == 5


def test_policies_are_of_their_virtual_host_and_go_with_it(log: Log) -> None:
    log.do(AddVhost("shop"))
    log.put("p", "", {"overflow": "reject-publish"}, vhost="shop")
    log.put("p", "", {"max-length": 3}, vhost="shop", operator=True)
    assert log.policy({}) == PLAIN
    assert log.policy({}, QueueKey("shop", "q")).max_length == 3
    assert list(log.map.refusing) == ["shop"]
    log.do(DeleteVhost("shop"))
    assert not log.map.policies
    assert not log.map.operator_policies
    assert not log.map.refusing
    assert isinstance(log.put("p", "", {"max-length": 3}, vhost="shop"), Refused)


def test_what_a_policy_is_of(log: Log) -> None:
    log.put("q", "", {"max-length": 5}, apply_to="queues", priority=3)
    log.put("e", "", {"alternate-exchange": "b"}, apply_to="exchanges", priority=9)
    exchange = QueueKey("/", "log")
    assert log.book.of_queue(Q, {}).policy == "q"
    assert log.book.of_exchange(exchange).policy == "e"
    assert log.book.exchange_arguments(exchange, {}) == {"alternate-exchange": "b"}
    # The declaration says it already; and the default exchange has no policy.
    own = {"alternate-exchange": "a"}
    assert log.book.exchange_arguments(exchange, own) == own
    assert log.book.of_exchange(QueueKey("/", "")) == NO_STANDING


def test_of_numbers_the_smaller_one_counts_and_of_words_the_declarations(log: Log) -> None:
    log.put(
        "p", "", {
            "max-length": 10, "message-ttl": 50, "expires": 70, "max-length-bytes": 90,
            "overflow": "drop-head", "dead-letter-exchange": "mine",
            "dead-letter-routing-key": "k", "delivery-limit": 4,
        },
    )  # fmt: skip
    log.put("o", "", {"max-length": 3, "expires": 99, "delivery-limit": 6}, operator=True)
    assert log.policy({}) == QueuePolicy(
        50, 70, 3, 90, "drop-head", "mine", "k", delivery_limit=4, counts_returns=True
    )
    own = {
        "x-max-length": 2, "x-message-ttl": 60, "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "theirs", "x-delivery-limit": -1,
    }  # fmt: skip
    assert log.policy(own) == QueuePolicy(
        50, 70, 2, 90, "reject-publish", "theirs", "k", delivery_limit=4, counts_returns=True
    )
    assert log.book.of_queue(Q, own).definition["max-length"] == 3


def test_a_policy_with_a_setting_that_a_type_has_not_is_none_of_its(log: Log) -> None:
    log.put("mixed", "", {"max-age": "1D", "max-length-bytes": 7}, priority=9)
    log.put("short", "", {"max-length": 5}, priority=1)
    log.put("all", "", {"max-length": 4}, operator=True)
    stream = {"x-queue-type": "stream", "x-max-age": "2h"}
    assert log.book.of_queue(Q, {}) == Standing("short", "all", {"max-length": 4})
    assert log.book.of_queue(Q, {"x-queue-type": "quorum"}).policy == "short"
    assert log.book.of_queue(Q, stream).policy == "mixed"
    found = log.policy(stream).stream
    assert found is not None
    assert (found.max_bytes, found.max_age_ms) == (7, 2 * 3_600_000)
    longer = log.policy({**stream, "x-max-age": "2D"}).stream
    assert longer is not None
    assert longer.max_age_ms == 86_400_000


def test_a_dead_letter_key_alone_means_nothing(log: Log) -> None:
    log.put("p", "", {"dead-letter-routing-key": "k"})
    assert log.policy({}) == PLAIN
    assert log.policy({"x-dead-letter-exchange": ""}).dead_letter_key == "k"


@pytest.mark.parametrize(
    ("definition", "said"),
    [
        ({}, "no policy provided"),
        ({"max-length": "x"}, '<<"x">> is not a valid maximum length'),
        ({"max-length": -1}, "-1 is not a valid maximum length"),
        ({"max-length": 1.0}, "1.0 is not a valid maximum length"),
        ({"max-length": True}, "true is not a valid maximum length"),
        ({"max-length": None}, "null is not a valid maximum length"),
        ({"max-length": [1]}, "[1] is not a valid maximum length"),
        ({"max-length-bytes": 1 << 61}, "it is more than"),
        ({"message-ttl": -1}, "-1 is not a valid message TTL"),
        ({"message-ttl": 10**12}, "it is more than"),
        ({"expires": 0}, "0 is not a valid queue expiry"),
        ({"dead-letter-exchange": 1}, "1 is not a valid dead letter exchange name"),
        ({"dead-letter-routing-key": "k" * 256}, "longer than 255 bytes"),
        ({"alternate-exchange": 1}, "1 is not a valid alternate exchange name"),
        ({"overflow": "x"}, '<<"x">> is not a valid overflow value'),
        ({"delivery-limit": -1}, "-1 is not a valid delivery limit"),
        ({"max-age": "1x"}, '<<"1x">> is not a valid maximum age'),
        ({"stream-max-segment-size-bytes": 4 * 10**9}, "not a valid segment size"),
        ({"queue-mode": "x"}, '<<"x">> is not a valid queue-mode value'),
        ({"foo": 1, "bar": 2}, '[{<<"bar">>,2},{<<"foo">>,1}] are not recognised policy settings'),
        ({"ha-mode": "all"}, "every queue has copies"),
        ({"max-length": "x", "foo": 1}, '<<"x">> is not a valid maximum length'),
    ],
)
def test_a_wrong_definition_is_refused_and_changes_nothing(
    log: Log, definition: dict[str, Any], said: str
) -> None:
    refused = log.put("p", "", definition)
    assert isinstance(refused, Refused)
    assert refused.reply_code == PRECONDITION_FAILED
    assert said in refused.text
    assert not log.map.policies


def test_operators_have_settings_of_their_own() -> None:
    assert refuse_definition({"max-length": 1, "expires": 2}, True) is None
    assert refuse_definition({"overflow": "drop-head"}, True) == (
        '[{<<"overflow">>,<<"drop-head">>}] are not recognised policy settings'
    )


def test_what_declarations_take_without_effect_may_stand_in_a_policy(log: Log) -> None:
    assert log.put("p", "", {"queue-mode": "lazy", "max-in-memory-length": 3}) == Ok(1)
    assert log.policy({}) == PLAIN


def test_a_pattern_that_is_none_is_refused(log: Log) -> None:
    refused = log.put("p", "(", {"max-length": 1})
    assert isinstance(refused, Refused)
    assert "pattern should be regular expression but is invalid" in refused.text


def test_hostile_patterns_are_bounded_together(log: Log) -> None:
    # Each is matched in bounded time; those of a virtual host together have a bound, too.
    hostile, refused, count = "^(a|a){0,90}(a|a){0,90}$", None, 0
    while not isinstance(refused, Refused):
        refused = log.put(f"p{count}", hostile, {"max-length": 1})
        count += 1
        assert count < limits.POLICY_STEPS_MAX
    assert refused.reply_code == RESOURCE_ERROR
    assert log.book.of_queue(QueueKey("/", "a" * 254 + "b"), {}).policy == ""
    # What is replaced does not count beside what replaces it.
    assert log.put("p0", hostile, {"max-length": 2}) == Ok(1)
    # They are charged: thousands of names are not looked at in one turn.
    before = log.book.walked
    log.book.of_queue(QueueKey("/", "b" * 255), {})
    assert log.book.walked - before > 1_000
