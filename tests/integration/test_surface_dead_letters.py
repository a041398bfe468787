"""Dead letters: who dies of what, where it goes, and what `x-death` tells of it."""

import datetime

import pytest

from tests.integration.surface import (
    Message,
    Stage,
    arrives,
    bodies,
    everywhere,
    refused,
    table,
    unless_private,
    unless_spread,
)  # fmt: skip

pytestmark = pytest.mark.slow

CLOCK_S = 30


def told(death: dict[str, object]) -> dict[str, object]:
    """An entry of `x-death` without its time, which must be about now."""
    time = death["time"]
    assert isinstance(time, datetime.datetime)
    now = datetime.datetime.now(datetime.UTC)
    assert abs((now - time).total_seconds()) < CLOCK_S
    return {word: value for word, value in death.items() if word != "time"}


def first_death(message: Message) -> dict[str, object]:
    """What the headers say of the first death."""
    prefix = "x-first-death-"
    return {
        word.removeprefix(prefix): value
        for word, value in message.headers.items()
        if word.startswith(prefix)
    }


@everywhere
def test_a_rejected_message_goes_to_the_exchange_of_the_dead(stage: Stage) -> None:
    source, dead_letters = stage.exchange("direct"), stage.exchange("direct")
    grave = stage.bound(dead_letters, "key")
    queue = stage.bound(source, "key", dead_letter_exchange=dead_letters)
    stage.send(source, "key", b"1", headers={"mine": 5}, message_id="id", delivery_mode=2)
    stage.reject(stage.hold(queue))
    [dead] = stage.drain(grave, 1)
    assert (dead.body, dead.method.redelivered) == (b"1", False)
    assert (dead.method.exchange, dead.method.routing_key) == (dead_letters, "key")
    assert (dead.properties.message_id, dead.properties.delivery_mode) == ("id", 2)
    assert dead.headers["mine"] == 5
    assert [told(death) for death in dead.deaths] == [
        {
            "count": 1,
            "reason": "rejected",
            "queue": queue,
            "exchange": source,
            "routing-keys": ["key"],
        }
    ]
    assert first_death(dead) == {"reason": "rejected", "queue": queue, "exchange": source}
    assert stage.depth(queue) == 0


@unless_spread
def test_nack_of_several_keeps_their_order(stage: Stage) -> None:
    grave = stage.queue()
    queue = stage.queue(dead_letter_exchange="", dead_letter_routing_key=grave)
    texts = [b"%d" % number for number in range(50)]
    stage.put(queue, *texts)
    for _ in texts:
        last = stage.hold(queue)
    stage.consumer.basic_nack(last.method.delivery_tag, multiple=True, requeue=False)
    assert bodies(stage.drain(grave, 50)) == texts


@everywhere
def test_an_expired_message_tells_its_own_time_and_loses_it(stage: Stage) -> None:
    grave = stage.queue()
    queue = stage.queue(dead_letter_exchange="", dead_letter_routing_key=grave)
    stage.put(queue, b"1", expiration="120")
    [dead] = stage.drain(grave, 1)
    assert dead.properties.expiration is None
    assert [told(death) for death in dead.deaths] == [
        {
            "count": 1,
            "reason": "expired",
            "queue": queue,
            "exchange": "",
            "routing-keys": [queue],
            "original-expiration": "120",
        }
    ]
    assert first_death(dead) == {"reason": "expired", "queue": queue, "exchange": ""}


@everywhere
def test_a_message_that_expired_with_its_queues_time_has_none_to_tell(stage: Stage) -> None:
    grave = stage.queue()
    queue = stage.queue(message_ttl=120, dead_letter_exchange="", dead_letter_routing_key=grave)
    stage.put(queue, b"1")
    [dead] = stage.drain(grave, 1)
    [death] = dead.deaths
    assert (death["reason"], "original-expiration" in death) == ("expired", False)


@everywhere
def test_a_rejected_message_loses_its_time_too(stage: Stage) -> None:
    """Or it would expire in the queue of the dead."""
    grave = stage.queue()
    queue = stage.queue(dead_letter_exchange="", dead_letter_routing_key=grave)
    stage.put(queue, b"1", expiration="600000")
    stage.reject(stage.hold(queue))
    [dead] = stage.drain(grave, 1)
    assert dead.properties.expiration is None
    assert dead.deaths[0]["original-expiration"] == "600000"


@everywhere
def test_a_routing_key_of_its_own(stage: Stage) -> None:
    dead_letters = stage.exchange("direct")
    grave = stage.bound(dead_letters, "dead")
    queue = stage.queue(dead_letter_exchange=dead_letters, dead_letter_routing_key="dead")
    stage.put(queue, b"1")
    stage.reject(stage.hold(queue))
    [dead] = stage.drain(grave, 1)
    assert dead.method.routing_key == "dead"
    assert dead.deaths[0]["routing-keys"] == [queue]


