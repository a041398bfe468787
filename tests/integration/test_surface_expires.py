"""Queues that go when nobody has used them for `x-expires` milliseconds.

Use is a consumer, a `basic.get`, a declaration; publishing is none. So the tests ask by publishing.
"""

import pytest

from tests.integration.harness import eventually
from tests.integration.stock import pika
from tests.integration.surface import (
    Inbox,
    Stage,
    everywhere,
    refused,
    unless_private,
    unless_spread,
)

pytestmark = pytest.mark.slow


def is_gone_soon(stage: Stage, queue: str) -> None:
    """Waits until no message finds the queue."""
    eventually(f"{queue} is gone", lambda: not stage.is_there(queue))


@everywhere
def test_an_unused_queue_goes(stage: Stage) -> None:
    queue = stage.queue(expires=200)
    is_gone_soon(stage, queue)
    with refused(404, queue):
        stage.consumer.queue_declare(queue, passive=True)


@unless_private
def test_its_name_is_free_again(stage: Stage) -> None:
    queue = stage.queue(expires=100)
    stage.put(queue, b"goes with it")
    is_gone_soon(stage, queue)

    def is_declared() -> bool:
        # Another node may hear of the end a moment later: there its arguments still stand.
        return bool(stage.channel().queue_declare(queue).method.message_count == 0)

    eventually("it is declared anew", is_declared)
    assert stage.is_there(queue)


@everywhere
def test_its_bindings_go_with_it(stage: Stage) -> None:
    exchange = stage.exchange("fanout")
    queue = stage.bound(exchange, expires=200)
    is_gone_soon(stage, queue)
    with pytest.raises(pika.exceptions.UnroutableError):
        stage.send(exchange, "", b"x", mandatory=True)


@everywhere
def test_a_consumer_keeps_it(stage: Stage) -> None:
    queue = stage.queue(expires=300)
    inbox = Inbox(stage.consumer, queue, ack=True)
    stage.let_pass(450)
    assert stage.is_there(queue)
    inbox.cancel()
    is_gone_soon(stage, queue)


@unless_private
def test_a_consumer_that_dies_keeps_it_no_longer(stage: Stage) -> None:
    queue = stage.queue(expires=300)
    other = stage.channel()
    Inbox(other, queue, ack=True)
    stage.let_pass(450)
    assert stage.is_there(queue)
    other.connection.close()
    is_gone_soon(stage, queue)


@unless_spread
@pytest.mark.parametrize("use", ["get", "declare"])
def test_using_it_begins_its_time_anew(stage: Stage, use: str) -> None:
    unused = stage.queue(expires=500)
    used = stage.queue(expires=500)

    def other_is_gone() -> bool:
        if use == "get":
            stage.take(used)
        else:
            stage.depth(used)
        return not stage.is_there(unused)

    eventually("the unused one is gone", other_is_gone)
    assert stage.is_there(used)
    is_gone_soon(stage, used)


@everywhere
def test_what_is_in_it_goes_without_a_trace(stage: Stage) -> None:
    """Its messages are dropped: a queue's end is no death of messages."""
    exchange = stage.exchange("fanout")
    grave = stage.bound(exchange)
    queue = stage.queue(expires=200, dead_letter_exchange=exchange)
    stage.put(queue, b"1", b"2")
    stage.let_pass(250)
    eventually("it is gone", lambda: not stage.is_there(queue))
    stage.send(exchange, "", b"witness")
    # Only questions that came before its end may lie there.
    stage.wait_depth(grave, stage.depth(grave))
    found = {message.body for message in stage.drain(grave, stage.depth(grave))}
    assert b"witness" in found
    assert not found & {b"1", b"2"}


def test_zero_is_refused(stage: Stage) -> None:
    with refused(406, "invalid arg 'x-expires' for queue"):
        stage.owner.queue_declare(stage.unused(), arguments={"x-expires": 0})
