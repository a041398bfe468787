"""A client that notes every frame it gets, per channel, and waits for what it is told.

Input: methods to send. Output: `Client.arrivals`, what came since somebody last took it. Nothing
here keeps a client from saying what the specification forbids. Blocking; one thread.
"""

import socket
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from fedq.amqp import method_types as m
from fedq.amqp.content import content_frames, encode_properties
from fedq.amqp.methods import decode_method, encode_method
from fedq.amqp.values import FieldTable
from tests.integration.stock import Address
from tests.integration.waiting import TooLateError

HEADER: Final = b"AMQP\x00\x00\x09\x01"
READ_BYTES: Final = 262_144
#: The least that both brokers agree to, so that small messages need several frames.
FRAME_BYTES: Final = 4_096
REPLY_S: Final = 10.0
_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_CONTENT: Final = (m.BasicDeliver, m.BasicGetOk, m.BasicReturn)
_CAPABILITIES: Final[FieldTable] = {
    "authentication_failure_close": True, "basic.nack": True, "connection.blocked": True,
    "consumer_cancel_notify": True, "exchange_exchange_bindings": True, "publisher_confirms": True,
}  # fmt: skip


class Arrival(NamedTuple):
    """A method that came, with its content if it has one."""

    channel: int
    method: m.Method
    properties: bytes = b""
    body: bytes = b""


