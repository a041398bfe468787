"""Priorities: of messages (`x-max-priority`) and of consumers (`x-priority`)."""

import pytest

from tests.integration.surface import (
    FRAGMENTS,
    SPREAD,
    Inbox,
    Stage,
    arrives,
    bodies,
    pump,
    refused,
    unless_private,
    unless_spread,
)  # fmt: skip
from tests.integration.waiting import until

pytestmark = pytest.mark.slow


def put_ranked(stage: Stage, queue: str, *ranks: int) -> None:
    """One message for each rank, saying its rank and its number."""
    for number, rank in enumerate(ranks):
        stage.put(queue, b"%d.%d" % (rank, number), priority=rank)


# --- of messages ----------------------------------------------------------------------------------


@unless_spread
def test_the_highest_come_first_and_the_oldest_of_each(stage: Stage) -> None:
    queue = stage.queue(max_priority=10)
    put_ranked(stage, queue, 1, 5, 0, 5, 10, 1)
    expected = [b"10.4", b"5.1", b"5.3", b"1.0", b"1.5", b"0.2"]
    messages = stage.drain(queue, 6)
    assert bodies(messages) == expected
    assert [message.properties.priority for message in messages] == [10, 5, 5, 1, 1, 0]


@unless_spread
def test_none_is_the_lowest_and_too_much_is_the_highest(stage: Stage) -> None:
    queue = stage.queue(max_priority=5)
    stage.put(queue, b"none")
    put_ranked(stage, queue, 5, 200, 5, 0)
    stage.put(queue, b"none, too")
    messages = stage.drain(queue, 6)
    assert bodies(messages) == [b"5.0", b"200.1", b"5.2", b"none", b"0.3", b"none, too"]
    assert messages[1].properties.priority == 200


@unless_spread
def test_consumers_get_the_highest_that_are_there(stage: Stage) -> None:
    queue = stage.queue(max_priority=3)
    put_ranked(stage, queue, 0, 1, 2, 3)
    inbox = Inbox(stage.consumer, queue, prefetch=1)
    for number in range(1, 4):
        inbox.wait(number)
        inbox.ack()
    inbox.wait(4)
    assert inbox.bodies == [b"3.3", b"2.2", b"1.1", b"0.0"]


@unless_spread
def test_a_higher_one_overtakes_what_waits_for_a_busy_consumer(stage: Stage) -> None:
    queue = stage.queue(max_priority=3)
    inbox = Inbox(stage.consumer, queue, prefetch=1)
    stage.put(queue, b"held")
    inbox.wait(1)
    put_ranked(stage, queue, 0, 3)
    inbox.ack()
    assert bodies(inbox.wait(2)) == [b"held", b"3.1"]


@unless_spread
def test_what_comes_back_is_the_oldest_of_its_rank(stage: Stage) -> None:
    queue = stage.queue(max_priority=5)
    put_ranked(stage, queue, 1, 1, 5)
    held = [stage.hold(queue) for _ in range(2)]
    assert bodies(held) == [b"5.2", b"1.0"]
    put_ranked(stage, queue, 5, 1)
    for message in held:
        stage.reject(message, requeue=True)
    assert bodies(stage.drain(queue, 5)) == [b"5.2", b"5.0", b"1.0", b"1.1", b"1.1"]


@unless_spread
def test_priority_and_expiry(stage: Stage) -> None:
    queue = stage.queue(max_priority=5)
    stage.put(queue, b"high, short", priority=5, expiration="100")
    stage.put(queue, b"low")
    stage.wait_depth(queue, 1)
    assert bodies(stage.drain(queue, 1)) == [b"low"]


@unless_spread
def test_dead_letters_keep_their_priority(stage: Stage) -> None:
    grave = stage.queue(max_priority=5)
    queue = stage.queue(
        max_priority=5, message_ttl=100, dead_letter_exchange="", dead_letter_routing_key=grave
    )
    put_ranked(stage, queue, 1, 5, 3)
    dead = stage.drain(grave, 3)
    assert bodies(dead) == [b"5.1", b"3.2", b"1.0"]
    assert [message.properties.priority for message in dead] == [5, 3, 1]


def test_without_the_argument_priority_means_nothing(stage: Stage) -> None:
    queue = stage.queue()
    put_ranked(stage, queue, 1, 9, 5)
    assert bodies(stage.drain(queue, 3)) == [b"1.0", b"9.1", b"5.2"]


@pytest.mark.parametrize("wrong", [-1, 256, "5"])
def test_a_highest_priority_that_is_none_is_refused(stage: Stage, wrong: object) -> None:
    with refused(406, "invalid arg 'x-max-priority'"):
        stage.owner.queue_declare(stage.unused(), arguments={"x-max-priority": wrong})


# --- of consumers ---------------------------------------------------------------------------------


