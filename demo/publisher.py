"""A stock publisher: pika, publisher confirms, a window of unconfirmed messages.

    python -m demo.publisher NAME QUEUE RECORDS HOST:PORT… [--rate N] [--window N]

It publishes persistent messages until SIGTERM, then waits for the confirms still owed and ends
with code 0. When its connection breaks it goes to the next address and sends again whatever was
not confirmed, as a later attempt. Everything is written to its record file.
"""

import argparse
import signal
import time
from collections import deque
from pathlib import Path
from typing import Any

from demo import records
from demo.addresses import Rotation, parse_address
from tests.integration.stock import Address, parameters, pika

TURN_S = 0.01
#: A broker that owes confirms for so long is left for another one.
PATIENCE_S = 12.0
#: After SIGTERM, so long for the confirms still owed.
FINISH_S = 60.0


class Publisher:
    """One publisher: at most one connection at a time, `window` messages unconfirmed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._name: str = options.name
        self._queue: str = options.queue
        self._rate: float = options.rate
        self._window: int = options.window
        self._recorder = records.Recorder(options.records)
        self._rotation = Rotation(options.addresses)
        self._sequence = 0
        #: Sequence numbers to be sent again, with the attempt that comes next.
        self._again: deque[tuple[int, int]] = deque()
        #: Delivery tag of this channel -> (sequence, attempt).
        self._owed: dict[int, tuple[int, int]] = {}
        self._tag = 0
        self._oldest_tag = 1
        self._connection: Any = None
        self._channel: Any = None
        self._allowance = 0.0
        self._last_turn_s = time.monotonic()
        self._heard_s = time.monotonic()
        self._stop_s: float | None = None

    def run(self) -> int:
        """Publishes until told to stop; 0 if everything sent was confirmed in the end."""
        signal.signal(signal.SIGTERM, lambda *_: self._stop())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._connect()
        self._turn()
        while not self._is_done():
            try:
                self._connection.ioloop.start()
            except ValueError as error:
                # So pika says that a connection was reset in the moment in which it was made.
                self._on_closed(self._connection, error)
            self._connection.ioloop.close()
            if not self._is_done():
                self._rotation.rest()
                self._connect()
                self._turn()
        owed = len(self._again) + len(self._owed)
        self._recorder.write(records.FINISHED, "all" if not owed else f"{owed} unconfirmed")
        self._recorder.close()
        return 1 if owed else 0

    def _stop(self) -> None:
        self._stop_s = time.monotonic()

    def _is_done(self) -> bool:
        if self._stop_s is None:
            return False
        is_late = time.monotonic() - self._stop_s > FINISH_S
        return is_late or not (self._again or self._owed)

    # --- the connection ---------------------------------------------------------------------------

    def _connect(self) -> None:
        address = self._rotation.next()
        self._channel = None
        self._connection = pika.SelectConnection(
            parameters(address, heartbeat=5),
            on_open_callback=lambda connection: connection.channel(
                on_open_callback=lambda channel: self._on_channel(channel, address)
            ),
            on_open_error_callback=self._on_closed,
            on_close_callback=self._on_closed,
        )

    def _on_channel(self, channel: Any, address: Address) -> None:
        channel.add_on_close_callback(self._on_channel_closed)
        channel.confirm_delivery(self._on_confirm, callback=lambda _: self._on_ready(channel))
        self._recorder.write(records.CONNECTED, f"{address.host}:{address.port}")

    def _on_ready(self, channel: Any) -> None:
        self._tag = 0
        self._oldest_tag = 1
        self._heard_s = time.monotonic()
        self._channel = channel
        self._rotation.succeeded()

    def _on_channel_closed(self, channel: Any, reason: Exception) -> None:
        self._channel = None
        if self._connection.is_open:
            self._connection.close(320, f"channel closed: {reason}"[:200])

    def _on_closed(self, connection: Any, reason: Exception) -> None:
        """The connection is gone: what it owed must be sent again, in order, by the next one."""
        if not self._is_done():
            self._recorder.write(records.LOST, str(reason) or repr(reason))
        self._channel = None
        again = [(sequence, attempt + 1) for sequence, attempt in self._owed.values()]
        self._again.extendleft(reversed(again))
        self._owed.clear()
        connection.ioloop.stop()

    # --- publishing -------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Publishes what the rate and the window allow, then again after a moment."""
        now_s = time.monotonic()
        self._allowance += (now_s - self._last_turn_s) * self._rate
        self._allowance = min(self._allowance, self._rate / 4)
        self._last_turn_s = now_s
        if self._channel is not None and self._channel.is_open:
            self._publish_batch()
            if self._owed and now_s - self._heard_s > PATIENCE_S:
                self._connection.close(320, "no confirms")
        self._recorder.flush()
        if self._is_done():
            if self._connection.is_open:
                self._connection.close()
            else:
                self._connection.ioloop.stop()
            return
        self._connection.ioloop.call_later(TURN_S, self._turn)

    def _publish_batch(self) -> None:
        if not self._owed:
            self._heard_s = time.monotonic()
        while len(self._owed) < self._window:
            if self._again:
                sequence, attempt = self._again.popleft()
            elif self._allowance >= 1 and self._stop_s is None:
                self._allowance -= 1
                self._sequence += 1
                sequence, attempt = self._sequence, 1
            else:
                return
            self._tag += 1
            self._owed[self._tag] = (sequence, attempt)
            self._recorder.write(records.SENT, self._name, sequence, attempt)
            self._channel.basic_publish(
                "", self._queue, records.body_of(self._name, sequence, attempt),
                pika.BasicProperties(delivery_mode=2),
            )  # fmt: skip

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        self._heard_s = time.monotonic()
        first = self._oldest_tag if method.multiple else method.delivery_tag
        is_kept = isinstance(method, pika.spec.Basic.Ack)
        for tag in range(first, method.delivery_tag + 1):
            item = self._owed.pop(tag, None)
            if item is None:
                continue
            sequence, attempt = item
            if is_kept:
                self._recorder.write(records.CONFIRMED, self._name, sequence, attempt)
            else:
                self._recorder.write(records.REFUSED, self._name, sequence, attempt)
                self._again.append((sequence, attempt + 1))
        if method.multiple:
            self._oldest_tag = method.delivery_tag + 1


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("name")
    parser.add_argument("queue")
    parser.add_argument("records", type=Path)
    parser.add_argument("addresses", nargs="+", type=parse_address)
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second")
    parser.add_argument("--window", type=int, default=200, help="unconfirmed at most")
    return Publisher(parser.parse_args()).run()


if __name__ == "__main__":
    raise SystemExit(main())
