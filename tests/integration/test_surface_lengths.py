"""Queues with a bound: `x-max-length`, `x-max-length-bytes` and what `x-overflow` makes of it.

Only ready messages count, by the bytes of their bodies.
"""

import pytest

from tests.integration.stock import pika
from tests.integration.surface import (
    Inbox,
    Stage,
    arrives,
    bodies,
    only_fedq,
    only_spread,
    pump,
    refused,
    unless_spread,
)  # fmt: skip
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

Nacked = pika.exceptions.NackError


@unless_spread
def test_the_oldest_make_room(stage: Stage) -> None:
    queue = stage.queue(max_length=3)
    stage.put(queue, b"1", b"2", b"3", b"4", b"5")
    assert bodies(stage.drain(queue, 3)) == [b"3", b"4", b"5"]


@unless_spread
def test_the_oldest_make_room_in_bytes(stage: Stage) -> None:
    queue = stage.queue(max_length_bytes=10, overflow="drop-head")
    stage.put(queue, b"1111", b"2222", b"33")
    assert stage.depth(queue) == 3
    stage.put(queue, b"4")
    assert bodies(stage.drain(queue, 3)) == [b"2222", b"33", b"4"]


@unless_spread
def test_a_message_larger_than_the_queue_is_dropped(stage: Stage) -> None:
    queue = stage.queue(max_length_bytes=10)
    stage.put(queue, b"fits", b"does not fit at all")
    stage.wait_depth(queue, 0)


@unless_spread
def test_the_bound_that_is_met_first_counts(stage: Stage) -> None:
    queue = stage.queue(max_length=3, max_length_bytes=10)
    stage.put(queue, b"1", b"2", b"3", b"4")
    assert bodies(stage.drain(queue, 3)) == [b"2", b"3", b"4"]
    stage.put(queue, b"55555", b"66666", b"7")
    assert bodies(stage.drain(queue, 2)) == [b"66666", b"7"]


@unless_spread
def test_what_is_out_does_not_count(stage: Stage) -> None:
    queue = stage.queue(max_length=2)
    stage.put(queue, b"1", b"2")
    held = stage.hold(queue)
    stage.put(queue, b"3")
    assert stage.depth(queue) == 2
    stage.put(queue, b"4")
    assert stage.depth(queue) == 2
    stage.consumer.basic_ack(held.method.delivery_tag)
    assert bodies(stage.drain(queue, 2)) == [b"3", b"4"]


@unless_spread
def test_what_comes_back_to_a_full_queue_is_its_head(stage: Stage) -> None:
    queue = stage.queue(max_length=2)
    stage.put(queue, b"1", b"2")
    held = stage.hold(queue)
    stage.put(queue, b"3")
    stage.reject(held, requeue=True)
    assert bodies(stage.drain(queue, 2)) == [b"2", b"3"]


@unless_spread
def test_no_length_means_for_a_ready_consumer_only(stage: Stage) -> None:
    queue = stage.queue(max_length=0)
    stage.put(queue, b"for nobody")
    stage.wait_depth(queue, 0)
    inbox = Inbox(stage.consumer, queue, ack=True)

    def has_come() -> bool:
        stage.put(queue, b"for the consumer")
        pump(stage.consumer)
        return bool(inbox.messages)

    until("one finds the consumer ready", has_come)
    assert set(inbox.bodies) == {b"for the consumer"}


@unless_spread
def test_a_full_queue_rejects_publishes(stage: Stage) -> None:
    queue = stage.queue(max_length=2, overflow="reject-publish")
    stage.put(queue, b"1", b"2")
    for _ in range(2):
        with pytest.raises(Nacked):
            stage.put(queue, b"too many")
    assert stage.hold(queue).body == b"1"
    stage.put(queue, b"3")
    with pytest.raises(Nacked):
        stage.put(queue, b"too many")
    assert bodies(stage.drain(queue, 2)) == [b"2", b"3"]


@unless_spread
def test_a_queue_full_in_bytes_rejects_publishes(stage: Stage) -> None:
    queue = stage.queue(max_length_bytes=10, overflow="reject-publish")
    stage.put(queue, b"1111", b"2222")
    with pytest.raises(Nacked):
        stage.put(queue, b"33333")
    stage.put(queue, b"44")
    assert bodies(stage.drain(queue, 3)) == [b"1111", b"2222", b"44"]


