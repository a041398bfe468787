"""How often a message may come back: `x-delivery-limit`, `x-delivery-count`, and no limit at all.

RabbitMQ counts in quorum queues only, so these are quorum queues.
"""

import pytest

from tests.integration.surface import Message, Stage, bodies, unless_private

pytestmark = pytest.mark.slow


def counts(message: Message) -> object:
    """What the message says of how often it came back."""
    return message.headers.get("x-delivery-count", 0)


@unless_private
def test_returns_are_counted(stage: Stage) -> None:
    queue = stage.quorum()
    stage.put(queue, b"1", headers={"mine": 1})
    for number in range(5):
        message = stage.hold(queue)
        assert (counts(message), message.method.redelivered) == (number, number > 0)
        assert message.headers["mine"] == 1
        stage.reject(message, requeue=True)


@unless_private
def test_there_is_no_limit_unless_one_is_asked_for(stage: Stage) -> None:
    queue = stage.quorum()
    stage.put(queue, b"1")
    for _ in range(30):
        stage.reject(stage.hold(queue), requeue=True)
    assert counts(stage.hold(queue)) == 30


@unless_private
def test_beyond_the_limit_it_is_a_dead_letter(stage: Stage) -> None:
    grave = stage.queue()
    queue = stage.quorum(delivery_limit=2, dead_letter_exchange="", dead_letter_routing_key=grave)
    stage.put(queue, b"1", b"2")
    for number in range(3):
        message = stage.hold(queue)
        assert (message.body, counts(message)) == (b"1", number)
        stage.reject(message, requeue=True)
    [dead] = stage.drain(grave, 1)
    assert dead.body == b"1"
    [death] = dead.deaths
    assert (death["reason"], death["queue"], death["count"]) == ("delivery_limit", queue, 1)
    assert dead.headers["x-first-death-reason"] == "delivery_limit"
    assert bodies(stage.drain(queue, 1)) == [b"2"]


@unless_private
def test_without_an_exchange_of_the_dead_it_is_dropped(stage: Stage) -> None:
    queue = stage.quorum(delivery_limit=1)
    stage.put(queue, b"1", b"2")
    for _ in range(2):
        stage.reject(stage.hold(queue), requeue=True)
    assert bodies(stage.drain(queue, 1)) == [b"2"]


@unless_private
def test_a_limit_of_none_allows_one_delivery(stage: Stage) -> None:
    queue = stage.quorum(delivery_limit=0)
    stage.put(queue, b"1", b"2")
    stage.reject(stage.hold(queue), requeue=True)
    assert bodies(stage.drain(queue, 1)) == [b"2"]


@unless_private
def test_a_lost_connection_counts(stage: Stage) -> None:
    queue = stage.quorum(delivery_limit=2)
    stage.put(queue, b"1", b"2")
    for number in range(3):
        other = stage.channel()
        stage.wait_depth(queue, 2)
        method, properties, body = other.basic_get(queue)
        assert (body, counts(Message(method, properties, body))) == (b"1", number)
        other.connection.close()
    assert bodies(stage.drain(queue, 1)) == [b"2"]


@unless_private
def test_only_the_limit_of_the_first_queue_counts_there(stage: Stage) -> None:
    """A dead letter starts its new life without returns."""
    grave = stage.quorum(delivery_limit=5)
    queue = stage.quorum(delivery_limit=1, dead_letter_exchange="", dead_letter_routing_key=grave)
    stage.put(queue, b"1")
    for _ in range(2):
        stage.reject(stage.hold(queue), requeue=True)
    dead = stage.hold(grave)
    stage.reject(dead, requeue=True)
    again = stage.hold(grave)
    assert (counts(again), again.deaths[0]["reason"]) == (1, "delivery_limit")
