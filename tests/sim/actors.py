"""What all simulated clients share: a script that runs in virtual time over one connection.

A client is a generator: it yields how long it is willing to wait, in microseconds, and is resumed
when that is over, or earlier by what it waits for. Losing the connection raises `LostError` inside
it, a channel closed by the server raises `ClosedError`. So a client reads like the programs that
users write, and still nothing happens outside the world's order.
"""

from collections.abc import Callable, Generator, Sequence
from typing import TypeAlias, TypeVar

from fedq.amqp.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionClose,
    Method,
)
from fedq.core.errors import NOT_FOUND
from tests.sim.checkers import Ledger
from tests.sim.client_connection import ClientConnection, Content, Refusal
from tests.sim.node_host import Host
from tests.sim.world import MS, SECOND, World, between

Value = TypeVar("Value")
Script: TypeAlias = Generator[int, Method | None, Value]
Expected = TypeVar("Expected", bound=Method)

#: A request that is not answered by then counts as a lost connection.
PATIENCE_US = 8 * SECOND
#: What the server may answer while the cluster cannot decide: the client asks again.
RETRYABLE = (320, 506, 541)
#: How long after a fault a node may still count as down.
HOMELESS_US = 5_000 * MS


class LostError(Exception):
    """The connection is gone."""


