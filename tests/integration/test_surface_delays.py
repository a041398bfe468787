"""Delayed messages: an exchange of the type `x-delayed-message` and the header `x-delay`.

As RabbitMQ's plug-in has it, which a plain RabbitMQ lacks: these run on fedq only. Where a message
goes is decided when it is published.
"""

import time

import pytest

from tests.integration.surface import (
    Inbox,
    Stage,
    bodies,
    everywhere,
    only_fedq,
    refused,
    unless_spread,
)  # fmt: skip
from tests.integration.waiting import patient

pytestmark = [pytest.mark.slow, only_fedq]

KIND = "x-delayed-message"


def delaying(stage: Stage, kind: str = "direct") -> str:
    """An exchange that delays and otherwise routes as the kind."""
    return stage.exchange(KIND, x_delayed_type=kind)


@everywhere
def test_a_message_comes_when_it_is_due(stage: Stage) -> None:
    exchange = delaying(stage)
    queue = stage.bound(exchange, "key")
    began = time.monotonic()
    stage.send(exchange, "key", b"1", headers={"x-delay": 500, "mine": 1})
    assert stage.take(queue) is None or time.monotonic() - began >= 0.5
    message = stage.hold(queue)
    assert time.monotonic() - began >= 0.5
    assert (message.body, message.headers["mine"]) == (b"1", 1)
    assert (message.method.exchange, message.method.routing_key) == (exchange, "key")
    assert message.method.redelivered is False


@everywhere
def test_to_a_consumer_too(stage: Stage) -> None:
    exchange = delaying(stage)
    queue = stage.bound(exchange, "key")
    inbox = Inbox(stage.consumer, queue, ack=True)
    began = time.monotonic()
    stage.send(exchange, "key", b"late", headers={"x-delay": 400})
    stage.send(exchange, "key", b"at once")
    assert bodies(inbox.wait(1)) == [b"at once"]
    inbox.wait(2)
    assert time.monotonic() - began >= 0.4


@unless_spread
def test_they_come_in_the_order_of_their_time(stage: Stage) -> None:
    exchange = delaying(stage)
    queue = stage.bound(exchange, "key")
    inbox = Inbox(stage.consumer, queue, ack=True)
    for delay in (900, 300, 600):
        stage.send(exchange, "key", b"%d" % delay, headers={"x-delay": delay})
    assert bodies(inbox.wait(3)) == [b"300", b"600", b"900"]


@everywhere
@pytest.mark.parametrize("headers", [None, {}, {"x-delay": 0}, {"x-delay": "soon"}])
def test_without_a_delay_it_is_there_at_once(
    stage: Stage, headers: dict[str, object] | None
) -> None:
    exchange = delaying(stage)
    queue = stage.bound(exchange, "key")
    stage.send(exchange, "key", b"1", headers=headers)
    assert bodies(stage.drain(queue, 1)) == [b"1"]


def test_the_header_means_nothing_elsewhere(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"1", headers={"x-delay": 60_000})
    [message] = stage.drain(queue, 1)
    assert message.headers == {"x-delay": 60_000}


@everywhere
@pytest.mark.parametrize(("kind", "key"), [("topic", "a.#"), ("fanout", "")])
def test_it_routes_as_its_type(stage: Stage, kind: str, key: str) -> None:
    exchange = delaying(stage, kind)
    queue = stage.bound(exchange, key)
    other = stage.queue()
    stage.send(exchange, "a.b", b"1", headers={"x-delay": 200})
    assert bodies(stage.drain(queue, 1)) == [b"1"]
    assert stage.depth(other) == 0


@everywhere
def test_what_is_not_due_is_not_ready(stage: Stage) -> None:
    """It is no ready message: nobody counts or gets it, and its time to live has not begun."""
    exchange = delaying(stage)
    queue = stage.bound(exchange, "key", message_ttl=300)
    stage.send(exchange, "key", b"1", headers={"x-delay": 600})
    assert stage.depth(queue) == 0
    assert stage.hold(queue).body == b"1"


@everywhere
def test_a_message_that_comes_back_is_not_delayed_again(stage: Stage) -> None:
    exchange = delaying(stage)
    queue = stage.bound(exchange, "key")
    delay_s = patient(0.5)
    stage.send(exchange, "key", b"1", headers={"x-delay": int(delay_s * 1_000)})
    message = stage.hold(queue)
    began = time.monotonic()
    stage.reject(message, requeue=True)
    assert stage.hold(queue).method.redelivered
    assert time.monotonic() - began < delay_s


@pytest.mark.parametrize(
    "arguments", [{}, {"x-delayed-type": KIND}, {"x-delayed-type": 5}], ids=str
)
def test_it_must_say_how_it_routes(stage: Stage, arguments: dict[str, object]) -> None:
    with refused(406):
        stage.owner.exchange_declare(f"{stage.name}-x", KIND, arguments=arguments)
