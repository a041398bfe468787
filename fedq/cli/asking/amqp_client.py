"""A small AMQP client for commands that touch messages: one connection, one channel, one thread.

In: a URL, requests. Out: their answers, or a `CommandError` with the broker's own sentence. It logs
in as a user like every client, so permissions hold for commands, too; and it works with any AMQP
0-9-1 broker.
"""

import socket
import ssl
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

from fedq import __version__
from fedq.amqp import method_types as m
from fedq.amqp.client_side import CHANNEL, GOODBYE, HELLO, Arrived, ClientSide
from fedq.amqp.methods import encode_method
from fedq.amqp.values import TableValue
from fedq.bench.opening import refusal_of
from fedq.bench.plan import BadPlan, Target, parse_url
from fedq.cli.terminal.failure import FAILED, UNREACHABLE, USAGE, CommandError
from fedq.core.errors import ConnectionViolation

READ_BYTES: Final = 262_144
TLS_PORT: Final = 5671

Answer = TypeVar("Answer")


class Message(NamedTuple):
    """A message as it came from a queue, or came back."""

    method: m.BasicGetOk | m.BasicReturn | m.BasicDeliver
    properties: dict[str, TableValue]
    #: No more than was wanted of it.
    body: bytes
    #: Of the whole body.
    size: int


