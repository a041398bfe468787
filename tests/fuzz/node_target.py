"""A whole node under fuzz: what a client sends may end its connection, and nothing else.

Promises: no input raises in a node, none keeps it busy for ever, and another client is served
afterwards. The machines are the real ones; time goes on between the pieces of the input.
"""

from random import Random
from typing import Final, TypeVar

from fedq.amqp.content import DIRECT_REPLY_TO, encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicRecover,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
    encode_method,
    frame_ids,
    ids_of,
)
from fedq.amqp.values import FieldTable, TableValue
from fedq.core.ids import ConnectionId
from tests.fuzz.mutation import AMQP
from tests.fuzz.target import Target, chooser, pieces
from tests.unit.amqp.wire import publish
from tests.unit.node.harness import Client, Cluster, Host

_STREAMS: Final = 80
_PAUSES_MS: Final = (0, 0, 0, 0, 0, 50, 200, 1_500)
#: Nodes; the client is with the last one.
_SIZES: Final = (1, 1, 1, 2)
_CONNECTION: Final = ConnectionId(1_000)
_CHANNEL_CLOSE: Final = ids_of(ChannelClose(0, "", 0, 0))

_QUEUES: Final = ("a", "b", "c")
_ODD_QUEUES: Final = ("", "amq.x", "ü", "gone", DIRECT_REPLY_TO)
_EXCHANGES: Final = ("", "x", "y", "amq.direct", "amq.topic", "amq.fanout", "amq.headers")
_ODD_EXCHANGES: Final = ("gone", "amq.y", "ü")
_KINDS: Final = (
    "direct", "fanout", "topic", "headers", "x-consistent-hash", "x-delayed-message", "sideways",
)  # fmt: skip
_KEYS: Final = ("a", "b", "c", "a.b", "#", "*.b", "1")
_ODD_KEYS: Final = ("", "-1", "x" * 255)
_VALUES: Final[tuple[TableValue, ...]] = (
    0, 1, 2, 10, 1_000, 255, 256, -1, 1 << 31, 1 << 62, 1.5, "x", "", "all", "any", "5", b"\xff",
    True, None, [], ["a", "b"], {}, {"a": 1}, "quorum", "classic", "stream", "direct", "drop-head",
    "reject-publish", "reject-publish-dlx",
)  # fmt: skip
_ARGUMENTS: Final = (
    "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow",
    "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-delivery-limit", "x-max-priority",
    "x-single-active-consumer", "x-queue-type", "x-queue-mode", "x-fedq-fragments",
    "x-fedq-replicas", "alternate-exchange", "x-delayed-type", "x-match", "x-priority",
    "x-cancel-on-ha-failover", "x-unknown", "hash-header", "x-dead-letter-strategy",
    "x-fedq-replicate",
)  # fmt: skip
_LIKELY: Final[dict[str, tuple[TableValue, ...]]] = {
    "x-dead-letter-exchange": ("", "x", "amq.direct"),
    "x-dead-letter-routing-key": ("a", "b", "c"),
    "x-message-ttl": (0, 1, 100), "x-expires": (1, 1_000), "x-max-length": (0, 1, 2),
    "x-max-length-bytes": (0, 5), "x-delivery-limit": (0, 1, 2), "x-max-priority": (1, 5, 255),
    "x-single-active-consumer": (True,), "x-delayed-type": ("direct", "topic"),
    "alternate-exchange": ("x", "amq.fanout"), "x-fedq-fragments": (1, 2), "x-priority": (1, -1),
    "x-overflow": ("drop-head", "reject-publish", "reject-publish-dlx"),
    "x-queue-type": ("classic", "quorum"), "x-fedq-replicate": ("persistent", "none"),
}  # fmt: skip


class Obedient(Client):
    """A client that agrees to the end of a channel and opens it anew, to be able to go on."""

    def __init__(self, cluster: Cluster, host: Host, connection: ConnectionId) -> None:
        super().__init__(cluster, host, connection)
        self._ended: list[int] = []

    def _on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        # Not more than that is read: what comes back may hold names that are not UTF-8.
        if kind == 1 and frame_ids(payload) == _CHANNEL_CLOSE:
            self._ended.append(channel)

    def reopen(self) -> None:
        """Does what it is there for."""
        ended, self._ended = self._ended, []
        for channel in ended:
            agreed = encode_method(channel, ChannelCloseOk())
            self.write(agreed + encode_method(channel, ChannelOpen()))


