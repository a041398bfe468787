"""A server of client connections with a fake node behind it, for the tests of both."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from fedq.core.ids import ConnectionId, NodeId
from fedq.shell.clients import listeners
from fedq.shell.clients.amqp_server import AmqpServer
from fedq.shell.config.values import Listener, NodeConfig
from fedq.shell.durations import NodeDurations
from fedq.shell.turn import Turn
from tests.unit.shell.fakes import FakeNode, Recorder, until

HOST = "127.0.0.1"
C1 = ConnectionId(1)
CONFIG = NodeConfig(NodeId("n1"), Path(), (Listener(HOST, 0),))


def feed(method: Callable[..., bool | None], *args: object) -> None:
    """An input without turns."""
    method(*args)


async def hears_nothing(reader: asyncio.StreamReader) -> bool:
    """Whether the connection ends, in whatever way, without a byte."""
    try:
        return await reader.read() == b""
    except (ConnectionError, ssl.SSLError):
        return True


class Served:
    """A server with a fake node behind it, if wanted in turns."""

    def __init__(
        self, connections_max: int = 100, in_turns: bool = False, lobby_max: int = 100
    ) -> None:
        self.node = FakeNode()
        self.turn = Turn(self.node, NodeDurations(), now_ms=lambda: 0, on_fatal=pytest.fail)
        self.server = AmqpServer(
            self.node,
            self.turn.input if in_turns else feed,
            connections_max,
            lobby_max=lobby_max,
        )
        lanes = Recorder().outlets()
        self.turn.connect(
            lanes._replace(
                set_reading=self.server.set_reading, end_pass=self.server.reading.end_pass
            )
        )
        self.port = 0

    def turns(self) -> list[list[tuple[object, bytes]]]:
        """What each turn with bytes took in: connections and chunks."""
        found: list[list[tuple[object, bytes]]] = [[]]
        for one in self.node.inputs:
            if one[0] == "end_turn":
                found.append([])
            elif one[0] == "on_bytes" and isinstance(one[2], bytes):
                found[-1].append((one[1], one[2]))
        return [turn for turn in found if turn]

    def received(self, connection: ConnectionId) -> bytes:
        """All that the node was handed of a connection."""
        chunks = [chunk for turn in self.turns() for by, chunk in turn if by == connection]
        return b"".join(chunks)

    def has_all(self, connection: ConnectionId, data: bytes) -> bool:
        """Whether the node was handed as many bytes as these."""
        return len(self.received(connection)) >= len(data)

    def has_met(self, connection: ConnectionId) -> bool:
        """Whether the node knows the connection."""
        return any(one[0] == connection for one in self.node.of("on_connected"))

    def has_lost(self, connection: ConnectionId) -> bool:
        """Whether the node knows that the connection is gone."""
        return (connection,) in self.node.of("on_disconnected")


@asynccontextmanager
async def served(
    connections_max: int = 100, tls: listeners.ClientSecurity | None = None,
    in_turns: bool = False, lobby_max: int = 100,
) -> AsyncIterator[Served]:  # fmt: skip
    one = Served(connections_max, in_turns, lobby_max)
    (bound,) = listeners.bind(CONFIG, "amqp.listen[0]", Listener(HOST, 0))
    one.port = bound.getsockname()[1]
    await one.server.listen(bound, tls)
    try:
        yield one
    finally:
        one.server.stop_listening()
        one.server.abort_all()
        await until(lambda: one.server.connections == 0)