def taken_over(stage: Stage, queue: str, high: Inbox, low: Inbox) -> None:
    """Waits until every fragment has heard of the better consumer; both then hold nothing.

    A fragment on another node hears of it an instant after consume-ok (docs/SEMANTICS.md).
    """
    for _ in range(FRAGMENTS if stage.place == SPREAD else 1):

        def is_served() -> bool:
            high.forget()
            low.forget()
            # Channels stick to fragments, each to its own.
            channel = stage.publisher.connection.channel()
            channel.basic_publish("", queue, b"probe")
            arrives(channel)

            def has_come() -> bool:
                pump(high.channel, low.channel)
                return bool(high.messages or low.messages)

            until("the probe is delivered", has_come)
            return bool(high.messages)

        until("the better consumer is served", is_served)
    high.forget()
    low.forget()
    stage.wait_depth(queue, 0)


@unless_private
@pytest.mark.parametrize("high_role", ["owner", "consumer"])
def test_the_higher_consumer_is_served_until_it_is_busy(stage: Stage, high_role: str) -> None:
    queue = stage.queue(fedq_fragments=1)
    low_role = "consumer" if high_role == "owner" else "owner"
    low = Inbox(stage.channel(low_role), queue, prefetch=10)
    high = Inbox(stage.channel(high_role), queue, prefetch=2, priority=10)
    taken_over(stage, queue, high, low)
    stage.put(queue, b"1", b"2", b"3", b"4")
    high.wait(2, low)
    low.wait(2, high)
    assert (high.bodies, low.bodies) == ([b"1", b"2"], [b"3", b"4"])
    high.ack(1, multiple=True)

    def is_free_again() -> bool:
        # A fragment on another node hears of it an instant later (docs/SEMANTICS.md).
        before = len(high.messages) + len(low.messages)
        stage.put(queue, b"5")

        def has_come() -> bool:
            pump(high.channel, low.channel)
            return len(high.messages) + len(low.messages) > before

        until("the fifth is delivered", has_come)
        if len(high.messages) > 2:
            return True
        low.ack()
        low.messages.pop()
        return False

    until("the better consumer is free again", is_free_again)
    stage.put(queue, b"6", b"7")
    high.wait(4, low)
    low.wait(3, high)
    assert (high.bodies[2:], low.bodies[2:]) == ([b"5", b"6"], [b"7"])


@unless_private
def test_a_consumer_that_comes_later_and_higher_takes_over(stage: Stage) -> None:
    queue = stage.queue()
    low = Inbox(stage.channel("owner"), queue, ack=True)
    stage.put(queue, b"1")
    low.wait(1)
    high = Inbox(stage.consumer, queue, ack=True, priority=1)
    taken_over(stage, queue, high, low)
    before = [len(inbox.messages) for inbox in (high, low)]
    stage.put(queue, *(b"%d" % number for number in range(10)))
    high.wait(before[0] + 10, low)
    assert len(low.messages) == before[1]
    high.cancel()
    stage.put(queue, b"last")
    assert low.wait(before[1] + 1)[-1].body == b"last"


@unless_private
def test_below_the_usual_is_served_last(stage: Stage) -> None:
    queue = stage.queue(fedq_fragments=1)
    lowest = Inbox(stage.channel("owner"), queue, prefetch=10, priority=-5)
    usual = Inbox(stage.consumer, queue, prefetch=1)
    taken_over(stage, queue, usual, lowest)
    stage.put(queue, b"1", b"2")
    usual.wait(1, lowest)
    lowest.wait(1, usual)
    assert (usual.bodies, lowest.bodies) == ([b"1"], [b"2"])


@unless_private
def test_equals_share(stage: Stage) -> None:
    queue = stage.queue(fedq_fragments=1)
    channels = [stage.channel(role) for role in ("owner", "publisher", "consumer")]
    inboxes = [Inbox(channel, queue, prefetch=2, priority=3) for channel in channels]
    stage.put(queue, *(b"%d" % number for number in range(6)))

    def all_busy() -> bool:
        pump(*channels)
        return [len(inbox.messages) for inbox in inboxes] == [2, 2, 2]

    until("each holds two", all_busy)


def test_what_a_high_consumer_gives_up_goes_to_the_next(stage: Stage) -> None:
    queue = stage.queue()
    low = Inbox(stage.channel("owner"), queue, ack=True)
    high = Inbox(stage.channel("consumer"), queue, priority=5)
    taken_over(stage, queue, high, low)
    stage.put(queue, b"1", b"2", b"3")
    high.wait(3, low)
    high.channel.connection.close()
    assert sorted(bodies(low.wait(3))) == [b"1", b"2", b"3"]
    assert all(message.method.redelivered for message in low.messages)


def test_a_consumers_priority_that_is_none_is_refused(stage: Stage) -> None:
    queue = stage.queue()
    with refused(406, "x-priority"):
        stage.consumer.basic_consume(queue, lambda *_: None, arguments={"x-priority": "high"})
