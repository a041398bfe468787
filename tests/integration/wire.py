"""A client that says exactly what it is told, right or wrong, byte by byte.

pika's own codec makes the frames; nothing here checks what the specification forbids, which is
the point: protocol errors need a client that makes them.
"""

import socket
from types import TracebackType
from typing import Any, Self

from tests.integration.stock import Address, pika

HEADER = b"AMQP\x00\x00\x09\x01"
READ_BYTES = 65_536


class Wire:
    """One connection; a context manager that performs the handshake and hangs up at the end."""

    def __init__(
        self, address: Address, vhost: str = "/", user: str = "guest", password: str = "guest",
        heartbeat_s: int = 0, shake: bool = True,
    ) -> None:  # fmt: skip
        """`shake=False` only opens the TCP connection."""
        self.socket = socket.create_connection(address, timeout=10)
        self._buffer = b""
        if shake:
            self._shake_hands(vhost, user, password, heartbeat_s)

    def _shake_hands(self, vhost: str, user: str, password: str, heartbeat_s: int) -> None:
        spec = pika.spec.Connection
        self.socket.sendall(HEADER)
        self.expect(0, spec.Start)
        proof = f"\0{user}\0{password}"
        self.send(0, spec.StartOk({}, mechanism="PLAIN", response=proof, locale="en_US"))
        tune = self.expect(0, spec.Tune)
        self.send(0, spec.TuneOk(tune.channel_max, tune.frame_max, heartbeat_s))
        self.call(0, spec.Open(virtual_host=vhost), spec.OpenOk)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.socket.close()

    def send(self, channel: int, method: Any) -> None:
        """Sends one method frame."""
        self.socket.sendall(pika.frame.Method(channel, method).marshal())

    def send_bytes(self, data: bytes) -> None:
        """Sends anything."""
        self.socket.sendall(data)

    def publish(self, channel: int, exchange: str, key: str, body: bytes) -> None:
        """Sends one message in three frames and one segment."""
        frames = [
            pika.frame.Method(channel, pika.spec.Basic.Publish(exchange=exchange, routing_key=key)),
            pika.frame.Header(channel, len(body), pika.BasicProperties()),
            pika.frame.Body(channel, body),
        ]
        self.socket.sendall(b"".join(frame.marshal() for frame in frames))

    def read(self) -> Any:
        """The next frame, decoded by pika; None once the broker has hung up."""
        while True:
            used, frame = pika.frame.decode_frame(self._buffer)
            if frame is not None:
                self._buffer = self._buffer[used:]
                return frame
            try:
                data = self.socket.recv(READ_BYTES)
            except ConnectionResetError:
                return None
            if not data:
                return None
            self._buffer += data

    def expect(self, channel: int, kind: type[Any]) -> Any:
        """The next method, which must be of this kind on this channel; heartbeats are skipped."""
        while True:
            frame = self.read()
            assert frame is not None, f"the broker hung up instead of sending {kind.__name__}"
            if isinstance(frame, pika.frame.Heartbeat):
                continue
            assert isinstance(frame, pika.frame.Method), f"{frame!r} instead of {kind.__name__}"
            assert isinstance(frame.method, kind), f"{frame.method!r} instead of {kind.__name__}"
            assert frame.channel_number == channel
            return frame.method

    def call(self, channel: int, method: Any, answer: type[Any]) -> Any:
        """Sends a method and returns its answer."""
        self.send(channel, method)
        return self.expect(channel, answer)

    def open_channel(self, channel: int) -> None:
        """Opens a channel by its number."""
        self.call(channel, pika.spec.Channel.Open(), pika.spec.Channel.OpenOk)

    def rest(self) -> bytes:
        """Everything until the broker hangs up."""
        data = self._buffer
        while True:
            try:
                more = self.socket.recv(READ_BYTES)
            except ConnectionResetError:
                return data
            if not more:
                return data
            data += more
