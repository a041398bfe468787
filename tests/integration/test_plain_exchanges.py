"""The exchange types and bindings, with pika; publishers and queues on different nodes.

RabbitMQ passes all of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.stock import BlockingChannel, pika

pytestmark = pytest.mark.slow


@contextmanager
def exchange_of(channel: BlockingChannel, name: str, kind: str) -> Iterator[str]:
    """An exchange of the kind that is deleted at the end."""
    channel.exchange_declare(name, kind)
    yield name
    channel.exchange_delete(name)


def arrivals(
    publisher: BlockingChannel, consumer: BlockingChannel, exchange: str, queues: list[str],
    key: str, headers: dict[str, object] | None = None,
) -> list[int]:  # fmt: skip
    """Publishes once; how many copies each queue then holds."""
    publisher.confirm_delivery()
    publisher.basic_publish(exchange, key, b"x", pika.BasicProperties(headers=headers))
    return [consumer.queue_purge(queue).method.message_count for queue in queues]


def bound_queues(
    channel: BlockingChannel, exchange: str, name: str, bindings: list[list[object]]
) -> list[str]:
    """One queue for each list of bindings: routing keys, or tables of header arguments."""
    queues: list[str] = []
    for number, wanted in enumerate(bindings):
        queue = f"{name}-{number}"
        channel.queue_declare(queue, exclusive=True)
        for binding in wanted:
            if isinstance(binding, dict):
                channel.queue_bind(queue, exchange, "", arguments=binding)
            else:
                channel.queue_bind(queue, exchange, str(binding))
        queues.append(queue)
    return queues


def test_default_exchange(here: BlockingChannel, there: BlockingChannel, name: str) -> None:
    queues = bound_queues(there, "", name, [[], []])
    assert arrivals(here, there, "", queues, queues[1]) == [0, 1]


@pytest.mark.parametrize("is_built_in", [True, False])
def test_direct(
    here: BlockingChannel, there: BlockingChannel, name: str, is_built_in: bool
) -> None:
    exchange = "amq.direct" if is_built_in else name
    if not is_built_in:
        here.exchange_declare(exchange, "direct", auto_delete=True)
    queues = bound_queues(there, exchange, name, [[f"{name}.a"], [f"{name}.a", f"{name}.b"]])
    assert arrivals(here, there, exchange, queues, f"{name}.a") == [1, 1]
    assert arrivals(here, there, exchange, queues, f"{name}.b") == [0, 1]
    assert arrivals(here, there, exchange, queues, f"{name}.c") == [0, 0]


def test_fanout(here: BlockingChannel, there: BlockingChannel, name: str) -> None:
    with exchange_of(here, name, "fanout"):
        queues = bound_queues(there, name, name, [["x"], ["y", "z"], []])
        assert arrivals(here, there, name, queues, "anything") == [1, 1, 0]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("a.b.c", [1, 1, 1, 0, 1]),
        ("a.b", [0, 1, 0, 1, 1]),
        ("a", [0, 1, 0, 0, 0]),
        ("", [0, 1, 0, 0, 0]),
        ("x.b", [0, 1, 0, 1, 0]),
        ("a..c", [1, 1, 0, 0, 0]),
        ("a.b.c.d", [0, 1, 0, 0, 1]),
    ],
)
def test_topic(
    here: BlockingChannel, there: BlockingChannel, name: str, key: str, expected: list[int]
) -> None:
    with exchange_of(here, name, "topic"):
        bindings: list[list[object]] = [["a.*.c"], ["#"], ["a.b.c"], ["*.b"], ["a.b.#"]]
        queues = bound_queues(there, name, name, bindings)
        assert arrivals(here, there, name, queues, key) == expected


def test_topic_delivers_once_however_many_bindings_match(
    here: BlockingChannel, there: BlockingChannel, name: str
) -> None:
    with exchange_of(here, name, "topic"):
        queues = bound_queues(there, name, name, [["#", "a.*", "a.b", "*.b"]])
        assert arrivals(here, there, name, queues, "a.b") == [1]


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"a": 1, "b": "two"}, [1, 1, 1, 1]),
        ({"a": 1}, [0, 1, 0, 1]),
        ({"b": "two", "c": True}, [0, 1, 0, 1]),
        ({"a": 2}, [0, 0, 0, 1]),
        ({}, [0, 0, 0, 1]),
        (None, [0, 0, 0, 1]),
    ],
)
def test_headers(
    here: BlockingChannel, there: BlockingChannel, name: str,
    headers: dict[str, object] | None, expected: list[int],
) -> None:  # fmt: skip
    with exchange_of(here, name, "headers"):
        bindings: list[list[object]] = [
            [{"x-match": "all", "a": 1, "b": "two"}],
            [{"x-match": "any", "a": 1, "b": "two"}],
            [{"a": 1, "b": "two"}],
            [{"x-match": "all"}],
        ]
        queues = bound_queues(there, name, name, bindings)
        assert arrivals(here, there, name, queues, "ignored", headers) == expected


def test_unbind_stops_only_that_binding(
    here: BlockingChannel, there: BlockingChannel, name: str
) -> None:
    with exchange_of(here, name, "direct"):
        queues = bound_queues(there, name, name, [["a", "b"]])
        there.queue_unbind(queues[0], name, "a")
        assert arrivals(here, there, name, queues, "a") == [0]
        assert arrivals(here, there, name, queues, "b") == [1]
        there.queue_unbind(queues[0], name, "was never bound")


def test_deleting_a_queue_removes_its_bindings(
    here: BlockingChannel, there: BlockingChannel, name: str
) -> None:
    with exchange_of(here, name, "fanout"):
        there.queue_declare(name)
        there.queue_bind(name, name)
        there.queue_delete(name)
        here.confirm_delivery()
        with pytest.raises(pika.exceptions.UnroutableError):
            here.basic_publish(name, "", b"x", mandatory=True)
        there.queue_declare(name, exclusive=True)
        assert arrivals(here, there, name, [name], "") == [0]


def test_shared_queues_are_bound_across_nodes(
    here: BlockingChannel, there: BlockingChannel, queue: str, name: str
) -> None:
    with exchange_of(there, f"{name}-exchange", "topic") as exchange:
        there.queue_bind(queue, exchange, "order.#")
        assert arrivals(here, there, exchange, [queue], "order.new") == [1]
        assert arrivals(there, here, exchange, [queue], "order.old") == [1]


def test_an_exchange_in_use_is_not_deleted_if_unused(
    here: BlockingChannel, there: BlockingChannel, name: str
) -> None:
    here.exchange_declare(name, "direct", auto_delete=True)
    bound_queues(there, name, name, [["a"]])
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as refused:
        here.exchange_delete(name, if_unused=True)
    assert refused.value.reply_code == 406
    there.queue_unbind(f"{name}-0", name, "a")
    # Its last binding went, so it went with it.
    with pytest.raises(pika.exceptions.ChannelClosedByBroker) as missing:
        there.exchange_declare(name, "direct", passive=True)
    assert missing.value.reply_code == 404


def test_exchanges_bound_to_exchanges(
    here: BlockingChannel, there: BlockingChannel, name: str
) -> None:
    with (
        exchange_of(here, f"{name}-in", "topic") as source,
        exchange_of(here, f"{name}-out", "fanout") as target,
    ):
        there.exchange_bind(target, source, "a.#")
        queues = bound_queues(there, target, name, [["any"]])
        assert arrivals(here, there, source, queues, "a.b") == [1]
        assert arrivals(here, there, source, queues, "b.a") == [0]
        there.exchange_unbind(target, source, "a.#")
        assert arrivals(here, there, source, queues, "a.b") == [0]