@unless_spread
def test_without_confirms_what_is_rejected_is_just_not_there(stage: Stage) -> None:
    queue = stage.queue(max_length=2, overflow="reject-publish")
    channel = stage.publisher.connection.channel()
    for number in range(5):
        channel.basic_publish("", queue, b"%d" % number)
    arrives(channel)
    # When this one is refused, those before it have been.
    with pytest.raises(Nacked):
        stage.put(queue, b"too many")
    assert bodies(stage.drain(queue, 2)) == [b"0", b"1"]


@unless_spread
def test_one_full_queue_of_several_is_enough_for_a_nack(stage: Stage) -> None:
    exchange = stage.exchange("fanout")
    full = stage.bound(exchange, max_length=1, overflow="reject-publish")
    roomy = stage.bound(exchange)
    stage.send(exchange, "", b"1")
    with pytest.raises(Nacked):
        stage.send(exchange, "", b"2")
    assert bodies(stage.drain(full, 1)) == [b"1"]
    assert bodies(stage.drain(roomy, 2)) == [b"1", b"2"]


@unless_spread
def test_a_rejected_publish_may_be_a_dead_letter(stage: Stage) -> None:
    grave = stage.queue()
    queue = stage.queue(
        max_length=1, overflow="reject-publish-dlx", dead_letter_exchange="",
        dead_letter_routing_key=grave,
    )  # fmt: skip
    stage.put(queue, b"1")
    with pytest.raises(Nacked):
        stage.put(queue, b"2")
    [dead] = stage.drain(grave, 1)
    assert (dead.body, dead.deaths[0]["reason"]) == (b"2", "maxlen")
    assert bodies(stage.drain(queue, 1)) == [b"1"]


@unless_spread
def test_reject_publish_alone_makes_no_dead_letters(stage: Stage) -> None:
    grave = stage.queue()
    queue = stage.queue(
        max_length=1, overflow="reject-publish", dead_letter_exchange="",
        dead_letter_routing_key=grave,
    )  # fmt: skip
    stage.put(queue, b"1")
    with pytest.raises(Nacked):
        stage.put(queue, b"2")
    assert stage.depth(grave) == 0


@unless_spread
def test_dropped_heads_are_dead_letters(stage: Stage) -> None:
    grave = stage.queue()
    queue = stage.queue(max_length=1, dead_letter_exchange="", dead_letter_routing_key=grave)
    stage.put(queue, b"1", b"2", b"3")
    dead = stage.drain(grave, 2)
    assert bodies(dead) == [b"1", b"2"]
    assert [message.deaths[0]["reason"] for message in dead] == ["maxlen", "maxlen"]
    assert bodies(stage.drain(queue, 1)) == [b"3"]


@unless_spread
def test_a_long_run_of_publishes_leaves_the_last(stage: Stage) -> None:
    queue = stage.queue(max_length=10)
    texts = [b"%d" % number for number in range(1_000)]
    stage.flood(texts, queue)
    assert bodies(stage.drain(queue, 10)) == texts[-10:]


@only_spread
@only_fedq
def test_each_fragment_has_its_part_of_the_bound(stage: Stage) -> None:
    """Never more than the bound in all, and each keeps its latest."""
    queue = stage.queue(max_length=6)
    for number in range(30):
        stage.put(queue, b"%d" % number)
    assert 1 <= stage.depth(queue) <= 6
    left = bodies(stage.drain(queue, stage.depth(queue)))
    assert b"29" in left


@pytest.mark.parametrize(
    "arguments",
    [
        {"x-max-length": -1}, {"x-max-length": "5"}, {"x-max-length-bytes": -1},
        {"x-overflow": "sideways"}, {"x-overflow": 5},
    ],
)  # fmt: skip
def test_bounds_that_are_none_are_refused(stage: Stage, arguments: dict[str, object]) -> None:
    [argument] = arguments
    with refused(406, f"invalid arg '{argument}' for queue"):
        stage.owner.queue_declare(stage.unused(), arguments=arguments)
