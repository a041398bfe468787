"""What a channel offers: confirms, returns, flow, recovery, live prefetch, cancel notifications."""

import pytest

from tests.integration.stock import BlockingChannel, pika
from tests.integration.surface import (
    Inbox,
    Stage,
    arrives,
    bodies,
    everywhere,
    is_other,
    pump,
    refused,
    unless_private,
    unless_spread,
)  # fmt: skip
from tests.integration.waiting import until
from tests.integration.wire import Wire

pytestmark = pytest.mark.slow

Basic, Channel = pika.spec.Basic, pika.spec.Channel


def sent(channel: BlockingChannel, method: object) -> None:
    """Sends a method that pika has no function for."""
    channel._impl._send_method(method)


# --- confirms and returns -------------------------------------------------------------------------


@unless_private
def test_acks_are_cumulative_and_complete(stage: Stage) -> None:
    queue = stage.queue()
    with Wire(stage.address("publisher")) as wire:
        wire.open_channel(1)
        wire.call(1, pika.spec.Confirm.Select(), pika.spec.Confirm.SelectOk)
        for number in range(500):
            wire.publish(1, "", queue, b"%d" % number)
        confirmed = 0
        while confirmed < 500:
            ack = wire.expect(1, Basic.Ack)
            assert ack.delivery_tag == confirmed + 1 or (
                ack.multiple and ack.delivery_tag > confirmed
            )
            confirmed = ack.delivery_tag
    stage.wait_depth(queue, 500)


@unless_spread
def test_nacks_and_acks_between_them_name_every_publish(stage: Stage) -> None:
    queue = stage.queue(max_length=3, overflow="reject-publish")
    with Wire(stage.address("publisher")) as wire:
        wire.open_channel(1)
        wire.call(1, pika.spec.Confirm.Select(), pika.spec.Confirm.SelectOk)
        for number in range(10):
            wire.publish(1, "", queue, b"%d" % number)
        answers: dict[int, bool] = {}
        while len(answers) < 10:
            method = wire.expect(1, (Basic.Ack, Basic.Nack))  # type: ignore[arg-type]
            first = 1 if method.multiple else method.delivery_tag
            for tag in range(first, method.delivery_tag + 1):
                answers.setdefault(tag, isinstance(method, Basic.Ack))
    assert [answers[tag] for tag in range(1, 11)] == [True] * 3 + [False] * 7
    assert bodies(stage.drain(queue, 3)) == [b"0", b"1", b"2"]


def test_a_return_comes_before_its_confirm(stage: Stage) -> None:
    with Wire(stage.address("publisher")) as wire:
        wire.open_channel(1)
        wire.call(1, pika.spec.Confirm.Select(), pika.spec.Confirm.SelectOk)
        publish = Basic.Publish(routing_key=f"{stage.name}-nowhere", mandatory=True)
        content = [pika.frame.Header(1, 1, pika.BasicProperties()), pika.frame.Body(1, b"x")]
        frames = [pika.frame.Method(1, publish), *content]
        wire.send_bytes(b"".join(frame.marshal() for frame in frames))
        returned = wire.expect(1, Basic.Return)
        assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")
        header, body = wire.read(), wire.read()
        assert (header.body_size, body.fragment) == (1, b"x")
        assert wire.expect(1, Basic.Ack).delivery_tag == 1


@everywhere
def test_without_confirms_returns_come_too(stage: Stage) -> None:
    queue = stage.queue()
    channel = stage.channel("publisher")
    returned: list[bytes] = []
    channel.add_on_return_callback(lambda _c, _m, _p, body: returned.append(body))
    channel.basic_publish("", f"{stage.name}-nowhere", b"returned", mandatory=True)
    channel.basic_publish("", queue, b"kept", mandatory=True)

    def is_returned() -> bool:
        pump(channel)
        return bool(returned)

    until("it is returned", is_returned)
    assert returned == [b"returned"]
    assert bodies(stage.drain(queue, 1)) == [b"kept"]


# --- prefetch -------------------------------------------------------------------------------------


