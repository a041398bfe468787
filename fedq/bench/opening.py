"""Opens many connections at once, each with a script of requests, and fails with a sentence.

In: for each connection a target, a script of methods and what to do with the socket when all have
been answered. The handshake is three exchanges; the script is one write, whose replies are counted
off in any order, as some brokers answer *consume* from elsewhere than the rest. At most
`TOGETHER_MAX` connections are being opened at any time.

Every wait has a deadline that moves with each answer. `run` does all of it; who has a loop of its
own adds openings as they come, and calls `turn`: an opening that says what to do with its failure
(`on_failed`) takes none of the others with it.
"""

import errno
import select
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

from fedq.amqp import methods
from fedq.amqp.frames import scan_frame
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import Method, decode_method, encode_method, frame_ids, ids_of
from fedq.amqp.spec import FRAME_BYTES_MIN, FRAME_METHOD
from fedq.amqp.values import FieldTable
from fedq.bench.columns import FRAME_BYTES_MAX
from fedq.bench.plan import Target
from fedq.core.errors import ConnectionViolation

TOGETHER_MAX: Final = 256
READ_BYTES: Final = 65_536
#: What makes a broker say why it refuses, instead of hanging up.
_PROPERTIES: Final[FieldTable] = {
    "product": "fedq bench",
    "capabilities": {"authentication_failure_close": True, "consumer_cancel_notify": True},
}
_GOODBYE: Final = encode_method(0, methods.ConnectionClose(200, "done"))
_POLL_S: Final = 0.05
_READABLE: Final = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR


class BrokerFailure(Exception):
    """The broker refused, hung up or did not answer; the text is a sentence for the user."""


class Step(NamedTuple):
    """A request on a channel and the method that answers it."""

    channel: int
    request: Method
    answer: type[Method]


@dataclass(frozen=True, slots=True)
class Opening:
    """A connection to be."""

    target: Target
    #: What it is for, in messages: `consumer 3`.
    who: str
    steps: Sequence[Step]
    #: Gets the socket, which is ready and does not block.
    on_ready: Callable[[socket.socket], None]
    #: The address to connect from; "" leaves it to the system.
    source: str = ""
    #: Gets what came behind the last answer: deliveries, where a queue had messages already.
    on_more: Callable[[bytes], None] | None = None
    #: Gets the failure of this connection, which is closed; None: it ends all others, too.
    on_failed: Callable[["BrokerFailure"], None] | None = None
    #: The receive buffer of the socket, in bytes; 0 leaves it to the system.
    receive_bytes: int = 0


def refusal_of(method: Method) -> str | None:
    """The sentence of a method by which a broker ends something; None for all others."""
    match method:
        case methods.ConnectionClose(code, text):
            return f"the broker closed the connection: {code} {text}"
        case methods.ChannelClose(code, text):
            return f"the broker closed the channel: {code} {text}"
        case methods.BasicCancel(tag):
            return f"the broker cancelled the consumer {tag}"
    return None


def goodbye(connected: socket.socket) -> None:
    """Ends a connection, and says so where there is room for it."""
    with suppress(OSError):
        connected.send(_GOODBYE)
    connected.close()


class _Half:
    """A connection that is being opened."""

    __slots__ = ("answers", "data", "left", "opening", "script", "socket", "unsent")

    def __init__(self, opening: Opening, descriptor: socket.socket) -> None:
        self.opening = opening
        self.socket = descriptor
        self.data = b""
        self.unsent = memoryview(PROTOCOL_HEADER)
        self.script = b"".join(encode_method(step.channel, step.request) for step in opening.steps)
        #: What is still to come, as (class id, method id), and how often.
        self.answers = Counter(ids_of(step.answer()) for step in opening.steps)
        self.answers.update(_HANDSHAKE)
        self.left = self.answers.total()


