"""How much a turn may do is nobody's business: with little of it clients hear the same.

Two nodes hear the same script, step by step; one can do all of a step in one turn, the other
next to nothing. What each channel hears (deliveries with their tags and flags, gets, answers and
counts, in order) must be the same, and what the queues hold in the end.

Of two consumers of one queue each hears the same, but which of the two is served first is nobody's
promise: a turn that deals to both serves one after the other. So they are on two channels here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicQos,
    BasicRecover,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    Method,
    QueueDeclare,
    QueuePurge,
    TxCommit,
    TxRollback,
    TxSelect,
    encode_method,
)
from tests.examples import examples
from tests.unit.amqp.wire import Content, publish
from tests.unit.node.harness import Client, Cluster, Said

QUEUES = ("plain", "short", "private")
DECLARATIONS = (
    QueueDeclare("plain"),
    QueueDeclare("short", arguments={"x-max-length-bytes": 40}),
    QueueDeclare("private", exclusive=True),
)
CHANNELS = (1, 2, 3)


@dataclass(frozen=True)
class Publish:
    """So many messages to a queue."""

    queue: str
    count: int


@dataclass(frozen=True)
class HangUp:
    """The second client goes, and another one takes its place."""


Word = Method | Publish | HangUp

queues = st.sampled_from(QUEUES)
tags = st.integers(0, 12)
names = st.sampled_from(["a", "b"])
words = st.one_of(
    st.tuples(queues, st.integers(1, 12)).map(lambda each: Publish(*each)),
    st.tuples(queues, names, st.booleans()).map(
        lambda each: BasicConsume(each[0], each[1], no_ack=each[2])
    ),
    names.map(BasicCancel),
    st.tuples(queues, st.booleans()).map(lambda each: BasicGet(*each)),
    st.tuples(tags, st.booleans()).map(lambda each: BasicAck(*each)),
    st.tuples(tags, st.booleans(), st.booleans()).map(lambda each: BasicNack(*each)),
    tags.map(lambda tag: BasicNack(tag, True, True)),
    st.tuples(st.just(0), st.integers(0, 3), st.booleans()).map(lambda each: BasicQos(*each)),
    st.booleans().map(ChannelFlow),
    queues.map(QueuePurge),
    queues.map(lambda queue: QueueDeclare(queue, passive=True)),
    st.sampled_from(
        [BasicRecover(True), ChannelClose(200, "", 0, 0), TxSelect(), TxCommit(), TxRollback()]
    ),
    st.just(HangUp()),
)
#: Which client, on which channel, says what.
steps = st.tuples(st.integers(0, 1), st.sampled_from(CHANNELS), words)
Step = tuple[int, int, Word]


class Side:
    """One of the two nodes, with its clients. The first one owns the exclusive queue."""

    def __init__(self, work_per_turn: int) -> None:
        self.cluster = Cluster()
        self.clients = [self.cluster.client(channels=len(CHANNELS)) for _ in range(2)]
        self.clients[0].send(*DECLARATIONS)
        self.clients[0].said.clear()
        self.cluster.node("n1").state.work.resize(work_per_turn)
        self.published = 0

    def step(self, number: int, channel: int, word: Word) -> list[list[Said]]:
        """Says a word; returns what each of both clients hears."""
        client = self.clients[number]
        if isinstance(word, HangUp):
            client = self.clients[1]
            client.hang_up()
        elif isinstance(word, Publish):
            bodies = range(self.published, self.published + word.count)
            self.published += word.count
            client.write(b"".join(publish(channel, "", word.queue, b"%09d" % n) for n in bodies))
        else:
            client.write(encode_method(channel, word))
        self.cluster.settle()
        self._reopen(channel, client)
        return [self._heard(each) for each in self.clients]

    def _reopen(self, channel: int, client: Client) -> None:
        """A channel that was closed, by whomever, is opened again."""
        node = self.cluster.node("n1")
        opened = node.state.clients.get(client.connection)
        if opened is None or opened.gone:
            # A violation of the connection: the other client takes no notice.
            place = self.clients.index(client)
            self.clients[place] = self.cluster.client(channels=len(CHANNELS))
        elif channel not in opened.channels:
            client.write(encode_method(channel, ChannelCloseOk()))
            client.write(encode_method(channel, ChannelOpen()))
            self.cluster.settle()

    @staticmethod
    def _heard(client: Client) -> list[Said]:
        said, client.said = client.said, []
        return said


def with_one_consumer_each(script: Sequence[Step]) -> Iterator[Step]:
    """The script, with one consumer of a queue on each channel."""
    known: dict[tuple[int, int, str], str] = {}
    for number, channel, word in script:
        match word:
            case BasicConsume():
                if (number, channel, word.queue) in known:
                    continue
                known[number, channel, word.queue] = word.consumer_tag
            case BasicCancel():
                gone = number, channel, word.consumer_tag
                known = {k: tag for k, tag in known.items() if (*k[:2], tag) != gone}
            case HangUp():
                known = {k: tag for k, tag in known.items() if k[0] == 0}
        yield number, channel, word


def by_channel(said: Sequence[Said]) -> tuple[list[Said], list[Content]]:
    """What clients have heard: answers, and contents by their channels."""
    contents = [each for each in said if isinstance(each, Content)]
    answers: list[Said] = [each for each in said if not isinstance(each, Content)]
    return answers, sorted(contents, key=lambda each: each.channel)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(steps, max_size=25), st.sampled_from([1, 4, 15]))
@example([(1, 1, BasicConsume("plain", "a")), (1, 2, BasicConsume("plain", "b")),
          (0, 1, Publish("plain", 3))], 1)  # fmt: skip
@example([(1, 1, BasicConsume("plain", "a")), (1, 1, BasicConsume("plain", "b")),
          (0, 1, Publish("plain", 3))], 1)  # fmt: skip
def test_nobody_hears_how_much_a_turn_may_do(script: Sequence[Step], work_per_turn: int) -> None:
    whole, pieces = Side(1_000_000), Side(work_per_turn)
    for step in with_one_consumer_each(script):
        heard, in_pieces = whole.step(*step), pieces.step(*step)
        assert [*map(by_channel, heard)] == [*map(by_channel, in_pieces)], step
    for side in (whole, pieces):
        for primary in side.cluster.node("n1").state.primaries.values():
            primary.fragment.check()
            assert not primary.fragment.shut
        assert not side.cluster.node("n1").state.chores.has_more