class Client:
    """One connection, opened at once."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, timeout=REPLY_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = bytearray()
        #: Contents under way: method, properties, bytes missing, bytes here.
        self._contents: dict[int, tuple[m.Method, bytes, int, bytearray]] = {}
        #: channel.flow-ok that are answers to `flush`, by channel.
        self._flushes: dict[int, int] = {}
        self.arrivals: list[Arrival] = []
        #: Everything that came, of each channel, by kind: what waiting looks at.
        self.open_channels: dict[int, None] = {}
        self.closed = False
        #: What is gathered for one write; None: everything is written at once.
        self._gathered: list[bytes] | None = None
        self._socket.sendall(HEADER)
        self._shake_hands()

    @property
    def descriptor(self) -> int:
        """The socket's."""
        return self._socket.fileno()

    def _shake_hands(self) -> None:
        self.wait(lambda: self._last(m.ConnectionStart), "connection.start")
        proof = b"\0guest\0guest"
        properties: FieldTable = {"capabilities": _CAPABILITIES}
        self.send(0, m.ConnectionStartOk(properties, "PLAIN", proof, "en_US"))
        self.wait(lambda: self._last(m.ConnectionTune), "connection.tune")
        self.send(0, m.ConnectionTuneOk(2047, FRAME_BYTES, 0), m.ConnectionOpen("/"))
        self.wait(lambda: self._last(m.ConnectionOpenOk), "connection.open-ok")
        self.arrivals.clear()

    def _last(self, kind: type[m.Method]) -> bool:
        return bool(self.arrivals) and isinstance(self.arrivals[-1].method, kind)

    # --- sending ----------------------------------------------------------------------------------

    def send(self, channel: int, *methods: m.Method) -> None:
        """Sends methods; what cannot be sent any more is dropped, as by a network."""
        self.send_bytes(b"".join(encode_method(channel, method) for method in methods))

    def send_bytes(self, data: bytes) -> None:
        """The same for anything."""
        if self.closed:
            return
        if self._gathered is not None:
            self._gathered.append(data)
            return
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self._hung_up()

    def gather(self) -> None:
        """What is sent from now on goes out in one write, with `write`."""
        self._gathered = []

    def write(self) -> None:
        """What was gathered goes out."""
        gathered, self._gathered = self._gathered, None
        if gathered:
            self.send_bytes(b"".join(gathered))

    def publish(
        self, channel: int, method: m.BasicPublish, properties: FieldTable, bodies: list[bytes]
    ) -> None:
        """Sends publishes that differ in their bodies, in one piece."""
        encoded = encode_properties(properties)
        head = encode_method(channel, method)
        self.send_bytes(
            b"".join(head + content_frames(channel, encoded, body, FRAME_BYTES) for body in bodies)
        )

    def open_channel(self, channel: int) -> None:
        """Opens the channel, without a trace in `arrivals`."""
        before = len(self.arrivals)
        self.send(channel, m.ChannelOpen())
        opened = Arrival(channel, m.ChannelOpenOk())
        self.wait(lambda: self.closed or opened in self.arrivals[before:], "channel.open-ok")
        if opened in self.arrivals:
            self.arrivals.remove(opened)

    def close(self) -> None:
        """Hangs up."""
        self._hung_up()

    # --- receiving --------------------------------------------------------------------------------

    def flush(self, channels: list[int]) -> None:
        """Waits until the broker has worked off what was sent on the channels before.

        channel.flow that changes nothing: either broker answers it when its turn comes, and
        after what it had sent on that channel before.
        """
        waited = [channel for channel in channels if channel in self.open_channels]
        for channel in waited:
            self._flushes[channel] = self._flushes.get(channel, 0) + 1
        self.send_bytes(b"".join(encode_method(each, m.ChannelFlow(True)) for each in waited))
        self.wait(lambda: self.closed or not any(map(self._flushes.get, waited)), "channel.flow-ok")

    def wait(self, condition: Callable[[], object], what: str, seconds: float = REPLY_S) -> None:
        """Reads until the condition holds; `TooLateError` names what has not come."""
        until = time.monotonic() + seconds
        while not condition():
            if self.closed:
                raise TooLateError(f"the broker hung up instead of sending {what}")
            left = until - time.monotonic()
            if left <= 0 or not self._read(left):
                raise TooLateError(f"no {what} within {seconds:g} s; came: {self.arrivals}")

    def wait_closed(self, spared: int) -> None:
        """Waits until no channel is open but `spared`."""
        self.wait(
            lambda: self.closed or not [each for each in self.open_channels if each != spared],
            "channel.close-ok",
        )

    def _read(self, seconds: float) -> bool:
        self._socket.settimeout(seconds)
        try:
            data = self._socket.recv(READ_BYTES)
        except TimeoutError:
            return False
        except ConnectionResetError:
            data = b""
        if not data:
            self._hung_up()
            return True
        self._buffer += data
        at = 0
        while len(self._buffer) >= at + 8:
            size = int.from_bytes(self._buffer[at + 3 : at + 7], "big")
            if len(self._buffer) < at + size + 8:
                break
            channel = int.from_bytes(self._buffer[at + 1 : at + 3], "big")
            self._on_frame(self._buffer[at], channel, bytes(self._buffer[at + 7 : at + 7 + size]))
            at += size + 8
        del self._buffer[:at]
        return True

    def _hung_up(self) -> None:
        self._socket.close()
        self.closed = True
        self.open_channels.clear()
        self._flushes.clear()

    def _on_frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == _METHOD:
            method = decode_method(payload)
            if isinstance(method, _CONTENT):
                self._contents[channel] = (method, b"", 0, bytearray())
            else:
                self._on_method(channel, method)
        elif kind == _HEADER:
            method, _, _, body = self._contents[channel]
            missing = int.from_bytes(payload[4:12], "big")
            self._contents[channel] = (method, payload[12:], missing, body)
            self._complete(channel)
        elif kind == _BODY:
            self._contents[channel][3].extend(payload)
            self._complete(channel)
        else:
            assert kind == _HEARTBEAT, f"frame type {kind}"

    def _complete(self, channel: int) -> None:
        method, properties, size, body = self._contents[channel]
        if len(body) >= size:
            del self._contents[channel]
            self.arrivals.append(Arrival(channel, method, properties, bytes(body)))

    def _on_method(self, channel: int, method: m.Method) -> None:
        if isinstance(method, m.ChannelFlowOk) and method.active and self._flushes.get(channel):
            self._flushes[channel] -= 1
            return
        self.arrivals.append(Arrival(channel, method))
        if isinstance(method, m.ChannelOpenOk):
            self.open_channels[channel] = None
        elif isinstance(method, m.ChannelClose):
            self._leave(channel)
            self.send(channel, m.ChannelCloseOk())
        elif isinstance(method, m.ChannelCloseOk):
            self._leave(channel)
        elif isinstance(method, m.ConnectionClose):
            self.send(0, m.ConnectionCloseOk())
            self._hung_up()
        elif isinstance(method, m.ConnectionCloseOk):
            self._hung_up()

    def _leave(self, channel: int) -> None:
        self.open_channels.pop(channel, None)
        self._flushes.pop(channel, None)
