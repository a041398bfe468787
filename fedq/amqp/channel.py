"""A channel as the protocol sees it: open or closing, and the content that is being received.

Inputs are the payloads of the channel's frames that did not come in a regular run
(`fedq.amqp.channel_runs`); output is a publish once its content is complete, and what the node or
the client is to hear of other methods. A content is a method frame, a header frame and body frames
of one channel, in this order (AMQP 0-9-1 clause 4.2.6); other channels may speak in between.

    IDLE --basic.publish--> HEADER --header--> BODY --last body frame--> IDLE
    HEADER --header of an empty body--> IDLE            any --channel.close--> CLOSING
    IDLE --the client's own channel.close--> LEAVING: until what came before it has taken effect

Invariants: what is held is what was received, never what was announced; at most
`Unfinished.bytes_max` bytes, on all channels of a connection together.
"""

from typing import Final

from fedq.amqp.commands import Command, Request
from fedq.amqp.content import checked_flags, decode_header
from fedq.amqp.methods import (
    AccessRequest,
    AccessRequestOk,
    BasicCancelOk,
    ChannelClose,
    ChannelOpen,
    ClientRequest,
    Method,
    decode_method,
    ids_of,
    name_of,
)
from fedq.amqp.named_publishes import KnownBy
from fedq.amqp.publishes import Publish
from fedq.amqp.spec import BASIC, BASIC_PUBLISH
from fedq.amqp.unfinished import Unfinished
from fedq.core.errors import (
    CHANNEL_ERROR,
    COMMAND_INVALID,
    FRAME_ERROR,
    SYNTAX_ERROR,
    UNEXPECTED_FRAME,
    ConnectionViolation,
)
from fedq.core.limits import KIB
from fedq.core.message import FLAGS_OF_NOTE, encode_pieces

IDLE: Final = 0
HEADER: Final = 1
BODY: Final = 2
CLOSING: Final = 3
LEAVING: Final = 4

_TICKET: Final = 1
#: A payload that is kept as it came; what is smaller is gathered in buffers of this size.
_KEPT_BYTES: Final = 4 * KIB
_GATHERED_BYTES: Final = 64 * KIB


