"""A broker of a few lines, for what real ones do not do on request.

It speaks AMQP on a free port of loopback, one connection at a time, and does what a test's script
says with each publish and acknowledgement.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fedq.amqp import method_types as m
from fedq.amqp.content import content_frames, decode_properties, encode_properties
from fedq.amqp.frames import scan_frame
from fedq.amqp.methods import decode_method, encode_method
from fedq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD

_HELLO_BYTES = 8


class FakeBroker:
    """A broker whose queues hold `messages`, and which remembers what it was told."""

    def __init__(self, messages: int = 0) -> None:
        self.port = 0
        self.messages = messages
        #: How many more it delivers, before it hears that its consumer goes.
        self.late = 0
        #: Methods of clients, and what they published: (exchange, key, properties, body).
        self.told: list[m.Method] = []
        self.published: list[tuple[str, str, dict[str, Any], bytes]] = []
        #: The properties of these as they came.
        self.raw: list[bytes] = []
        #: What is said to each publish: "ack", "nack", "return", nothing for any other word.
        self.says: list[str] = []
        self.redelivers = False
        self.refuses = ""
        self.garbage = b""
        self.frame_max = 131_072
        #: Properties as bytes, instead of others.
        self.sends = b""
        self.writer: asyncio.StreamWriter | None = None
        #: What was published over earlier connections.
        self._before = 0

    def acknowledged(self, of: int) -> set[int]:
        """Which of the first deliveries are acknowledged."""
        found: set[int] = set()
        for method in self.told:
            if isinstance(method, m.BasicAck):
                tags = range(1, method.delivery_tag + 1) if method.multiple else ()
                found |= {*tags, method.delivery_tag}
        return found & set(range(1, of + 1))

    def say(self, *methods: m.Method) -> None:
        assert self.writer is not None
        self.writer.write(b"".join([encode_method(1, each) for each in methods]))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.writer, self._before = writer, len(self.published)
        try:
            await self._serve(reader, writer)
        except ConnectionError:
            # The shovel hung up.
            pass
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(_HELLO_BYTES)
        if self.garbage:
            writer.write(self.garbage)
            return
        start = m.ConnectionStart(0, 9, {}, b"PLAIN", b"en_US")
        writer.write(encode_method(0, start))
        data, publish, properties = b"", None, {}
        while more := await reader.read(65_536):
            data += more
            at = 0
            while (found := scan_frame(data, at, 1 << 20)) is not None:
                kind, _, begin, end = found
                payload, at = data[begin:end], end + 1
                if kind == FRAME_METHOD:
                    method = decode_method(payload)
                    if isinstance(method, m.BasicPublish):
                        publish = method
                    else:
                        self._answer(method, writer)
                elif kind == FRAME_HEADER:
                    properties = decode_properties(payload[12:])
                    self.raw.append(payload[12:])
                elif kind == FRAME_BODY and publish is not None:
                    self._take(publish, properties, payload)
            data = data[at:]

    def _answer(self, method: m.Method, writer: asyncio.StreamWriter) -> None:
        self.told.append(method)
        match method:
            case m.ConnectionStartOk():
                if self.refuses:
                    writer.write(encode_method(0, m.ConnectionClose(403, self.refuses)))
                else:
                    writer.write(encode_method(0, m.ConnectionTune(10, self.frame_max, 0)))
            case m.ConnectionOpen():
                writer.write(encode_method(0, m.ConnectionOpenOk()))
            case m.ChannelOpen():
                self.say(m.ChannelOpenOk())
            case m.ConnectionClose():
                writer.write(encode_method(0, m.ConnectionCloseOk()))
            case m.QueueDeclare(queue):
                self.say(m.QueueDeclareOk(queue or "made", self.messages))
            case m.QueueBind():
                self.say(m.QueueBindOk())
            case m.BasicQos():
                self.say(m.BasicQosOk())
            case m.BasicCancel(tag):
                for number in range(self.messages + 1, self.messages + self.late + 1):
                    self.deliver(number, {})
                self.say(m.BasicCancelOk(tag))
            case m.ConfirmSelect():
                self.say(m.ConfirmSelectOk())
            case m.BasicConsume():
                self.say(m.BasicConsumeOk("tag"))
                for number in range(1, self.messages + 1):
                    self.deliver(number, {"headers": {"CC": ["x"]}, "user_id": "me"})
            case _:
                pass

    def deliver(self, number: int, properties: dict[str, Any]) -> None:
        assert self.writer is not None
        method = m.BasicDeliver("tag", number, self.redelivers, "source", "key")
        self.writer.write(
            encode_method(1, method)
            + content_frames(
                1, self.sends or encode_properties(properties), b"%d" % number, 131_072
            )
        )

    def _take(self, publish: m.BasicPublish, properties: dict[str, Any], body: bytes) -> None:
        self.published.append((publish.exchange, publish.routing_key, properties, body))
        number = len(self.published)
        word = self.says[number - 1] if number <= len(self.says) else "ack"
        number -= self._before
        if word == "ack":
            self.say(m.BasicAck(number))
        elif word == "nack":
            self.say(m.BasicNack(number))
        elif word == "return":
            assert self.writer is not None
            self.writer.write(
                encode_method(1, m.BasicReturn(312, "NO_ROUTE", "", publish.routing_key))
                + content_frames(1, encode_properties({}), body, 131_072)
            )


@asynccontextmanager
async def listening(*brokers: FakeBroker) -> AsyncIterator[None]:
    """The brokers, each at its port."""
    servers = []
    for broker in brokers:
        server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
        broker.port = server.sockets[0].getsockname()[1]
        servers.append(server)
    try:
        yield
    finally:
        for server in servers:
            server.close()
