"""One node without sockets, disk or clock: its own processor time, and nobody else's.

`Solo` keeps the driver's contract (`fedq.node.outbox`) for a single node whose clients are bytes:
`turn` hands in what they send, and returns what the node wants written to whom.
"""

from collections.abc import Iterable

from fedq.amqp.content import Body
from fedq.amqp.frames import frame
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    BasicConsume,
    BasicPublish,
    ChannelOpen,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    encode_method,
)
from fedq.amqp.spec import BASIC, FRAME_BODY, FRAME_HEADER, ids_bytes
from fedq.amqp.values import FieldTable
from fedq.core.ids import ConnectionId, Incarnation, NodeId
from fedq.journal.recovery import recover
from fedq.node.node import Node
from fedq.node.settings import NodeSettings
from fedq.wiring.cluster_map.passwords import COST_MIN, verify

NAME = NodeId("solo")
EXCHANGE = "fan"
#: Turns in which a single node comes to rest, whatever it was asked.
TURNS_MAX = 10_000

PROPERTIES: FieldTable = {
    "capabilities": {"consumer_cancel_notify": True, "publisher_confirms": True},
    "product": "a client library",
    "platform": "some platform 1.2.3",
    "information": "https://example.org/client",
    "version": "1.2.3",
}
LOGIN = (
    PROTOCOL_HEADER,
    encode_method(0, ConnectionStartOk(PROPERTIES, "PLAIN", b"\0guest\0guest", "en_US")),
    encode_method(0, ConnectionTuneOk(2_047, 131_072, 60))
    + encode_method(0, ConnectionOpen("/")),
)  # fmt: skip
OPEN = encode_method(1, ChannelOpen())
SUBSCRIBE = (
    encode_method(1, QueueDeclare(exclusive=True, auto_delete=True)),
    encode_method(1, QueueBind(exchange=EXCHANGE)),
    encode_method(1, BasicConsume(no_ack=True)),
)


def publish(exchange: str, key: str, body: bytes) -> bytes:
    """A publish as a client sends it."""
    method: Method = BasicPublish(exchange=exchange, routing_key=key)
    header = ids_bytes(BASIC) + len(body).to_bytes(8) + b"\x00\x00"
    content = frame(FRAME_HEADER, 1, header) + frame(FRAME_BODY, 1, body)
    return encode_method(1, method) + content


class Solo:
    """See the module's docstring; it serves from the start, and has a fanout exchange."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.connections = 0
        self.node = Node(
            NodeSettings(
                node=NAME,
                incarnation=Incarnation(1),
                peers={NAME: "solo:7000"},
                amqp_address="solo:5672",
                password_cost=COST_MIN,
            ),
            recover({}),
        )
        self.node.begin_turn(self.now_ms)
        self.node.on_leader(NAME)
        self._end()
        while not self.node.state.map.users:
            self.tick()
        self.publisher = self.connect()
        declare = encode_method(1, ExchangeDeclare(exchange=EXCHANGE, type="fanout"))
        self.say(self.publisher, declare)

    # --- turns -----------------------------------------------------------------------------------

    def turn(self, said: Iterable[tuple[ConnectionId, bytes]]) -> dict[ConnectionId, list[Body]]:
        """All that clients said at once, and what each of them hears."""
        self.node.begin_turn(self.now_ms)
        for connection, data in said:
            self.node.on_bytes(connection, data)
        return self._end()

    def tick(self) -> None:
        """Time goes on."""
        self.now_ms += 50
        self.node.begin_turn(self.now_ms)
        self.node.on_tick()
        self._end()

    def _end(self) -> dict[ConnectionId, list[Body]]:
        node = self.node
        heard: dict[ConnectionId, list[Body]] = {}
        node.end_turn()
        for _ in range(TURNS_MAX):
            out = node.out
            assert out.fatal is None, out.fatal
            commands, chunks = list(out.proposals), list(out.journal)
            for connection, parts in out.everything_written():
                heard.setdefault(connection, []).extend(parts)
            again, logins = out.again, out.verifications
            out.clear()
            if not (commands or chunks or again or logins):
                return heard
            node.begin_turn(self.now_ms)
            for command in commands:
                node.on_committed(command)
            if chunks:
                node.on_synced(chunks[-1].number)
            for number, record, password in logins:
                node.on_verified(number, verify(record, password))
            node.end_turn()
        raise AssertionError("the node never comes to rest")

    # --- clients ---------------------------------------------------------------------------------

    def say(self, connection: ConnectionId, *pieces: bytes) -> None:
        """A client says one thing after the other, each in a turn of its own."""
        for piece in pieces:
            self.turn([(connection, piece)])

    def knock(self) -> ConnectionId:
        """A client that has connected and said nothing yet."""
        self.connections += 1
        connection = ConnectionId(self.connections)
        self.node.begin_turn(self.now_ms)
        self.node.on_connected(connection, f"127.0.0.1:{self.connections}", True)
        self._end()
        return connection

    def connect(self) -> ConnectionId:
        """A client with an open channel."""
        connection = self.knock()
        self.say(connection, *LOGIN, OPEN)
        return connection

    def hang_up(self, connection: ConnectionId) -> None:
        """The client's socket closes."""
        self.node.begin_turn(self.now_ms)
        self.node.on_disconnected(connection)
        self._end()

    def subscribe(self, count: int) -> list[ConnectionId]:
        """So many clients, each with an exclusive queue on the exchange, and a consumer."""
        made = [self.connect() for _ in range(count)]
        for connection in made:
            self.say(connection, *SUBSCRIBE)
        return made