class Channel:
    """The protocol state of one open channel."""

    __slots__ = (
        "_bits", "_flags", "_missing", "_number", "_pieces", "_properties", "_route", "_size",
        "_unfinished", "state",
    )  # fmt: skip

    def __init__(self, number: int, unfinished: Unfinished) -> None:
        """`unfinished`: the contents under way on all channels of the connection."""
        self.state = IDLE
        self._number = number
        self._unfinished = unfinished
        self._route = b""
        self._bits = 0
        self._flags = 0
        self._properties = b""
        #: Bytes of the body that are still to come.
        self._missing = 0
        #: What has come of it, and its size.
        self._pieces: list[bytes | bytearray] | None = None
        self._size = 0

    def begin_close(self) -> None:
        """Begins to close: channel.close was sent; input is ignored until the client agrees."""
        if self.state in (HEADER, BODY):
            self._forget()
        self.state = CLOSING

    def begin_leave(self) -> None:
        """Begins to leave: the client has closed the channel; what else it sends means nothing."""
        self.state = LEAVING

    def on_publish(self, payload: bytes) -> None:
        """The method frame of a basic.publish; 502 when its arguments are malformed."""
        self.expect_method()
        exchange_size = payload[6] if len(payload) > 6 else 0
        key_at = 7 + exchange_size
        if key_at + 1 >= len(payload) or key_at + payload[key_at] + 2 != len(payload):
            text = "basic.publish: the arguments are malformed; send exchange, routing key, bits"
            raise ConnectionViolation(SYNTAX_ERROR, text, BASIC, BASIC_PUBLISH)
        self._route = payload[6:-1]
        self._bits = payload[-1] & 3
        self.state = HEADER
        self._unfinished.begin(self._number, self._route)

    def expect_method(self) -> None:
        """Raises 505 when a content is not complete: no method may come in between."""
        if self.state != IDLE:
            text = "a method came before the content of basic.publish was complete"
            raise ConnectionViolation(UNEXPECTED_FRAME, text, BASIC, BASIC_PUBLISH)

    def on_method(self, payload: bytes, commands: list[Command]) -> Method | None:
        """Takes any other method: adds what the node has to do, or returns what is to be answered.

        Raises 503 for a method that is a server's to send, and 504 for a second channel.open.
        """
        self.expect_method()
        method = decode_method(payload)
        if isinstance(method, ClientRequest):
            if isinstance(method, ChannelClose):
                self.begin_leave()
            commands.append(Request(self._number, method))
        elif isinstance(method, AccessRequest):
            # A relic of AMQP 0-8 with which old clients begin; RabbitMQ answers it, too.
            return AccessRequestOk(_TICKET)
        elif isinstance(method, ChannelOpen):
            text = f"second 'channel.open' seen: channel {self._number} is open already"
            raise ConnectionViolation(CHANNEL_ERROR, text, *ids_of(method))
        elif not isinstance(method, BasicCancelOk):
            # basic.cancel-ok only says that the client saw its consumer being cancelled.
            text = f"{name_of(method)} is not for a client to send on channel {self._number}"
            raise ConnectionViolation(COMMAND_INVALID, text, *ids_of(method))
        return None

    def on_header(self, payload: bytes, checked: dict[KnownBy, int]) -> Publish | None:
        """Takes a content header; returns the publish, when its body is empty.

        Raises 505 when no header is due, 501 and 502 for a malformed one, and 311, which closes
        only the channel, for a body above the limit.
        """
        if self.state != HEADER:
            text = "a content header must follow the method frame of basic.publish"
            raise ConnectionViolation(UNEXPECTED_FRAME, text, BASIC, BASIC_PUBLISH)
        size, properties = decode_header(payload)
        self._flags = checked_flags(properties, checked)
        self._properties = properties
        self._unfinished.announce(size)
        if not size:
            return self._complete()
        self._missing = size
        self.state = BODY
        return None

    def on_body(self, payload: bytes) -> Publish | None:
        """Takes a body frame; returns the publish, when it was the last frame.

        Raises 505 when no body is due, and 501 when there is more than the header announced.
        """
        if self.state != BODY:
            text = "a body frame must follow the content header of basic.publish"
            raise ConnectionViolation(UNEXPECTED_FRAME, text, BASIC, BASIC_PUBLISH)
        size = len(payload)
        if size > self._missing:
            text = f"a body frame has {size - self._missing} bytes more than the header announced"
            raise ConnectionViolation(FRAME_ERROR, text, BASIC, BASIC_PUBLISH)
        self._missing -= size
        self._keep(payload)
        if self._missing:
            self._size += size
            self._unfinished.grow(size)
            return None
        return self._complete()

    def _keep(self, payload: bytes) -> None:
        """Adds a piece to the body.

        Neither one buffer that grows (those of many connections grow into each other's way, and
        leave holes in the heap), nor a list of all payloads: tiny ones would cost many times their
        bytes.
        """
        pieces = self._pieces
        if pieces is None:
            pieces = self._pieces = []
        if len(payload) >= _KEPT_BYTES:
            pieces.append(payload)
            return
        last = pieces[-1] if pieces else None
        if isinstance(last, bytearray) and len(last) + len(payload) <= _GATHERED_BYTES:
            last += payload
        else:
            pieces.append(bytearray(payload))

    def _complete(self) -> Publish:
        pieces = self._pieces if self._pieces is not None else []
        publish = (
            encode_pieces(self._flags, self._route, self._properties, pieces),
            self._route,
            self._bits | self._flags & FLAGS_OF_NOTE,
        )
        self.state = IDLE
        self._forget()
        return publish

    def _forget(self) -> None:
        self._unfinished.end(self._number, self._size)
        self._route = self._properties = b""
        self._missing = self._size = 0
        self._pieces = None
