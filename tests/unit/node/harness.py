"""Real nodes driven by hand: turns, frames handed over at once, a log that is a list.

`Cluster` keeps the driver's contract (`fedq.node.outbox`) for one or more nodes. Time stands still
until `pass_ms`; `settle` runs turns until nobody has anything left to say. A node can be killed,
started again on its disk, or cut off from the others; its disk can be made to wait.

`Client` speaks AMQP to a node in bytes, and reads what comes back frame by frame.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, TypeVar

from fedq.amqp.content import NO_PROPERTIES, decode_header
from fedq.amqp.frames import scan_frame
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import (
    BasicDeliver,
    BasicGetOk,
    BasicReturn,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionTuneOk,
    Method,
    decode_method,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.core.ids import ConnectionId, Incarnation, NodeId
from fedq.core.peer_messages import PeerFrame, PeerMessage
from fedq.core.suspects import Stopped
from fedq.journal.recovery import salvage
from fedq.node.node import Node
from fedq.node.outbox import Verification
from fedq.node.risk import Fault, SetAside
from fedq.node.settings import NodeSettings
from fedq.shell.last_act import farewell
from fedq.wiring.cluster_map.passwords import COST_MIN, verify
from tests.crossing import crossed
from tests.unit.amqp.wire import Content, publish, start_ok
from tests.unit.node.disks import ScratchDisk
from tests.unit.node.inputs import disconnected, hears, leads, link_up, place_of, synced, verified

TICK_MS = 50
PERSISTENT = b"\x10\x00\x02"
CAPABILITIES: FieldTable = {
    "capabilities": {"connection.blocked": True, "consumer_cancel_notify": True}
}

Input = Callable[[Node], None]
Said = Method | Content
Wanted = TypeVar("Wanted")


class Host:
    """What surrounds one node: its disk, its clients, and what it has not taken in yet."""

    def __init__(self, name: NodeId) -> None:
        self.name = name
        self.node: Node | None = None
        self.life = self.applied = self.stops = 0
        self.inbox: list[Input] = []
        self.clients: dict[ConnectionId, Client] = {}
        self.reading: dict[ConnectionId, bool] = {}
        self.segments: dict[int, bytearray] = {}
        self.scratch = ScratchDisk()
        #: The journal's last chunk; the node hears of it when the disk does not wait.
        self.written = 0
        self.disk_waits = False
        #: The first process whose copies in sync the journal is known to hold.
        self.vouched_since = 0
        #: When the node wants a turn, with or without an input; 0: never.
        self.due_ms = 0
        self.story: list[str] = []
        #: Passwords that wait until a test says so (`Cluster.verify`), where it wants that.
        self.verifies_by_hand = False
        self.unverified: list[Verification] = []
        self.faults: list[Fault] = []
        self.set_aside: list[SetAside] = []
        #: What the last process failed at, as its file would say.
        self.stopped: Stopped | None = None


class Cluster:
    """Nodes, the frames between them, and the log they agree on."""

    ZONES: ClassVar[dict[str, str]] = {}  # Of nodes that are in one.

    def __init__(self, size: int = 1, *electing: NodeId, **settings: int) -> None:
        self.now_ms, self._connections = 1_000, 0
        self.hosts = {NodeId(f"n{i}"): Host(NodeId(f"n{i}")) for i in range(1, size + 1)}
        self.log: list[bytes] = []
        self.cuts: dict[NodeId, None] = {}
        self.mute: dict[tuple[str, str], None] = {}  # (from, to): nothing arrives that way.
        self.tolerates_faults = False  # Exceptions may be contained, where a test causes them.
        self.survived: tuple[type[Exception], ...] = ()  # They stop a node, as a real one.
        self.proposals_lost = False  # Nothing of the map is decided.
        self.unheard: dict[NodeId, None] = {}  # Nothing that these nodes propose is.
        self.turning = NodeId("n1")  # Whose turn it is, or was last.
        #: (from, to, message) of all that nodes said to each other.
        self.overheard: list[tuple[NodeId, NodeId, PeerMessage]] = []
        self._settings, self._electing = settings, electing
        self.joined: dict[NodeId, None] = {}  # Let into the running cluster.
        self.directories: dict[NodeId, str] = {}  # Of those that have not their first one.
        for name in self.hosts:
            self.start(name)
        self.pass_ms(1_000)

    # --- what befalls nodes ----------------------------------------------------------------------

    def start(self, name: str) -> None:
        """A new process on the node's data directory."""
        host = self.hosts[NodeId(name)]
        assert host.node is None
        host.life += 1
        host.applied = host.written = 0
        host.inbox = []
        bound = self._settings.get("read_ahead_bytes")
        recovered = salvage({n: bytes(data) for n, data in host.segments.items()}, bound)
        if recovered.damages:
            host.vouched_since = host.life
        host.node = Node(
            NodeSettings(
                node=host.name,
                incarnation=Incarnation(host.life),
                start=f"{name}.{host.life}",
                past=tuple((number, f"{name}.{number}") for number in range(1, host.life)),
                vouched_since=host.vouched_since,
                **place_of(host.name, self.hosts, self.joined, self.directories),
                electing=self._electing,
                amqp_address=f"{host.name}:5672",
                zone=self.ZONES.get(host.name, ""),
                password_cost=COST_MIN,
                suspects=tuple(host.stopped.suspects) if host.stopped is not None else (),
                **self._settings,  # type: ignore[arg-type]
            ),
            recovered,
        )
        for other in self.hosts.values():
            if other is not host and other.node is not None:
                other.inbox.append(lambda node: node.on_link_up(host.name))
                host.inbox.append(partial(link_up, peer=other.name))
        self._elect()

    def kill(self, name: str, *, unseen: bool = False) -> None:
        """The process dies; its host refuses connections from now on.

        `unseen`: the host is gone with it, so nobody is told, and all that is left is silence.
        """
        host = self.hosts[NodeId(name)]
        host.node = None
        host.due_ms = 0
        for client in host.clients.values():
            client.lost = True
        host.clients = {}
        if not unseen:
            for other in self.hosts.values():
                other.inbox.append(lambda node: node.on_link_down(host.name, True))
        self._elect()

    def cut(self, name: str) -> None:
        """The node hears nobody and nobody hears it."""
        self.cuts[NodeId(name)] = None
        self._elect()

    def mend(self, name: str) -> None:
        """The cut ends; the streams are opened anew."""
        del self.cuts[NodeId(name)]
        for other in self.hosts.values():
            if other.name != name:
                other.inbox.append(lambda node: node.on_link_up(NodeId(name)))
                self.hosts[NodeId(name)].inbox.append(partial(link_up, peer=other.name))
        self._elect()

    def disk_waits(self, name: str, waits: bool) -> None:
        """Whether syncs of this node's disk end."""
        self.hosts[NodeId(name)].disk_waits = waits

    def _elect(self) -> None:
        """The first node that a majority can hear leads; one that is cut off hears of nobody."""
        alive = [host for host in self.hosts.values() if host.node is not None]
        able = [host for host in alive if host.name not in self.cuts]
        leader = able[0].name if len(able) > len(self.hosts) // 2 else None
        for host in alive:
            known = leader if host.name not in self.cuts else None
            host.inbox.append(partial(leads, leader=known))

    # --- time ------------------------------------------------------------------------------------

    def turn(self) -> bool:
        """One turn of each node that has something to take in; false if none has."""
        busy = [self._turn(host) for host in self.hosts.values()]
        return any(busy)

    def settle(self) -> None:
        """Turns, at this moment, until nobody has anything left to say."""
        for _ in range(2_000):
            if not self.turn():
                return
        raise AssertionError("the nodes never come to rest")

    def pass_ms(self, duration_ms: int) -> None:
        """Time goes on, with its ticks."""
        self.settle()
        for _ in range(0, duration_ms, TICK_MS):
            tick_ms = self.now_ms + TICK_MS
            while (due_ms := self._due_ms()) < tick_ms:
                self.now_ms = max(self.now_ms, due_ms)
                self._give_turns()
            self.now_ms = tick_ms
            for host in self.hosts.values():
                host.inbox.append(lambda node: node.on_tick())
            self.settle()

    def _due_ms(self) -> int:
        """When the first node wants a turn."""
        return min((host.due_ms for host in self.hosts.values() if host.due_ms), default=1 << 60)

    def _give_turns(self) -> None:
        for host in self.hosts.values():
            if host.due_ms <= self.now_ms:
                host.due_ms = 0
                host.inbox.append(lambda _: None)
        self.settle()

    def wait_for(self, condition: Callable[[], bool], limit_ms: int = 10_000) -> None:
        """Lets time go on until the condition holds."""
        self.settle()
        deadline_ms = self.now_ms + limit_ms
        while not condition():
            assert self.now_ms < deadline_ms, f"not within {limit_ms} ms"
            self.pass_ms(TICK_MS)

    def _turn(self, host: Host) -> bool:
        node = host.node
        if node is None:
            host.inbox = []
            return False
        inbox, host.inbox = host.inbox, []
        commands = [] if host.name in self.cuts else self.log[host.applied :]
        if not inbox and not commands:
            return False
        self.turning = host.name
        try:
            node.begin_turn(self.now_ms)
            for action in inbox:
                action(node)
            for command in commands:
                if not node.takes_commands:
                    break
                node.on_committed(command)
                host.applied += 1
            node.end_turn()
        except self.survived as error:
            self._fail(host, node, error)
            return True
        self._drain(host, node)
        return True

    def _fail(self, host: Host, node: Node, error: Exception) -> None:
        """Nothing of the turn leaves but the node's last words."""
        host.stopped = node.post_mortem(error)
        host.stops += 1
        for other in [name for name in self.hosts if name != host.name]:
            self._hand_over(host.name, other, [farewell(host.name, host.stopped)])
        self.kill(host.name)

    def _drain(self, host: Host, node: Node) -> None:
        out = node.out
        assert out.fatal is None, out.fatal
        host.faults += out.faults
        host.set_aside += out.set_aside
        if host.faults and not self.tolerates_faults:
            raise host.faults[0].error
        for chunk in out.journal:
            host.segments.setdefault(chunk.segment, bytearray()).extend(chunk.data)
            host.written = chunk.number
        for segment in out.drop_segments:
            del host.segments[segment]
        host.inbox += host.scratch.carry_out(node, host.segments)
        if not host.disk_waits and node.state.synced < host.written:
            host.inbox.append(partial(synced, number=host.written))
        for peer, frames in out.peers.items():
            self._hand_over(host.name, peer, frames)
        for connection, parts in out.everything_written():
            if connection in host.clients:
                host.clients[connection].receive(b"".join(parts))
        for connection in out.closes:
            client = host.clients.pop(connection, None)
            if client is not None:
                client.lost = True
                host.inbox.append(partial(disconnected, connection=connection))
        host.reading.update(out.reading)
        decides = self._has_quorum() and not self.proposals_lost
        if decides and host.name not in self.cuts and host.name not in self.unheard:
            self.log += out.proposals
        host.story += [*out.story, *out.warnings]
        host.due_ms = out.due_ms
        host.unverified += out.verifications
        while host.unverified and not host.verifies_by_hand:
            self.verify(host.name)
        if out.again:
            host.inbox.append(lambda _: None)
        out.clear()

    def verify(self, name: str) -> None:
        """Somebody looks at the first password that waits; the node hears of it."""
        host = self.hosts[NodeId(name)]
        number, record, password = host.unverified.pop(0)
        host.inbox.append(partial(verified, number=number, verdict=verify(record, password)))

    def _hand_over(self, source: NodeId, target: NodeId, frames: list[PeerFrame]) -> None:
        if source in self.cuts or target in self.cuts or (source, target) in self.mute:
            return
        for frame in frames:
            decoded = crossed(frame)
            self.overheard += [(source, target, message) for message in decoded.messages]
            self.hosts[target].inbox.append(partial(hears, frame=decoded))

    def _has_quorum(self) -> bool:
        able = [h for h in self.hosts.values() if h.node is not None and h.name not in self.cuts]
        return len(able) > len(self.hosts) // 2

    # --- looks -----------------------------------------------------------------------------------

    def node(self, name: str) -> Node:
        """The process of a node that runs."""
        node = self.hosts[NodeId(name)].node
        assert node is not None
        return node

    def primary_of(self, queue: str) -> str:
        """Who serves a queue's first fragment, as a node that runs and is not cut off says."""
        host = next(
            h for h in self.hosts.values() if h.node is not None and h.name not in self.cuts
        )
        cluster_map = self.node(host.name).state.map
        key = next(key for key in cluster_map.queues if key.name == queue)
        return cluster_map.fragments[cluster_map.queues[key].fragments[0]].primary

    def client(self, name: str = "n1", *, channels: int = 1) -> "Client":
        """A client of the node, connected, with open channels 1, 2 and so on."""
        client = self.knock(name)
        client.shake_hands()
        self.wait_for(lambda: client.has(ConnectionOpenOk))
        for channel in range(1, channels + 1):
            client.ask(ChannelOpen(), ChannelOpenOk, channel)
        client.said.clear()
        return client

    def knock(self, name: str = "n1", address: str = "127.0.0.1:9") -> "Client":
        """A client that has connected and said nothing yet."""
        host = self.hosts[NodeId(name)]
        self._connections += 1
        connection = ConnectionId(self._connections)
        client = host.clients[connection] = Client(self, host, connection)
        host.inbox.append(lambda node: node.on_connected(connection, address, True))
        return client