@everywhere
def test_without_one_the_copies_of_a_message_are_addressed_again(stage: Stage) -> None:
    dead_letters = stage.exchange("direct")
    queue = stage.queue(dead_letter_exchange=dead_letters)
    grave, copies = stage.bound(dead_letters, queue), stage.bound(dead_letters, "copy")
    stage.put(queue, b"1", headers={"CC": ["copy"], "BCC": ["secret"]})
    stage.reject(stage.hold(queue))
    for where in (grave, copies):
        [dead] = stage.drain(where, 1)
        assert dead.deaths[0]["routing-keys"] == [queue, "copy"]
        assert dead.headers["CC"] == ["copy"]
        assert "BCC" not in dead.headers


@everywhere
def test_with_one_the_copies_are_forgotten(stage: Stage) -> None:
    """A dead letter with a key of its own goes there alone; its CC header is gone."""
    dead_letters = stage.exchange("direct")
    queue = stage.queue(dead_letter_exchange=dead_letters, dead_letter_routing_key="dead")
    grave, copies = stage.bound(dead_letters, "dead"), stage.bound(dead_letters, "copy")
    stage.put(queue, b"1", headers={"CC": ["copy"]})
    stage.reject(stage.hold(queue))
    [dead] = stage.drain(grave, 1)
    assert "CC" not in dead.headers
    assert dead.deaths[0]["routing-keys"] == [queue, "copy"]
    assert stage.depth(copies) == 0


@everywhere
def test_every_queue_of_the_exchange_gets_it(stage: Stage) -> None:
    dead_letters = stage.exchange("fanout")
    graves = [stage.bound(dead_letters) for _ in range(3)]
    queue = stage.queue(dead_letter_exchange=dead_letters)
    stage.put(queue, b"1")
    stage.reject(stage.hold(queue))
    assert [bodies(stage.drain(grave, 1)) for grave in graves] == [[b"1"]] * 3


@everywhere
def test_topics_of_the_dead(stage: Stage) -> None:
    source, dead_letters = stage.exchange("topic"), stage.exchange("topic")
    grave, other = stage.bound(dead_letters, "order.#"), stage.bound(dead_letters, "bill.#")
    queue = stage.bound(source, "#", dead_letter_exchange=dead_letters)
    stage.send(source, "order.new", b"1")
    stage.reject(stage.hold(queue))
    assert bodies(stage.drain(grave, 1)) == [b"1"]
    assert stage.depth(other) == 0


@everywhere
def test_an_exchange_that_is_missing_drops_them(stage: Stage) -> None:
    queue = stage.queue(dead_letter_exchange=f"{stage.name}-nowhere")
    stage.put(queue, b"1", b"2")
    stage.reject(stage.hold(queue))
    arrives(stage.consumer)
    assert bodies(stage.drain(queue, 1)) == [b"2"]


@everywhere
def test_an_exchange_may_come_later(stage: Stage) -> None:
    wanted = f"{stage.name}-later"
    queue = stage.queue(dead_letter_exchange=wanted)
    stage.put(queue, b"1")
    stage.owner.exchange_declare(wanted, "fanout", auto_delete=True)
    grave = stage.bound(wanted)
    stage.reject(stage.hold(queue))
    assert bodies(stage.drain(grave, 1)) == [b"1"]


@everywhere
def test_the_alternate_of_the_exchange_is_asked(stage: Stage) -> None:
    alternate = stage.exchange("fanout")
    grave = stage.bound(alternate)
    dead_letters = stage.exchange("direct", alternate_exchange=alternate)
    queue = stage.queue(dead_letter_exchange=dead_letters)
    stage.put(queue, b"1")
    stage.reject(stage.hold(queue))
    assert bodies(stage.drain(grave, 1)) == [b"1"]


@unless_private
def test_purging_and_deleting_kill_nobody(stage: Stage) -> None:
    dead_letters = stage.exchange("fanout")
    grave = stage.bound(dead_letters)
    queue = stage.queue(dead_letter_exchange=dead_letters)
    stage.put(queue, b"1", b"2")
    stage.consumer.queue_purge(queue)
    stage.put(queue, b"3")
    stage.consumer.queue_delete(queue)
    stage.send(dead_letters, "", b"witness")
    assert bodies(stage.drain(grave, 1)) == [b"witness"]


# --- lives after death ----------------------------------------------------------------------------


@everywhere
def test_deaths_in_several_queues_are_told_latest_first(stage: Stage) -> None:
    last = stage.queue()
    second = stage.queue(message_ttl=100, dead_letter_exchange="", dead_letter_routing_key=last)
    first = stage.queue(dead_letter_exchange="", dead_letter_routing_key=second)
    stage.put(first, b"1")
    stage.reject(stage.hold(first))
    [dead] = stage.drain(last, 1)
    assert [(death["queue"], death["reason"], death["count"]) for death in dead.deaths] == [
        (second, "expired", 1),
        (first, "rejected", 1),
    ]
    assert dead.deaths[0]["routing-keys"] == [second]
    assert first_death(dead) == {"reason": "rejected", "queue": first, "exchange": ""}