@everywhere
def test_prefetch_is_for_each_consumer_that_comes_after(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, *(b"%d" % number for number in range(10)))
    first = Inbox(stage.consumer, queue, prefetch=2)
    second = Inbox(stage.consumer, queue, prefetch=3)
    first.wait(2, second)
    second.wait(3, first)
    pump(stage.consumer)
    assert (len(first.messages), len(second.messages)) == (2, 3)
    first.ack(0)
    first.wait(3, second)
    assert stage.depth(queue) == 4


@everywhere
def test_a_global_prefetch_is_for_all_consumers_of_the_channel(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, *(b"%d" % number for number in range(10)))
    channel = stage.consumer
    channel.basic_qos(prefetch_count=3, global_qos=True)
    inboxes = [Inbox(channel, queue) for _ in range(2)]

    def held() -> int:
        pump(channel)
        return sum(len(inbox.messages) for inbox in inboxes)

    until("three are out", lambda: held() >= 3)
    assert (held(), stage.depth(queue)) == (3, 7)
    message = (inboxes[0].messages or inboxes[1].messages)[0]
    channel.basic_ack(message.method.delivery_tag)
    until("one more comes", lambda: held() >= 4)
    assert (held(), stage.depth(queue)) == (4, 6)


@everywhere
def test_a_global_prefetch_grows_and_shrinks_live(stage: Stage) -> None:
    """As Celery does while tasks wait for their time."""
    queue = stage.queue()
    channel = stage.consumer
    channel.basic_qos(prefetch_count=1, global_qos=True)
    inbox = Inbox(channel, queue)
    stage.put(queue, *(b"%d" % number for number in range(10)))
    inbox.wait(1)
    channel.basic_qos(prefetch_count=4, global_qos=True)
    inbox.wait(4)
    assert stage.depth(queue) == 6
    channel.basic_qos(prefetch_count=2, global_qos=True)
    for index in range(2):
        inbox.ack(index)
    arrives(channel)
    pump(channel)
    assert len(inbox.messages) == 4
    inbox.ack(2)
    inbox.wait(5)
    channel.basic_qos(prefetch_count=0, global_qos=True)
    inbox.wait(10)


@everywhere
def test_both_prefetches_hold(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, *(b"%d" % number for number in range(10)))
    channel = stage.consumer
    channel.basic_qos(prefetch_count=3)
    channel.basic_qos(prefetch_count=4, global_qos=True)
    first = Inbox(channel, queue)
    first.wait(3)
    second = Inbox(channel, queue)
    second.wait(1, first)
    pump(channel)
    assert (len(first.messages), len(second.messages)) == (3, 1)


@everywhere
def test_get_knows_no_prefetch(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"1", b"2", b"3")
    stage.consumer.basic_qos(prefetch_count=1, global_qos=True)
    assert len([stage.hold(queue) for _ in range(3)]) == 3


@everywhere
def test_automatic_acknowledgement_knows_no_prefetch(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, *(b"%d" % number for number in range(20)))
    stage.consumer.basic_qos(prefetch_count=1)
    seen: list[bytes] = []
    stage.consumer.basic_consume(queue, lambda _c, _m, _p, body: seen.append(body), auto_ack=True)

    def have_come() -> bool:
        pump(stage.consumer)
        return len(seen) == 20

    until("all come", have_come)


def test_a_prefetch_in_bytes_is_refused(stage: Stage) -> None:
    with refused(540, "prefetch_size"):
        stage.consumer.basic_qos(prefetch_size=1_000)


# --- flow and recovery ----------------------------------------------------------------------------


@pytest.mark.skipif(is_other, reason="RabbitMQ closes the connection: it has no such flow")
@everywhere
def test_a_client_may_stop_the_flow(stage: Stage) -> None:
    """Clause 1.5.2.3; what is stopped waits in the queue."""
    queue = stage.queue()
    channel = stage.consumer
    inbox = Inbox(channel, queue, ack=True)
    assert channel.flow(False) is False
    stage.put(queue, b"1")
    pump(channel)
    assert inbox.messages == []
    assert channel.flow(True) is True
    assert bodies(inbox.wait(1)) == [b"1"]


def test_a_flow_that_runs_may_be_asked_for(stage: Stage) -> None:
    assert stage.channel().flow(True) is True


