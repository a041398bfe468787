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
from fedq.amqp.content import content_frames, decode_properties, encode_properties
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import decode_method, encode_method
from fedq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, FRAME_OVERHEAD
from fedq.amqp.values import FieldTable, TableValue
from fedq.bench.opening import refusal_of
from fedq.bench.plan import BadPlan, Target, parse_url
from fedq.cli.terminal.failure import FAILED, UNREACHABLE, USAGE, CommandError
from fedq.core.errors import ConnectionViolation

READ_BYTES: Final = 262_144
CHANNEL: Final = 1
TLS_PORT: Final = 5671
_PROPERTIES: Final[FieldTable] = {
    "product": "fedq command line",
    "version": __version__,
    "capabilities": {"authentication_failure_close": True, "basic.nack": True},
}

Answer = TypeVar("Answer")


class Message(NamedTuple):
    """A message as it came from a queue, or came back."""

    method: m.BasicGetOk | m.BasicReturn | m.BasicDeliver
    properties: dict[str, TableValue]
    body: bytes


class AmqpClient:
    """A logged-in connection with an open channel; a context manager that closes it."""

    def __init__(self, url: str, authority: Path | None, timeout_s: float) -> None:
        """Connects to `amqp://user:password@host:port/vhost`, or `amqps://…` with `authority`."""
        target, is_secure = _parsed(url)
        self.place = target.place
        self._timeout_s = timeout_s
        self._buffer = bytearray()
        self._socket = self._connected(target, is_secure, authority)
        self.frame_bytes_max = 0
        #: Mandatory messages that came back since the last look.
        self.returned: list[Message] = []
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
        self._send(PROTOCOL_HEADER)
        self._expect(m.ConnectionStart)
        proof = f"\0{target.user}\0{target.password}".encode()
        start_ok = m.ConnectionStartOk(_PROPERTIES, "PLAIN", proof, "en_US")
        self._send(encode_method(0, start_ok))
        tune = self._expect(m.ConnectionTune)
        self.frame_bytes_max = tune.frame_max or 131_072
        self._send(
            encode_method(0, m.ConnectionTuneOk(tune.channel_max, self.frame_bytes_max, 0))
            + encode_method(0, m.ConnectionOpen(target.vhost))
            + encode_method(CHANNEL, m.ChannelOpen())
        )
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
                self._send(encode_method(0, m.ConnectionClose(200, "done")))
                self._expect(m.ConnectionCloseOk)
        finally:
            self._socket.close()

    # --- requests ---------------------------------------------------------------------------------

    def call(self, request: m.Method, answer: type[Answer]) -> Answer:
        """The answer to a request."""
        self._send(encode_method(CHANNEL, request))
        return self._expect(answer)

    def tell(self, *methods: m.Method) -> None:
        """Sends methods that have no answer."""
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
        self._publish(m.BasicPublish(exchange, key, mandatory=True), properties, body)
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
        self._publish(m.BasicPublish(exchange, key), properties, body)

    def _publish(
        self, method: m.BasicPublish, properties: dict[str, TableValue], body: bytes
    ) -> None:
        encoded = encode_properties(properties)
        content = content_frames(CHANNEL, encoded, body, self.frame_bytes_max)
        self._send(encode_method(CHANNEL, method) + content)

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
        while True:
            kind, payload = self._frame()
            if kind != FRAME_METHOD:
                continue
            try:
                method = decode_method(payload)
            except ConnectionViolation as error:
                raise CommandError(f"{self.place} sent what is no AMQP: {error.text}") from error
            refusal = refusal_of(method)
            if refusal is not None:
                raise CommandError(refusal, FAILED)
            if isinstance(method, m.BasicGetOk | m.BasicReturn | m.BasicDeliver):
                return self._content(method)
            return method

    def _content(self, method: m.BasicGetOk | m.BasicReturn | m.BasicDeliver) -> Message:
        kind, header = self._frame()
        if kind != FRAME_HEADER or len(header) < 14:
            raise CommandError(f"{self.place} sent a message without a header")
        size = int.from_bytes(header[4:12], "big")
        body = bytearray()
        while len(body) < size:
            kind, payload = self._frame()
            if kind == FRAME_BODY:
                body += payload
        return Message(method, decode_properties(header[12:]), bytes(body))

    def _frame(self) -> tuple[int, bytes]:
        """The next frame: its type and payload."""
        buffer = self._buffer
        while True:
            if len(buffer) >= FRAME_OVERHEAD - 1:
                size = int.from_bytes(buffer[3:7], "big")
                if len(buffer) >= size + FRAME_OVERHEAD:
                    kind, payload = buffer[0], bytes(buffer[7 : 7 + size])
                    del buffer[: size + FRAME_OVERHEAD]
                    return kind, payload
            try:
                data = self._socket.recv(READ_BYTES)
            except OSError as error:
                raise self._lost(error) from error
            if not data:
                raise CommandError(f"{self.place} closed the connection", UNREACHABLE)
            buffer += data


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
