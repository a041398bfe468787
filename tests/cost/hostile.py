"""What a client can send to keep a node busy, and how long the longest turn of it is.

Each script is built once (queues, bindings, consumers, messages), without being counted; then its
attack is handed in as one read, or as the end of a connection, and every turn until the node is at
rest is counted: in instructions of the interpreter, which are the same on every machine. The node
has a small budget of work (`WORK_PER_TURN`); so a walk over everything shows with thousands of
things instead of hundreds of thousands.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final, NamedTuple, final

from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicNack,
    BasicQos,
    ChannelFlow,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    QueueBind,
    QueueDeclare,
    QueuePurge,
    TxCommit,
    TxSelect,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import ConnectionId
from tests.cost.meters import Instructions
from tests.cost.rig import Rig
from tests.unit.amqp.wire import publish

#: The budget of a turn, in units of work, and the instructions that a unit may come to.
WORK_PER_TURN: Final = 2_000
INSTRUCTIONS_PER_UNIT: Final = 150
QUEUE: Final = "orders"


@final
class Turns:
    """Counts the instructions of each turn, and keeps those of the longest."""

    def __init__(self) -> None:
        self._now = Instructions()
        self.longest: dict[str, int] = {}
        self.turns = 0

    def run(self, function: Callable[..., object], *arguments: Any) -> None:
        """Calls one of the node's methods; `begin_turn` begins the next turn."""
        if function.__name__ == "begin_turn":
            self.end()
            self.turns += 1
        self._now.run(function, *arguments)

    def end(self) -> None:
        """The turn at hand is over."""
        counts = self._now.by_function()
        if sum(counts.values()) > sum(self.longest.values()):
            self.longest = counts
        self._now = Instructions()


class Scene(NamedTuple):
    """Nodes that are ready for an attack, and what it is."""

    rig: Rig
    attack: Callable[[], None]