@unless_spread
def test_recover_brings_back_what_is_out(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"1", b"2", b"3")
    inbox = Inbox(stage.consumer, queue, prefetch=2)
    inbox.wait(2)
    stage.consumer.basic_recover(requeue=True)
    messages = inbox.wait(4)[2:]
    assert [(message.body, message.method.redelivered) for message in messages] == [
        (b"1", True),
        (b"2", True),
    ]
    inbox.ack(3, multiple=True)
    assert inbox.wait(5)[4].body == b"3"


@unless_spread
def test_recover_brings_back_what_was_got(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"1", b"2")
    stage.hold(queue)
    stage.consumer.basic_recover(requeue=True)
    messages = stage.drain(queue, 2)
    assert [(message.body, message.method.redelivered) for message in messages] == [
        (b"1", True),
        (b"2", False),
    ]


def test_recover_without_requeue_is_refused(stage: Stage) -> None:
    with refused(540):
        stage.consumer.basic_recover(requeue=False)


@unless_spread
def test_the_old_way_of_recovering(stage: Stage) -> None:
    """`basic.recover-async`, which has no answer."""
    queue = stage.queue()
    stage.put(queue, b"1")
    channel = stage.consumer
    stage.hold(queue)
    sent(channel, Basic.RecoverAsync(requeue=True))
    assert [message.method.redelivered for message in stage.drain(queue, 1)] == [True]


# --- coming back ----------------------------------------------------------------------------------


@unless_spread
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1)])
def test_messages_come_back_to_their_old_place(stage: Stage, order: tuple[int, ...]) -> None:
    queue = stage.queue()
    texts = [b"%d" % number for number in range(6)]
    stage.put(queue, *texts)
    held = [stage.hold(queue) for _ in range(4)]
    stage.put(queue, b"6")
    for index in order:
        stage.reject(held[index], requeue=True)
    messages = stage.drain(queue, 7)
    assert bodies(messages) == [*texts, b"6"]
    assert [message.method.redelivered for message in messages] == [True] * 4 + [False] * 3


@unless_spread
def test_what_comes_back_overtakes_for_another_consumer(stage: Stage) -> None:
    queue = stage.queue()
    stage.put(queue, b"1", b"2", b"3")
    first = Inbox(stage.consumer, queue, prefetch=1)
    first.wait(1)
    first.cancel()
    first.give_back()
    channel = stage.consumer.connection.channel()
    second = Inbox(channel, queue, prefetch=3)
    assert bodies(second.wait(3)) == [b"1", b"2", b"3"]


# --- cancel notifications -------------------------------------------------------------------------


@unless_private
def test_consumers_are_told_when_their_queue_is_deleted(stage: Stage) -> None:
    queue = stage.queue()
    inboxes = [Inbox(stage.channel(role), queue) for role in ("owner", "publisher", "consumer")]
    other = Inbox(inboxes[0].channel, stage.queue())
    stage.consumer.queue_delete(queue)

    def all_told() -> bool:
        pump(*(inbox.channel for inbox in inboxes))
        return all(inbox.cancelled for inbox in inboxes)

    until("all are told", all_told)
    assert not other.cancelled
    assert all(inbox.channel.is_open for inbox in inboxes)


@unless_private
def test_who_cannot_be_told_is_not(stage: Stage) -> None:
    """A client that did not announce `consumer_cancel_notify` gets no method it does not know."""
    queue = stage.queue()
    with Wire(stage.address("consumer")) as wire:
        wire.open_channel(1)
        wire.call(1, Basic.Consume(queue=queue), Basic.ConsumeOk)
        stage.owner.queue_delete(queue)
        wire.call(1, Basic.Qos(prefetch_count=1), Basic.QosOk)


@everywhere
def test_cancelling_what_is_not_there_is_no_error(stage: Stage) -> None:
    channel = stage.channel()
    sent(channel, Basic.Cancel(consumer_tag="nobody", nowait=True))
    arrives(channel)


# --- fresh secrets --------------------------------------------------------------------------------


def test_a_connection_goes_on_with_a_fresh_secret(stage: Stage) -> None:
    queue = stage.queue()
    with Wire(stage.address("consumer")) as wire:
        wire.open_channel(1)
        update = pika.spec.Connection.UpdateSecret(b"guest", "the old one expires")
        wire.call(0, update, pika.spec.Connection.UpdateSecretOk)
        wire.publish(1, "", queue, b"1")
        stage.wait_depth(queue, 1)
