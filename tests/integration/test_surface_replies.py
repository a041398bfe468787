"""Direct reply-to: requests and answers without a queue, over all nodes, and what is refused."""

from typing import Any

import pytest

from tests.integration.stock import BlockingChannel, pika
from tests.integration.surface import ONE, Message, Stage, arrives, bodies, pump, refused
from tests.integration.waiting import until

pytestmark = pytest.mark.slow

PSEUDO = "amq.rabbitmq.reply-to"


class Asker:
    """A client that asks and hears answers on one channel."""

    def __init__(self, channel: BlockingChannel) -> None:
        self.channel = channel
        self.answers: list[Message] = []
        self.tag = channel.basic_consume(PSEUDO, self._on_answer, auto_ack=True)

    def _on_answer(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        self.answers.append(Message(method, properties, body))

    def ask(self, queue: str, text: bytes) -> None:
        """Sends a question."""
        properties = pika.BasicProperties(reply_to=PSEUDO, correlation_id=text.decode())
        self.channel.basic_publish("", queue, text, properties)

    def wait(self, count: int) -> list[Message]:
        """Waits until so many answers have come."""

        def have_come() -> bool:
            pump(self.channel)
            return len(self.answers) >= count

        until(f"{count} answers come", have_come)
        assert len(self.answers) == count, bodies(self.answers)
        return self.answers


def asked(stage: Stage, queue: str) -> tuple[str, Message]:
    """The next question, and where its answer is wanted."""
    question = stage.hold(queue)
    stage.consumer.basic_ack(question.method.delivery_tag)
    return str(question.properties.reply_to), question


@pytest.mark.parametrize("role", ["owner", "publisher", "consumer"])
def test_an_answer_comes_to_the_channel_that_asked(stage: Stage, role: str) -> None:
    queue = stage.queue()
    asker, other = Asker(stage.channel(role)), Asker(stage.channel(role))
    asker.ask(queue, b"question")
    where, question = asked(stage, queue)
    assert where.startswith(f"{PSEUDO}.")
    assert question.properties.correlation_id == "question"
    stage.put(where, b"answer", correlation_id="question", headers={"mine": 1})
    [answer] = asker.wait(1)
    assert (answer.body, answer.properties.correlation_id) == (b"answer", "question")
    assert (answer.method.exchange, answer.method.routing_key) == ("", where)
    assert (answer.method.redelivered, answer.headers) == (False, {"mine": 1})
    assert answer.method.consumer_tag == asker.tag
    pump(other.channel)
    assert other.answers == []


def test_many_answers_come_in_order(stage: Stage) -> None:
    queue = stage.queue()
    asker = Asker(stage.channel("owner"))
    asker.ask(queue, b"question")
    where, _ = asked(stage, queue)
    texts = [b"%d" % number for number in range(200)]
    for text in texts:
        stage.consumer.basic_publish("", where, text)
    assert bodies(asker.wait(200)) == texts


def test_channels_of_one_connection_do_not_mix(stage: Stage) -> None:
    queue = stage.queue()
    connection = stage.channel("owner").connection
    askers = [Asker(connection.channel()) for _ in range(5)]
    for number, asker in enumerate(askers):
        asker.ask(queue, b"%d" % number)
    for _ in askers:
        where, question = asked(stage, queue)
        stage.put(where, b"re: " + question.body)
    for number, asker in enumerate(askers):
        assert bodies(asker.wait(1)) == [b"re: %d" % number]


def test_large_answers(stage: Stage) -> None:
    queue = stage.queue()
    asker = Asker(stage.channel("owner"))
    asker.ask(queue, b"question")
    where, _ = asked(stage, queue)
    stage.put(where, b"x" * 500_000)
    [answer] = asker.wait(1)
    assert answer.body == b"x" * 500_000


def test_a_question_through_an_exchange(stage: Stage) -> None:
    exchange = stage.exchange("topic")
    queue = stage.bound(exchange, "ask.#")
    asker = Asker(stage.channel("owner"))
    properties = pika.BasicProperties(reply_to=PSEUDO)
    asker.channel.basic_publish(exchange, "ask.me", b"question", properties)
    where, _ = asked(stage, queue)
    stage.put(where, b"answer")
    assert bodies(asker.wait(1)) == [b"answer"]


def test_other_reply_addresses_are_left_alone(stage: Stage) -> None:
    queue = stage.queue()
    asker = Asker(stage.channel("owner"))
    for address in ("elsewhere", f"{PSEUDO}.mine"):
        asker.channel.basic_publish("", queue, b"x", pika.BasicProperties(reply_to=address))
        assert asked(stage, queue)[0] == address


def test_an_answerer_may_look_whether_somebody_waits(stage: Stage) -> None:
    queue = stage.queue()
    asker = Asker(stage.channel("owner"))
    asker.ask(queue, b"question")
    where, _ = asked(stage, queue)
    found = stage.channel().queue_declare(where, passive=True).method
    assert (found.queue, found.message_count, found.consumer_count) == (where, 0, 1)


@pytest.mark.parametrize("stage", [ONE], indirect=True)
def test_and_hears_when_nobody_does(stage: Stage) -> None:
    """On the asker's own node; another node knows only whether that node is there."""
    queue = stage.queue()
    asker = Asker(stage.channel("owner"))
    asker.ask(queue, b"question")
    where, _ = asked(stage, queue)
    asker.channel.connection.close()

    def is_gone() -> bool:
        try:
            stage.channel().queue_declare(where, passive=True)
        except pika.exceptions.ChannelClosedByBroker as error:
            return bool(error.reply_code == 404)
        return False

    until("nobody waits any more", is_gone)


def test_answers_for_nobody_are_dropped(stage: Stage) -> None:
    queue = stage.queue()
    asker = Asker(stage.channel("owner"))
    asker.ask(queue, b"question")
    where, _ = asked(stage, queue)
    asker.channel.close()
    stage.put(where, b"answer")
    stage.put(queue, b"the publisher's channel lives")
    assert bodies(stage.drain(queue, 1)) == [b"the publisher's channel lives"]


def test_who_has_cancelled_hears_nothing(stage: Stage) -> None:
    queue = stage.queue()
    asker = Asker(stage.channel("owner"))
    asker.ask(queue, b"question")
    where, _ = asked(stage, queue)
    asker.channel.basic_cancel(asker.tag)
    stage.put(where, b"answer")
    pump(asker.channel)
    assert asker.answers == []
    # It may begin again.
    again = Asker(asker.channel)
    again.ask(queue, b"question")
    stage.put(asked(stage, queue)[0], b"answer")
    assert bodies(again.wait(1)) == [b"answer"]


def test_it_is_consumed_without_acknowledgements(stage: Stage) -> None:
    with refused(406, "reply consumer cannot acknowledge"):
        stage.consumer.basic_consume(PSEUDO, lambda *_: None, auto_ack=False)


def test_once_for_each_channel(stage: Stage) -> None:
    asker = Asker(stage.channel("owner"))
    with refused(406, "reply consumer already set"):
        asker.channel.basic_consume(PSEUDO, lambda *_: None, auto_ack=True)


def test_who_asks_must_listen(stage: Stage) -> None:
    queue = stage.queue()
    with refused(406, "fast reply consumer does not exist"):
        stage.put(queue, b"question", reply_to=PSEUDO)
    assert stage.depth(queue) == 0


def test_it_exists_for_who_declares_it_passively(stage: Stage) -> None:
    """It looks like a queue to clients that declare before they consume."""
    found = stage.consumer.queue_declare(PSEUDO, passive=True).method
    assert (found.queue, found.message_count) == (PSEUDO, 0)
    arrives(stage.consumer)


def test_it_is_no_queue_to_publish_to(stage: Stage) -> None:
    with pytest.raises(pika.exceptions.UnroutableError):
        stage.send("", PSEUDO, b"x", mandatory=True)
