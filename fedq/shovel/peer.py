"""One end of a shovel: a logged-in AMQP connection with one channel, on an event loop.

In: where it leads, methods, contents. Out: what arrives, or a `ShovelError` whose sentence holds no
password and nothing that a host said which is no AMQP broker. Works with every AMQP 0-9-1 broker.

A name may lead to this machine or its link only where the URI says so itself: whoever owns a name
decides where it leads.
"""

import asyncio
import socket
import ssl
import struct
from typing import Final, NamedTuple, TypeVar

from fedq import __version__
from fedq.amqp import method_types as m
from fedq.amqp.client_side import CHANNEL, GOODBYE, HELLO, Arrived, ClientSide
from fedq.amqp.methods import encode_method
from fedq.amqp.spec import FRAME_BYTES_MIN
from fedq.amqp.uris import AmqpUri, address_of, is_near
from fedq.core.errors import ConnectionViolation

_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 30.0
_GOODBYE_S: Final = 10.0
_READ_BYTES: Final = 262_144
#: What the socket has not taken yet of what is to be sent, until more is read from the other end.
_UNSENT_BYTES_MAX: Final = 1_048_576
#: As RabbitMQ's largest message.
BODY_BYTES_MAX: Final = 128 * 1_048_576
_TOLD: Final = 300
#: A peer that is gone without a word is noticed: seconds of silence, questions, seconds between.
_KEEPALIVE: Final = (
    (socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPCNT, 3), (socket.TCP_KEEPINTVL, 10),
    (socket.TCP_USER_TIMEOUT, 60_000),
)  # fmt: skip

Answer = TypeVar("Answer")


class ShovelError(Exception):
    """A shovel cannot go on; says why."""


class Local(NamedTuple):
    """Where the node of this shovel itself listens; a `port` of 0: nowhere with passwords."""

    host: str
    port: int
    is_secure: bool


