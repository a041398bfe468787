"""Exclusive consumers, and queues with a single active consumer, over all nodes."""

from typing import Any

import pytest

from tests.integration.harness import eventually
from tests.integration.surface import (
    Inbox,
    Stage,
    bodies,
    is_other,
    pump,
    refused,
    unless_private,
)  # fmt: skip

pytestmark = pytest.mark.slow

ROLES = ("owner", "publisher", "consumer")


def line_up(stage: Stage, queue: str, **more: Any) -> list[Inbox]:
    """Three consumers of three connections on three nodes, one after the other."""
    return [Inbox(stage.channel(role), queue, **more) for role in ROLES]


# --- single active --------------------------------------------------------------------------------


@unless_private
def test_only_the_first_is_served(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)
    first, second, third = line_up(stage, queue, ack=True)
    stage.put(queue, *(b"%d" % number for number in range(20)))
    first.wait(20, second, third)
    assert first.bodies == [b"%d" % number for number in range(20)]
    assert second.bodies == third.bodies == []


@unless_private
@pytest.mark.parametrize("role", ROLES)
def test_wherever_it_is(stage: Stage, role: str) -> None:
    queue = stage.queue(single_active_consumer=True)
    first = Inbox(stage.channel(role), queue, ack=True)
    others = line_up(stage, queue)
    stage.put(queue, b"1", b"2", b"3")
    assert bodies(first.wait(3, *others)) == [b"1", b"2", b"3"]
    assert [other.bodies for other in others] == [[], [], []]


@unless_private
def test_the_others_take_over_in_their_order(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)
    inboxes = line_up(stage, queue, ack=True)
    for number, inbox in enumerate(inboxes):
        stage.put(queue, b"%d" % number)
        assert bodies(inbox.wait(1, *inboxes)) == [b"%d" % number]
        pump(inbox.channel)
        inbox.cancel()
    stage.put(queue, b"nobody is left")
    stage.wait_depth(queue, 1)
    assert [len(inbox.messages) for inbox in inboxes] == [1, 1, 1]


def test_when_its_connection_goes_the_next_gets_what_it_held_in_order(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)
    first, second, third = line_up(stage, queue)
    texts = [b"%d" % number for number in range(10)]
    stage.put(queue, *texts)
    first.wait(10, second, third)
    assert second.bodies == []
    first.channel.connection.close()
    messages = second.wait(10, third)
    assert bodies(messages) == texts
    assert all(message.method.redelivered for message in messages)
    assert third.bodies == []


@pytest.mark.skipif(is_other, reason="RabbitMQ 3.10 loses the queue when a busy one cancels")
def test_who_cancels_keeps_what_it_holds(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)
    first, second, third = line_up(stage, queue, prefetch=2)
    stage.put(queue, b"1", b"2", b"3")
    first.wait(2, second)
    first.cancel()
    assert bodies(second.wait(1, third)) == [b"3"]
    first.ack(1, multiple=True)
    stage.wait_depth(queue, 0)
    assert third.bodies == []


@unless_private
def test_a_full_prefetch_hands_nothing_over(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)
    first, second, third = line_up(stage, queue, prefetch=1)
    stage.put(queue, b"1", b"2")
    first.wait(1, second, third)
    pump(first.channel, second.channel, third.channel)
    assert stage.depth(queue) == 1
    assert second.bodies == third.bodies == []
    first.ack()
    assert bodies(first.wait(2, second, third)) == [b"1", b"2"]


@unless_private
def test_who_comes_again_stands_at_the_end(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)
    first, second, third = line_up(stage, queue, ack=True)
    first.cancel()
    again = Inbox(first.channel, queue, ack=True)
    second.cancel()
    stage.put(queue, b"1")
    assert bodies(third.wait(1, again)) == [b"1"]
    third.cancel()
    stage.put(queue, b"2")
    assert bodies(again.wait(1)) == [b"2"]


@unless_private
def test_a_waiting_one_may_go(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)
    first, second, third = line_up(stage, queue, ack=True)
    second.channel.connection.close()
    eventually(
        "two are counted",
        lambda: stage.consumer.queue_declare(queue, passive=True).method.consumer_count == 2,
    )
    first.cancel()
    stage.put(queue, b"1")
    assert bodies(third.wait(1)) == [b"1"]


def test_get_is_for_everybody(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)
    first = Inbox(stage.channel("owner"), queue, prefetch=1)
    stage.put(queue, b"1", b"2")
    first.wait(1)
    assert stage.hold(queue).body == b"2"


@unless_private
def test_no_exclusive_consumer_of_such_a_queue(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)
    with refused(403, "queue"):
        stage.consumer.basic_consume(queue, lambda *_: None, exclusive=True)


@unless_private
def test_deleting_it_cancels_them_all(stage: Stage) -> None:
    queue = stage.queue(single_active_consumer=True)
    inboxes = line_up(stage, queue)
    stage.consumer.queue_delete(queue)

    def all_told() -> bool:
        pump(*(inbox.channel for inbox in inboxes))
        return all(inbox.cancelled for inbox in inboxes)

    eventually("all are told", all_told)


def test_the_argument_is_a_truth_value(stage: Stage) -> None:
    with refused(406, "arg 'x-single-active-consumer'"):
        stage.owner.queue_declare(stage.unused(), arguments={"x-single-active-consumer": "yes"})


# --- exclusive ------------------------------------------------------------------------------------


@unless_private
def test_an_exclusive_consumer_is_alone(stage: Stage) -> None:
    queue = stage.queue()
    only = Inbox(stage.channel("owner"), queue, exclusive=True, ack=True)
    for role in ROLES:
        for exclusive in (False, True):
            with refused(403, f"queue '{queue}' in vhost '/' in exclusive use"):
                stage.channel(role).basic_consume(queue, lambda *_: None, exclusive=exclusive)
    stage.put(queue, b"1")
    assert bodies(only.wait(1)) == [b"1"]


@unless_private
def test_nobody_is_exclusive_where_others_are(stage: Stage) -> None:
    queue = stage.queue()
    other = Inbox(stage.channel("owner"), queue, ack=True)
    with refused(403, f"queue '{queue}' in vhost '/' in exclusive use"):
        stage.channel("consumer").basic_consume(queue, lambda *_: None, exclusive=True)
    other.cancel()
    only = Inbox(stage.consumer, queue, exclusive=True, ack=True)
    stage.put(queue, b"1")
    assert bodies(only.wait(1)) == [b"1"]


@unless_private
@pytest.mark.parametrize("end", ["cancel", "connection"])
def test_when_it_is_gone_others_may_come(stage: Stage, end: str) -> None:
    queue = stage.queue()
    only = Inbox(stage.channel("owner"), queue, exclusive=True)
    stage.put(queue, b"1")
    only.wait(1)
    if end == "cancel":
        only.ack()
        only.cancel()
        stage.put(queue, b"2")
    else:
        only.channel.connection.close()
        stage.wait_depth(queue, 1)
    other = Inbox(stage.consumer, queue, ack=True)
    assert bodies(other.wait(1)) == [b"2" if end == "cancel" else b"1"]