class AmqpClient:
    """A logged-in connection with an open channel; a context manager that closes it."""

    def __init__(
        self, url: str, authority: Path | None, timeout_s: float, wants_notices: bool = False
    ) -> None:
        """Connects to `amqp://user:password@host:port/vhost`, or `amqps://…` with `authority`.

        `wants_notices`: `blocked` is kept true to what the broker says.
        """
        target, is_secure = _parsed(url)
        self.place = target.place
        self._timeout_s = timeout_s
        self._side = ClientSide("fedq command line", __version__, wants_notices)
        self._socket = self._connected(target, is_secure, authority)
        #: Mandatory messages that came back since the last look.
        self.returned: list[Message] = []
        #: Why the broker takes no publishes at present; None: it takes them.
        self.blocked: str | None = None
        try:
            self._shake_hands(target)
        except BaseException:
            self._socket.close()
            raise

    def _connected(
        self, target: Target, is_secure: bool, authority: Path | None
    ) -> socket.socket | ssl.SSLSocket:
        try:
            context = ssl.create_default_context(cafile=authority) if is_secure else None
            plain = socket.create_connection((target.host, target.port), self._timeout_s)
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is None:
                return plain
            # It owns the plain socket, and closes it when the handshake fails.
            return context.wrap_socket(plain, server_hostname=target.host)
        except OSError as error:
            raise CommandError(
                f"no broker reached at {target.place} ({error.strerror or error}); is --url (or "
                "FEDQ_URL) the AMQP address of a node?",
                UNREACHABLE,
            ) from error

    def _shake_hands(self, target: Target) -> None:
        self._send(HELLO)
        self._expect(m.ConnectionStart)
        self._send(self._side.proof(target.user, target.password))
        tune = self._expect(m.ConnectionTune)
        self._send(self._side.opening(tune, target.vhost))
        self._expect(m.ConnectionOpenOk)
        self._expect(m.ChannelOpenOk)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            if kind is None:
                self._send(GOODBYE)
                self._expect(m.ConnectionCloseOk)
        finally:
            self._socket.close()

    # --- requests ---------------------------------------------------------------------------------

    def call(self, request: m.Method, answer: type[Answer]) -> Answer:
        """The answer to a request."""
        self._send(encode_method(CHANNEL, request))
        return self._expect(answer)

    def answer(self, answer: type[Answer]) -> Answer:
        """The answer to a request that was sent before, in the order in which they were."""
        return self._expect(answer)

    def tell(self, *methods: m.Method) -> None:
        """Sends methods, and waits for no answer."""
        self._send(b"".join(encode_method(CHANNEL, method) for method in methods))

    def get(self, queue: str) -> Message | None:
        """The next message of a queue, unacknowledged; None when it is empty."""
        self._send(encode_method(CHANNEL, m.BasicGet(queue)))
        answer = self._next()
        if isinstance(answer, m.BasicGetEmpty):
            return None
        if not isinstance(answer, Message):
            raise self._unexpected(answer)
        return answer

    def publish(
        self, exchange: str, key: str, properties: dict[str, TableValue], body: bytes
    ) -> bool:
        """Publishes one message as mandatory; returns whether it was confirmed and reached a queue.

        The channel must be in confirm mode. What came back is in `returned`.
        """
        before = len(self.returned)
        self._send(self._side.publish(exchange, key, properties, body))
        while True:
            answer = self._next()
            if isinstance(answer, m.BasicAck):
                return len(self.returned) == before
            if isinstance(answer, m.BasicNack):
                return False
            if not isinstance(answer, Message):
                raise self._unexpected(answer)
            self.returned.append(answer)

    def send(self, exchange: str, key: str, properties: dict[str, TableValue], body: bytes) -> None:
        """Publishes one message, and waits for nothing."""
        self._send(self._side.publish(exchange, key, properties, body, mandatory=False))

    def abandon(self) -> None:
        """Closes the socket, and asks nobody."""
        self._socket.close()

    def delivery(self) -> Message:
        """The next delivery to a consumer of this channel; waits for it."""
        answer = self._next()
        if not isinstance(answer, Message):
            raise self._unexpected(answer)
        return answer

    # --- bytes ------------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error) from error

    def _expect(self, kind: type[Answer]) -> Answer:
        answer = self._next()
        if not isinstance(answer, kind):
            raise self._unexpected(answer)
        return answer

    def _unexpected(self, answer: object) -> CommandError:
        return CommandError(f"{self.place} answered with {type(answer).__name__}, out of turn")

    def _lost(self, error: OSError) -> CommandError:
        reason = "it did not answer in time" if isinstance(error, TimeoutError) else str(error)
        return CommandError(f"the connection to {self.place} was lost: {reason}", UNREACHABLE)

    def _next(self) -> m.Method | Message:
        """The next method with its content, if it has one."""
        while (arrived := self._arrived()) is None:
            self._side.receive(self._received())
        return arrived

    def _arrived(self) -> m.Method | Message | None:
        """What has come whole; None: more bytes are needed."""
        while (arrived := self._parsed_next()) is not None:
            method = arrived.method
            refusal = refusal_of(method)
            if refusal is not None:
                raise CommandError(refusal, FAILED)
            match method:
                case m.ConnectionBlocked(reason):
                    self.blocked = reason
                case m.ConnectionUnblocked():
                    self.blocked = None
                case m.BasicGetOk() | m.BasicReturn() | m.BasicDeliver():
                    return Message(method, arrived.properties, arrived.body, arrived.size)
                case _:
                    return method
        return None

    def _parsed_next(self) -> Arrived | None:
        try:
            return self._side.next()
        except ConnectionViolation as error:
            raise CommandError(f"{self.place} sent what is no AMQP: {error.text}") from error

    def _received(self) -> bytes:
        try:
            data = self._socket.recv(READ_BYTES)
        except OSError as error:
            raise self._lost(error) from error
        if not data:
            raise CommandError(f"{self.place} closed the connection", UNREACHABLE)
        return data


def _parsed(url: str) -> tuple[Target, bool]:
    """Where the URL leads, and whether by TLS."""
    is_secure = url.startswith("amqps://")
    try:
        target = parse_url(url.replace("amqps://", "amqp://", 1))
    except BadPlan as error:
        raise CommandError(str(error), USAGE) from error
    if is_secure and f":{target.port}" not in url:
        target = replace(target, port=TLS_PORT)
    return target, is_secure
