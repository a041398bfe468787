"""The client's side of a connection with one channel, without sockets: bytes in, methods out.

For tools of fedq that are AMQP clients (the command line, the HTTP API). Inputs: what the broker
sent, in whatever pieces. Outputs: bytes to send, and what arrived, whole; `ConnectionViolation` for
what is no AMQP. Who uses it does the waiting, and says what a refusal means.
"""

from typing import Final, NamedTuple

from fedq.amqp import method_types as m
from fedq.amqp.content import (
    content_frames,
    decode_kept_properties,
    decode_properties,
    encode_properties,
)
from fedq.amqp.frames import scan_frame
from fedq.amqp.handshake import PROTOCOL_HEADER
from fedq.amqp.methods import decode_method, encode_method
from fedq.amqp.spec import FRAME_BODY, FRAME_HEADER, FRAME_METHOD
from fedq.amqp.values import FieldTable, TableValue
from fedq.core.errors import FRAME_ERROR, ConnectionViolation
from fedq.core.limits import FRAME_BYTES_MAX

CHANNEL: Final = 1
HELLO: Final = PROTOCOL_HEADER
GOODBYE: Final = encode_method(0, m.ConnectionClose(200, "done"))
#: Class, weight, body's size and flags, before the properties.
_HEADER_BYTES_MIN: Final = 14


class Arrived(NamedTuple):
    """A method; with its content, if it has one."""

    method: m.Method
    properties: dict[str, TableValue]
    #: No more than was wanted of it.
    body: bytes
    #: Of the whole body.
    size: int


class ClientSide:
    """What has arrived on one connection, and what is said on it."""

    __slots__ = (
        "_at", "_body", "_data", "_left", "_method", "_product", "_properties", "_size", "_version",
        "_wants_notices", "body_bytes_max", "frame_bytes_max", "keeps_headers",
    )  # fmt: skip

    def __init__(self, product: str, version: str, wants_notices: bool = False) -> None:
        """What the broker is told of the client.

        `wants_notices`: it hears when publishers have to wait (`ConnectionBlocked`), and when its
        consumer is cancelled (`BasicCancel`).
        """
        self._wants_notices = wants_notices
        self._product = product
        self._version = version
        #: Agreed with the broker; until then what a handshake may need.
        self.frame_bytes_max = FRAME_BYTES_MAX
        #: Of a body only so much is kept; None: all.
        self.body_bytes_max: int | None = None
        #: Headers stay as they came (`Encoded`), for who publishes them again.
        self.keeps_headers = False
        self._data = b""
        self._at = 0
        #: A method whose content is still to come, and what of it has; -1: its header has not.
        self._method: m.Method | None = None
        self._properties: dict[str, TableValue] = {}
        self._body = bytearray()
        self._size = 0
        self._left = -1

    # --- what is said -----------------------------------------------------------------------------

    def proof(self, user: str, password: str) -> bytes:
        """The answer to `ConnectionStart`."""
        capabilities: FieldTable = {"authentication_failure_close": True, "basic.nack": True}
        if self._wants_notices:
            capabilities |= {"connection.blocked": True, "consumer_cancel_notify": True}
        said: FieldTable = {
            "product": self._product,
            "version": self._version,
            "capabilities": capabilities,
        }
        answer = m.ConnectionStartOk(said, "PLAIN", f"\0{user}\0{password}".encode(), "en_US")
        return encode_method(0, answer)

    def opening(self, tune: m.ConnectionTune, vhost: str) -> bytes:
        """The answer to `ConnectionTune`, which opens the connection and the channel.

        `ConnectionOpenOk` and `ChannelOpenOk` follow.
        """
        self.frame_bytes_max = min(tune.frame_max or FRAME_BYTES_MAX, FRAME_BYTES_MAX)
        return (
            encode_method(0, m.ConnectionTuneOk(tune.channel_max, self.frame_bytes_max, 0))
            + encode_method(0, m.ConnectionOpen(vhost))
            + encode_method(CHANNEL, m.ChannelOpen())
        )

    def publish(
        self, exchange: str, key: str, properties: dict[str, TableValue], body: bytes,
        mandatory: bool = True,
    ) -> bytes:  # fmt: skip
        """One message; ValueError for properties that AMQP cannot say."""
        encoded = encode_properties(properties)
        method = encode_method(CHANNEL, m.BasicPublish(exchange, key, mandatory=mandatory))
        return method + content_frames(CHANNEL, encoded, body, self.frame_bytes_max)

    # --- what arrives -----------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Takes bytes of the broker."""
        self._data = self._data[self._at :] + data
        self._at = 0

    def next(self) -> Arrived | None:
        """What has arrived next; None: more bytes are needed. Raises `ConnectionViolation`."""
        while (found := scan_frame(self._data, self._at, FRAME_BYTES_MAX)) is not None:
            kind, _, start, end = found
            payload = self._data[start:end]
            self._at = end + 1
            arrived = self._frame(kind, payload)
            if arrived is not None:
                return arrived
        return None

    def _frame(self, kind: int, payload: bytes) -> Arrived | None:
        if self._method is not None:
            self._content(kind, payload)
        elif kind == FRAME_METHOD:
            method = decode_method(payload)
            if not isinstance(method, m.BasicGetOk | m.BasicReturn | m.BasicDeliver):
                return Arrived(method, {}, b"", 0)
            self._method = method
            return None
        if self._method is None or self._left:
            return None
        arrived = Arrived(self._method, self._properties, bytes(self._body), self._size)
        self._method, self._left = None, -1
        return arrived

    def _content(self, kind: int, payload: bytes) -> None:
        if self._left < 0:
            if kind != FRAME_HEADER or len(payload) < _HEADER_BYTES_MIN:
                raise ConnectionViolation(FRAME_ERROR, "a message without a header")
            self._size = self._left = int.from_bytes(payload[4:12], "big")
            decode = decode_kept_properties if self.keeps_headers else decode_properties
            self._properties = decode(payload[12:])
            self._body = bytearray()
        elif kind == FRAME_BODY:
            if len(payload) > self._left:
                raise ConnectionViolation(FRAME_ERROR, "a body longer than its header says")
            self._left -= len(payload)
            most = self.body_bytes_max
            room = len(payload) if most is None else max(0, most - len(self._body))
            self._body += payload[:room]