class Client:
    """One AMQP connection; `said` is what the server said and no test has taken."""

    def __init__(self, cluster: Cluster, host: Host, connection: ConnectionId) -> None:
        self.cluster = cluster
        self.host = host
        self.connection = connection
        self.said: list[Said] = []
        self.lost = False
        self._received = bytearray()
        self._opening: tuple[int, Method] | None = None
        self._size = -1
        self._properties = b""
        self._body = b""

    # --- saying ----------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Bytes for the server."""
        connection = self.connection
        self.host.inbox.append(lambda node: node.on_bytes(connection, data))

    def shake_hands(self) -> None:
        """All that a client says until its virtual host is open."""
        tune_ok = encode_method(0, ConnectionTuneOk(0, 0, 0))
        opening = encode_method(0, ConnectionOpen("/"))
        self.write(PROTOCOL_HEADER + start_ok(CAPABILITIES) + tune_ok + opening)

    def send(self, *methods: Method, channel: int = 1) -> None:
        """Says methods, and lets the nodes come to rest."""
        self.write(b"".join(encode_method(channel, method) for method in methods))
        self.cluster.settle()

    def publish(
        self, key: str, *bodies: str, exchange: str = "", channel: int = 1,
        persistent: bool = True, mandatory: bool = False,
    ) -> None:  # fmt: skip
        """Publishes, all in one piece of bytes."""
        properties = PERSISTENT if persistent else NO_PROPERTIES
        self.write(
            b"".join(
                publish(channel, exchange, key, body.encode(), properties, int(mandatory))
                for body in bodies
            )
        )
        self.cluster.settle()

    def hang_up(self) -> None:
        """The socket closes without a word."""
        self.host.clients.pop(self.connection, None)
        connection = self.connection
        self.host.inbox.append(lambda node: node.on_disconnected(connection))
        self.cluster.settle()

    # --- hearing ---------------------------------------------------------------------------------

    def ask(self, method: Method, answer: type[Wanted], channel: int = 1) -> Wanted:
        """Says a method and waits for its answer, which is taken."""
        self.send(method, channel=channel)
        self.cluster.wait_for(lambda: self.has(answer))
        return self.take(answer)

    def has(self, kind: type[object]) -> bool:
        """Whether the server said such a method."""
        return any(isinstance(_method(said), kind) for said in self.said)

    def take(self, kind: type[Wanted]) -> Wanted:
        """The first such method, taken out of what was said."""
        for index, said in enumerate(self.said):
            method = _method(said)
            if isinstance(method, kind):
                del self.said[index]
                return method
        raise AssertionError(f"no {kind.__name__} in {self.said}")

    def heard(self) -> list[Method]:
        """All methods since the last look, without contents' bodies."""
        said, self.said = self.said, []
        return [_method(each) for each in said]

    def deliveries(self, channel: int | None = None) -> list[str]:
        """Bodies delivered since the last look; "again: " stands before redelivered ones."""
        found: list[str] = []
        kept: list[Said] = []
        for said in self.said:
            if (
                isinstance(said, Content)
                and isinstance(said.method, BasicDeliver)
                and channel in (None, said.channel)
            ):
                again = "again: " if said.method.redelivered else ""
                found.append(again + said.body.decode())
            else:
                kept.append(said)
        self.said = kept
        return found

    @property
    def is_read(self) -> bool:
        """Whether the server reads from this socket."""
        return self.host.reading.get(self.connection, True)

    @property
    def close_reason(self) -> tuple[int, str]:
        """What connection.close said."""
        method = self.take(ConnectionClose)
        return method.reply_code, method.reply_text

    def receive(self, data: bytes) -> None:
        """Bytes of the server."""
        self._received += data
        received = bytes(self._received)
        at = 0
        while (found := scan_frame(received, at, 1 << 20)) is not None:
            kind, channel, start, end = found
            self._on_frame(kind, channel, received[start:end])
            at = end + 1
        del self._received[:at]

    def _on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == 1:
            method = decode_method(payload)
            if isinstance(method, BasicDeliver | BasicGetOk | BasicReturn):
                self._opening, self._body = (channel, method), b""
            else:
                self.said.append(method)
        elif kind == 2:
            self._size, self._properties = decode_header(payload)
        elif kind == 3:
            self._body += payload
        if kind in (2, 3) and len(self._body) == self._size:
            assert self._opening is not None
            self.said.append(Content(*self._opening, self._properties, self._body))


def _method(said: Said) -> Method:
    return said.method if isinstance(said, Content) else said
