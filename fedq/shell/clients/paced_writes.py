"""What a turn wants written, paced over passes of the event loop, so that a fan-out lets it live.

In: the lanes `writes`, `fanned` and `fanned_to` of a turn (`fedq.node.outbox`). Out: calls of the
outlets that write. What one pass may write is written at once; the rest waits, and each further
pass of the loop writes as much again, in order.

Invariants: bytes of one connection keep their order; what is urgent waits for nothing but bytes of
its own connection; with more waiting, a pass takes a share of it, so the backlog cannot grow for
ever.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, NamedTuple

from fedq.amqp.content import Body
from fedq.core.ids import ConnectionId
from fedq.shell.clients.sending import ClientSocket

#: Connections written to before the event loop gets to look at something else, but for those that
#: are urgent: these come first, and as many of them at most.
WRITES_PER_PASS_MAX: Final = 500
#: With more waiting, a pass takes this share of them, so that the backlog cannot grow for ever.
_BACKLOG_SHARE: Final = 16


class Writers(NamedTuple):
    """The functions that write for a turn. None of them may block."""

    #: Parts for one connection, and for many.
    write: Callable[[ConnectionId, list[Body]], None]
    write_all: Callable[[dict[ConnectionId, list[Body]]], None]
    #: The next so many of those that wait in this order.
    write_next: Callable[[deque[ConnectionId], dict[ConnectionId, list[Body]], int], None]
    #: Pieces for clients, from one place on and up to another.
    write_pieces: Callable[[list[ClientSocket], list[bytes], int, int], None]


class PacedWrites:
    """The writing of turns, spread over passes of the event loop."""

    __slots__ = (
        "_at", "_backlog", "_clients", "_loop", "_may_go_on", "_order", "_pass_max", "_pieces",
        "_pumping", "_writers",
    )  # fmt: skip

    def __init__(
        self, loop: asyncio.AbstractEventLoop, writers: Writers, may_go_on: Callable[[], bool],
        pass_max: int = WRITES_PER_PASS_MAX,
    ) -> None:  # fmt: skip
        """`may_go_on`: asked before each further pass; if not, it has cleared what waits.

        `pass_max`: see `WRITES_PER_PASS_MAX`.
        """
        self._loop = loop
        self._may_go_on = may_go_on
        self._pass_max = pass_max
        self._writers = writers
        #: Parts that did not fit into a pass, and the connections they belong to in order.
        self._backlog: dict[ConnectionId, list[Body]] = {}
        self._order: deque[ConnectionId] = deque()
        #: Or the pieces of one fan-out, from this place on, while nothing else waits.
        self._clients: list[ClientSocket] = []
        self._pieces: list[bytes] = []
        self._at = 0
        self._pumping = False

    def write(
        self, writes: dict[ConnectionId, list[Body]], urgent: int,
        clients: list[ClientSocket], pieces: list[bytes],
    ) -> None:  # fmt: skip
        """Writes a turn's parts, of which the first `urgent` should not wait, and its pieces."""
        if not self._order and not self._pieces:
            if len(writes) + len(pieces) <= self._pass_max:
                self._writers.write_all(writes)
                self._writers.write_pieces(clients, pieces, 0, len(pieces))
                return
            if len(writes) <= self._pass_max:
                self._writers.write_all(writes)
                self._clients, self._pieces, self._at = clients, pieces, 0
                self._pump()
                return
        self._mix()
        if not self._order and not urgent:
            # All of them wait, in their order. What is left of an order leads to nothing.
            self._backlog, self._order = writes, deque(writes)
            writes = {}
        urgent = min(urgent, self._pass_max)
        for connection, parts in islice(writes.items(), urgent):
            self.write_rest(connection)
            self._writers.write(connection, parts)
        self._put_off(islice(writes.items(), urgent, None))
        self._put_off_pieces(clients, pieces, 0)
        if self._order and not self._pumping:
            self._pump()

    def write_rest(self, connection: ConnectionId) -> None:
        """Writes now what still waits for a connection."""
        self._mix()
        parts = self._backlog.pop(connection, None)
        if parts is not None:
            self._writers.write(connection, parts)

    def waiting(self) -> list[ConnectionId]:
        """The connections for which something waits."""
        self._mix()
        return list(self._backlog)

    def bytes_waiting(self) -> int:
        """The bytes that wait; costs a look at each part."""
        pieces = sum([len(piece) for piece in islice(self._pieces, self._at, None)])
        return pieces + sum([sum(map(len, parts)) for parts in self._backlog.values()])

    def clear(self) -> None:
        """Clears what waits: nothing of it leaves any more."""
        self._backlog, self._order = {}, deque()
        self._clients, self._pieces, self._at = [], [], 0

    def _mix(self) -> None:
        """Makes pieces findable by their connections, as other parts wait, too."""
        if self._pieces:
            clients, pieces, at = self._clients, self._pieces, self._at
            self._clients, self._pieces, self._at = [], [], 0
            self._put_off_pieces(clients, pieces, at)

    def _put_off(self, writes: Iterable[tuple[ConnectionId, list[Body]]]) -> None:
        """Puts off parts that wait, behind those of the same connection or all others."""
        backlog, order = self._backlog, self._order
        for connection, parts in writes:
            waiting = backlog.get(connection)
            if waiting is None:
                # Owned by the node no longer, so it may grow here.
                backlog[connection] = parts
                order.append(connection)
            else:
                waiting.extend(parts)

    def _put_off_pieces(self, clients: list[ClientSocket], pieces: list[bytes], first: int) -> None:
        self._put_off(
            (client.connection, [piece])
            for client, piece in islice(zip(clients, pieces, strict=True), first, None)
            if piece
        )

    def _pump(self) -> None:
        # Whatever happens to an outlet, the next write goes on from here.
        self._pumping = False
        if not self._may_go_on():
            return
        waiting = len(self._pieces) - self._at or len(self._order)
        count = max(self._pass_max, waiting // _BACKLOG_SHARE)
        if self._pieces:
            first = self._at
            self._at = min(first + count, len(self._pieces))
            self._writers.write_pieces(self._clients, self._pieces, first, self._at)
            if self._at == len(self._pieces):
                self._clients, self._pieces, self._at = [], [], 0
        else:
            self._writers.write_next(self._order, self._backlog, count)
        self._pumping = bool(self._pieces or self._order)
        if self._pumping:
            self._loop.call_soon(self._pump)
