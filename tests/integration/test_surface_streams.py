"""Streams: what is published to them, how it comes out, how long it stays, and their end."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.harness import eventually
from tests.integration.stock import pika
from tests.integration.surface import (
    Inbox,
    Message,
    Stage,
    arrives,
    bodies,
    only_fedq,
    pump,
    refused,
    table,
)  # fmt: skip
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

UNSUPPORTED = 540
#: A message of this size and what is written beside it make a segment of the stream below full.
BODY_BYTES = 1_000
SEGMENT_BYTES = 2_000
#: So many bodies are the bound of streams that are to be trimmed.
KEPT = 10


def stream(stage: Stage, **words: Any) -> str:
    """Declares a stream."""
    return stage.queue(durable=True, queue_type="stream", **words)


def replay(stage: Stage, queue: str, last: bytes, offset: object = "first") -> list[Message]:
    """All that is in a stream, up to the message with that body."""
    inbox = Inbox(stage.channel(), queue, prefetch=2_000, stream_offset=offset)

    def is_read() -> bool:
        pump(inbox.channel)
        return last in inbox.bodies

    until(f"{last!r} is read from {queue}", is_read)
    inbox.channel.connection.close()
    return inbox.messages


def until_more(inbox: Inbox, count: int) -> None:
    """Waits until a reader has more than so many."""

    def has_more() -> bool:
        pump(inbox.channel)
        return len(inbox.messages) > count

    until(f"more than {count} messages arrive: {offsets(inbox.messages)}", has_more)


def offsets(messages: Sequence[Message]) -> list[int]:
    """Where they are in their stream."""
    return [message.headers["x-stream-offset"] for message in messages]


def filled(stage: Stage, count: int, **words: Any) -> tuple[str, list[bytes]]:
    """A stream of small segments, and the large messages that were published to it."""
    queue = stream(stage, stream_max_segment_size_bytes=SEGMENT_BYTES, **words)
    texts = [(b"%d " % number).ljust(BODY_BYTES, b".") for number in range(count)]
    stage.put(queue, *texts)
    return queue, texts


def wait_trimmed(stage: Stage, queue: str, last: bytes) -> list[Message]:
    """Waits until only the bytes that the tests below allow are left, and returns what is left.

    RabbitMQ's count of messages is some seconds old: only reading tells.
    """

    def what_is_left() -> list[Message]:
        messages = replay(stage, queue, last)
        return messages if len(messages) <= KEPT else []

    return until(f"the old segments of {queue} are gone", what_is_left)


# --- publishing -----------------------------------------------------------------------------------


def test_what_is_published_stays(stage: Stage) -> None:
    queue = stream(stage)
    texts = [b"%d" % number for number in range(50)]
    stage.flood(texts, queue)
    stage.wait_depth(queue, 50)
    inbox = Inbox(stage.channel(), queue, prefetch=100, stream_offset="first")
    assert sorted(bodies(inbox.wait(50))) == sorted(texts)
    stage.wait_depth(queue, 50)


def test_messages_have_the_order_in_which_they_came(stage: Stage) -> None:
    queue = stream(stage)
    texts = [b"%d" % number for number in range(2_000)]
    stage.flood(texts, queue)
    messages = replay(stage, queue, texts[-1])
    assert bodies(messages) == texts
    assert offsets(messages) == list(range(2_000))


def test_transient_ones_are_kept_like_others(stage: Stage) -> None:
    queue = stream(stage)
    stage.put(queue, b"transient", delivery_mode=1)
    stage.put(queue, b"persistent", delivery_mode=2)
    stage.put(queue, b"neither")
    modes = [found.properties.delivery_mode for found in replay(stage, queue, b"neither")]
    assert modes == [1, 2, None]


def test_mandatory_ones_are_not_returned(stage: Stage) -> None:
    queue = stream(stage)
    stage.send("", queue, b"m", mandatory=True)
    assert bodies(replay(stage, queue, b"m")) == [b"m"]


def test_nothing_expires(stage: Stage) -> None:
    queue = stream(stage)
    stage.put(queue, b"at once", expiration="0")
    stage.put(queue, b"soon", expiration="1")
    stage.let_pass(20)
    stage.put(queue, b"last")
    messages = replay(stage, queue, b"last")
    assert bodies(messages) == [b"at once", b"soon", b"last"]
    assert [found.properties.expiration for found in messages] == ["0", "1", None]


def test_priorities_change_no_order(stage: Stage) -> None:
    queue = stream(stage)
    for priority in (0, 9, 5):
        stage.put(queue, b"%d" % priority, priority=priority)
    messages = replay(stage, queue, b"5")
    assert [found.properties.priority for found in messages] == [0, 9, 5]


def test_empty_and_large_bodies(stage: Stage) -> None:
    queue = stream(stage, stream_max_segment_size_bytes=SEGMENT_BYTES)
    large = b"l" * 1_000_000
    stage.put(queue, b"", large, b"last")
    assert bodies(replay(stage, queue, b"last")) == [b"", large, b"last"]


def test_a_transaction_is_appended_when_it_commits(stage: Stage) -> None:
    queue = stream(stage)
    channel = stage.channel("publisher")
    channel.tx_select()
    channel.basic_publish("", queue, b"never")
    channel.tx_rollback()
    for text in (b"1", b"2"):
        channel.basic_publish("", queue, text)
    stage.put(queue, b"0")
    channel.tx_commit()
    assert bodies(replay(stage, queue, b"2")) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("kind", ["direct", "topic", "fanout", "headers"])
def test_streams_are_bound_like_any_queue(stage: Stage, kind: str) -> None:
    exchange = stage.exchange(kind)
    queue = stream(stage)
    stage.bind(queue, exchange, "k", **{"x-match": "all", "h": 1} if kind == "headers" else {})
    other = stage.bound(exchange, "k")
    stage.send(exchange, "k", b"routed", headers={"h": 1}, mandatory=True)
    [message] = replay(stage, queue, b"routed")
    assert (message.method.exchange, message.method.routing_key) == (exchange, "k")
    stage.channel().queue_unbind(queue, exchange, "k")
    if kind == "direct":
        stage.channel().queue_unbind(other, exchange, "k")
        with pytest.raises(pika.exceptions.UnroutableError):
            stage.send(exchange, "k", b"not routed", mandatory=True)


def test_an_alternate_exchange_may_lead_to_a_stream(stage: Stage) -> None:
    alternate = stage.exchange("fanout")
    queue = stream(stage)
    stage.bind(queue, alternate)
    exchange = stage.exchange("direct", alternate_exchange=alternate)
    stage.send(exchange, "nowhere", b"found", mandatory=True)
    [message] = replay(stage, queue, b"found")
    assert (message.method.exchange, message.method.routing_key) == (exchange, "nowhere")


@only_fedq
def test_dead_letters_may_go_to_a_stream(stage: Stage) -> None:
    """RabbitMQ 3.10 loses them, unless they come from a quorum queue at least once."""
    grave = stream(stage)
    queue = stage.queue(dead_letter_exchange="", dead_letter_routing_key=grave)
    stage.put(queue, b"dead")
    stage.reject(stage.hold(queue))
    [message] = replay(stage, grave, b"dead")
    assert message.deaths[0]["reason"] == "rejected"


# --- how it comes out -----------------------------------------------------------------------------


def test_properties_are_kept(stage: Stage) -> None:
    queue = stream(stage)
    given = {
        "content_type": "text/plain", "content_encoding": "gzip", "priority": 3,
        "delivery_mode": 2, "correlation_id": "c", "reply_to": "r", "message_id": "m",
        "timestamp": 1_000, "type": "t", "user_id": "guest", "app_id": "a",
    }  # fmt: skip
    stage.put(queue, b"full", **given)
    [message] = replay(stage, queue, b"full")
    assert {word: getattr(message.properties, word) for word in given} == given
    assert message.headers == {"x-stream-offset": 0}


def test_headers_are_kept_in_the_order_of_their_names(stage: Stage) -> None:
    queue = stream(stage)
    given = {
        "zz": 1, "b": True, "x-t": "text", "A": -(2**40), "x-a": b"bytes", "n": None,
        "t": datetime(2020, 1, 1, tzinfo=UTC), "": "",
    }  # fmt: skip
    stage.put(queue, b"headed", headers=given)
    [message] = replay(stage, queue, b"headed")
    expected = given | {"x-stream-offset": 0}
    assert message.headers == expected
    assert list(message.headers) == sorted(expected)


def test_the_offset_is_the_broker_s_word(stage: Stage) -> None:
    queue = stream(stage)
    stage.put(queue, b"1", headers={"x-stream-offset": "mine", "other": 2})
    stage.put(queue, b"2", headers={"x-stream-offset": 77})
    first, second = replay(stage, queue, b"2")
    assert first.headers == {"x-stream-offset": 0, "other": 2}
    assert second.headers == {"x-stream-offset": 1}
    # A long: pika has a class of its own for what came as 64 bits.
    assert type(first.headers["x-stream-offset"]) is pika.compat.long


@only_fedq
def test_headers_with_parts_are_kept(stage: Stage) -> None:
    """RabbitMQ 3.10 drops headers that are tables or arrays."""
    queue = stream(stage)
    given = {"table": {"a": 1}, "array": [1, "b"], "CC": ["nobody"]}
    stage.put(queue, b"rich", headers=given)
    [message] = replay(stage, queue, b"rich")
    assert message.headers == given | {"x-stream-offset": 0}


# --- how long it stays ----------------------------------------------------------------------------


def test_old_segments_go_by_their_bytes(stage: Stage) -> None:
    queue, texts = filled(stage, 60, max_length_bytes=KEPT * BODY_BYTES)
    messages = wait_trimmed(stage, queue, texts[-1])
    assert bodies(messages) == texts[-len(messages) :]
    places = offsets(messages)
    assert places == sorted(set(places))
    assert places[0] >= 60 - len(messages)
    eventually("the count is what is left", lambda: 1 <= stage.depth(queue) <= 2 * KEPT)


def test_one_segment_is_never_too_much(stage: Stage) -> None:
    queue = stream(stage, max_length_bytes=1_000)
    texts = [b"%d" % number for number in range(100)]
    stage.flood(texts, queue)
    assert bodies(replay(stage, queue, texts[-1])) == texts


def test_all_is_kept_without_a_bound(stage: Stage) -> None:
    queue, texts = filled(stage, 30)
    messages = replay(stage, queue, texts[-1])
    assert bodies(messages) == texts
    assert offsets(messages) == sorted(set(offsets(messages)))


def test_old_segments_go_by_their_age(stage: Stage) -> None:
    queue, old = filled(stage, 10, max_age="1s")
    stage.let_pass(2_200)
    new = [(b"new %d " % number).ljust(BODY_BYTES, b".") for number in range(10)]
    stage.put(queue, *new)

    def is_gone() -> bool:
        return old[0] not in bodies(replay(stage, queue, new[-1]))

    eventually("the old segments are gone", is_gone)
    found = bodies(replay(stage, queue, new[-1]))
    assert found[-1] == new[-1]
    # A segment goes as a whole, when its last message is too old.
    assert len([text for text in found if text in old]) <= 2


def test_age_alone_removes_no_segment_that_is_written(stage: Stage) -> None:
    queue = stream(stage, max_age="1s")
    stage.put(queue, b"old")
    stage.let_pass(1_500)
    stage.put(queue, b"new")
    assert bodies(replay(stage, queue, b"new")) == [b"old", b"new"]


@pytest.mark.parametrize("offset", ["first", 3, 0, -1, "1Y", datetime(2000, 1, 1, tzinfo=UTC)])
def test_what_is_gone_is_left_out(stage: Stage, offset: object) -> None:
    queue, texts = filled(stage, 60, max_length_bytes=KEPT * BODY_BYTES)
    wait_trimmed(stage, queue, texts[-1])
    found = bodies(replay(stage, queue, texts[-1], offset))
    assert 1 <= len(found) <= KEPT
    assert found == texts[-len(found) :]


def test_a_slow_reader_goes_on_with_what_is_left(stage: Stage) -> None:
    queue, texts = filled(stage, 4, max_length_bytes=KEPT * BODY_BYTES)
    inbox = Inbox(stage.consumer, queue, prefetch=2, stream_offset="first")
    inbox.wait(2)
    more = [(b"more %d " % number).ljust(BODY_BYTES, b".") for number in range(60)]
    stage.put(queue, *more)
    wait_trimmed(stage, queue, more[-1])

    acknowledged = 0
    while more[-1] not in inbox.bodies:
        until_more(inbox, acknowledged)
        acknowledged = len(inbox.messages)
        inbox.ack(multiple=True)
    everything = texts + more
    places = [everything.index(text) for text in inbox.bodies]
    assert places == sorted(set(places))
    assert len(places) < len(everything)


# --- its end --------------------------------------------------------------------------------------


def test_streams_are_not_purged(stage: Stage) -> None:
    queue = stream(stage)
    stage.put(queue, b"stays")
    with refused(UNSUPPORTED, f"queue.purge not supported by stream queues queue '{queue}'"):
        stage.channel().queue_purge(queue)
    stage.wait_depth(queue, 1)


@pytest.mark.parametrize("condition", [{}, {"if_empty": True}, {"if_unused": True}])
def test_a_stream_is_deleted_whatever_is_in_it(stage: Stage, condition: dict[str, bool]) -> None:
    queue = stream(stage)
    stage.put(queue, b"1", b"2")
    inbox = Inbox(stage.consumer, queue, prefetch=5, stream_offset="first")
    inbox.wait(2)
    deleted = stage.channel("owner").queue_delete(queue, **condition)
    assert deleted.method.message_count == 0
    with refused(404, f"no queue '{queue}'"):
        stage.channel().queue_declare(queue, passive=True)


def test_a_stream_of_the_same_name_begins_anew(stage: Stage) -> None:
    queue = stream(stage)
    stage.put(queue, b"old")
    stage.owner.queue_delete(queue)
    stage.owner.queue_declare(queue, durable=True, arguments=table(queue_type="stream"))
    arrives(stage.owner)
    stage.put(queue, b"new")
    messages = replay(stage, queue, b"new")
    assert (bodies(messages), offsets(messages)) == ([b"new"], [0])