_START: Final = ids_of(methods.ConnectionStart())
_TUNE: Final = ids_of(methods.ConnectionTune())
_OPEN_OK: Final = ids_of(methods.ConnectionOpenOk())
_HANDSHAKE: Final = (_START, _TUNE, _OPEN_OK)


class Opener:
    """Opens many connections at once; see the module's docstring."""

    __slots__ = ("_answers", "_deadline", "_halves", "_make", "_patience_s", "_poll", "_waiting")

    def __init__(
        self, openings: Iterable[Opening], patience_s: float,
        poll: "select.epoll | None" = None, make: type[socket.socket] = socket.socket,
    ) -> None:  # fmt: skip
        """`patience_s`: how long no answer may come.

        `poll` and `make`: what to poll and to connect with, where those of the modules have been
        replaced (gevent).
        """
        self._answers = 0
        self._waiting = deque(openings)
        self._patience_s = patience_s
        self._halves: dict[int, _Half] = {}
        self._poll = select.epoll() if poll is None else poll
        self._make = make
        self._deadline = time.monotonic() + patience_s

    def add(self, opening: Opening) -> None:
        """Opens one more, after those that wait."""
        if self.is_done:
            self._deadline = time.monotonic() + self._patience_s
        self._waiting.append(opening)

    @property
    def is_done(self) -> bool:
        """Whether nothing waits to be opened or answered."""
        return not self._waiting and not self._halves

    @property
    def waiting(self) -> int:
        """How many connections are not ready."""
        return len(self._waiting) + len(self._halves)

    def fileno(self) -> int:
        """What becomes readable when there is something to do, once `turn` has begun to open."""
        return self._poll.fileno()

    def run(self) -> None:
        """Opens all. Raises `BrokerFailure` for the first that fails; the sockets are closed."""
        try:
            while not self.is_done:
                self.turn(_POLL_S)
        finally:
            self.close()

    def close(self) -> None:
        """Gives up what is not ready, and closes everything but the sockets that are."""
        self._waiting.clear()
        for half in self._halves.values():
            half.socket.close()
        self._halves.clear()
        self._poll.close()

    def turn(self, wait_s: float) -> None:
        """Begins what may begin, and does what became possible within this time."""
        while self._waiting and len(self._halves) < TOGETHER_MAX:
            self._begin(self._waiting.popleft())
        answers = self._answers
        for number, events in self._poll.poll(wait_s):
            half = self._halves[number]
            try:
                self._go_on(half, events)
            except BrokerFailure as failure:
                self._drop(half, failure)
        if self._answers > answers:
            self._deadline = time.monotonic() + self._patience_s
        elif self._halves and time.monotonic() > self._deadline:
            self._give_up()

    def _drop(self, half: _Half, failure: BrokerFailure) -> None:
        """Gives up one connection, or all if nobody wants to hear of this one alone."""
        if half.opening.on_failed is None:
            raise failure
        self._poll.unregister(half.socket)
        del self._halves[half.socket.fileno()]
        half.socket.close()
        half.opening.on_failed(failure)

    def _give_up(self) -> None:
        self._deadline = time.monotonic() + self._patience_s
        for half in list(self._halves.values()):
            failure = BrokerFailure(
                f"{half.opening.who} at {half.opening.target.place}: no answer within "
                f"{self._patience_s:g} s; {half.left} replies did not come, and "
                f"{self.waiting} connections are not ready"
            )
            self._drop(half, failure)

    def _begin(self, opening: Opening) -> None:
        try:
            made = _connect(opening, self._make)
        except OSError as error:
            failure = _failure(opening, error)
            if opening.on_failed is None:
                raise failure from error
            opening.on_failed(failure)
            return
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._halves[made.fileno()] = _Half(opening, made)
        self._poll.register(made, select.EPOLLOUT)

    def _go_on(self, half: _Half, events: int) -> None:
        try:
            if events & select.EPOLLOUT:
                self._send(half)
            if not events & _READABLE:
                return
            data = half.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise _failure(half.opening, error) from error
        if not data:
            raise BrokerFailure(f"{_name(half.opening)}: the broker hung up during the handshake")
        half.data += data
        try:
            self._read(half)
        except ConnectionViolation as violation:
            text = f"{_name(half.opening)}: this is not AMQP 0-9-1: {violation.text}"
            raise BrokerFailure(text) from violation

    def _read(self, half: _Half) -> None:
        at = 0
        while (found := scan_frame(half.data, at, FRAME_BYTES_MAX)) is not None:
            kind, _, start, end = found
            at = end + 1
            if kind == FRAME_METHOD:
                self._answered(half, half.data[start:end])
                if half.left == 0:
                    break
        half.data = half.data[at:]
        if half.left == 0:
            self._poll.unregister(half.socket)
            del self._halves[half.socket.fileno()]
            half.opening.on_ready(half.socket)
            if half.data:
                assert half.opening.on_more, "nothing may come before anything was asked for"
                half.opening.on_more(half.data)

    def _answered(self, half: _Half, payload: bytes) -> None:
        ids = frame_ids(payload)
        if not half.answers[ids]:
            method = decode_method(payload)
            text = refusal_of(method) or f"an unexpected {type(method).__name__}"
            raise BrokerFailure(f"{_name(half.opening)}: {text}")
        half.answers[ids] -= 1
        half.left -= 1
        self._answers += 1
        target = half.opening.target
        if ids == _START:
            proof = f"\0{target.user}\0{target.password}".encode()
            start_ok = methods.ConnectionStartOk(_PROPERTIES, "PLAIN", proof, "en_US")
            self._say(half, encode_method(0, start_ok))
        elif ids == _TUNE:
            tune = decode_method(payload)
            assert isinstance(tune, methods.ConnectionTune)
            frame_max = min(tune.frame_max or FRAME_BYTES_MAX, FRAME_BYTES_MAX)
            assert frame_max >= FRAME_BYTES_MIN, "no broker may ask for less"
            tune_ok = methods.ConnectionTuneOk(tune.channel_max, frame_max, 0)
            opening = encode_method(0, methods.ConnectionOpen(target.vhost))
            self._say(half, encode_method(0, tune_ok) + opening)
        elif ids == _OPEN_OK and half.script:
            self._say(half, half.script)

    def _say(self, half: _Half, data: bytes) -> None:
        """Sends a script; what is longer than the socket takes follows when it is writable."""
        assert not half.unsent, "each answer is to something that was sent whole"
        half.unsent = memoryview(data)
        self._send(half)

    def _send(self, half: _Half) -> None:
        try:
            half.unsent = half.unsent[half.socket.send(half.unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            raise _failure(half.opening, error) from error
        wanted = select.EPOLLIN | select.EPOLLOUT if half.unsent else select.EPOLLIN
        self._poll.modify(half.socket, wanted)


@cache
def _resolved(host: str, port: int) -> tuple[int, int, int, Any]:
    """What a socket to this place needs: family, type, protocol, address."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    return family, kind, protocol, address


def _connect(opening: Opening, make: type[socket.socket]) -> socket.socket:
    family, kind, protocol, address = _resolved(opening.target.host, opening.target.port)
    made = make(family, kind, protocol)
    try:
        made.setblocking(False)
        if opening.receive_bytes:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, opening.receive_bytes)
        if opening.source:
            made.bind((opening.source, 0))
        if (number := made.connect_ex(address)) not in (0, errno.EINPROGRESS):
            raise OSError(number, errno.errorcode.get(number, "error"))
    except OSError:
        made.close()
        raise
    return made


def _name(opening: Opening) -> str:
    return f"{opening.who} at {opening.target.place}"


def _failure(opening: Opening, error: OSError) -> BrokerFailure:
    reason = error.strerror or str(error)
    return BrokerFailure(f"{_name(opening)}: {reason}; is the broker running there?")
