"""Messages that expire: by their queue's `x-message-ttl`, by their own `expiration`, by both.

Ready messages expire when they are due; what is out with a consumer does not, and expires when it
comes back too late.
"""

import time

import pytest

from tests.integration.surface import (
    Inbox,
    Stage,
    arrives,
    bodies,
    everywhere,
    only_fedq,
    pump,
    refused,
)
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

LONG = "600000"


@everywhere
def test_messages_expire_after_the_queues_time(stage: Stage) -> None:
    queue = stage.queue(message_ttl=400)
    began = time.monotonic()
    stage.put(queue, b"1", b"2", b"3")
    stage.wait_depth(queue, 0)
    assert time.monotonic() - began >= 0.4
    assert stage.take(queue) is None


@everywhere
def test_messages_expire_after_their_own_time(stage: Stage) -> None:
    queue = stage.queue()
    began = time.monotonic()
    stage.put(queue, b"1", b"2", expiration="400")
    stage.put(queue, b"stays")
    stage.wait_depth(queue, 1)
    assert time.monotonic() - began >= 0.4
    assert bodies(stage.drain(queue, 1)) == [b"stays"]


@everywhere
@pytest.mark.parametrize(("of_queue", "own"), [(150, LONG), (600_000, "150")])
def test_the_shorter_of_both_times_counts(stage: Stage, of_queue: int, own: str) -> None:
    queue = stage.queue(message_ttl=of_queue)
    stage.put(queue, b"1", b"2", expiration=own)
    stage.wait_depth(queue, 0)
    assert stage.take(queue) is None


@everywhere
def test_what_is_not_due_is_delivered_as_it_was_sent(stage: Stage) -> None:
    queue = stage.queue(message_ttl=600_000)
    stage.put(queue, b"1", expiration=LONG)
    [message] = stage.drain(queue, 1)
    assert (message.body, message.properties.expiration) == (b"1", LONG)
    assert message.headers == {}


@everywhere
@only_fedq
def test_messages_expire_wherever_they_are(stage: Stage) -> None:
    """Not only at the head: a short-lived one does not wait behind a long-lived one."""
    queue = stage.queue()
    stage.put(queue, b"long", expiration=LONG)
    stage.put(queue, b"short", expiration="100")
    stage.put(queue, b"no end")
    stage.wait_depth(queue, 2)
    assert bodies(stage.drain(queue, 2)) == [b"long", b"no end"]


@everywhere
@pytest.mark.parametrize("of_queue", [True, False])
def test_zero_means_at_once_or_never(stage: Stage, of_queue: bool) -> None:
    queue = stage.queue(message_ttl=0) if of_queue else stage.queue()
    more = {} if of_queue else {"expiration": "0"}
    stage.put(queue, b"for nobody", **more)
    stage.wait_depth(queue, 0)
    assert stage.take(queue) is None
    inbox = Inbox(stage.consumer, queue, ack=True)

    def has_come() -> bool:
        stage.put(queue, b"for the consumer", **more)
        pump(stage.consumer)
        return bool(inbox.messages)

    until("one finds the consumer ready", has_come)
    assert set(inbox.bodies) == {b"for the consumer"}


@everywhere
def test_what_is_out_does_not_expire(stage: Stage) -> None:
    queue = stage.queue(message_ttl=200)
    stage.put(queue, b"1")
    message = stage.hold(queue)
    stage.let_pass(250)
    stage.consumer.basic_ack(message.method.delivery_tag)
    arrives(stage.consumer)
    assert stage.depth(queue) == 0


@everywhere
def test_what_comes_back_too_late_expires(stage: Stage) -> None:
    """Its time runs from when it was published, not from when it came back."""
    queue = stage.queue()
    stage.put(queue, b"late", expiration="200")
    stage.put(queue, b"stays")
    late = stage.hold(queue)
    assert late.body == b"late"
    stage.let_pass(250)
    stage.reject(late, requeue=True)
    stage.wait_depth(queue, 1)
    [left] = stage.drain(queue, 1)
    assert (left.body, left.method.redelivered) == (b"stays", False)


@everywhere
def test_what_comes_back_in_time_is_delivered_again(stage: Stage) -> None:
    queue = stage.queue(message_ttl=600_000)
    stage.put(queue, b"1", expiration=LONG)
    stage.reject(stage.hold(queue), requeue=True)
    [again] = stage.drain(queue, 1)
    assert (again.body, again.method.redelivered) == (b"1", True)


@everywhere
def test_messages_expire_behind_a_busy_consumer(stage: Stage) -> None:
    """Its prefetch keeps them in the queue; they are gone when it is free again."""
    queue = stage.queue()
    inbox = Inbox(stage.consumer, queue, prefetch=1)
    stage.put(queue, b"held")
    inbox.wait(1)
    stage.put(queue, b"expires", expiration="100")
    stage.wait_depth(queue, 0)
    stage.put(queue, b"next")
    inbox.ack()
    assert bodies(inbox.wait(2)) == [b"held", b"next"]


@everywhere
def test_counts_are_right_after_messages_expired(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"1", b"2", expiration="100")
    stage.wait_depth(queue, 0)
    stage.put(queue, b"3", b"4", b"5")
    assert stage.depth(queue) == 3
    channel = stage.consumer.connection.channel()
    assert channel.queue_purge(queue).method.message_count == 3
    stage.put(queue, b"6")
    assert channel.queue_delete(queue).method.message_count == 1


@everywhere
def test_many_messages_expire(stage: Stage) -> None:
    queue = stage.queue(message_ttl=300)
    stage.flood([b"%d" % number for number in range(2_000)], queue)
    stage.wait_depth(queue, 0)


@pytest.mark.parametrize("wrong", [-1, "100", True, [5]])
@pytest.mark.parametrize("argument", ["x-message-ttl", "x-expires"])
def test_a_time_that_is_none_is_refused(stage: Stage, argument: str, wrong: object) -> None:
    with refused(406, f"invalid arg '{argument}' for queue"):
        stage.owner.queue_declare(stage.unused(), arguments={argument: wrong})


@pytest.mark.parametrize("wrong", ["-1", "soon", "1.5", ""])
def test_an_expiration_that_is_none_closes_the_channel(stage: Stage, wrong: str) -> None:
    queue = stage.queue()
    with refused(406, "invalid expiration"):
        stage.put(queue, b"x", expiration=wrong)
    assert stage.depth(queue) == 0
