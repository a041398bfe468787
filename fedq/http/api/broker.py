"""An AMQP client of this node, as the user who asks: what touches queues and messages.

In: methods, contents. Out: their answers, or `HttpRefusal` with the broker's own sentence. So
permissions, arguments and limits are those of AMQP, and nothing here decides. One connection for a
request; few at a time, others wait.
"""

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, TypeVar

from fedq import __version__
from fedq.amqp import method_types as m
from fedq.amqp.client_side import CHANNEL, GOODBYE, HELLO, Arrived, ClientSide
from fedq.amqp.methods import encode_method
from fedq.amqp.values import TableValue
from fedq.core.errors import (
    ACCESS_REFUSED,
    CONNECTION_FORCED,
    NOT_ALLOWED,
    NOT_FOUND,
    ConnectionViolation,
)
from fedq.core.limits import HTTP_CLIENTS_MAX
from fedq.http.bounds import HTTP_AMQP_S, HTTP_LONG_TABLES_MAX
from fedq.http.refusal import HttpRefusal, bad_request, not_allowed, unavailable
from fedq.shell.config.own_listener import OwnListener, own_listener
from fedq.shell.config.values import NodeConfig

_READ_BYTES: Final = 65_536
_NO_LISTENER: Final = (
    "this needs an AMQP listener of the node that takes passwords, and it has none: ask another "
    "node, or use an AMQP client"
)
_LOST: Final = "the node ended the connection, or did not answer in time: try again"

Reply = TypeVar("Reply")


class Message(NamedTuple):
    """A message as it came from a queue; of a long body only the beginning."""

    method: m.BasicGetOk
    properties: dict[str, TableValue]
    body: bytes
    size: int


class Brokers:
    """Connections to this node's own AMQP listener. Belongs to one event loop."""

    __slots__ = ("_config", "_ports", "_room", "changes", "imports", "long_tables")

    def __init__(self, config: NodeConfig, ports: Mapping[str, int]) -> None:
        self._config = config
        self._ports = ports
        self._room = asyncio.Semaphore(HTTP_CLIENTS_MAX)
        #: For who has a long body as JSON, and for who reads something to change a part of it.
        self.long_tables = asyncio.Semaphore(HTTP_LONG_TABLES_MAX)
        self.changes = asyncio.Lock()
        self.imports = asyncio.Lock()

    @asynccontextmanager
    async def open(self, user: str, password: str, vhost: str) -> AsyncIterator["Broker"]:
        """A connection of the user with an open channel; raises `HttpRefusal`."""
        async with self._room:
            try:
                async with asyncio.timeout(HTTP_AMQP_S):
                    reader, writer = await self._connect()
                    try:
                        broker = Broker(reader, writer)
                        await broker.shake_hands(user, password, vhost)
                        yield broker
                        await broker.say_goodbye()
                    finally:
                        writer.close()
            except (OSError, EOFError, TimeoutError, ConnectionViolation) as error:
                raise unavailable(_LOST) from error

    def check(self) -> None:
        """Raises `HttpRefusal` if no listener of the node takes passwords."""
        self._listener()

    def _listener(self) -> OwnListener:
        found = own_listener(self._config)
        if found is None:
            raise unavailable(_NO_LISTENER)
        return found

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        key, listener, host = self._listener()
        context = None
        if listener.tls is not None:
            # The other end is this process, whatever its certificate calls it.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return await asyncio.open_connection(host, self._ports.get(key, listener.port), ssl=context)


class Broker:
    """A logged-in connection with an open channel."""

    __slots__ = ("_reader", "_side", "_writer")

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._side = ClientSide("fedq HTTP API", __version__)

    async def shake_hands(self, user: str, password: str, vhost: str) -> None:
        """Logs in and opens the channel."""
        self._writer.write(HELLO)
        await self.expect(m.ConnectionStart)
        self._writer.write(self._side.proof(user, password))
        tune = await self.expect(m.ConnectionTune)
        self._writer.write(self._side.opening(tune, vhost))
        await self.expect(m.ConnectionOpenOk)
        await self.expect(m.ChannelOpenOk)

    async def say_goodbye(self) -> None:
        """Closes the connection; what was told before has arrived then."""
        self._writer.write(GOODBYE)
        await self.expect(m.ConnectionCloseOk)

    async def call(self, request: m.Method, answer: type[Reply]) -> Reply:
        """The answer to a request."""
        self.tell(request)
        return await self.expect(answer)

    def tell(self, method: m.Method) -> None:
        """Sends a method; of one without an answer, what closes the connection is heard behind."""
        try:
            self._writer.write(encode_method(CHANNEL, method))
        except (ValueError, struct.error) as error:
            raise bad_request(str(error)) from error

    async def get(self, queue: str, body_bytes: int) -> Message | None:
        """The next message of a queue, unacknowledged; None when it is empty."""
        self._side.body_bytes_max = body_bytes
        self.tell(m.BasicGet(queue))
        arrived = await self._next()
        if isinstance(arrived.method, m.BasicGetEmpty):
            return None
        if not isinstance(arrived.method, m.BasicGetOk):
            raise unavailable(_LOST)
        return Message(arrived.method, arrived.properties, arrived.body, arrived.size)

    async def publish(
        self, exchange: str, key: str, properties: dict[str, TableValue], body: bytes
    ) -> bool:
        """Publishes one message, and returns whether it reached a queue."""
        await self.call(m.ConfirmSelect(), m.ConfirmSelectOk)
        self._side.body_bytes_max = 0
        try:
            self._writer.write(self._side.publish(exchange, key, properties, body))
        except (ValueError, struct.error) as error:
            raise bad_request(str(error)) from error
        is_routed = True
        while True:
            method = (await self._next()).method
            if isinstance(method, m.BasicReturn):
                is_routed = False
            elif isinstance(method, m.BasicAck):
                return is_routed
            elif isinstance(method, m.BasicNack):
                # A queue that is full refuses what it is sent.
                return False

    async def expect(self, kind: type[Reply]) -> Reply:
        """The answer to what was told before; raises `HttpRefusal` for any other."""
        method = (await self._next()).method
        if not isinstance(method, kind):
            raise unavailable(_LOST)
        return method

    async def _next(self) -> Arrived:
        while (arrived := self._side.next()) is None:
            data = await self._reader.read(_READ_BYTES)
            if not data:
                raise EOFError
            self._side.receive(data)
        method = arrived.method
        if isinstance(method, m.ChannelClose | m.ConnectionClose):
            raise _refused(method.reply_code, method.reply_text)
        return arrived


def _refused(code: int, text: str) -> HttpRefusal:
    """A refusal of AMQP as one of HTTP."""
    sentence = text.partition(" - ")[2] or text
    if code == CONNECTION_FORCED:
        # The node takes no clients, and has said who does.
        return unavailable(sentence)
    if code == ACCESS_REFUSED:
        return not_allowed(text)
    if code == NOT_ALLOWED:
        return not_allowed(sentence)
    if code == NOT_FOUND:
        return bad_request(f"{code} {text}")
    return bad_request(sentence)