class ClosedError(Exception):
    """The server closed the channel."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(f"{refusal.code} {refusal.text}")
        self.refusal = refusal


class Actor:
    """One client program. Subclasses write `script` and what they do with contents."""

    def __init__(self, world: World, ledger: Ledger, hosts: Sequence[Host], name: str) -> None:
        self.world = world
        self.ledger = ledger
        self.hosts = hosts
        self.name = name
        self.random = world.generator(f"client/{name}")
        self.connection: ClientConnection | None = None
        #: Counts connections; names them in the ledger.
        self.connections = 0
        #: The node that it last connected to.
        self.node = ""
        self.done = False
        #: Nothing new is to be begun (the safety phase is over).
        self.stopping = False
        self._running: Script[None] | None = None
        self._waits = 0
        #: An answer or an error is about to be handed to the script.
        self._pending = False
        self._wanted: Callable[[Method], bool] | None = None
        self._opening = False

    # --- the script ------------------------------------------------------------------------------

    def script(self) -> Script[None]:
        """What the client does."""
        raise NotImplementedError

    def start(self, delay_us: int = 0) -> None:
        """Begins the script after a while."""
        self._running = self.script()
        self.world.after(delay_us, lambda: self._resume(None, None))

    def wake(self) -> None:
        """Ends the wait that the script is in, unless it waits for an answer."""
        if self._wanted is None and not self._opening and not self._pending:
            self._schedule(None, None)

    def goes_on(self) -> bool:
        """Whether to begin something new."""
        return not self.stopping

    @property
    def label(self) -> str:
        """The present connection's name in the ledger."""
        return f"{self.name}#{self.connections}"

    @property
    def is_blocked(self) -> bool:
        """Whether it was told that it is not read."""
        return self.connection is not None and self.connection.is_blocked

    def note(self, text: str) -> None:
        """One line of the trace."""
        if self.world.trace.on:
            self.world.note(self.name, text)

    def connect(self, host: Host | None = None) -> Script[None]:
        """Connects to a living node, asking again until one lets it in; opens channel 1."""
        while True:
            # A node that is being stopped listens no more.
            alive = [each for each in self.hosts if each.alive and not each.stopping]
            chosen = host if host is not None and host in alive else None
            if chosen is None and alive:
                chosen = self.random.choice(alive)
            if chosen is None:
                yield 50 * MS
                continue
            try:
                yield from self._open(chosen)
                return
            except (LostError, ClosedError):
                yield between(self.random, 10, 100) * MS

    def call(self, method: Method, expected: type[Expected]) -> Script[Expected]:
        """Sends a request on channel 1 and waits for its answer."""
        answer = yield from self.ask(method, expected)
        assert isinstance(answer, expected)
        return answer

    def ask(self, method: Method, *expected: type[object]) -> Script[Method]:
        """As `call`, for a request that has several answers."""
        connection = self.connection
        if connection is None:
            raise LostError("the connection went while nobody waited")
        asked = type(method).__name__
        self._wanted = lambda answer: isinstance(answer, expected)
        connection.send(1, method)
        answer = yield PATIENCE_US
        self._wanted = None
        if answer is None:
            self.note(f"no answer to {asked}")
            self.ledger.unanswered(self.label, asked)
            self.drop()
            raise LostError(f"no answer to {asked}")
        return answer

    def sessions(
        self,
        is_ready: Callable[[], bool],
        goes_on: Callable[[], bool],
        session: Callable[[], Script[None]],
    ) -> Script[None]:
        """Once all is ready, session after session, each on a connection of its own."""
        while not is_ready():
            yield 20 * MS
        while goes_on():
            try:
                yield from self.connect()
                yield from session()
            except LostError:
                yield between(self.random, 1, 50) * MS
            except ClosedError as error:
                yield from self.excuse(error)

    def drop(self) -> None:
        """Drops the connection without a word."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
            self.ledger.gone(self.label)

    def leave(self) -> Script[None]:
        """Closes the connection properly: what was sent before is done by the node first."""
        connection = self.connection
        if connection is not None and not connection.gone:
            connection.send(0, ConnectionClose(200, "goodbye", 0, 0))
            self.connection = None
            self.ledger.gone(self.label)
            yield 20 * MS

    def excuse(self, error: ClosedError) -> Script[None]:
        """A channel was closed: judges why, and waits a little before the next attempt."""
        refusal = error.refusal
        gone = refusal.code == NOT_FOUND and self.ledger.memory_lost
        is_excused = (gone and self.uses_transient()) or self._may_be_homeless(refusal)
        if refusal.code not in RETRYABLE and not is_excused:
            self.ledger.broken(f"{self.label}: its channel was closed: {refusal}")
        yield between(self.random, 10, 100) * MS

    def _may_be_homeless(self, refusal: Refusal) -> bool:
        """Whether it was told that all homes of its queue are down, and some node may be."""
        if refusal.code != NOT_FOUND or "NOT_FOUND - home node" not in refusal.text:
            return False
        return self.ledger.fault_between(self.world.now_us - HOMELESS_US, self.world.now_us)

    def uses_transient(self) -> bool:
        """Whether it uses a queue or exchange that a stop of everything may take with it."""
        return False

    # --- what the connection tells ---------------------------------------------------------------

    def on_open(self) -> None:
        self._schedule(None, None)

    def on_method(self, channel: int, method: Method) -> None:
        if self._wanted is not None and self._wanted(method):
            self._wanted = None
            self._schedule(method, None)
        else:
            self.on_other(channel, method)

    def on_other(self, channel: int, method: Method) -> None:
        """A method that answers no request."""
        self.ledger.broken(f"{self.label}: unexpected {method}")

    def on_content(self, method: Content, properties: bytes, body: bytes) -> None:
        """A delivery, an answer to get, or a returned message."""
        self.ledger.broken(f"{self.label}: unexpected content {method}")

    def on_channel_closed(self, refusal: Refusal) -> None:
        self.note(f"channel closed: {refusal}")
        self._end()
        self._schedule(None, ClosedError(refusal))

    def on_lost(self, reason: str, refusal: Refusal | None) -> None:
        if self.connection is None:
            return
        self.note(f"lost: {reason} {refusal}")
        if refusal is not None and refusal.code not in RETRYABLE:
            self.ledger.broken(f"{self.label}: the connection was closed: {refusal}")
        self._end()
        self._schedule(None, LostError(reason))

    # --- inside ----------------------------------------------------------------------------------

    def _end(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection = None
        self.ledger.gone(self.label)

    def _open(self, host: Host) -> Script[None]:
        self.connections += 1
        self.node = host.name
        self.note(f"connects to {host.name} as {self.label}")
        connection = self.connection = ClientConnection(
            self.world, self.random, host, self, self.ledger.tells_alarms
        )
        life = host.life

        def is_served() -> bool:
            # A node that is being stopped has sent its clients away, before they read that.
            lives = host.alive and not host.stopping and host.life == life
            return lives and not connection.sent_away

        self.ledger.connected(self.label, is_served)
        self._opening = True
        yield PATIENCE_US
        self._opening = False
        if self.connection is None or not self.connection.is_open:
            self.drop()
            raise LostError("the handshake took too long")
        yield from self.call(ChannelOpen(), ChannelOpenOk)

    def _schedule(self, value: Method | None, error: Exception | None) -> None:
        self._waits += 1
        self._pending = True
        token = self._waits
        self.world.after(0, lambda: self._wake(token, value, error))

    def _wake(self, token: int, value: Method | None, error: Exception | None) -> None:
        if token == self._waits:
            self._resume(value, error)

    def _resume(self, value: Method | None, error: Exception | None) -> None:
        running = self._running
        self._pending = False
        if running is None:
            return
        try:
            if error is not None:
                self._wanted = None
                self._opening = False
                wait_us = running.throw(error)
            else:
                wait_us = running.send(value)
        except StopIteration:
            self._running = None
            self.done = True
            return
        self._waits += 1
        token = self._waits
        self.world.after(wait_us, lambda: self._wake(token, None, None))


class Declaring(Actor):
    """Declares what others use, however often it takes: `_declare` says what."""

    def script(self) -> Script[None]:
        """Goes on until all is there."""
        while True:
            try:
                yield from self.connect()
                yield from self._declare()
                yield from self.leave()
                return
            except (LostError, ClosedError) as error:
                if isinstance(error, ClosedError) and error.refusal.code not in RETRYABLE:
                    self.ledger.broken(f"a declaration was refused: {error.refusal}")
                    return
                yield 100 * MS

    def _declare(self) -> Script[None]:
        raise NotImplementedError
