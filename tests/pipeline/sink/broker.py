"""A broker by a script, which takes publishes of named publishers: the other side of the client."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from fedq.amqp import methods
from fedq.amqp.content import content_frames, decode_properties
from fedq.amqp.frames import scan_frame
from fedq.amqp.methods import Method, decode_method, encode_method
from fedq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, HEADER_PAYLOAD
from fedq.pipeline.places import NodeUrl, TlsPaths
from fedq.pipeline.sink.connection import Connection
from fedq.pipeline.sink.encoding import PUBLISHER, SEQUENCE

FRAME_BYTES_MAX = 131_072
NO_TLS = TlsPaths()


class Message(NamedTuple):
    """What was published."""

    exchange: str
    key: str
    properties: dict[str, object]
    body: bytes
    is_mandatory: bool


class Tell:
    """What a script does with a connection at a publish."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.tag = 0
        #: Whether nothing is taken any more.
        self.is_over = False

    def close(self, method: Method, channel: int = 1) -> None:
        """Closes something, after which nothing that is still on its way is taken."""
        self.say(method, channel)
        self.is_over = True

    def say(self, method: Method, channel: int = 1) -> None:
        self.connection.sendall(encode_method(channel, method))

    def hang_up(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)


#: What happens at a publish: true if it is taken, and confirmed as usual.
Script = Callable[[Message, Tell], bool]


def takes(message: Message, tell: Tell) -> bool:
    return True


class Broker:
    """Takes what is published, once for each name and number, and confirms it."""

    def __init__(
        self, script: Script = takes, *, opens: Method | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        """`opens`: what is answered to connection.open instead of yes."""
        self._tls = tls
        self.script = script
        self.opens = opens
        #: All that was taken, and how many publishes came, each time they came.
        self.taken: list[Message] = []
        self.came = 0
        self.connections = 0
        #: What it does when a publisher opens a channel.
        self.greets: Method | None = None
        #: Whether confirms come for each row or for many.
        self.is_multiple = True
        self._highest: dict[object, int] = {}
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._begin(self._accept)

    @property
    def url(self) -> NodeUrl:
        return NodeUrl(
            "127.0.0.1", self._listener.getsockname()[1], "robot", "secret", self._tls is not None
        )

    def say(self, method: Method) -> None:
        """Says something on the only connection there is."""
        [connection] = self._open
        connection.sendall(encode_method(0, method))

    def opener(self, tls: TlsPaths = NO_TLS) -> Callable[[], Connection]:
        url = self.url
        return lambda: Connection(url, tls, "/")

    def stop(self) -> None:
        # Wakes the thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _begin(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            if self._tls is not None:
                try:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                except OSError:
                    connection.close()
                    continue
            self.connections += 1
            self._begin(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            self._open.append(connection)
            try:
                self._talk(connection)
            except OSError:
                return  # The client has hung up, or the script has.

    def _talk(self, connection: socket.socket) -> None:
        tell = Tell(connection)
        data = connection.recv(8)
        assert data == b"AMQP\x00\x00\x09\x01"
        tell.say(methods.ConnectionStart(0, 9, {}, b"PLAIN", b"en_US"), 0)
        data, pending = b"", None
        properties: dict[str, object] = {}
        body, left = b"", 0
        while more := connection.recv(65_536):
            data += more
            at = 0
            while (found := scan_frame(data, at, FRAME_BYTES_MAX)) is not None:
                kind, _, start, end = found
                payload, at = data[start:end], end + 1
                if kind == FRAME_METHOD:
                    method = decode_method(payload)
                    if isinstance(method, methods.BasicPublish):
                        pending = method
                    else:
                        self._answer(method, tell)
                    continue
                if kind == FRAME_HEADER:
                    left = int.from_bytes(payload[4:12], "big")
                    properties = dict(decode_properties(payload[HEADER_PAYLOAD:]))
                    body = b""
                if kind == FRAME_BODY:
                    body += payload
                    left -= len(payload)
                if not left:
                    assert pending is not None
                    exchange, key, is_mandatory, _ = pending
                    message = Message(exchange, key, properties, body, is_mandatory)
                    self._take(message, tell)
            data = data[at:]
            if tell.tag and self.is_multiple:
                tell.say(methods.BasicAck(tell.tag, True))

    def _answer(self, method: Method, tell: Tell) -> None:
        match method:
            case methods.ConnectionStartOk():
                tell.say(methods.ConnectionTune(0, FRAME_BYTES_MAX, 60), 0)
            case methods.ConnectionOpen():
                tell.say(self.opens or methods.ConnectionOpenOk(), 0)
            case methods.ChannelOpen():
                tell.say(methods.ChannelOpenOk())
                if self.greets is not None:
                    tell.say(self.greets, 0)
            case methods.ConfirmSelect():
                tell.say(methods.ConfirmSelectOk())
            case methods.ExchangeDeclare():
                tell.say(methods.ExchangeDeclareOk())

    def _take(self, message: Message, tell: Tell) -> None:
        if tell.is_over:
            return
        self.came += 1
        if not self.script(message, tell):
            return
        tell.tag += 1
        headers = message.properties.get("headers")
        assert headers is None or isinstance(headers, dict)
        name = headers.get(PUBLISHER) if headers else None
        number = headers.get(SEQUENCE, 0) if headers else 0
        if name is None or number > self._highest.get(name, 0):
            self._highest[name] = number
            self.taken.append(message)
        if not self.is_multiple:
            tell.say(methods.BasicAck(tell.tag, False))


def returned(message: Message, tell: Tell) -> None:
    """Gives a message back that no queue takes."""
    tell.say(methods.BasicReturn(312, "NO_ROUTE", message.exchange, message.key))
    tell.connection.sendall(content_frames(1, b"\0\0", message.body, FRAME_BYTES_MAX))


@contextmanager
def broker(
    script: Script = takes, *, opens: Method | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Broker]:
    """A broker while the block runs."""
    running = Broker(script, opens=opens, tls=tls)
    try:
        yield running
    finally:
        running.stop()
