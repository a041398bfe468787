"""Nodes driven as cheaply as the driver's contract allows, so that what is counted is theirs.

`Rig` keeps the contract of `fedq.node.outbox` for one node or more, like the harness of
`tests/unit/node`, but clients are just numbers whose bytes go in and come out. Only calls into the
node named by `watched` are metered, with the coding of its peer frames: decoding counts for who
receives.

Inputs: bytes of clients, `tick`. Outputs: `heard`, what was written to the connections in `kept`.
"""

from collections.abc import Callable
from typing import Any

from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    ChannelOpen,
    ConnectionOpen,
    ConnectionTuneOk,
    Method,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import ConnectionId, Incarnation, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.journal.recovery import recover
from fedq.node.node import Node
from fedq.node.settings import NodeSettings
from fedq.shell.peers.codec import decode_frame, encode_frame
from fedq.wiring.cluster_map.passwords import COST_MIN, verify
from tests.cost.meters import Meter, Unmetered
from tests.unit.amqp.wire import start_ok

TICK_MS = 50
ROUNDS_MAX = 10_000
#: What stock clients say of themselves; they say more, and none of it matters here.
CAPABILITIES: FieldTable = {
    "capabilities": {
        "basic.nack": True,
        "connection.blocked": True,
        "consumer_cancel_notify": True,
        "publisher_confirms": True,
    },
    "product": "cost",
}
HELLO = (
    PROTOCOL_HEADER
    + start_ok(CAPABILITIES)
    + encode_method(0, ConnectionTuneOk(2047, 131_072, 60))
    + encode_method(0, ConnectionOpen("/"))
)

#: One of the node's inputs with its arguments.
Input = tuple[Any, ...]


class Host:
    """What surrounds one node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.inbox: list[Input] = []
        self.frames: list[bytes] = []
        self.applied = 0
        #: The node has more to do than its last turn took on.
        self.again = False


class Rig:
    """Nodes, the frames between them, and the log they agree on."""

    def __init__(self, size: int = 1, **settings: int) -> None:
        self.now_ms = 1_000
        self.log: list[bytes] = []
        self.meter: Meter = Unmetered()
        self.watched = NodeId("n1")
        #: Connections whose answers are kept in `heard`.
        self.kept: dict[ConnectionId, bytearray] = {}
        self._connections = 0
        names = [NodeId(f"n{number}") for number in range(1, size + 1)]
        self.hosts = {name: Host(self._start(name, names, settings)) for name in names}
        for name, host in self.hosts.items():
            host.inbox += [(host.node.on_link_up, other) for other in names if other != name]
            host.inbox.append((host.node.on_leader, names[0]))
        self.pass_ms(1_000)

    @staticmethod
    def _start(name: NodeId, names: list[NodeId], settings: dict[str, int]) -> Node:
        return Node(
            NodeSettings(
                node=name,
                incarnation=Incarnation(1),
                peers={each: f"{each}:7000" for each in names},
                amqp_address=f"{name}:5672",
                password_cost=COST_MIN,
                **settings,  # type: ignore[arg-type]
            ),
            recover({}),
        )

    # --- clients ---------------------------------------------------------------------------------

    def client(
        self, *methods: Method, node: str = "n1", channels: int = 1, kept: bool = True
    ) -> ConnectionId:
        """A connection with open channels, which says the methods on channel 1."""
        self._connections += 1
        connection = ConnectionId(self._connections)
        if kept:
            self.kept[connection] = bytearray()
        host = self.hosts[NodeId(node)]
        host.inbox.append((host.node.on_connected, connection, "127.0.0.1:9", True))
        # In three steps: a client says nothing more before its virtual host is open.
        self.say(connection, HELLO, node)
        for channel in range(1, channels + 1):
            self.say(connection, encode_method(channel, ChannelOpen()), node)
        assert host.node.has_opened(connection), "the client has logged in"
        for method in methods:
            self.say(connection, encode_method(1, method), node)
        return connection

    def say(self, connection: ConnectionId, data: bytes, node: str = "n1") -> None:
        """Bytes for a node, and turns until nobody has anything left to do."""
        self.put(connection, data, node)
        self.settle()

    def put(self, connection: ConnectionId, data: bytes, node: str = "n1") -> None:
        """Bytes for a node's next turn."""
        host = self.hosts[NodeId(node)]
        host.inbox.append((host.node.on_bytes, connection, data))

    def hang_up(self, connection: ConnectionId, node: str = "n1") -> None:
        """The client's socket closes without a word, in a node's next turn."""
        self.kept.pop(connection, None)
        host = self.hosts[NodeId(node)]
        host.inbox.append((host.node.on_disconnected, connection))

    def heard(self, connection: ConnectionId) -> bytes:
        """What was written to a kept connection since the last call."""
        data = bytes(self.kept[connection])
        self.kept[connection] = bytearray()
        return data

    # --- time ------------------------------------------------------------------------------------

    def pass_ms(self, duration_ms: int) -> None:
        """Time goes on, with its ticks."""
        self.settle()
        for _ in range(0, duration_ms, TICK_MS):
            self.now_ms += TICK_MS
            for host in self.hosts.values():
                host.inbox.append((host.node.on_tick,))
            self.settle()

    def settle(self) -> None:
        """Turns, at this moment, until nobody has anything left to say."""
        for _ in range(ROUNDS_MAX):
            busy = False
            for name, host in self.hosts.items():
                busy = self._turn(name, host) or busy
            if not busy:
                return
        raise AssertionError("the nodes never come to rest")

    def run_alone(self, node: str, turns: int) -> None:
        """Turns of one node at this moment; what it says waits for the others."""
        name = NodeId(node)
        for _ in range(turns):
            self._turn(name, self.hosts[name])

    def _turn(self, name: NodeId, host: Host) -> bool:
        node = host.node
        inbox, host.inbox = host.inbox, []
        frames, host.frames = host.frames, []
        commands = self.log[host.applied :]
        if not inbox and not frames and not commands and not host.again:
            return False
        host.again = False
        run = self.meter.run if name == self.watched else _unmetered.run
        run(node.begin_turn, self.now_ms)
        for command in commands:
            if not node.takes_commands:
                break
            host.applied += 1
            run(node.on_committed, command)
        for action in inbox:
            run(*action)
        for frame in frames:
            run(_receive, node, frame)
        run(node.end_turn)
        self._drain(name, host, run)
        return True

    def _drain(self, name: NodeId, host: Host, run: Callable[..., None]) -> None:
        node = host.node
        out = node.out
        assert out.fatal is None, out.fatal
        if out.journal:
            # The disk is as fast as can be: the next turn hears of it.
            host.inbox.append((node.on_synced, out.journal[-1].number))
        for peer, sent in out.peers.items():
            target = self.hosts[peer].frames
            for frame in sent:
                run(_send, frame, target)
        for connection, parts in out.everything_written():
            if connection in self.kept:
                self.kept[connection] += b"".join(parts)
        assert not out.closes, f"a client was turned away: {self.kept}"
        for number, record, password in out.verifications:
            host.inbox.append((node.on_verified, number, verify(record, password)))
        self.log += out.proposals
        if out.again:
            host.again = True
        out.clear()


_unmetered = Unmetered()


def _receive(node: Node, frame: bytes) -> None:
    node.on_peer(decode_frame(frame))


def _send(frame: PeerFrame, target: list[bytes]) -> None:
    target.append(encode_frame(frame))
