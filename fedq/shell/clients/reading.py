"""The turns in which clients are heard: who sends little never waits for those that send much.

    read --short----------------------------> node
      |
      +--long--the pass has room for it-----> node
                   |  it has not
                   +--> put off, the client is held --> node, a pass's worth at a time

In: reads of clients, ends of passes. Out: the node's `on_bytes`, each inside a turn; who is held
(not read). A pass is what one iteration of the event loop brings, and that reads every socket that
has something: forty that are full bring 10 MiB, whose work is half a second. No read can be taken
back, but it can wait: what a pass has no room for is put off, unheard, and its client is held.
Those that are held go on first come first, as many in each pass as it has room for in bytes and
time, and what new reads bring comes after them.

One client has `READ_BYTES_PER_TURN_MAX` of a pass; beyond, it is held, too. After `TURN_BYTES_MAX`
of all of them the turn ends within the pass, so that the answers to what came do not wait for what
comes. Short reads are heard at once and not timed.

Invariants: bytes of a connection keep their order; a client that is held is in the queue, once;
what is put off is heard before its client counts as gone, unless it was cut off; not more
than `PUT_OFF_BYTES_MAX` is, and one read: beyond, reads are heard as they come.
"""

from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from fedq.core.ids import ConnectionId
from fedq.core.limits import (
    HEARD_PASS_MS,
    PUT_OFF_BYTES_MAX,
    PUT_OFF_PIECE_BYTES_MAX,
    READ_BYTES_PER_TURN_MAX,
    SHORT_READ_BYTES_MAX,
    TURN_BYTES_MAX,
)


class Feed(Protocol):
    """`Turn.input`, as far as it is needed here."""

    def __call__(self, method: Callable[..., bool | None], *args: object) -> None:
        """Calls a method of the node inside the turn at hand."""


class Reader(Protocol):
    """A client, as far as it is needed here; what it notes of itself is this module's."""

    connection: ConnectionId
    is_held: bool
    #: What was read and not heard yet.
    put_off: bytes
    #: What was heard in the pass of this number, and how long that took.
    last_pass: int
    bytes_taken: int
    took_s: float

    def hold(self, is_held: bool) -> None:
        """Stops reading the client, or reads it again."""

    def on_all_heard(self) -> None:
        """Takes note that nothing of the client is put off any more."""


class Reading:
    """The order in which the bytes of all clients are heard."""

    __slots__ = (
        "_feed", "_held", "_on_bytes", "_pass", "_pass_bytes", "_pass_s", "_turn_bytes",
        "bytes_put_off",
    )  # fmt: skip

    def __init__(self, feed: Feed, on_bytes: Callable[[ConnectionId, bytes], None]) -> None:
        """`on_bytes`: the node's method for bytes of a client."""
        self._feed = feed
        self._on_bytes = on_bytes
        #: The number of this pass, and what it has heard, in bytes and, of long reads, in seconds.
        self._pass = 0
        self._pass_bytes = 0
        self._pass_s = 0.0
        #: What the turn at hand has heard.
        self._turn_bytes = 0
        #: Clients that are held; who has waited longest is first.
        self._held: deque[Reader] = deque()
        self.bytes_put_off = 0

    def on_read(self, client: Reader, data: bytes) -> None:
        """Takes a chunk of a client."""
        if len(data) <= SHORT_READ_BYTES_MAX and not client.is_held:
            self._pass_bytes += len(data)
            self._feed(self._take, client.connection, data)
        elif client.is_held or (self._is_full and self.bytes_put_off < PUT_OFF_BYTES_MAX):
            client.put_off += data
            self.bytes_put_off += len(data)
            self._hold(client)
        else:
            self._hear(client, data)
            if client.bytes_taken >= READ_BYTES_PER_TURN_MAX:
                self._hold(client)

    def forget(self, client: Reader) -> None:
        """Forgets what was put off of a client."""
        self.bytes_put_off -= len(client.put_off)
        client.put_off = b""

    def end_pass(self) -> None:
        """Ends a pass whose turn has ended: some of those who were held may go on."""
        self._pass += 1
        self._pass_bytes = self._turn_bytes = 0
        self._pass_s = 0.0
        if self._held:
            self._release()

    @property
    def _is_full(self) -> bool:
        return self._pass_bytes >= TURN_BYTES_MAX or self._pass_s >= HEARD_PASS_MS / 1_000

    def _hold(self, client: Reader) -> None:
        if not client.is_held:
            client.hold(True)
            self._held.append(client)

    def _hear(self, client: Reader, data: bytes) -> None:
        if client.last_pass != self._pass:
            client.last_pass, client.bytes_taken, client.took_s = self._pass, 0, 0.0
        client.bytes_taken += len(data)
        self._pass_bytes += len(data)
        began = perf_counter()
        self._feed(self._take, client.connection, data)
        took_s = perf_counter() - began
        client.took_s += took_s
        self._pass_s += took_s

    def _take(self, connection: ConnectionId, data: bytes) -> bool:
        """Hands bytes to the node; whether the turn has had enough of them."""
        self._on_bytes(connection, data)
        self._turn_bytes += len(data)
        if self._turn_bytes < TURN_BYTES_MAX:
            return False
        self._turn_bytes = 0
        return True

    def _release(self) -> None:
        """Releases as many as the pass has room for, if they send as much again in as much time.

        One at least. What they had put off is heard, in pieces: who has more of it than the pass
        has room for waits behind the others. The others are read again in this pass.
        """
        held, room, room_s = self._held, TURN_BYTES_MAX, HEARD_PASS_MS / 1_000
        waiting = len(held)
        while waiting and room > 0 and room_s > 0:
            waiting -= 1
            client = held.popleft()
            if client.put_off and not self._hear_put_off(client):
                held.append(client)
                break
            client.on_all_heard()
            room -= client.bytes_taken
            room_s -= client.took_s
            client.hold(False)
        if held:
            # There is a next pass, whether those that go on send anything or not.
            self._feed(_go_on)

    def _hear_put_off(self, client: Reader) -> bool:
        """Hears what a client had put off, as far as the pass has room; whether that was all."""
        is_first = True
        while client.put_off and (is_first or not self._is_full):
            data = client.put_off
            # Before it is heard: that may end the client, and with it what is left.
            client.put_off = data[PUT_OFF_PIECE_BYTES_MAX:]
            self.bytes_put_off += len(client.put_off) - len(data)
            self._hear(client, data[:PUT_OFF_PIECE_BYTES_MAX])
            is_first = False
        return not client.put_off


def _go_on() -> None:
    """Goes on, by an input that brings nothing."""
