"""kill -9 of the node that holds a queue: what the queue was asked for goes on.

One cluster, one kill. Each act is a generator in three parts, divided by `yield`: what takes its
time (declaring through the node that will be killed, which therefore serves the queue), what
happens just before the kill, and what a user then finds on the other nodes.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import pytest

from tests.integration.conftest import OTHER_BROKER
from tests.integration.harness import Cluster, eventually
from tests.integration.stock import BlockingConnection, connect, pika
from tests.integration.surface import (
    Inbox,
    Stage,
    bodies,
    pump,
    refused,
)  # fmt: skip
from tests.integration.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.patience(120),
    pytest.mark.skipif(bool(OTHER_BROKER), reason="needs a cluster whose nodes may be killed"),
]

KILLED = "a"
#: Long enough for everything that happens just before the kill, and for the kill.
SOON_MS = 3_000
SHORT_MS = 1_500
LONG = "600000"


class Play(NamedTuple):
    """Where an act plays: declared through the first of these nodes, seen from the others."""

    cluster: Cluster
    stage: Stage

    def declare(self, **words: Any) -> str:
        """A durable queue whose primary is on the node that will be killed."""
        return self.stage.queue(durable=True, **words)

    def put(self, queue: str, *texts: bytes, **properties: Any) -> None:
        """Publishes persistent messages through a node that lives on, each confirmed."""
        self.stage.put(queue, *texts, delivery_mode=2, **properties)

    def gone(self, queue: str) -> bool:
        """Whether no message finds the queue."""
        return not self.stage.is_there(queue)


Act = Callable[[Play], Iterator[None]]


def ready_messages_expire_on_time(play: Play) -> Iterator[None]:
    grave = play.declare()
    queue = play.declare(dead_letter_exchange="", dead_letter_routing_key=grave)
    yield
    began = time.monotonic()
    play.put(queue, b"short", expiration=str(SOON_MS))
    play.put(queue, b"long", expiration=LONG)
    yield
    [dead] = play.stage.drain(grave, 1)
    assert time.monotonic() - began >= SOON_MS / 1000
    assert (dead.body, dead.deaths[0]["reason"]) == (b"short", "expired")
    assert dead.deaths[0]["original-expiration"] == str(SOON_MS)
    assert bodies(play.stage.drain(queue, 1)) == [b"long"]


def the_queues_own_time_goes_on(play: Play) -> Iterator[None]:
    queue = play.declare(message_ttl=SOON_MS)
    yield
    play.put(queue, b"1", b"2")
    yield
    play.stage.wait_depth(queue, 0)
    play.put(queue, b"3")
    play.stage.wait_depth(queue, 1)
    play.stage.wait_depth(queue, 0)


def returns_stay_counted(play: Play) -> Iterator[None]:
    grave = play.declare()
    queue = play.declare(
        queue_type="quorum", delivery_limit=3, dead_letter_exchange="",
        dead_letter_routing_key=grave,
    )  # fmt: skip
    play.put(queue, b"1")
    yield
    for _ in range(3):
        play.stage.reject(play.stage.hold(queue), requeue=True)
    play.stage.wait_depth(queue, 1)
    yield
    again = play.stage.hold(queue)
    assert (again.headers["x-delivery-count"], again.method.redelivered) == (3, True)
    play.stage.reject(again, requeue=True)
    [dead] = play.stage.drain(grave, 1)
    assert dead.deaths[0]["reason"] == "delivery_limit"


def dead_letters_under_way_arrive(play: Play) -> Iterator[None]:
    """At the moment of the kill they are dying: none is lost."""
    grave = play.declare()
    queue = play.declare(message_ttl=250, dead_letter_exchange="", dead_letter_routing_key=grave)
    texts = {b"%d" % number for number in range(300)}
    yield
    play.put(queue, *sorted(texts))
    yield
    seen: set[bytes] = set()
    inbox = Inbox(play.stage.consumer.connection.channel(), grave, ack=True)

    def all_seen() -> bool:
        pump(inbox.channel)
        seen.update(inbox.bodies)
        return seen >= texts

    until("every dead letter arrives", all_seen)
    assert seen == texts
    play.stage.wait_depth(queue, 0)


def priorities_keep_their_order(play: Play) -> Iterator[None]:
    queue = play.declare(max_priority=5)
    yield
    for number, rank in enumerate((1, 5, 0, 3, 5)):
        play.put(queue, b"%d.%d" % (rank, number), priority=rank)
    yield
    play.put(queue, b"4.5", priority=4)
    expected = [b"5.1", b"5.4", b"4.5", b"3.3", b"1.0", b"0.2"]
    assert bodies(play.stage.drain(queue, 6)) == expected


def bounds_hold(play: Play) -> Iterator[None]:
    queue = play.declare(max_length=3)
    strict = play.declare(max_length=2, overflow="reject-publish")
    yield
    play.put(queue, b"1", b"2", b"3", b"4")
    play.put(strict, b"1", b"2")
    yield
    with pytest.raises(pika.exceptions.NackError):
        play.put(strict, b"3")
    assert bodies(play.stage.drain(strict, 2)) == [b"1", b"2"]
    play.put(queue, b"5")
    assert bodies(play.stage.drain(queue, 3)) == [b"3", b"4", b"5"]


def the_active_consumer_stays_active(play: Play) -> Iterator[None]:
    """It lives on another node: nobody is cancelled, and what it holds stays its own."""
    queue = play.declare(single_active_consumer=True)
    first = Inbox(play.stage.channel("publisher"), queue)
    second = Inbox(play.stage.channel("consumer"), queue)
    yield
    play.put(queue, b"1", b"2")
    first.wait(2, second)
    yield
    play.put(queue, b"3")
    first.wait(3, second)
    first.ack(multiple=True)
    assert (first.bodies, second.bodies) == ([b"1", b"2", b"3"], [])
    assert (first.cancelled, second.cancelled) == (False, False)
    first.cancel()
    play.put(queue, b"4")
    assert bodies(second.wait(1)) == [b"4"]
    play.stage.wait_depth(queue, 0)


def the_next_consumer_follows_one_that_died(play: Play) -> Iterator[None]:
    """The active one was a client of the killed node: its messages go to the next, in order."""
    queue = play.declare(single_active_consumer=True)
    first = Inbox(play.stage.owner, queue)
    second = Inbox(play.stage.channel("publisher"), queue)
    third = Inbox(play.stage.channel("consumer"), queue)
    yield
    play.put(queue, b"1", b"2", b"3")
    first.wait(3, second, third)
    yield
    messages = second.wait(3, third)
    assert bodies(messages) == [b"1", b"2", b"3"]
    assert all(message.method.redelivered for message in messages)
    assert third.bodies == []


def an_exclusive_consumer_stays_alone(play: Play) -> Iterator[None]:
    queue = play.declare()
    only = Inbox(play.stage.channel("publisher"), queue, ack=True, exclusive=True)
    yield
    play.put(queue, b"1")
    only.wait(1)
    yield
    with refused(403, "in exclusive use"):
        play.stage.channel("consumer").basic_consume(queue, lambda *_: None)
    play.put(queue, b"2")
    assert bodies(only.wait(2)) == [b"1", b"2"]


def consumer_priorities_hold(play: Play) -> Iterator[None]:
    queue = play.declare()
    low = Inbox(play.stage.channel("publisher"), queue, ack=True)
    high = Inbox(play.stage.channel("consumer"), queue, ack=True, priority=5)
    yield
    play.put(queue, b"1")
    high.wait(1, low)
    yield
    play.put(queue, b"2", b"3")
    assert bodies(high.wait(3, low)) == [b"1", b"2", b"3"]
    assert low.bodies == []


def unused_queues_go_and_used_ones_stay(play: Play) -> Iterator[None]:
    used = play.declare(expires=SHORT_MS)
    inbox = Inbox(play.stage.channel("publisher"), used, ack=True)
    yield
    unused = play.declare(expires=SOON_MS)
    yield
    eventually("the unused one goes", lambda: play.gone(unused), 30)
    play.put(used, b"1")
    assert bodies([message for message in inbox.wait(1) if message.body == b"1"]) == [b"1"]
    inbox.cancel()
    eventually("the other goes when nobody uses it", lambda: play.gone(used), 30)


def delayed_messages_come_when_they_are_due(play: Play) -> Iterator[None]:
    exchange = play.stage.exchange("x-delayed-message", x_delayed_type="direct")
    queue = play.declare()
    play.stage.bind(queue, exchange, "key")
    yield
    began = time.monotonic()
    headers = {"x-delay": SOON_MS}
    play.stage.send(exchange, "key", b"1", delivery_mode=2, headers=headers)
    yield
    assert bodies(play.stage.drain(queue, 1)) == [b"1"]
    assert time.monotonic() - began >= SOON_MS / 1000


def a_transaction_is_committed_elsewhere(play: Play) -> Iterator[None]:
    queue = play.declare()
    play.put(queue, b"question")
    channel = play.stage.consumer.connection.channel()
    channel.tx_select()
    yield
    method, _, _ = channel.basic_get(queue)
    channel.basic_publish("", queue, b"answer", pika.BasicProperties(delivery_mode=2))
    channel.basic_ack(method.delivery_tag)
    yield
    channel.tx_commit()
    channel.close()
    assert bodies(play.stage.drain(queue, 1)) == [b"answer"]


def what_was_returned_keeps_its_place(play: Play) -> Iterator[None]:
    queue = play.declare()
    yield
    play.put(queue, b"1", b"2", b"3")
    held = [play.stage.hold(queue) for _ in range(2)]
    play.stage.reject(held[1], requeue=True)
    play.stage.wait_depth(queue, 2)
    yield
    play.stage.reject(held[0], requeue=True)
    messages = play.stage.drain(queue, 3)
    assert bodies(messages) == [b"1", b"2", b"3"]
    assert [message.method.redelivered for message in messages][:2] == [True, True]


def prefetch_holds(play: Play) -> Iterator[None]:
    queue = play.declare()
    channel = play.stage.channel("publisher")
    channel.basic_qos(prefetch_count=2, global_qos=True)
    inbox = Inbox(channel, queue)
    yield
    play.put(queue, b"1", b"2", b"3", b"4")
    inbox.wait(2)
    yield
    play.stage.wait_depth(queue, 2)
    pump(channel)
    assert inbox.bodies == [b"1", b"2"]
    inbox.ack(0)
    assert bodies(inbox.wait(3)) == [b"1", b"2", b"3"]
    channel.basic_qos(prefetch_count=4, global_qos=True)
    inbox.wait(4)


def an_answer_finds_who_asked(play: Play) -> Iterator[None]:
    """The question waits in a queue of the killed node; asker and answerer are elsewhere."""
    queue = play.declare()
    answers: list[bytes] = []
    channel = play.stage.channel("publisher")
    channel.basic_consume(
        "amq.rabbitmq.reply-to", lambda _c, _m, _p, body: answers.append(body), auto_ack=True
    )
    channel.confirm_delivery()
    yield
    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", delivery_mode=2)
    channel.basic_publish("", queue, b"question", properties)
    yield
    question = play.stage.hold(queue)
    play.stage.consumer.basic_publish("", question.properties.reply_to, b"answer")

    def is_answered() -> bool:
        pump(channel)
        return answers == [b"answer"]

    until("the answer comes", is_answered)


def exclusive_queues_end_with_their_node(play: Play) -> Iterator[None]:
    queue = play.stage.unused()
    play.stage.owner.queue_declare(queue, exclusive=True)
    yield
    play.put(queue, b"1")
    yield
    eventually("it is gone", lambda: play.gone(queue))
    found = play.stage.channel("consumer").queue_declare(queue, exclusive=True)
    assert found.method.message_count == 0


def what_was_asked_to_be_copied_is_there(play: Play) -> Iterator[None]:
    """Transient messages: those of one queue have copies, those of the other have none."""
    everything = play.declare(fedq_replicate="all")
    sparing = play.declare(fedq_replicate="persistent")
    yield
    for queue in (everything, sparing):
        play.stage.put(queue, b"1", b"2", delivery_mode=1)
        play.put(queue, b"3", b"4")
        play.stage.put(queue, b"5", delivery_mode=1)
        play.stage.wait_depth(queue, 5)
    yield
    assert bodies(play.stage.drain(everything, 5)) == [b"1", b"2", b"3", b"4", b"5"]
    play.stage.wait_depth(sparing, 2)
    assert bodies(play.stage.drain(sparing, 2)) == [b"3", b"4"]
    play.stage.put(sparing, b"6", delivery_mode=1)
    assert bodies(play.stage.drain(sparing, 1)) == [b"6"]


def routes_stay(play: Play) -> Iterator[None]:
    """Alternates, exchanges bound to exchanges, buckets of the hash."""
    alternate = play.stage.exchange("fanout")
    outer = play.stage.exchange("topic", alternate_exchange=alternate)
    ring = play.stage.exchange("x-consistent-hash")
    play.stage.owner.exchange_bind(ring, outer, "hashed.#")
    rest = play.declare()
    play.stage.bind(rest, alternate)
    buckets = [play.declare() for _ in range(2)]
    for bucket in buckets:
        play.stage.bind(bucket, ring, "10")
    yield
    for number in range(20):
        play.stage.send(outer, f"hashed.{number}", b"%d" % number, delivery_mode=2)
    before = [play.stage.depth(bucket) for bucket in buckets]
    yield
    for number in range(20):
        play.stage.send(outer, f"hashed.{number}", b"%d" % number, mandatory=True)
    for bucket, count in zip(buckets, before, strict=True):
        found = bodies(play.stage.drain(bucket, 2 * count))
        assert found[:count] == found[count:]
    play.stage.send(outer, "unknown", b"1", mandatory=True)
    assert bodies(play.stage.drain(rest, 1)) == [b"1"]


ACTS: list[Act] = [
    ready_messages_expire_on_time,
    the_queues_own_time_goes_on,
    returns_stay_counted,
    priorities_keep_their_order,
    bounds_hold,
    the_active_consumer_stays_active,
    the_next_consumer_follows_one_that_died,
    an_exclusive_consumer_stays_alone,
    consumer_priorities_hold,
    delayed_messages_come_when_they_are_due,
    a_transaction_is_committed_elsewhere,
    what_was_returned_keeps_its_place,
    prefetch_holds,
    an_answer_finds_who_asked,
    exclusive_queues_end_with_their_node,
    what_was_asked_to_be_copied_is_there,
    routes_stay,
    unused_queues_go_and_used_ones_stay,
    dead_letters_under_way_arrive,
]


class Progress:
    """One act on its way; where it failed, it is told so when its turn comes."""

    def __init__(self, act: Act, play: Play) -> None:
        self._parts = act(play)
        self._failed: BaseException | None = None

    def go_on(self) -> None:
        """Plays the next part, unless an earlier one failed."""
        if self._failed is None:
            try:
                next(self._parts, None)
            except (AssertionError, pika.exceptions.AMQPError, OSError) as error:
                self._failed = error

    def finish(self) -> None:
        """Plays the last part; raises what went wrong in any."""
        self.go_on()
        if self._failed is not None:
            raise self._failed


class Acts(NamedTuple):
    """All of them, and the connections that they have open."""

    by_name: dict[str, Progress]
    opened: list[BlockingConnection]

    def finish(self, name: str) -> None:
        """Plays the last part of one, and closes what only that has opened."""
        before = len(self.opened)
        try:
            self.by_name[name].finish()
        finally:
            while len(self.opened) > before:
                self.opened.pop().close()


@pytest.fixture(scope="module")
def acts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Acts]:
    """All acts, played up to the kill."""
    opened: list[BlockingConnection] = []

    def open_one(*arguments: object, **more: object) -> BlockingConnection:
        opened.append(connect(*arguments, heartbeat=0, **more))  # type: ignore[arg-type]
        return opened[-1]

    with Cluster(tmp_path_factory.mktemp("failover")) as cluster:
        by_name: dict[str, Progress] = {}
        for act in ACTS:
            stage = Stage(cluster.addresses(KILLED), open_one, act.__name__, "three")
            by_name[act.__name__] = Progress(act, Play(cluster, stage))
        for _ in range(2):
            for one in by_name.values():
                one.go_on()
        cluster.kill(KILLED)
        yield Acts(by_name, opened)
        for connection in opened:
            # Those to the killed node are lost, and closing finds it out.
            with suppress(pika.exceptions.AMQPError):
                connection.close()


@pytest.mark.parametrize("act", [act.__name__ for act in ACTS])
def test_it_goes_on(act: str, acts: Acts) -> None:
    acts.finish(act)
