"""A client that may do what no library does: send anything, read nothing, hang up at any moment.

Blocking; one thread. Frames that come are counted by kind and thrown away.
"""

import select
import socket
import ssl
import time
from collections import Counter
from types import TracebackType
from typing import Final, Self

from fedq.amqp import method_types as m
from fedq.amqp.content import content_frames, encode_properties
from fedq.amqp.methods import decode_method, encode_method
from fedq.amqp.values import FieldTable
from tests.integration.stock import Address
from tests.integration.waiting import TooLateError

HEADER: Final = b"AMQP\x00\x00\x09\x01"
FRAME_BYTES: Final = 131_072
READ_BYTES: Final = 1 << 20
#: An attacked node may be slow: that is for the probe to judge.
PATIENCE_S: Final = 120.0
_METHOD: Final = 1
#: What a socket that does not block says.
LATER: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Attacker:
    """One connection; a context manager that hangs up at its end."""

    def __init__(
        self, address: Address, frame_bytes: int = FRAME_BYTES, has_tls: bool = False,
        user: str = "guest",
    ) -> None:  # fmt: skip
        """`has_tls`: that address speaks TLS; `user`: whose password is the name."""
        self.socket = socket.create_connection(address, timeout=PATIENCE_S)
        if has_tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        self._buffer = bytearray()
        #: Methods that came, by their type.
        self.came: Counter[type] = Counter()
        #: The last method of each type.
        self.last: dict[type, m.Method] = {}
        #: Why the node closed channels, by their numbers.
        self.refusals: dict[int, str] = {}
        self.is_closed = False
        self.send_bytes(HEADER)
        self.wait(m.ConnectionStart)
        credentials = f"\0{user}\0{user}".encode()
        self.send(0, m.ConnectionStartOk({}, "PLAIN", credentials, "en_US"))
        self.wait(m.ConnectionTune)
        self.send(0, m.ConnectionTuneOk(2_047, frame_bytes, 0), m.ConnectionOpen("/"))
        self.wait(m.ConnectionOpenOk)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.hang_up()

    def hang_up(self) -> None:
        """Closes the socket without a word."""
        self.is_closed = True
        self.socket.close()

    # --- sending ---

    def send(self, channel: int, *methods: m.Method) -> None:
        """Sends methods."""
        self.send_bytes(b"".join(encode_method(channel, method) for method in methods))

    def send_bytes(self, data: bytes, reads: bool = True) -> None:
        """Sends anything; `reads`: takes what comes meanwhile, so that nobody waits for the other.

        Returns early when the node has hung up. Without `reads`: when it takes no more for a
        second.
        """
        view = memoryview(data)
        self.socket.setblocking(False)
        until = time.monotonic() + PATIENCE_S
        while view and not self.is_closed and time.monotonic() < until:
            readable, writable, _ = select.select(
                [self.socket] if reads else [], [self.socket], [], 1.0
            )
            if readable:
                self._read()
            if writable:
                try:
                    view = view[self.socket.send(view) :]
                except LATER:
                    continue
                except OSError:
                    self.hang_up()
            elif not reads:
                return

    def open_channels(self, count: int) -> None:
        """Opens channels 1 to `count`."""
        before = self.came[m.ChannelOpenOk]
        opens = [encode_method(number, m.ChannelOpen()) for number in range(1, count + 1)]
        self.send_bytes(b"".join(opens))
        self.wait(m.ChannelOpenOk, before + count)

    def call(self, channel: int, method: m.Method, answer: type) -> None:
        """Sends a method and waits for its answer; an `AssertionError` if it is refused."""
        before = self.came[answer]
        self.send(channel, method)
        self.wait(answer, before + 1, channel)

    def publish(
        self, channel: int, key: str, body: bytes, count: int = 1, exchange: str = "",
        properties: FieldTable | None = None,
    ) -> None:  # fmt: skip
        """Sends the same message `count` times."""
        self.send_bytes(message(channel, key, body, exchange, properties) * count)

    def confirm(self, channel: int) -> None:
        """Waits until the node has worked off what was sent on a channel, by an answered method."""
        self.call(channel, m.ConfirmSelect(), m.ConfirmSelectOk)

    # --- receiving ---

    def wait(self, kind: type, count: int = 1, channel: int | None = None) -> None:
        """Reads until so many methods of this type have come in all, or the node hangs up.

        `channel`: the one that they come on; nothing more comes on it once the node closed it.
        """
        until = time.monotonic() + PATIENCE_S
        while self.came[kind] < count and not self.is_closed:
            if channel in self.refusals:
                raise AssertionError(f"no {kind.__name__}: {self.refusals[channel]}")
            if time.monotonic() > until:
                raise TooLateError(f"{self.came[kind]} of {count} {kind.__name__} came")
            readable, _, _ = select.select([self.socket], [], [], 1.0)
            if readable:
                self._read()

    def look(self) -> None:
        """Takes what has come, without waiting."""
        self.socket.setblocking(False)
        if not self.is_closed:
            self._read()

    def skip(self) -> None:
        """Throws away what has come, uncounted."""
        try:
            while not self.is_closed and (data := self.socket.recv(READ_BYTES)):
                del data
        except BlockingIOError:
            return
        except OSError:
            self.hang_up()

    def _read(self) -> None:
        try:
            data = self.socket.recv(READ_BYTES)
            # What is decrypted already is not to be seen from outside.
            while data and isinstance(self.socket, ssl.SSLSocket) and self.socket.pending():
                data += self.socket.recv(READ_BYTES)
        except LATER:
            return
        except OSError:
            data = b""
        if not data:
            self.hang_up()
            return
        self._buffer += data
        buffer, at = self._buffer, 0
        while len(buffer) >= at + 8:
            size = int.from_bytes(buffer[at + 3 : at + 7], "big")
            if len(buffer) < at + size + 8:
                break
            if buffer[at] == _METHOD:
                method = decode_method(bytes(buffer[at + 7 : at + 7 + size]))
                self.came[type(method)] += 1
                self.last[type(method)] = method
                if isinstance(method, m.ChannelClose):
                    channel = int.from_bytes(buffer[at + 1 : at + 3], "big")
                    self.refusals[channel] = method.reply_text
            at += size + 8
        del buffer[:at]


def message(
    channel: int, key: str, body: bytes, exchange: str = "", properties: FieldTable | None = None
) -> bytes:
    """The frames of one publish."""
    content = content_frames(channel, encode_properties(properties or {}), body, FRAME_BYTES)
    return encode_method(channel, m.BasicPublish(exchange, key)) + content
