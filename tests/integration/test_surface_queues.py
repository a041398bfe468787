"""Declaring: names, no-wait and passive variants, redeclaring, exclusive use, types, arguments."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.harness import eventually
from tests.integration.stock import BlockingChannel, pika
from tests.integration.surface import (
    Inbox,
    Stage,
    arrives,
    bodies,
    everywhere,
    is_other,
    only_fedq,
    refused,
    table,
    unless_private,
)  # fmt: skip
from tests.integration.wire import Wire

pytestmark = pytest.mark.slow

Basic, Exchange, Queue = pika.spec.Basic, pika.spec.Exchange, pika.spec.Queue


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("exclusive", [True, False])
def test_the_broker_makes_a_name(stage: Stage, exclusive: bool) -> None:
    names = [
        stage.channel(role).queue_declare("", exclusive=exclusive).method.queue
        for role in ("owner", "publisher", "consumer")
        for _ in range(2)
    ]
    assert len(set(names)) == 6
    assert all(name.startswith("amq.gen-") for name in names)
    for name in names:
        stage.send("", name, b"1", mandatory=True)
    if not exclusive:
        for name in names:
            assert stage.owner.queue_delete(name).method.message_count == 1


def test_a_queue_that_the_broker_named_is_everybodys(stage: Stage) -> None:
    """Unless it is exclusive: any connection to any node may use it by its name."""
    queue = stage.owner.queue_declare("", auto_delete=True).method.queue
    exchange = stage.exchange("fanout")
    stage.bind(queue, exchange)
    stage.send("", queue, b"1", mandatory=True)
    stage.send(exchange, "", b"2", mandatory=True)
    stage.wait_depth(queue, 2)
    assert stage.hold(queue).body == b"1"
    inbox = Inbox(stage.consumer.connection.channel(), queue, ack=True)
    assert bodies(inbox.wait(1)) == [b"2"]
    stage.put(queue, b"3")
    assert bodies(inbox.wait(2)) == [b"2", b"3"]
    inbox.cancel()
    eventually("it goes with its last consumer", lambda: not stage.is_there(queue))


def test_the_last_declared_queue_needs_no_name(stage: Stage) -> None:
    channel = stage.channel()
    name = channel.queue_declare("", exclusive=True).method.queue
    exchange = stage.exchange("direct")
    channel.queue_bind("", exchange, "key")
    # Both names empty: the queue's name is the key, too.
    channel.queue_bind("", exchange, "")
    stage.send(exchange, "key", b"1", mandatory=True)
    stage.send(exchange, name, b"2", mandatory=True)
    got = [channel.basic_get("", auto_ack=True)[2] for _ in range(2)]
    assert got == [b"1", b"2"]
    assert channel.queue_purge("").method.message_count == 0
    assert channel.queue_delete("").method.message_count == 0


def test_without_a_declared_queue_no_name_is_404(stage: Stage) -> None:
    for act in ("queue_purge", "queue_delete", "basic_get"):
        with refused(404, "no previously declared queue"):
            getattr(stage.channel(), act)("")


def test_names_that_begin_with_amq_are_the_brokers(stage: Stage) -> None:
    name = f"amq.{stage.name}"
    with refused(403, f"queue name '{name}' contains reserved prefix 'amq.\\*'"):
        stage.channel().queue_declare(name)
    with refused(403, f"exchange name '{name}' contains reserved prefix 'amq.\\*'"):
        stage.channel().exchange_declare(name, "direct")
    # What is there may be declared again, and asked for.
    stage.channel().exchange_declare("amq.topic", "topic", durable=True)
    with refused(404):
        stage.channel().queue_declare(name, passive=True)
    with refused(403):
        stage.channel().exchange_delete("amq.direct")


def test_the_default_exchange_is_untouchable(stage: Stage) -> None:
    queue = stage.queue()
    attempts: list[tuple[str, tuple[Any, ...]]] = [
        ("exchange_declare", ("", "direct")),
        ("exchange_delete", ("",)),
        ("queue_bind", (queue, "", "key")),
        ("queue_unbind", (queue, "", queue)),
    ]
    for act, arguments in attempts:
        with refused(403, "operation not permitted on the default exchange"):
            getattr(stage.channel(), act)(*arguments)


def test_names_of_all_letters(stage: Stage) -> None:
    for name in ("with space", "é/ü#*.>", "x" * 200):
        queue = stage.queue(f"{stage.unused()}{name}"[:255])
        stage.put(queue, b"1")
        assert stage.owner.queue_delete(queue).method.message_count == 1


# --- without an answer, and only asking -----------------------------------------------------------


def test_nothing_answers_what_need_not_be_answered(stage: Stage) -> None:
    """All no-wait variants in a row; the first answer is the one of the question at the end."""
    queue, exchange = stage.unused(), f"{stage.name}-x"
    inner = stage.exchange("fanout")
    with Wire(stage.address("consumer")) as wire:
        wire.open_channel(1)
        for method in (
            Exchange.Declare(exchange=exchange, type="direct", nowait=True),
            Queue.Declare(queue=queue, nowait=True),
            Queue.Bind(queue=queue, exchange=exchange, routing_key="key", nowait=True),
            Exchange.Bind(destination=inner, source=exchange, routing_key="key", nowait=True),
            pika.spec.Confirm.Select(nowait=True),
        ):
            wire.send(1, method)
        wire.publish(1, exchange, "key", b"1")
        assert wire.expect(1, Basic.Ack).delivery_tag == 1
        wire.send(1, Basic.Consume(queue=queue, consumer_tag="mine", nowait=True))
        assert wire.expect(1, Basic.Deliver).consumer_tag == "mine"
        assert wire.read().body_size == 1
        assert wire.read().fragment == b"1"
        for method in (
            Basic.Cancel(consumer_tag="mine", nowait=True),
            Exchange.Unbind(destination=inner, source=exchange, routing_key="key", nowait=True),
            Queue.Purge(queue=queue, nowait=True),
            Queue.Delete(queue=queue, nowait=True),
            Exchange.Delete(exchange=exchange, nowait=True),
        ):
            wire.send(1, method)
        wire.call(1, Basic.Qos(prefetch_count=1), Basic.QosOk)
    with refused(404):
        stage.channel().queue_declare(queue, passive=True)


def test_errors_are_told_even_so(stage: Stage) -> None:
    with Wire(stage.address("consumer")) as wire:
        wire.open_channel(1)
        wire.send(1, Queue.Declare(queue=f"{stage.name}-no", passive=True, nowait=True))
        assert wire.expect(1, pika.spec.Channel.Close).reply_code == 404


@everywhere
def test_asking_for_a_queue_ignores_what_it_should_be(stage: Stage) -> None:
    queue = stage.queue(max_length=5, fedq_fragments=1)
    stage.put(queue, b"1")
    channel = stage.consumer.connection.channel()
    found = channel.queue_declare(queue, passive=True, durable=True, auto_delete=True).method
    assert (found.queue, found.message_count, found.consumer_count) == (queue, 1, 0)
    exchange = stage.exchange("fanout")
    channel.exchange_declare(exchange, "direct", passive=True, durable=True)


# --- declaring again ------------------------------------------------------------------------------

KNOWN: dict[str, tuple[object, object]] = {
    "x-message-ttl": (60_000, 60_001),
    "x-expires": (60_000, 60_001),
    "x-max-length": (5, 6),
    "x-max-length-bytes": (5_000, 6_000),
    "x-overflow": ("drop-head", "reject-publish"),
    "x-dead-letter-exchange": ("amq.fanout", "amq.direct"),
    "x-max-priority": (5, 6),
    "x-single-active-consumer": (True, False),
    "x-queue-type": ("classic", "quorum"),
}


@pytest.mark.parametrize("argument", list(KNOWN))
def test_another_argument_is_another_queue(stage: Stage, argument: str) -> None:
    one, other = KNOWN[argument]
    queue = stage.unused()
    stage.owner.queue_declare(queue, arguments={argument: one}, durable=True)
    for _ in range(2):
        stage.consumer.queue_declare(queue, arguments={argument: one}, durable=True)
    words = f"inequivalent arg '{argument}' for queue '{queue}' in vhost '/'"
    with refused(406, words):
        stage.channel().queue_declare(queue, arguments={argument: other}, durable=True)
    if argument != "x-queue-type":
        with refused(406, words):
            stage.channel().queue_declare(queue, durable=True)


@pytest.mark.parametrize("flag", ["durable", "auto_delete"])
def test_another_flag_is_another_queue(stage: Stage, flag: str) -> None:
    queue = stage.queue()
    words = f"inequivalent arg '{flag}' for queue '{queue}' in vhost '/': received 'true' but"
    with refused(406, words):
        stage.channel().queue_declare(queue, **{flag: True})


def test_another_exchange_is_another_exchange(stage: Stage) -> None:
    exchange = stage.exchange("direct")
    with refused(406, f"inequivalent arg 'type' for exchange '{exchange}'"):
        stage.channel().exchange_declare(exchange, "fanout")
    for flag in ("durable", "auto_delete", "internal"):
        with refused(406, f"inequivalent arg '{flag}' for exchange '{exchange}'"):
            stage.channel().exchange_declare(exchange, "direct", **{flag: True})


def test_numbers_of_any_width_are_equal(stage: Stage) -> None:
    queue = stage.unused()
    stage.owner.queue_declare(queue, arguments={"x-max-length": 5})
    arguments = {"x-max-length": pika.data.long(5)}
    stage.consumer.queue_declare(queue, arguments=arguments)


# --- exclusive use --------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["owner", "publisher", "consumer"])
def test_an_exclusive_queue_is_its_connections(stage: Stage, role: str) -> None:
    queue = stage.unused()
    stage.owner.queue_declare(queue, exclusive=True)
    words = f"cannot obtain exclusive access to locked queue '{queue}' in vhost '/'"
    attempts: list[Callable[[BlockingChannel], object]] = [
        lambda channel: channel.queue_declare(queue, passive=True),
        lambda channel: channel.queue_declare(queue),
        lambda channel: channel.queue_declare(queue, exclusive=True),
        lambda channel: channel.queue_bind(queue, "amq.direct", "key"),
        lambda channel: channel.queue_purge(queue),
        lambda channel: channel.queue_delete(queue),
        lambda channel: channel.basic_get(queue),
        lambda channel: channel.basic_consume(queue, lambda *_: None),
    ]
    for attempt in attempts:
        with refused(405, words):
            attempt(stage.channel(role))
    stage.put(queue, b"anybody may publish")
    assert stage.owner.basic_get(queue)[2] == b"anybody may publish"
    assert stage.owner.connection.channel().queue_declare(queue, passive=True)


def test_it_goes_with_its_connection(stage: Stage) -> None:
    owner = stage.channel("owner")
    queue = owner.queue_declare(stage.unused(), exclusive=True, durable=True).method.queue
    stage.send("", queue, b"1", mandatory=True)
    owner.connection.close()
    eventually("it is gone", lambda: not stage.is_there(queue))


# --- types and arguments --------------------------------------------------------------------------


@unless_private
@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_both_types_are_queues(stage: Stage, kind: str) -> None:
    queue = stage.queue(durable=True, queue_type=kind)
    stage.put(queue, b"1", b"2", delivery_mode=2)
    assert sorted(bodies(stage.drain(queue, 2))) == [b"1", b"2"]


@pytest.mark.parametrize("flags", [{"exclusive": True, "durable": True}, {}])
def test_a_quorum_queue_is_durable_and_for_all(stage: Stage, flags: dict[str, bool]) -> None:
    arguments = table(queue_type="quorum")
    with refused(406, "invalid property"):
        stage.owner.queue_declare(stage.unused(), arguments=arguments, **flags)


def test_an_unknown_type_is_refused(stage: Stage) -> None:
    with refused(406, "queue-type|queue type"):
        stage.owner.queue_declare(
            stage.unused(), durable=True, arguments=table(queue_type="sideways")
        )


@everywhere
def test_arguments_nobody_knows_are_ignored(stage: Stage) -> None:
    queue = stage.queue(nobody_knows=5, mine="text")
    stage.put(queue, b"1")
    assert bodies(stage.drain(queue, 1)) == [b"1"]


@unless_private
def test_arguments_nobody_knows_are_not_compared(stage: Stage) -> None:
    queue = stage.queue(nobody_knows=5)
    stage.consumer.queue_declare(queue, arguments=stage.arguments(nobody_knows=6))
    stage.consumer.queue_declare(queue, arguments=stage.arguments())


@pytest.mark.parametrize(
    ("argument", "value"),
    [("x-queue-mode", "lazy"), ("x-queue-mode", "default"), ("x-queue-master-locator", "random")],
)
def test_arguments_about_a_queues_inside_are_accepted(
    stage: Stage, argument: str, value: str
) -> None:
    queue = stage.unused()
    stage.owner.queue_declare(queue, arguments={argument: value})
    stage.put(queue, b"1")
    assert bodies(stage.drain(queue, 1)) == [b"1"]


@pytest.mark.skipif(is_other, reason="RabbitMQ has no fragments")
@pytest.mark.parametrize("wrong", [0, -1, "3", 100_000])
@pytest.mark.parametrize("argument", ["x-fedq-fragments", "x-fedq-replicas"])
def test_numbers_of_fragments_and_copies_are_checked(
    stage: Stage, argument: str, wrong: object
) -> None:
    with refused(406, argument):
        stage.owner.queue_declare(stage.unused(), arguments={argument: wrong})


@only_fedq
@pytest.mark.parametrize("mode", ["all", "persistent", "none"])
def test_a_queue_says_what_of_it_is_copied(stage: Stage, mode: str) -> None:
    queue = stage.queue(durable=True, fedq_replicate=mode)
    stage.put(queue, b"1", delivery_mode=1)
    stage.put(queue, b"2", delivery_mode=2)
    assert bodies(stage.drain(queue, 2)) == [b"1", b"2"]
    other = "all" if mode == "none" else "none"
    with refused(406, "inequivalent arg 'x-fedq-replicate'"):
        stage.queue(queue, durable=True, fedq_replicate=other)


@only_fedq
def test_a_queue_that_asks_for_copies_and_none_is_refused(stage: Stage) -> None:
    with refused(406, "expected one of all, persistent, none"):
        stage.queue(fedq_replicate="some")
    with refused(406, "x-fedq-replicas asks for 3"):
        stage.queue(fedq_replicate="none", fedq_replicas=3)


@only_fedq
@pytest.mark.parametrize("stage", ["three"], indirect=True)
@pytest.mark.parametrize(
    "arguments",
    [{"x-max-priority": 5}, {"x-max-length": 5}, {"x-single-active-consumer": True}],
)
def test_a_queue_with_such_semantics_keeps_one_fragment(
    stage: Stage, request: pytest.FixtureRequest, arguments: dict[str, object]
) -> None:
    queue = stage.unused()
    stage.owner.queue_declare(queue, arguments=arguments)
    for role in ("owner", "publisher", "consumer"):
        channel = stage.channel(role)
        channel.confirm_delivery()
        for _ in range(2):
            channel.basic_publish("", queue, b"x")
        arrives(channel)
    assert len(request.getfixturevalue("cluster").fragments(queue)) == 1
