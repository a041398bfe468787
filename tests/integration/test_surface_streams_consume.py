"""Reading streams: where a reader begins, what acknowledgements do, what is refused.

Messages are published one by one, each after the confirm of the one before: RabbitMQ hands out
what it has written together in one piece, and more than a prefetch if it has to.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.stock import BlockingChannel, pika
from tests.integration.surface import (
    Inbox,
    Message,
    Stage,
    arrives,
    only_fedq,
    pump,
    refused,
)  # fmt: skip
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

UNSUPPORTED = 540


def stream(stage: Stage, count: int = 0) -> str:
    """A stream with so many messages, b"0", b"1" and so on."""
    queue = stage.queue(durable=True, queue_type="stream")
    stage.put(queue, *numbers(count))
    return queue


def numbers(*span: int) -> list[bytes]:
    """The texts of the messages of that range."""
    return [b"%d" % number for number in range(*span)]


def read(stage: Stage, queue: str, offset: object, channel: BlockingChannel | None = None) -> Inbox:
    """A reader that gets everything from there; it has begun when this returns."""
    channel = channel or stage.channel()
    inbox = Inbox(channel, queue, prefetch=1_000, stream_offset=offset)
    arrives(channel)
    return inbox


def offsets(messages: list[Message]) -> list[int]:
    """Where they are in their stream."""
    return [message.headers["x-stream-offset"] for message in messages]


def nothing_more(inbox: Inbox, count: int) -> None:
    """The broker has answered a question since, and the reader still has only so many."""
    arrives(inbox.channel)
    pump(inbox.channel)
    assert len(inbox.messages) == count, inbox.bodies


# --- where a reader begins ------------------------------------------------------------------------


def test_first_is_the_oldest(stage: Stage) -> None:
    queue = stream(stage, 10)
    inbox = read(stage, queue, "first")
    assert offsets(inbox.wait(10)) == list(range(10))
    assert inbox.bodies == numbers(10)


@pytest.mark.parametrize("offset", [0, 1, 5, 9])
def test_an_offset_is_exact(stage: Stage, offset: int) -> None:
    queue = stream(stage, 10)
    inbox = read(stage, queue, offset)
    assert offsets(inbox.wait(10 - offset)) == list(range(offset, 10))
    assert inbox.bodies == numbers(offset, 10)


@pytest.mark.parametrize("offset", [-1, -(2**31), -(2**63)])
def test_an_offset_before_the_first_is_the_first(stage: Stage, offset: int) -> None:
    queue = stream(stage, 3)
    assert offsets(read(stage, queue, offset).wait(3)) == [0, 1, 2]


def test_last_is_the_last_that_was_written(stage: Stage) -> None:
    queue = stream(stage, 10)
    inbox = read(stage, queue, "last")
    assert offsets(inbox.wait(1)) == [9]
    stage.put(queue, b"10")
    assert offsets(inbox.wait(2)) == [9, 10]


def test_next_is_what_comes(stage: Stage) -> None:
    queue = stream(stage, 10)
    inbox = read(stage, queue, "next")
    stage.put(queue, *numbers(10, 13))
    assert offsets(inbox.wait(3)) == [10, 11, 12]


def test_without_an_offset_it_is_next(stage: Stage) -> None:
    queue = stream(stage, 10)
    inbox = Inbox(stage.consumer, queue, prefetch=100)
    arrives(stage.consumer)
    stage.put(queue, b"10")
    assert offsets(inbox.wait(1)) == [10]


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_an_offset_beyond_the_end_is_waited_for(stage: Stage, ahead: int) -> None:
    queue = stream(stage, 3)
    inbox = read(stage, queue, 3 + ahead)
    stage.put(queue, *numbers(3, 13))
    assert offsets(inbox.wait(10 - ahead)) == list(range(3 + ahead, 13))


@pytest.mark.parametrize("offset", [1_000, 2**31, 2**62, 2**63 - 1])
def test_an_offset_far_beyond_the_end_gets_nothing(stage: Stage, offset: int) -> None:
    queue = stream(stage, 3)
    inbox, other = read(stage, queue, offset), read(stage, queue, "next")
    stage.put(queue, *numbers(3, 6))
    other.wait(3, inbox)
    nothing_more(inbox, 0)


@pytest.mark.parametrize(
    "offset",
    ["first", "last", "next", 0, -1, "1h", datetime(2000, 1, 1), datetime(2100, 1, 1)],
)
def test_an_empty_stream_is_waited_for(stage: Stage, offset: object) -> None:
    queue = stream(stage)
    inbox = read(stage, queue, offset)
    stage.put(queue, *numbers(3))
    assert offsets(inbox.wait(3)) == [0, 1, 2]


def test_an_offset_in_an_empty_stream_is_waited_for(stage: Stage) -> None:
    queue = stream(stage)
    inbox = read(stage, queue, 2)
    stage.put(queue, *numbers(5))
    assert offsets(inbox.wait(3)) == [2, 3, 4]


def test_a_time_is_that_of_publishing(stage: Stage) -> None:
    queue = stream(stage, 3)
    stage.let_pass(2_000)
    # Clients say whole seconds.
    between = datetime.now(UTC).replace(microsecond=0)
    stage.put(queue, *numbers(3, 6))
    assert offsets(read(stage, queue, between).wait(3)) == [3, 4, 5]
    assert offsets(read(stage, queue, between - timedelta(minutes=1)).wait(6))[0] == 0


def test_a_time_before_everything_is_the_first(stage: Stage) -> None:
    queue = stream(stage, 3)
    for long_ago in (datetime.fromtimestamp(0, UTC), datetime(2000, 1, 1, tzinfo=UTC)):
        assert offsets(read(stage, queue, long_ago).wait(3)) == [0, 1, 2]


def test_a_time_to_come_is_next(stage: Stage) -> None:
    queue = stream(stage, 3)
    inbox = read(stage, queue, datetime.now(UTC) + timedelta(hours=1))
    stage.put(queue, b"3")
    assert offsets(inbox.wait(1)) == [3]


def test_an_interval_reaches_back(stage: Stage) -> None:
    queue = stream(stage, 3)
    stage.let_pass(5_000)
    stage.put(queue, b"3")
    assert offsets(read(stage, queue, "4s").wait(1)) == [3]
    for interval in ("1m", "1h", "1D", "1M", "1Y", "99999999Y"):
        assert offsets(read(stage, queue, interval).wait(4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("offset", ["5", "0s", "1d", "1H", "1h30m", "1h "])
def test_words_that_are_no_offset_are_refused(stage: Stage, offset: str) -> None:
    queue = stream(stage)
    with refused(406, f"invalid arg 'x-stream-offset' for queue '{queue}' in vhost '/': "):
        read(stage, queue, offset)


@only_fedq
@pytest.mark.parametrize(
    "offset", ["First", "zz", "", "-1h", b"\x00", True, None, [1], {"first": 1}]
)
def test_values_that_are_no_offset_are_refused(stage: Stage, offset: object) -> None:
    """RabbitMQ fails at these with 541 and closes the connection."""
    queue = stream(stage)
    with refused(406, "invalid arg 'x-stream-offset' for queue"):
        read(stage, queue, offset)


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_only_streams_have_offsets(stage: Stage, kind: str) -> None:
    queue = stage.queue(durable=True, queue_type=kind)
    with refused(406, f"invalid arg 'x-stream-offset' for queue '{queue}' in vhost '/' of queue"):
        read(stage, queue, "first")


# --- readers --------------------------------------------------------------------------------------


def test_each_reader_gets_everything(stage: Stage) -> None:
    queue = stream(stage)
    stage.put(queue, *numbers(20))
    readers = [read(stage, queue, "first") for _ in range(3)]
    for reader in readers:
        reader.wait(20)
        assert sorted(reader.bodies, key=int) == numbers(20)
    stage.put(queue, b"20")
    for reader in readers:
        assert reader.wait(21, *readers)[-1].body == b"20"


def test_what_was_read_can_be_read_again(stage: Stage) -> None:
    queue = stream(stage)
    stage.put(queue, *numbers(10))
    for _ in range(3):
        inbox = Inbox(stage.channel(), queue, ack=True, prefetch=3, stream_offset="first")
        messages = inbox.wait(10)
        assert sorted(inbox.bodies, key=int) == numbers(10)
        assert not any(message.method.redelivered for message in messages)
        assert [message.method.delivery_tag for message in messages] == list(range(1, 11))
        inbox.cancel()
    stage.wait_depth(queue, 10)


def test_readers_of_one_channel_have_their_own_places(stage: Stage) -> None:
    queue = stream(stage, 10)
    early, late = (read(stage, queue, offset, stage.consumer) for offset in ("first", 7))
    assert offsets(late.wait(3, early)) == [7, 8, 9]
    assert offsets(early.wait(10)) == list(range(10))


def test_exclusive_readers_are_not_alone(stage: Stage) -> None:
    queue = stream(stage, 1)
    for exclusive in (True, True, False):
        inbox = Inbox(
            stage.channel(), queue, prefetch=5, exclusive=exclusive, stream_offset="first"
        )
        inbox.wait(1)


def test_a_reader_goes_on_where_it_says(stage: Stage) -> None:
    queue = stream(stage, 10)
    inbox = Inbox(stage.consumer, queue, prefetch=3, stream_offset="first")
    last = offsets(inbox.wait(3))[-1]
    inbox.cancel()
    inbox.ack(multiple=True)
    assert offsets(read(stage, queue, last + 1).wait(7)) == list(range(3, 10))


def test_readers_are_told_that_their_stream_is_deleted(stage: Stage) -> None:
    queue = stream(stage, 3)
    inbox = Inbox(stage.consumer, queue, prefetch=5, stream_offset="first")
    inbox.wait(3)
    stage.owner.queue_delete(queue)

    def is_cancelled() -> bool:
        pump(stage.consumer)
        return inbox.cancelled

    until("the reader is cancelled", is_cancelled)
    inbox.ack(multiple=True)
    arrives(stage.consumer)


# --- acknowledgements -----------------------------------------------------------------------------


def test_no_more_than_the_prefetch_is_out(stage: Stage) -> None:
    queue = stream(stage, 10)
    inbox = Inbox(stage.consumer, queue, prefetch=3, stream_offset="first")
    inbox.wait(3)
    nothing_more(inbox, 3)
    inbox.ack(0)
    inbox.wait(4)
    inbox.ack(2)
    inbox.wait(5)
    nothing_more(inbox, 5)
    inbox.ack(4, multiple=True)
    inbox.wait(8)
    stage.consumer.basic_ack(0, multiple=True)
    assert offsets(inbox.wait(10)) == list(range(10))


def test_a_later_prefetch_is_for_later_readers(stage: Stage) -> None:
    queue = stream(stage, 10)
    inbox = Inbox(stage.consumer, queue, prefetch=2, stream_offset="first")
    inbox.wait(2)
    for prefetch in (10, 0):
        stage.consumer.basic_qos(prefetch_count=prefetch)
        nothing_more(inbox, 2)
    inbox.ack(1, multiple=True)
    inbox.wait(4)


def test_a_prefetch_of_the_channel_does_not_count(stage: Stage) -> None:
    queue = stream(stage, 10)
    stage.consumer.basic_qos(prefetch_count=2, global_qos=True)
    inbox = Inbox(stage.consumer, queue, prefetch=5, stream_offset="first")
    inbox.wait(5)


def test_unknown_tags_are_refused(stage: Stage) -> None:
    queue = stream(stage, 3)
    inbox = Inbox(stage.consumer, queue, prefetch=5, stream_offset="first")
    inbox.wait(3)
    inbox.ack(0)
    with refused(406, "unknown delivery tag 1"):
        inbox.ack(0)
        arrives(stage.consumer)


def test_acknowledgements_after_the_cancel_are_taken(stage: Stage) -> None:
    queue = stream(stage, 10)
    inbox = Inbox(stage.consumer, queue, prefetch=3, stream_offset="first")
    inbox.wait(3)
    inbox.cancel()
    inbox.ack(multiple=True)
    nothing_more(inbox, 3)


def test_acknowledgements_in_a_transaction_count_when_it_commits(stage: Stage) -> None:
    queue = stream(stage, 10)
    stage.consumer.tx_select()
    inbox = Inbox(stage.consumer, queue, prefetch=3, stream_offset="first")
    inbox.wait(3)
    inbox.ack(multiple=True)
    nothing_more(inbox, 3)
    stage.consumer.tx_commit()
    inbox.wait(6)
    inbox.ack(multiple=True)
    stage.consumer.tx_rollback()
    nothing_more(inbox, 6)


@pytest.mark.parametrize("requeue", [True, False])
@pytest.mark.parametrize("word", ["nack", "reject"])
def test_nothing_can_be_given_back(stage: Stage, word: str, requeue: bool) -> None:
    queue = stream(stage, 3)
    channel = stage.channel()
    inbox = Inbox(channel, queue, prefetch=5, stream_offset="first")
    inbox.wait(3)
    words = f"basic.nack and basic.reject not supported by stream queues queue '{queue}'"
    with refused(UNSUPPORTED, words):
        if word == "nack":
            channel.basic_nack(2, multiple=True, requeue=requeue)
        else:
            channel.basic_reject(2, requeue=requeue)
        arrives(channel)


@only_fedq
def test_nothing_can_be_recovered(stage: Stage) -> None:
    """RabbitMQ fails at this with 541."""
    queue = stream(stage, 3)
    channel = stage.channel()
    inbox = Inbox(channel, queue, prefetch=5, stream_offset="first")
    inbox.wait(3)
    with refused(UNSUPPORTED, "not supported by stream queues"):
        channel.basic_recover(requeue=True)


def test_nothing_out_is_easily_recovered(stage: Stage) -> None:
    queue = stream(stage, 3)
    inbox = Inbox(stage.consumer, queue, prefetch=5, stream_offset="first")
    inbox.wait(3)
    inbox.ack(multiple=True)
    stage.consumer.basic_recover(requeue=True)
    nothing_more(inbox, 3)


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("prefetch", [None, 0])
@pytest.mark.parametrize("auto_ack", [False, True])
def test_a_reader_needs_a_prefetch(stage: Stage, prefetch: int | None, auto_ack: bool) -> None:
    queue = stream(stage, 3)
    channel = stage.channel()
    if prefetch is not None:
        channel.basic_qos(prefetch_count=prefetch)
    with refused(406, f"consumer prefetch count is not set for 'queue '{queue}' in vhost '/''"):
        channel.basic_consume(queue, lambda *_: None, auto_ack=auto_ack)


def test_a_prefetch_of_the_channel_is_not_enough(stage: Stage) -> None:
    queue = stream(stage, 3)
    channel = stage.channel()
    channel.basic_qos(prefetch_count=5, global_qos=True)
    with refused(406, f"consumer prefetch count is not set for 'queue '{queue}' in vhost '/''"):
        channel.basic_consume(queue, lambda *_: None)


def test_a_reader_acknowledges(stage: Stage) -> None:
    queue = stream(stage, 3)
    channel = stage.channel()
    channel.basic_qos(prefetch_count=5)
    words = f"automatic acknowledgement not supported by stream queues queue '{queue}'"
    with refused(UNSUPPORTED, words):
        channel.basic_consume(queue, lambda *_: None, auto_ack=True)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("priority", 5), ("priority", "high"), ("cancel_on_ha_failover", True)],
)
def test_readers_have_no_priorities(stage: Stage, argument: str, value: object) -> None:
    queue = stream(stage)
    word = "x-" + argument.replace("_", "-")
    arguments: dict[str, Any] = {argument: value}
    with refused(406, f"invalid arg '{word}' for queue '{queue}' in vhost '/' of queue type"):
        Inbox(stage.channel(), queue, prefetch=5, **arguments)


@pytest.mark.parametrize("auto_ack", [False, True])
def test_a_stream_is_not_got_from(stage: Stage, auto_ack: bool) -> None:
    queue = stream(stage)
    with refused(UNSUPPORTED, f"basic.get not supported by stream queues queue '{queue}'"):
        stage.channel().basic_get(queue, auto_ack=auto_ack)


def test_an_argument_that_nobody_knows_is_ignored(stage: Stage) -> None:
    queue = stream(stage, 1)
    inbox = Inbox(stage.consumer, queue, prefetch=5, stream_offset="first", nobody_knows_it=1)
    inbox.wait(1)


def test_a_stream_that_is_not_there(stage: Stage) -> None:
    with refused(404, "no queue"):
        read(stage, stage.unused(), "first")


def test_a_tag_is_used_once(stage: Stage) -> None:
    queue = stream(stage)
    channel = stage.channel()
    channel.basic_qos(prefetch_count=5)
    tag = channel.basic_consume(queue, lambda *_: None)
    consume = pika.spec.Basic.Consume(queue=queue, consumer_tag=tag)
    channel._impl._send_method(consume)
    with refused(530, f"attempt to reuse consumer tag '{tag}'"):
        arrives(channel)
