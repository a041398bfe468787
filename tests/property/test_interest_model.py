"""Interest: what peers make of the announcements is always what the private queues want.

One book counts bindings; two peers hear what it announces (one from the start, one that joins at
any time and starts with everything). The model is a plain count per binding, with the rule that
an exchange with too many keys wants everything until it has few again.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from fedq.core.ids import Incarnation, NodeId, QueueKey
from fedq.core.message import make_route
from fedq.core.peer_messages import Interest, InterestItem
from fedq.journal.recovery import recover
from fedq.node.cluster.proposals import Proposals
from fedq.node.private.private_flow import PrivateFlow
from fedq.node.private.registrations import Registrations
from fedq.node.records.state import NodeState
from fedq.node.settings import NodeSettings
from fedq.proxy.fanout import InterestBook, in_pieces
from fedq.proxy.links import size_of
from tests.examples import examples

SUBSCRIBER, LISTENER = NodeId("subscriber"), NodeId("listener")
KEYS_MAX = 6
#: What a piece may take: often less than one item does.
PIECE_BYTES = st.sampled_from([1, 150, 400, 10_000])
EXCHANGES = [QueueKey("/", "orders"), QueueKey("/", "news")]
ITEMS = [
    InterestItem(exchange, f"key-{number}", "") for exchange in EXCHANGES for number in range(10)
]


class Listener:
    """A peer that has heard the announcements: its router is asked where publishes go."""

    def __init__(self) -> None:
        settings = NodeSettings(
            node=LISTENER,
            incarnation=Incarnation(1),
            peers={LISTENER: "listener:1", SUBSCRIBER: "subscriber:1"},
            amqp_address="listener:2",
        )
        self.state = NodeState(settings, recover({}))
        self.flow = PrivateFlow(self.state, Registrations(self.state, Proposals(self.state)))
        for exchange in EXCHANGES:
            self.state.router.add_exchange(exchange, "direct")

    def hear(self, message: Interest) -> None:
        self.flow.on_interest(SUBSCRIBER, message)

    @property
    def is_introduced(self) -> bool:
        return self.state.peers[SUBSCRIBER].introduced

    def wants(self, item: InterestItem) -> bool:
        """Whether a publish with this key crosses to the subscriber's node."""
        route = make_route(item.exchange.name, item.routing_key)
        found = self.state.router.route(item.exchange.vhost, route, dict)
        assert found is not None
        return SUBSCRIBER in found.nodes

    def start_over(self) -> None:
        """Another snapshot of the map, another router: it must say the same."""
        self.state.router = type(self.state.router)(LISTENER)
        for exchange in EXCHANGES:
            self.state.router.add_exchange(exchange, "direct")
        self.flow.route_again()


class InterestMachine(RuleBasedStateMachine):
    """Bindings come and go; from time to time the changes are announced."""

    def __init__(self) -> None:
        super().__init__()
        self.book = InterestBook(KEYS_MAX)
        self.listeners = [Listener()]
        self.counts: dict[InterestItem, int] = {}
        self.everything: dict[QueueKey, None] = {}

    @rule(items=st.lists(st.sampled_from(ITEMS), min_size=1, max_size=8))
    def bind(self, items: list[InterestItem]) -> None:
        for item in items:
            self.book.add(item)
            self.counts[item] = self.counts.get(item, 0) + 1
            if self.keys_of(item.exchange) > KEYS_MAX:
                self.everything[item.exchange] = None

    @precondition(lambda self: self.counts)
    @rule(data=st.data(), amount=st.integers(1, 8))
    def unbind(self, data: st.DataObject, amount: int) -> None:
        for _ in range(min(amount, len(self.counts))):
            item = data.draw(st.sampled_from(sorted(self.counts)))
            self.book.remove(item)
            self.counts[item] -= 1
            if not self.counts[item]:
                del self.counts[item]
            if self.keys_of(item.exchange) <= KEYS_MAX // 2:
                self.everything.pop(item.exchange, None)

    @rule(data=st.data())
    def announce(self, data: st.DataObject) -> None:
        if self.book.changed:
            message = self.book.announce()
            for piece in in_pieces(message, data.draw(PIECE_BYTES)):
                for listener in self.listeners:
                    listener.hear(piece)
        assert not self.book.changed
        for item in ITEMS:
            wanted = item in self.counts or item.exchange in self.everything
            for listener in self.listeners:
                assert listener.wants(item) == wanted, item

    @precondition(lambda self: len(self.listeners) < 3)
    @rule(data=st.data())
    def a_peer_joins(self, data: st.DataObject) -> None:
        """As the node does it: first the others hear what is new, then this one hears it all."""
        self.announce(data)
        listener = Listener()
        message = self.book.everything_of()
        assert message.number == self.book.number
        pieces = in_pieces(message, data.draw(PIECE_BYTES))
        for piece in pieces:
            assert not listener.is_introduced
            listener.hear(piece)
        assert listener.is_introduced
        self.listeners.append(listener)
        self.announce(data)

    @rule()
    def a_router_is_rebuilt(self) -> None:
        self.listeners[0].start_over()

    def keys_of(self, exchange: QueueKey) -> int:
        return sum(item.exchange == exchange for item in self.counts)


TestInterest = InterestMachine.TestCase
TestInterest.settings = settings(max_examples=examples(100), stateful_step_count=25)


KEYS = st.lists(st.sampled_from(EXCHANGES), max_size=5)
SOME = st.lists(st.sampled_from(ITEMS), max_size=40)


@given(st.builds(Interest, st.integers(0, 9), st.booleans(), SOME, SOME, KEYS, KEYS), PIECE_BYTES)
def test_pieces_are_bounded_and_add_up(message: Interest, bytes_max: int) -> None:
    pieces = in_pieces(message, bytes_max)
    assert [piece.more for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert [piece.whole for piece in pieces[1:]] == [False] * (len(pieces) - 1)
    assert pieces[0].whole == message.whole
    for name in ("everything", "selective", "removed", "added"):
        entries = [entry for piece in pieces for entry in getattr(piece, name)]
        assert entries == getattr(message, name)
    for piece in pieces:
        count = len(piece.added + piece.removed) + len(piece.everything + piece.selective)
        assert count <= 1 or size_of(piece) <= bytes_max + size_of(
            Interest(0, True, [], [], [], [])
        )
