"""A node that decides nothing: notes its inputs, and puts into its lanes what a test scripts."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from fedq.amqp.content import Body
from fedq.core.ids import ConnectionId, Incarnation, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.core.suspects import Stopped
from fedq.journal.segments import Chunk
from fedq.node.outbox import NodeOut
from fedq.shell.clients.paced_writes import Writers
from fedq.shell.clients.sending import ClientSocket
from fedq.shell.disk.descriptors import Spares
from fedq.shell.turn import Effects
from fedq.wiring.cluster_map.map import ClusterMap, ReadMap
from fedq.wiring.cluster_map.snapshot import Frozen
from tests.integration.waiting import patient

T = TypeVar("T")
#: No test here takes longer, unless something hangs.
PATIENCE_S = patient(20.0)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a test on the event loop of production, not longer than `PATIENCE_S`."""

    async def bounded() -> T:
        return await asyncio.wait_for(coroutine, PATIENCE_S)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(bounded())


def give_up_all(spares: Spares) -> None:
    """A process keeps its spares until it ends; a test must not."""
    while spares._give_up_one():
        pass


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    """Waits for a condition, `TimeoutError` after so many seconds, more on a busy machine."""
    async with asyncio.timeout(patient(seconds)):
        while not condition():  # noqa: ASYNC110 - what tests wait for has no event
            await asyncio.sleep(0.002)


class FakeNode:
    """Every input as a tuple of its name and arguments; see `on`."""

    def __init__(self) -> None:
        self.out = NodeOut()
        self.inputs: list[tuple[object, ...]] = []
        self.stopped = False
        #: Whether its turn has room for another command of the log.
        self.has_room = True
        self.named = ""
        self.wanted: tuple[NodeId, ...] | None = None
        #: The connections of clients that have logged in.
        self.opened: set[ConnectionId] = set()
        #: The clients of the server that told of them.
        self.clients: dict[ConnectionId, Any] = {}
        #: What to do at an input, by its name.
        self.reactions: dict[str, Callable[..., None]] = {}

    def on(self, name: str, reaction: Callable[..., None]) -> None:
        """Calls `reaction` with the arguments of each input of that name."""
        self.reactions[name] = reaction

    def names(self) -> list[object]:
        """The names of the inputs so far, without turns and ticks."""
        hidden = ("begin_turn", "end_turn", "on_tick")
        return [one[0] for one in self.inputs if one[0] not in hidden]

    def of(self, name: str) -> list[tuple[object, ...]]:
        """The arguments of each input of that name."""
        return [one[1:] for one in self.inputs if one[0] == name]

    def _take(self, name: str, *args: object) -> None:
        self.inputs.append((name, *args))
        reaction = self.reactions.get(name)
        if reaction is not None:
            reaction(*args)

    def post_mortem(self, error: Exception) -> Stopped:
        self._take("post_mortem", error)
        return Stopped(1, 5_000, "a step", str(error), [], [])

    def begin_turn(self, now_ms: int) -> None:
        self._take("begin_turn", now_ms)

    def end_turn(self) -> None:
        self._take("end_turn")

    def on_tick(self) -> None:
        self._take("on_tick")

    def on_connected(
        self, connection: ConnectionId, address: str, is_loopback: bool,
        certificate_name: str | None = None, known_as: object = None,
    ) -> None:  # fmt: skip
        assert isinstance(known_as, ClientSocket)
        assert known_as.connection == connection
        self.clients[connection] = known_as
        self._take("on_connected", connection, address, is_loopback, certificate_name)

    def has_opened(self, connection: ConnectionId) -> bool:
        return connection in self.opened

    def on_bytes(self, connection: ConnectionId, data: bytes) -> None:
        self._take("on_bytes", connection, data)

    def on_writable(self, connection: ConnectionId, writable: bool) -> None:
        self._take("on_writable", connection, writable)

    def on_disconnected(self, connection: ConnectionId) -> None:
        self.clients.pop(connection, None)
        self._take("on_disconnected", connection)

    def on_link_up(self, peer: NodeId, process: Incarnation) -> None:
        self._take("on_link_up", peer, process)

    def on_link_down(self, peer: NodeId, refused: bool) -> None:
        self._take("on_link_down", peer, refused)

    def on_peer(self, frame: PeerFrame) -> None:
        self._take("on_peer", frame)

    @property
    def takes_commands(self) -> bool:
        return self.has_room

    @property
    def cluster_name(self) -> str:
        return self.named

    def on_committed(self, command: bytes) -> None:
        self._take("on_committed", command)

    @property
    def wanted_voters(self) -> tuple[NodeId, ...] | None:
        return self.wanted

    def on_voters(self, voters: tuple[NodeId, ...]) -> None:
        self.wanted = voters

    def on_leader(self, leader: NodeId | None) -> None:
        self._take("on_leader", leader)

    def frozen_map(self) -> Frozen:
        return ClusterMap().frozen()

    def on_snapshot(self, snapshot: ReadMap) -> None:
        self._take("on_snapshot", snapshot)


class Recorder:
    """Outlets that note what they were handed, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        #: Whether writing raises.
        self.fails = False

    def outlets(self) -> Effects:
        """All of them."""
        return Effects(
            append=self.append,
            drop_segments=lambda segments: self.calls.append(("drop", segments)),
            scratch=lambda pieces, drops: self.calls.append(("scratch", pieces, drops)),
            read=lambda reads: self.calls.append(("read", reads)),
            send=lambda peer, frames: self.calls.append(("send", peer, frames)),
            writers=self.writers(),
            close=lambda connection, first: self.calls.append(("close", connection, first)),
            cut=lambda connection: self.calls.append(("cut", connection)),
            set_reading=lambda connection, on: self.calls.append(("reading", connection, on)),
            propose=self.propose,
            end_pass=lambda: None,
            set_aside=lambda messages: self.calls.append(("set aside", messages)),
            verify=lambda wanted: self.calls.append(("verify", wanted)),
            tell_stop=lambda stopped: self.calls.append(("tell stop", stopped)),
        )

    def writers(self) -> Writers:
        """Those of them that write."""
        return Writers(self.write, self.write_all, self.write_next, self.write_pieces)

    def parts_written(self) -> int:
        """How many parts all connections together were given."""
        return sum(
            len(call[2]) for call in self.calls if call[0] == "write" and isinstance(call[2], list)
        )

    def append(self, chunks: list[Chunk]) -> None:
        self.calls.append(("append", chunks))

    def write(self, connection: ConnectionId, parts: list[Body]) -> None:
        if self.fails:
            raise OSError("told to fail")
        self.calls.append(("write", connection, parts))

    def write_all(self, writes: dict[ConnectionId, list[Body]]) -> None:
        for connection, parts in writes.items():
            self.write(connection, parts)

    def write_next(
        self, order: deque[ConnectionId], waiting: dict[ConnectionId, list[Body]], count: int
    ) -> None:
        for _ in range(min(count, len(order))):
            connection = order.popleft()
            if connection in waiting:
                self.write(connection, waiting.pop(connection))

    def write_pieces(
        self, clients: list[ClientSocket], pieces: list[bytes], first: int, stop: int
    ) -> None:
        for client, piece in zip(clients[first:stop], pieces[first:stop], strict=True):
            if piece:
                self.write(client.connection, [piece])

    def propose(self, command: bytes) -> bool:
        self.calls.append(("propose", command))
        return True