class Peer:
    """A connection to one end. Belongs to one event loop, and to one reader at a time."""

    __slots__ = ("_reader", "_side", "_writer", "is_free", "what")

    def __init__(
        self, what: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """`what`: the end's name in sentences."""
        self.what = what
        self._reader = reader
        self._writer = writer
        self._side = ClientSide("fedq shovel", __version__, wants_notices=True)
        # One byte more, which shows in `size`: memory is bounded whatever a header says.
        self._side.body_bytes_max = BODY_BYTES_MAX
        self._side.keeps_headers = True
        #: Cleared while the broker takes no publishes.
        self.is_free = asyncio.Event()
        self.is_free.set()

    async def shake_hands(self, uri: AmqpUri) -> None:
        """Logs in and opens the channel."""
        self.write(HELLO)
        await self.expect(m.ConnectionStart)
        self.write(self._side.proof(uri.user, uri.password))
        tune = await self.expect(m.ConnectionTune)
        if 0 < tune.frame_max < FRAME_BYTES_MIN:
            raise ShovelError(f"the {self.what} takes no frames of {FRAME_BYTES_MIN} bytes")
        self.write(self._side.opening(tune, uri.vhost))
        await self.expect(m.ConnectionOpenOk)
        await self.expect(m.ChannelOpenOk)

    async def call(self, request: m.Method, answer: type[Answer]) -> Answer:
        """The answer to a request."""
        self.tell(request)
        return await self.expect(answer)

    async def expect(self, kind: type[Answer]) -> Answer:
        """The next method, which has to be of this kind."""
        try:
            async with asyncio.timeout(_ANSWER_S):
                arrived = await self.next()
        except TimeoutError:
            raise ShovelError(f"the {self.what} did not answer in {_ANSWER_S:.0f} s") from None
        if not isinstance(arrived.method, kind):
            raise ShovelError(f"the {self.what} answered out of turn")
        return arrived.method

    async def next(self) -> Arrived:
        """What arrives next."""
        while (arrived := self.taken()) is None:
            await self.read()
        return arrived

    async def read(self) -> None:
        """Waits until more has arrived."""
        try:
            data = await self._reader.read(_READ_BYTES)
        except OSError as error:
            raise ShovelError(f"the {self.what} was lost: {error.strerror or error}") from error
        if not data:
            raise ShovelError(f"the {self.what} ended the connection")
        self._side.receive(data)

    def taken(self) -> Arrived | None:
        """What has arrived whole; None: more has to be read. Raises `ShovelError`."""
        while True:
            try:
                arrived = self._side.next()
            except (ConnectionViolation, ValueError, LookupError, struct.error) as error:
                # (A list of properties is read as one that was checked.)
                raise ShovelError(f"the {self.what} sent what is no AMQP") from error
            if arrived is None:
                return None
            match arrived.method:
                case m.ConnectionBlocked():
                    self.is_free.clear()
                case m.ConnectionUnblocked():
                    self.is_free.set()
                case m.ConnectionClose(code, text) | m.ChannelClose(code, text):
                    said = "".join([each if each.isprintable() else "?" for each in text[:_TOLD]])
                    raise ShovelError(f"the {self.what} refused: {code} {said}")
                case m.BasicCancel():
                    raise ShovelError(f"the {self.what} cancelled the consumer")
                case _:
                    if arrived.size > BODY_BYTES_MAX:
                        raise ShovelError(
                            f"the {self.what} sent a message of {arrived.size} bytes; shovels move "
                            f"up to {BODY_BYTES_MAX}"
                        )
                    return arrived

    def tell(self, *methods: m.Method) -> None:
        """Sends methods; what the socket does not take waits here. Raises `ShovelError`."""
        try:
            data = b"".join([encode_method(CHANNEL, method) for method in methods])
        except (ValueError, OverflowError, struct.error) as error:
            raise ShovelError(
                "AMQP has no form for its arguments: numbers have 64 bits, names 255 bytes"
            ) from error
        self.write(data)

    def publish(self, exchange: str, key: str, arrived: Arrived, *, mandatory: bool) -> None:
        """Publishes what has arrived from the other end."""
        try:
            data = self._side.publish(
                exchange, key, arrived.properties, arrived.body, mandatory=mandatory
            )
        except (ValueError, struct.error) as error:
            raise ShovelError("a message's properties cannot be published again") from error
        self.write(data)

    def write(self, data: bytes) -> None:
        """Sends bytes; what the socket does not take waits here."""
        self._writer.write(data)

    async def drain(self) -> None:
        """Waits until little is left to be sent, and the broker takes publishes."""
        try:
            await self._writer.drain()
        except OSError as error:
            raise ShovelError(f"the {self.what} was lost: {error.strerror or error}") from error
        await self.is_free.wait()

    async def say_goodbye(self) -> None:
        """Closes the connection; what was told before has arrived then."""
        self.write(GOODBYE)
        try:
            async with asyncio.timeout(_GOODBYE_S):
                while not isinstance((await self.next()).method, m.ConnectionCloseOk):
                    pass
        except TimeoutError:
            raise ShovelError(f"the {self.what} did not answer connection.close") from None

    def abandon(self) -> None:
        """Closes the socket, and asks nobody."""
        self._writer.transport.abort()


async def opened(what: str, uri: AmqpUri, local: Local) -> Peer:
    """A connection to where a URI leads, logged in. Raises `ShovelError`."""
    try:
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await _connected(what, uri, local)
    except TimeoutError:
        raise ShovelError(f"the {what} was not reached in {_CONNECT_S:.0f} s") from None
    except UnicodeError as error:
        raise ShovelError(f"the {what}'s host is no name: {uri.host[:_TOLD]}") from error
    except OSError as error:
        # (The words of the TLS library may quote what a host said.)
        why = "TLS failed" if isinstance(error, ssl.SSLError) else error.strerror or "no address"
        if isinstance(error, ssl.SSLCertVerificationError):
            why = f"its certificate is not trusted: {error.verify_message}"
        raise ShovelError(f"the {what} was not reached at {uri.shown}: {why}") from error
    peer = Peer(what, reader, writer)
    try:
        await peer.shake_hands(uri)
    except BaseException:
        peer.abandon()
        raise
    return peer


async def _connected(
    what: str, uri: AmqpUri, local: Local
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    if not uri.host:
        if not local.port:
            raise ShovelError(f"the {what} is local, and no listener of this node takes passwords")
        return await _open(local.host, local.port, _context(local.is_secure, False), "")
    context = _context(uri.is_secure, uri.is_verified)
    name = uri.server_name or uri.host
    error: OSError = OSError(0, "no address")
    for address in await _addresses(what, uri):
        try:
            return await _open(address, uri.port, context, name)
        except ssl.SSLError:
            raise
        except OSError as failed:
            error = failed
    raise error


async def _addresses(what: str, uri: AmqpUri) -> list[str]:
    """Where the name leads, checked; these very addresses are connected to."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(uri.host, uri.port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys([str(each[4][0]).partition("%")[0] for each in found]))
    if is_near(uri.host):
        return addresses
    for address in addresses:
        if is_near(address_of(address) or address):
            raise ShovelError(
                f"the {what}'s host {uri.host} leads to {address}, which is this machine or its "
                "link: a URI has to say that address itself, and an administrator has to set it"
            )
    return addresses


def _context(is_secure: bool, is_verified: bool) -> ssl.SSLContext | None:
    if not is_secure:
        return None
    context = ssl.create_default_context()
    if not is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def _open(
    address: str, port: int, context: ssl.SSLContext | None, name: str
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    server = (name or address) if context is not None else None
    reader, writer = await asyncio.open_connection(
        address, port, ssl=context, server_hostname=server
    )
    writer.transport.set_write_buffer_limits(_UNSENT_BYTES_MAX)
    connected = writer.get_extra_info("socket")
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        connected.setsockopt(socket.IPPROTO_TCP, option, value)
    return reader, writer
