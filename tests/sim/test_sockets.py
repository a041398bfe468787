"""A simulated connection keeps what TCP keeps: one order for the bytes and for the end."""

from collections.abc import Callable

from fedq.amqp.methods import ChannelOpenOk, ConnectionClose, ConnectionOpenOk, encode_method
from fedq.core.ids import ConnectionId, NodeId
from tests.sim.sockets import ClientMachine, Socket
from tests.sim.world import MS, World


class Heard:
    """A server, and its machine: notes what it is told, in order."""

    name = NodeId("a")
    alive = True
    life = 1

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.forgotten: list[ConnectionId] = []

    def accept(self, _: Socket) -> ConnectionId:
        return ConnectionId(1)

    def forget(self, connection: ConnectionId) -> None:
        self.forgotten.append(connection)

    def submit(self, action: Callable[[ClientMachine], None]) -> None:
        action(self)

    def on_connected(self, connection: ConnectionId, address: str, is_loopback: bool) -> None:
        self.heard.append("connected")

    def on_bytes(self, connection: ConnectionId, data: bytes) -> None:
        self.heard += [chr(byte) for byte in data]

    def on_writable(self, connection: ConnectionId, writable: bool) -> None:
        self.heard.append("writable" if writable else "full")

    def on_disconnected(self, connection: ConnectionId) -> None:
        self.heard.append("disconnected")


def _connect(world: World, server: Heard) -> Socket:
    return Socket(world, world.generator("socket"), server, lambda _: None, lambda _: None)


def test_a_node_that_does_not_read_hears_of_the_end_behind_the_bytes() -> None:
    """Else an acknowledgement in the socket is lost, though its client sent it before it left."""
    world, server = World(1), Heard()
    socket = _connect(world, server)
    socket.set_reading(False)
    socket.send(b"ack")
    world.run(world.now_us + 1 * MS)
    socket.close()
    world.run(world.now_us + 1 * MS)
    assert server.heard == ["connected"]
    assert not server.forgotten
    socket.set_reading(True)
    assert server.heard == ["connected", "a", "c", "k", "disconnected"]
    assert server.forgotten == [socket.connection]


def test_a_node_hears_at_once_of_the_end_of_who_has_nothing_unread() -> None:
    world, server = World(1), Heard()
    socket = _connect(world, server)
    socket.set_reading(False)
    socket.close()
    world.run(world.now_us + 1 * MS)
    assert server.heard == ["connected", "disconnected"]
    socket.set_reading(True)
    assert server.heard == ["connected", "disconnected"]


def test_a_client_is_sent_away_when_its_node_says_so_not_when_it_reads_that() -> None:
    world = World(1)
    socket = _connect(world, Heard())
    socket.write(encode_method(1, ChannelOpenOk()) + encode_method(0, ConnectionOpenOk()))
    assert not socket.sent_away
    socket.write(
        encode_method(1, ChannelOpenOk()) + encode_method(0, ConnectionClose(541, "", 0, 0))
    )
    assert socket.sent_away