#: Arguments that are not a queue's.
_FOR_OTHERS: Final = ("alternate-exchange", "x-delayed-type", "x-priority")
Value = TypeVar("Value")


def run_node(data: bytes) -> None:
    """One client sends the input in pieces, with pauses, and hangs up."""
    rng = chooser(data)
    cluster = Cluster(rng.choice(_SIZES))
    host = next(reversed(cluster.hosts.values()))
    client = Obedient(cluster, host, _CONNECTION)
    host.clients[_CONNECTION] = client
    host.inbox.append(lambda node: node.on_connected(_CONNECTION, "127.0.0.1:9", True))
    client.shake_hands()
    client.write(b"".join(encode_method(channel, ChannelOpen()) for channel in (1, 2, 3)))
    cluster.settle()
    in_step = rng.random() < 0.8
    for piece in _requests(data) if in_step else pieces(data):
        if client.lost:
            break
        client.write(piece)
        cluster.pass_ms(rng.choice(_PAUSES_MS))
        if in_step:
            client.reopen()
    client.hang_up()
    cluster.pass_ms(100)
    _is_served(cluster)


def _requests(data: bytes) -> list[bytes]:
    """The frames of the input, those of a content with their method."""
    requests: list[bytes] = []
    for unit in AMQP.cut(data):
        if requests and unit[:1] in (b"\x02", b"\x03"):
            requests[-1] += unit
        else:
            requests.append(unit)
    return requests


def _is_served(cluster: Cluster) -> None:
    client = cluster.client()
    client.ask(QueueDeclare("served afterwards", exclusive=True), QueueDeclareOk, 1)
    client.publish("served afterwards", "body")
    client.ask(BasicGet("served afterwards", no_ack=True), BasicGetOk, 1)


# --- what clients send ----------------------------------------------------------------------------


def _flag(rng: Random, likelihood: float = 0.1) -> bool:
    return rng.random() < likelihood


def _pick(rng: Random, usual: tuple[Value, ...], odd: tuple[Value, ...]) -> Value:
    """Mostly what works: a stream that only fails does not get far."""
    return rng.choice(odd if _flag(rng, 0.06) else usual)


def _table(rng: Random, *names: str) -> FieldTable:
    table: FieldTable = {}
    for _ in range(rng.choice((0, 0, 1, 1, 2, 4))):
        name = _pick(rng, names, _ARGUMENTS)
        table[name] = _pick(rng, _LIKELY.get(name, _VALUES), _VALUES)
    return table


def _properties(rng: Random) -> bytes:
    properties: FieldTable = {}
    if _flag(rng, 0.5):
        properties["delivery_mode"] = _pick(rng, (1, 2), (0, 255))
    if _flag(rng, 0.4):
        headers: dict[str, tuple[TableValue, ...]] = {
            "CC": (["b"], ["a", "c"]), "BCC": (["c"], []), "x-delay": (100, 1), "hash": ("1",),
            "x-fedq-publisher": ("p", "q", ""), "x-fedq-sequence": (1, 2, 3, 2**40, 0),
        }  # fmt: skip
        names = rng.sample(sorted(headers), rng.randrange(1, 4))
        properties["headers"] = {name: _pick(rng, headers[name], _VALUES) for name in names}
    choices: dict[str, tuple[TableValue, ...]] = {
        "expiration": ("0", "1", "100"), "priority": (0, 3, 255), "user_id": ("guest",),
        "correlation_id": ("1",), "message_id": ("1", "2"), "reply_to": ("a",),
    }  # fmt: skip
    odd: dict[str, tuple[TableValue, ...]] = {
        "expiration": ("x", "-1"),
        "user_id": ("other",),
        "reply_to": (DIRECT_REPLY_TO,),
    }
    for name, values in choices.items():
        if _flag(rng, 0.2):
            properties[name] = _pick(rng, values, odd.get(name, values))
    return encode_properties(properties)