@everywhere
def test_retries_are_counted(stage: Stage) -> None:
    """The usual way to retry later: reject to a waiting queue whose messages expire back."""
    waiting = stage.unused("waiting")
    work = stage.queue(dead_letter_exchange="", dead_letter_routing_key=waiting)
    stage.queue(waiting, message_ttl=100, dead_letter_exchange="", dead_letter_routing_key=work)
    stage.put(work, b"1")
    seen: list[list[tuple[object, object, object]]] = []
    for _ in range(4):
        message = stage.hold(work)
        seen.append([(d["queue"], d["reason"], d["count"]) for d in message.deaths])
        stage.reject(message)
    assert seen == [
        [],
        [(waiting, "expired", 1), (work, "rejected", 1)],
        [(waiting, "expired", 2), (work, "rejected", 2)],
        [(waiting, "expired", 3), (work, "rejected", 3)],
    ]


@everywhere
def test_a_circle_of_expiry_ends(stage: Stage) -> None:
    """What comes back to a queue without anybody's doing is dropped there, and only there."""
    circle = stage.exchange("fanout")
    witness = stage.bound(circle)
    queue = stage.bound(circle, message_ttl=100, dead_letter_exchange=circle)
    stage.put(queue, b"1")
    [seen] = stage.drain(witness, 1)
    assert [(death["queue"], death["count"]) for death in seen.deaths] == [(queue, 1)]
    stage.let_pass(250)
    assert (stage.depth(queue), stage.depth(witness)) == (0, 0)


@everywhere
def test_a_circle_over_two_queues_ends(stage: Stage) -> None:
    circle = stage.exchange("direct")
    names = [stage.unused(), stage.unused()]
    for own, other in zip(names, reversed(names), strict=True):
        stage.queue(
            own, message_ttl=100, dead_letter_exchange=circle, dead_letter_routing_key=other
        )
        stage.bind(own, circle, own)
    witness = stage.bound(circle, names[0])
    stage.put(names[0], b"1")
    [seen] = stage.drain(witness, 1)
    assert [death["queue"] for death in seen.deaths] == [names[1], names[0]]
    stage.let_pass(400)
    assert [stage.depth(name) for name in (*names, witness)] == [0, 0, 0]


def test_a_circle_over_private_queues_of_two_nodes_ends(stage: Stage) -> None:
    circle = stage.exchange("direct")
    names = [stage.unused(), stage.unused()]
    owners = (stage.owner, stage.consumer)
    for channel, own, other in zip(owners, names, reversed(names), strict=True):
        arguments = table(
            message_ttl=100, dead_letter_exchange=circle, dead_letter_routing_key=other
        )
        channel.queue_declare(own, exclusive=True, arguments=arguments)
        channel.queue_bind(own, circle, own)
    witnesses = [stage.bound(circle, name) for name in names]
    stage.put(names[0], b"1")
    seen = [stage.drain(witness, 1)[0] for witness in reversed(witnesses)]
    assert [[death["queue"] for death in message.deaths] for message in seen] == [
        [names[0]],
        [names[1], names[0]],
    ]
    stage.let_pass(400)
    assert [stage.depth(witness) for witness in witnesses] == [0, 0]


@everywhere
def test_a_circle_with_a_rejection_goes_on(stage: Stage) -> None:
    queue = stage.queue(dead_letter_exchange="")
    stage.put(queue, b"1")
    for number in range(4):
        message = stage.hold(queue)
        assert [death["count"] for death in message.deaths] == ([number] if number else [])
        stage.reject(message)
    assert stage.hold(queue).deaths[0]["reason"] == "rejected"


@everywhere
def test_dead_letters_obey_the_bound_of_their_queue(stage: Stage) -> None:
    """Expired in one queue, too long for the next, kept in the third."""
    last = stage.queue()
    middle = stage.queue(
        fedq_fragments=1, max_length=1, dead_letter_exchange="", dead_letter_routing_key=last
    )
    first = stage.queue(message_ttl=100, dead_letter_exchange="", dead_letter_routing_key=middle)
    stage.put(first, b"1")
    stage.wait_depth(middle, 1)
    stage.put(first, b"2")
    [dead] = stage.drain(last, 1)
    assert [death["reason"] for death in dead.deaths] == ["maxlen", "expired"]
    assert dead.body == b"1"


def test_a_key_without_an_exchange_is_refused(stage: Stage) -> None:
    arguments = {"x-dead-letter-routing-key": "key"}
    with refused(406, "invalid arg 'x-dead-letter-routing-key'"):
        stage.owner.queue_declare(stage.unused(), arguments=arguments)


@pytest.mark.parametrize("argument", ["x-dead-letter-exchange", "x-dead-letter-routing-key"])
def test_names_that_are_none_are_refused(stage: Stage, argument: str) -> None:
    arguments = {"x-dead-letter-exchange": "", argument: 5}
    with refused(406, f"arg '{argument}'"):
        stage.owner.queue_declare(stage.unused(), arguments=arguments)
