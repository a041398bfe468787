"""An AMQP client whose two ends speak at any time: publishing with confirms, consuming.

In: bytes to send, and how long to wait. Out: what has come, one method or message at a time, or a
`CommandError`. Invariants: waits are in `turn` alone, and end at once when the user wants an end;
no more is read from the socket than one read beyond what was looked at, so a broker that is faster
than this process waits for it.
"""

import select
import socket
import ssl
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from fedq.amqp import method_types as m
from fedq.amqp.client_side import CHANNEL, GOODBYE
from fedq.amqp.methods import encode_method
from fedq.amqp.values import TableValue
from fedq.cli.asking.amqp_client import READ_BYTES, AmqpClient, Message
from fedq.cli.terminal.failure import UNREACHABLE, CommandError
from fedq.cli.terminal.stopping import Stop

#: A broker that is gone without a word is noticed after so many seconds of silence, and these many
#: questions of the system's, so many seconds apart.
_KEEPALIVE: Final = (
    (socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPCNT, 3), (socket.TCP_KEEPINTVL, 10),
)  # fmt: skip
_AGAIN: Final = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Dialogue(AmqpClient):
    """A logged-in connection; first `call`, then `begin`, then `turn` and `arrived`."""

    def __init__(self, url: str, authority: Path | None, timeout_s: float, stop: Stop) -> None:
        """Connects as `AmqpClient`; `stop`: what ends waits."""
        super().__init__(url, authority, timeout_s, wants_notices=True)
        self._stop = stop
        self._unsent: deque[memoryview] = deque()
        self.unsent_bytes = 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        """Closes the socket; the broker puts back what was not acknowledged."""
        self.abandon()

    def keep_of_bodies(self, most: int) -> None:
        """Keeps no more than so many bytes of each body from now on."""
        self._side.body_bytes_max = most

    def begin(self) -> None:
        """From now on nothing waits but `turn`."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            self._socket.setsockopt(socket.IPPROTO_TCP, option, value)
        self._socket.setblocking(False)

    def say(self, *methods: m.Method) -> None:
        """Sends methods as soon as the socket takes them."""
        self._queue(b"".join(encode_method(CHANNEL, method) for method in methods))

    def say_message(
        self, exchange: str, key: str, properties: dict[str, TableValue], body: bytes,
        mandatory: bool,
    ) -> None:  # fmt: skip
        """Publishes a message as soon as the socket takes it."""
        self._queue(self._side.publish(exchange, key, properties, body, mandatory))

    def _queue(self, data: bytes) -> None:
        self._unsent.append(memoryview(data))
        self.unsent_bytes += len(data)

    def arrived(self) -> m.Method | Message | None:
        """What has come next; None: nothing more so far."""
        return self._arrived()

    def turn(self, within_s: float, source: Any = None) -> bool:
        """Sends and takes what is possible; waits so long for anything to be, or for an end.

        Once an end is wanted, waits are only for the broker. `source`: what else may become
        readable; returns whether it is.
        """
        waits: list[Any] = [self._socket] if self._stop.asked else [self._socket, self._stop]
        if source is not None:
            waits.append(source)
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            within_s = 0.0
        writes = [self._socket] if self._unsent else []
        readable, writable, _ = select.select(waits, writes, [], max(0.0, within_s))
        try:
            if writable:
                self._send_some()
            self._take_some()
        except OSError as error:
            raise self._lost(error) from error
        return source is not None and source in readable

    def _send_some(self) -> None:
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent[0])
            except _AGAIN:
                return
            self.unsent_bytes -= sent
            if sent == len(self._unsent[0]):
                self._unsent.popleft()
            else:
                self._unsent[0] = self._unsent[0][sent:]

    def _take_some(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except _AGAIN:
            return
        if not data:
            raise CommandError(f"{self.place} closed the connection", UNREACHABLE)
        self._side.receive(data)

    def finish(self, within_s: float) -> None:
        """Closes the connection and waits for the answer: the broker has taken all that was said.

        What comes meanwhile is not looked at.
        """
        self._queue(GOODBYE)
        until = time.monotonic() + within_s
        while True:
            while (arrived := self._arrived()) is not None:
                if isinstance(arrived, m.ConnectionCloseOk):
                    return
            left = until - time.monotonic()
            if left <= 0:
                raise CommandError(f"{self.place} did not answer connection.close", UNREACHABLE)
            self.turn(left)
