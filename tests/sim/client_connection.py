"""An AMQP 0-9-1 client's end of one connection: real bytes, and nothing of the server's machine.

Inputs: methods and contents to send, bytes of the socket. Outputs: calls of a `Listener`, in wire
order. Frames and content headers are written and read here by hand, so that a mistake in the
server's own code cannot hide behind itself; methods go through the shared table.
"""

import struct
from typing import NamedTuple, Protocol

from fedq.amqp.methods import (
    BasicDeliver,
    BasicGetOk,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    Method,
    decode_method,
    encode_method,
)
from fedq.amqp.values import FieldTable
from fedq.core.seeds import Rng
from tests.sim.node_host import Host
from tests.sim.sockets import Socket
from tests.sim.world import World

FRAME_END = 0xCE
FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT = 1, 2, 3, 8
_FRAME = struct.Struct(">BHI")
_HEADER = struct.Struct(">HHQ")
_FLAG_DELIVERY_MODE = 1 << 12
BLOCKED_IS_HEARD: FieldTable = {"capabilities": {"connection.blocked": True}}
_FLAG_MESSAGE_ID = 1 << 7

Content = BasicDeliver | BasicGetOk | BasicReturn


class Refusal(NamedTuple):
    """Why the server closed a channel or the connection."""

    code: int
    text: str


class Listener(Protocol):
    """What a connection tells its owner."""

    def on_open(self) -> None: ...
    def on_method(self, channel: int, method: Method) -> None: ...
    def on_content(self, method: Content, properties: bytes, body: bytes) -> None: ...
    def on_channel_closed(self, refusal: Refusal) -> None: ...
    def on_lost(self, reason: str, refusal: Refusal | None) -> None: ...


def make_properties(message_id: str, persistent: bool) -> bytes:
    """The property flags and list of a content header with these two properties."""
    name = message_id.encode()
    flags = _FLAG_DELIVERY_MODE | _FLAG_MESSAGE_ID
    return struct.pack(">HBB", flags, 2 if persistent else 1, len(name)) + name


class ClientConnection:
    """One connection with the plain handshake of a stock client."""

    def __init__(
        self, world: World, generator: Rng, host: Host, listener: Listener,
        hears_blocked: bool = False,
    ) -> None:  # fmt: skip
        """`hears_blocked`: it wants to be told when it is not read."""
        self.host = host
        self._properties_of_client = BLOCKED_IS_HEARD if hears_blocked else {}
        self.is_open = False
        #: It was told that it is not read, and not yet that it is again.
        self.is_blocked = False
        self._listener = listener
        self._received = bytearray()
        self._frame_max = 4_096
        self._content: Content | None = None
        self._properties = b""
        self._body = bytearray()
        self._body_size = 0
        self._refusal: Refusal | None = None
        self._socket = Socket(world, generator, host, self._on_bytes, self._on_lost)
        self._socket.send(b"AMQP\x00\x00\x09\x01")

    # --- sending ---------------------------------------------------------------------------------

    def send(self, channel: int, method: Method) -> None:
        """Writes one method."""
        self._socket.send(encode_method(channel, method))

    def publish(
        self, channel: int, exchange: str, key: str, mandatory: bool, properties: bytes, body: bytes
    ) -> bytes:
        """Encodes one publish; the caller writes what it gathered with `write`."""
        header = _HEADER.pack(60, 0, len(body)) + properties
        parts = [
            encode_method(channel, BasicPublish(exchange, key, mandatory, False)),
            _frame(FRAME_HEADER, channel, header),
        ]
        step = self._frame_max - 8
        parts += [
            _frame(FRAME_BODY, channel, body[at : at + step]) for at in range(0, len(body), step)
        ]
        return b"".join(parts)

    def write(self, data: bytes) -> None:
        """Writes encoded frames."""
        self._socket.send(data)

    def close(self) -> None:
        """Drops the connection as a crashing client would."""
        self._socket.close()
        self.is_open = False

    def stall(self, stalled: bool) -> None:
        """Stops reading from the socket, or reads on."""
        self._socket.stall(stalled)

    @property
    def gone(self) -> bool:
        """Nothing passes any more."""
        return self._socket.gone

    @property
    def sent_away(self) -> bool:
        """The node has ended it, whether its client has read that or not."""
        return self._socket.sent_away

    # --- receiving -------------------------------------------------------------------------------

    def _on_bytes(self, data: bytes) -> None:
        received = self._received
        received += data
        at = 0
        while len(received) - at >= 8:
            kind, channel, size = _FRAME.unpack_from(received, at)
            end = at + 7 + size
            if len(received) <= end:
                break
            assert received[end] == FRAME_END, f"frame end is {received[end]:#x}"
            assert size + 8 <= max(self._frame_max, 4_096), f"a frame of {size} bytes"
            payload = bytes(received[at + 7 : end])
            at = end + 1
            self._on_frame(kind, channel, payload)
            if self._socket.gone:
                return
        del received[:at]

    def _on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == FRAME_METHOD:
            assert self._content is None, "a method inside a content"
            self._on_method(channel, decode_method(payload))
        elif kind == FRAME_HEADER:
            assert self._content is not None, "a content header without its method"
            class_id, _, self._body_size = _HEADER.unpack_from(payload)
            assert class_id == 60, class_id
            self._properties = payload[_HEADER.size :]
            self._finish_content()
        elif kind == FRAME_BODY:
            assert self._content is not None, "a body without its method"
            assert payload, "an empty body frame"
            self._body += payload
            self._finish_content()
        else:
            assert kind == FRAME_HEARTBEAT, f"frame type {kind}"

    def _finish_content(self) -> None:
        assert len(self._body) <= self._body_size, "a body longer than announced"
        if len(self._body) == self._body_size:
            method, body = self._content, bytes(self._body)
            assert method is not None
            self._content = None
            self._body = bytearray()
            self._listener.on_content(method, self._properties, body)

    def _on_method(self, channel: int, method: Method) -> None:
        if isinstance(method, BasicDeliver | BasicGetOk | BasicReturn):
            self._content = method
        elif channel == 0:
            self._on_connection_method(method)
        elif isinstance(method, ChannelClose):
            self.send(channel, ChannelCloseOk())
            self._listener.on_channel_closed(Refusal(method.reply_code, method.reply_text))
        else:
            self._listener.on_method(channel, method)

    def _on_connection_method(self, method: Method) -> None:
        if isinstance(method, ConnectionStart):
            self.send(
                0,
                ConnectionStartOk(self._properties_of_client, "PLAIN", b"\0guest\0guest", "en_US"),
            )
        elif isinstance(method, ConnectionTune):
            self._frame_max = method.frame_max
            self.send(0, ConnectionTuneOk(method.channel_max, method.frame_max, 0))
            self.send(0, ConnectionOpen("/"))
        elif isinstance(method, ConnectionOpenOk):
            self.is_open = True
            self._listener.on_open()
        elif isinstance(method, ConnectionClose):
            self._refusal = Refusal(method.reply_code, method.reply_text)
            self.send(0, ConnectionCloseOk())
        elif isinstance(method, ConnectionCloseOk):
            self._socket.close()
        elif isinstance(method, ConnectionBlocked) and not self.is_blocked:
            self.is_blocked = True
        elif isinstance(method, ConnectionUnblocked) and self.is_blocked:
            self.is_blocked = False
        else:
            self._listener.on_method(0, method)

    def _on_lost(self, reason: str) -> None:
        self.is_open = False
        self._listener.on_lost(reason, self._refusal)


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return _FRAME.pack(kind, channel, len(payload)) + payload + b"\xce"
