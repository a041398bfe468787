"""What a member says without end costs a bounded amount, and so few lines of the log."""

from functools import partial

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk
from fedq.core.ids import Epoch, FragmentId, NodeId
from fedq.core.limits import (
    LAST_WORDS_HEARD_BURST,
    LAST_WORDS_HEARD_S,
    UNACKED_MESSAGES_MAX,
    UNACKED_STALL_MS,
)
from fedq.core.peer_messages import CALL_COUNT, Call, CopyQuery, CopyWorth, PeerFrame, PeerMessage
from fedq.core.suspects import LastWords, Suspect
from fedq.proxy.links import Session
from tests.unit.node.harness import Client, Cluster
from tests.unit.node.inputs import hears

ME, LIAR = NodeId("n1"), NodeId("n2")


class Lied:
    """A node, its client, and a member that says what it wants on their link."""

    def __init__(self) -> None:
        self.cluster = Cluster(2)
        self.client: Client = self.cluster.client("n1")
        self.client.ask(QueueDeclare("orders", durable=True), QueueDeclareOk)
        self.cluster.pass_ms(500)
        self.node = self.cluster.node(ME)
        self.link = self.node.state.peers[LIAR].link
        self.number = self.link.received
        self.fragment = next(iter(self.node.state.map.fragments))

    @property
    def session(self) -> Session:
        return self.link.session[::-1]

    def say(self, *messages: PeerMessage, words: LastWords | None = None) -> None:
        """A frame of the liar, which acknowledges nothing."""
        member = self.node.state.map.members[LIAR]
        frame = PeerFrame(
            LIAR, member.incarnation, self.session, self.link.received + 1 if messages else 0, 0,
            self.node.state.map.version, [*messages], None, last_words=words,
        )  # fmt: skip
        self.cluster.hosts[ME].inbox.append(partial(hears, frame=frame))
        self.cluster.turn()

    def lines(self, words: str) -> list[str]:
        """What the node has told of this."""
        return [line for line in self.cluster.hosts[ME].story if words in line]


def test_last_words_without_end_are_told_a_few_times() -> None:
    lied = Lied()
    for number in range(1, 1_001):
        suspect = Suspect(FragmentId(7), number, 10, bytes(16), True)
        lied.say(words=LastWords("a lie", [suspect]))
    passed_s = 1 + lied.cluster.now_ms // 1_000
    told = lied.lines("failed: it was at")
    assert 1 <= len(told) <= LAST_WORDS_HEARD_BURST + LAST_WORDS_HEARD_S * passed_s


def test_what_is_asked_of_copies_again_and_again_is_answered_once() -> None:
    lied = Lied()
    lied.node.state.work.resize(1)
    for number in range(100):
        lied.say(*[CopyQuery(lied.fragment, Epoch(number))] * 10)
        lied.say(*[CopyQuery(FragmentId(10_000 + number), Epoch(1))] * 10)
    before = lied.link.unacked
    lied.node.state.work.resize(20_000)
    lied.cluster.overheard.clear()
    lied.cluster.pass_ms(200)
    assert lied.link.unacked - before <= 10
    worth = [each for _, _, each in lied.cluster.overheard if isinstance(each, CopyWorth)]
    assert {each.fragment for each in worth} <= {lied.fragment}
    assert not lied.node.state.chores.has_more


def test_a_member_that_acknowledges_nothing_is_not_heard_after_a_while() -> None:
    lied = Lied()
    lied.cluster.cut(LIAR)
    frames = 3 * UNACKED_MESSAGES_MAX // 1_000
    for _ in range(frames):
        calls: list[PeerMessage] = [
            Call(number, lied.fragment, CALL_COUNT) for number in range(1_000)
        ]
        lied.say(*calls)
        lied.cluster.now_ms += 2 * UNACKED_STALL_MS // frames
    kept = lied.link.unacked
    assert kept > UNACKED_MESSAGES_MAX
    for _ in range(200):
        lied.say(*calls)
        lied.cluster.now_ms += 50
    assert lied.link.unacked <= kept + 2_000
    (line,) = lied.lines("acknowledges nothing")[:1]
    assert line.startswith(LIAR)
    assert len(lied.lines("acknowledges nothing")) <= 3