class Script(NamedTuple):
    """A hostile script; `uncut`: what its largest step may come to that cannot be cut, in units."""

    name: str
    build: Callable[[], Scene]
    uncut: int = 0

    @property
    def instructions_max(self) -> int:
        """What its longest turn may come to."""
        return (WORK_PER_TURN + WORK_PER_TURN // 8 + self.uncut) * INSTRUCTIONS_PER_UNIT


def count(script: Script) -> Turns:
    """Runs a script, counted."""
    scene = script.build()
    turns = scene.rig.meter = Turns()
    scene.attack()
    scene.rig.settle()
    turns.end()
    return turns


# --- scenes --------------------------------------------------------------------------------------


def _rig() -> Rig:
    return Rig(work_per_turn=WORK_PER_TURN)


def _filled(rig: Rig, messages: int, *declarations: QueueDeclare) -> ConnectionId:
    """A publisher that has filled the queue."""
    publisher = rig.client(*(declarations or (QueueDeclare(QUEUE),)))
    for start in range(0, messages, 500):
        body = publish(1, "", QUEUE, b"x")
        rig.say(publisher, body * min(500, messages - start))
    return publisher


def _holding(rig: Rig, messages: int, *methods: TxSelect) -> ConnectionId:
    """A consumer without a limit that holds so many messages."""
    _filled(rig, messages)
    return rig.client(*methods, BasicConsume(QUEUE, "c"))


def _consumers(rig: Rig, count: int, *, channels: int = 1, priority: int = 0) -> ConnectionId:
    """A client with so many consumers of the queue on each channel, the last with a priority."""
    client = rig.client(QueueDeclare(QUEUE), channels=channels)
    for channel in range(1, channels + 1):
        for number in range(count):
            rank = priority if number == count - 1 else 0
            consume = BasicConsume(QUEUE, f"{channel}.{number}", arguments={"x-priority": rank})
            rig.put(client, encode_method(channel, consume))
        rig.settle()
    return client


def _say(rig: Rig, client: ConnectionId, data: bytes) -> Scene:
    return Scene(rig, lambda: rig.put(client, data))


def _leave(rig: Rig, client: ConnectionId) -> Scene:
    return Scene(rig, lambda: rig.hang_up(client))


def _acks_in_a_transaction() -> Scene:
    rig = _rig()
    client = _holding(rig, 10_000, TxSelect())
    tags = range(1, 401)
    return _say(rig, client, b"".join(encode_method(1, BasicAck(tag, True)) for tag in tags))


def _consumers_of_ranks_leave() -> Scene:
    rig = _rig()
    return _leave(rig, _consumers(rig, 2_000, channels=2, priority=1))


def _consumers_leave() -> Scene:
    rig = _rig()
    return _leave(rig, _consumers(rig, 4_000))


def _prefetch_again_and_again() -> Scene:
    rig = _rig()
    client = _consumers(rig, 2_000)
    limits = range(1, 301)
    frames = [encode_method(1, BasicQos(0, limit, True)) for limit in limits]
    return _say(rig, client, b"".join(frames))


def _flow_again_and_again() -> Scene:
    rig = _rig()
    client = _consumers(rig, 2_000)
    return _say(rig, client, b"".join(encode_method(1, ChannelFlow(n % 2 > 0)) for n in range(200)))


def _acks_of_a_shared_allowance() -> Scene:
    rig = _rig()
    client = _consumers(rig, 1_000, channels=2)
    for channel in (1, 2):
        rig.say(client, encode_method(channel, BasicQos(0, 1, True)))
    _filled(rig, 300)
    pair = b"".join(encode_method(channel, BasicAck(0, True)) for channel in (1, 2))
    return _say(rig, client, pair * 300)


def _a_consumer_is_lost() -> Scene:
    rig = _rig()
    return _leave(rig, _holding(rig, 20_000))


def _headers_with_one_hook() -> Scene:
    rig = _rig()
    client = rig.client()
    for number in range(600):
        arguments: FieldTable = {"x-match": "all", "a": [number]}
        _bound(rig, client, "amq.headers", f"q{number}", arguments=arguments)
    headers = encode_properties({"headers": {"a": 1}})
    return _say(rig, rig.client(), publish(1, "amq.headers", "", b"x", headers) * 100)


def _bound(
    rig: Rig, client: ConnectionId, exchange: str, queue: str, key: str = "",
    arguments: FieldTable | None = None, exclusive: bool = True,
) -> None:  # fmt: skip
    """A queue of the client's with a binding."""
    declare = QueueDeclare(queue, exclusive=exclusive)
    bind = QueueBind(queue, exchange, key, arguments=arguments or {})
    rig.put(client, encode_method(1, declare) + encode_method(1, bind))
    rig.settle()


def _a_thousand_keys() -> Scene:
    rig = _rig()
    client = rig.client()
    for number in range(128):
        _bound(rig, client, "amq.topic", f"q{number}", f"#.{number}.#")
    keys = [".".join(map(str, range(first, first + 20))) for first in range(128)]
    copies = encode_properties({"headers": {"CC": list(keys)}})
    return _say(rig, rig.client(), publish(1, "amq.topic", "none", b"x", copies) * 3)


def _one_large_among_small() -> Scene:
    rig = _rig()
    arguments: FieldTable = {"x-max-length-bytes": 10_000}
    publisher = _filled(rig, 10_000, QueueDeclare(QUEUE, arguments=arguments))
    return _say(rig, publisher, publish(1, "", QUEUE, b"x" * 9_999))


def _returned(rig: Rig, messages: int) -> ConnectionId:
    """Fills the queue with messages that came back, and returns another client."""
    rig.hang_up(_holding(rig, messages))
    rig.settle()
    return rig.client()


def _a_purge() -> Scene:
    rig = _rig()
    return _say(rig, _returned(rig, 10_000), encode_method(1, QueuePurge(QUEUE)))


def _many_deaths() -> Scene:
    """Each dead letter has as many deaths behind it as a header frame holds."""
    rig = _rig()
    arguments: FieldTable = {"x-dead-letter-exchange": "amq.fanout", "x-max-length": 0}
    publisher = rig.client(QueueDeclare(QUEUE, arguments=arguments))
    deaths = encode_properties({"headers": {"x-death": [{} for _ in range(2_000)]}})
    return _say(rig, publisher, publish(1, "", QUEUE, b"x", deaths) * 20)


def _transactions_on_many_channels() -> Scene:
    rig = _rig()
    channels = 300
    client = rig.client(QueueDeclare(QUEUE), channels=channels)
    for channel in range(1, channels + 1):
        rig.say(client, encode_method(channel, TxSelect()))
    publishes = [publish(1, "", (QUEUE, "none")[number % 2], b"x") for number in range(300)]
    return _say(rig, client, b"".join(publishes))


def _a_large_commit() -> Scene:
    """Of as many publishes as five times a turn's units, some of which go nowhere."""
    rig = _rig()
    client = rig.client(QueueDeclare(QUEUE), TxSelect())
    pair = publish(1, "", QUEUE, b"x") + publish(1, "", "none", b"x")
    for _ in range(20):
        rig.say(client, pair * 250)
    return _say(rig, client, encode_method(1, TxCommit()))


def _a_chain_of_exchanges() -> Scene:
    rig = _rig()
    names = [f"e{number}" for number in range(100)]
    client = rig.client(*(ExchangeDeclare(name, "fanout") for name in names))
    for source, destination in pairwise(names):
        rig.say(client, encode_method(1, ExchangeBind(destination, source)))
    keys = [publish(1, "e0", f"key.{number}", b"x") for number in range(200)]
    return _say(rig, client, b"".join(keys))


def _hundreds_of_shared_queues() -> Scene:
    rig = _rig()
    client = rig.client()
    for number in range(200):
        _bound(rig, client, "amq.fanout", f"q{number}", exclusive=False)
    return _say(rig, client, publish(1, "amq.fanout", "", b"x") * 200)


def _draws_among_hundreds() -> Scene:
    rig = _rig()
    client = rig.client(ExchangeDeclare("hash", "x-consistent-hash"))
    for number in range(200):
        _bound(rig, client, "hash", f"q{number}", "1", exclusive=False)
    keys = [publish(1, "hash", f"key.{number}", b"x") for number in range(200)]
    return _say(rig, client, b"".join(keys))


def _an_owner_leaves() -> Scene:
    """Its one queue has very many bindings."""
    rig = _rig()
    client = rig.client(QueueDeclare("own", exclusive=True))
    for number in range(2_000):
        rig.put(client, encode_method(1, QueueBind("own", "amq.direct", f"key.{number}")))
    rig.settle()
    return _leave(rig, client)


def _unwanted_messages_return() -> Scene:
    rig = _rig()
    client = _holding(rig, 10_000)
    return _say(rig, client, encode_method(1, BasicNack(0, True, True)))


def _exchanges_that_nobody_uses() -> Scene:
    """They go, while others have many bindings elsewhere."""
    rig = _rig()
    owner = rig.client(QueueDeclare("own", exclusive=True))
    for number in range(2_000):
        rig.put(owner, encode_method(1, QueueBind("own", "amq.direct", f"key.{number}")))
    names = [f"e{number}" for number in range(100)]
    client = rig.client(*(ExchangeDeclare(name, "fanout") for name in names), channels=len(names))
    deletes = [
        encode_method(channel, ExchangeDelete(name)) for channel, name in enumerate(names, 1)
    ]
    return _say(rig, client, b"".join(deletes))


def _a_peer_comes_back_with_much() -> Scene:
    """While this node did nothing, another one's client has given back all that it had of here."""
    rig = Rig(3, work_per_turn=WORK_PER_TURN)
    _filled(rig, 10_000)
    rig.pass_ms(1_000)
    client = rig.client(BasicConsume(QUEUE, "c"), node="n2")
    rig.pass_ms(1_000)
    rig.put(client, encode_method(1, BasicNack(0, True, True)), "n2")
    rig.run_alone("n2", 100)
    return Scene(rig, lambda: None)


SCRIPTS: Final = (
    Script("acks in a transaction", _acks_in_a_transaction),
    Script("consumers of ranks leave", _consumers_of_ranks_leave),
    Script("consumers leave", _consumers_leave),
    Script("global prefetch again and again", _prefetch_again_and_again),
    Script("channel.flow again and again", _flow_again_and_again),
    # Reading 600 frames, each for another channel than the last one, is not charged.
    Script("acks of a shared allowance", _acks_of_a_shared_allowance, 2_000),
    Script("a consumer is lost", _a_consumer_is_lost),
    Script("headers with one hook", _headers_with_one_hook),
    # One publish with so many keys is routed in one piece.
    Script("a thousand keys", _a_thousand_keys, 4_000),
    Script("one large among small", _one_large_among_small),
    Script("a purge", _a_purge),
    # What is read is not charged: 20 publishes with all these headers.
    Script("many deaths", _many_deaths, 8_000),
    Script("transactions on many channels", _transactions_on_many_channels, 1_000),
    # It is one event: it cannot be cut.
    Script("a large commit", _a_large_commit, 3_000),
    Script("a chain of exchanges", _a_chain_of_exchanges),
    # One publish to all of them is one step.
    Script("hundreds of shared queues", _hundreds_of_shared_queues, 200),
    Script("draws among hundreds", _draws_among_hundreds),
    Script("an owner leaves", _an_owner_leaves),
    Script("exchanges that nobody uses", _exchanges_that_nobody_uses),
    # Frames are decoded as they come.
    Script("a peer comes back with much", _a_peer_comes_back_with_much, 3_000),
    # A delivery is half a unit: compiled it is nearly nothing.
    Script("unwanted messages return", _unwanted_messages_return, 2_000),
)