def _declare(rng: Random, queue: str) -> Method:
    return QueueDeclare(
        queue, _flag(rng), _flag(rng, 0.5), _flag(rng, 0.2), _flag(rng), _flag(rng),
        _table(rng, *(name for name in _LIKELY if name not in _FOR_OTHERS)),
    )  # fmt: skip


def _declare_exchange(rng: Random, exchange: str) -> Method:
    table: FieldTable = {"x-delayed-type": "topic"}
    return ExchangeDeclare(
        exchange, _pick(rng, _KINDS[:-1], _KINDS), _flag(rng), _flag(rng, 0.5), _flag(rng),
        _flag(rng), _flag(rng), table | _table(rng, "alternate-exchange"),
    )  # fmt: skip


def _method(rng: Random) -> Method:
    """Some request with some arguments."""
    queue, key = _pick(rng, _QUEUES, _ODD_QUEUES), _pick(rng, _KEYS, _ODD_KEYS)
    one = _pick(rng, _EXCHANGES[1:], _ODD_EXCHANGES)
    other = _pick(rng, _EXCHANGES[1:], _ODD_EXCHANGES)
    tag, consumer = _pick(rng, (1, 2, 3), (0, 100)), _pick(rng, ("", "t", "u"), ("v",))
    methods: tuple[Method, ...] = (
        _declare(rng, queue), _declare_exchange(rng, one),
        QueueBind(queue, one, key, _flag(rng), _table(rng, "x-match")),
        QueueBind(queue, other, key), QueueUnbind(queue, one, key),
        ExchangeBind(one, other, key), ExchangeUnbind(one, other, key),
        BasicConsume(
            queue, consumer, _flag(rng), _flag(rng, 0.4), _flag(rng), _flag(rng),
            _table(rng, "x-priority"),
        ),
        BasicConsume(queue), BasicConsume(DIRECT_REPLY_TO, no_ack=True),
        BasicCancel(consumer), BasicQos(0, rng.choice((0, 1, 3)), _flag(rng, 0.4)),
        BasicGet(queue, _flag(rng)), BasicGet(queue), BasicAck(tag, _flag(rng)),
        BasicNack(tag, _flag(rng), True), BasicNack(tag, _flag(rng), False),
        BasicReject(tag, _flag(rng, 0.5)), BasicRecover(True), QueuePurge(queue),
        QueueDelete(queue, _flag(rng), _flag(rng)), ExchangeDelete(one, _flag(rng)),
        ConfirmSelect(), TxSelect(), TxCommit(), TxRollback(),
    )  # fmt: skip
    return rng.choice(methods)


def _stream(rng: Random) -> bytes:
    """A conversation that begins with queues and exchanges and goes on at random."""
    data = b"".join(encode_method(1, _declare(rng, queue)) for queue in _QUEUES)
    data += b"".join(encode_method(1, _declare_exchange(rng, name)) for name in ("x", "y"))
    data += encode_method(1, BasicConsume(rng.choice(_QUEUES), "t", no_ack=_flag(rng, 0.3)))
    for _ in range(rng.randrange(4, 24)):
        channel = rng.choice((1, 1, 1, 2, 3))
        if rng.random() < 0.5:
            exchange = rng.choice(("", "", _pick(rng, _EXCHANGES, _ODD_EXCHANGES)))
            body, bits = rng.randbytes(rng.choice((0, 1, 10))), rng.choice((0, 0, 1))
            key = _pick(rng, _KEYS, _ODD_KEYS)
            data += publish(channel, exchange, key, body, _properties(rng), bits)
        elif rng.random() < 0.95:
            data += encode_method(channel, _method(rng))
        else:
            reopened = encode_method(channel, ChannelClose(200, "", 0, 0))
            data += reopened + encode_method(channel, ChannelOpen())
    return data


def node_seeds() -> list[bytes]:
    rng = Random(1)
    return [_stream(rng) for _ in range(_STREAMS)]


TARGETS: Final = (
    Target("node", run_node, node_seeds, AMQP, calls=300_000, calls_per_byte=4_000, is_slow=True),
)
