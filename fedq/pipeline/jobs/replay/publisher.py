"""Publishes numbered messages over AMQP with confirms, mandatory, over failures, by pika.

Inputs: messages, numbered without gaps and ascending. Outputs: up to which number all are
confirmed, and which reached no queue. At most WINDOW messages are unconfirmed; when a connection
breaks these are published again, in order, at the next url. A thread of its own serves the
connection; the public methods are for one other thread.
"""

import functools
import importlib.util
import logging
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from fedq.pipeline.failure import OptionError, PipelineError

#: Messages without a confirm, and how many go to the connection at a time.
WINDOW: Final = 2_000
_RUN: Final = 100
_OPEN_S: Final = 15.0
_PAUSE_S: Final = 0.5
PUBLISHER: Final = "x-fedq-publisher"
SEQUENCE: Final = "x-fedq-sequence"


class Message(NamedTuple):
    """What is published."""

    exchange: str
    routing_key: str
    #: As pika names them, without headers.
    properties: dict[str, Any]
    headers: dict[str, Any]
    body: bytes


class Publisher:
    """A publisher with a name; use it as a context manager."""

    def __init__(self, urls: Sequence[str], name: str, first: int, retry_s: float) -> None:
        """`first`: the number of the first message."""
        if importlib.util.find_spec("pika") is None:
            raise PipelineError("pika is not installed: pip install 'fedq[clients]'")
        self._urls = deque(urls)
        self._name = name
        self._next = first
        self._retry_s = retry_s
        #: Sent or to be sent, and not confirmed, by number.
        self._open: OrderedDict[int, Message] = OrderedDict()
        self._waiting: list[int] = []
        self._connection: _Connection | None = None
        self._changed = threading.Condition()
        #: Messages that reached no queue, and keys of some.
        self.unroutable = 0
        self.unroutable_keys: dict[str, None] = {}

    def __enter__(self) -> "Publisher":
        self._reopen("")
        return self

    def __exit__(self, *error: object) -> None:
        if self._connection is not None:
            self._connection.close()

    @property
    def confirmed(self) -> int:
        """Up to this number all messages are confirmed."""
        with self._changed:
            return next(iter(self._open), self._next) - 1

    def publish(self, message: Message) -> int:
        """Publishes the next message; waits while too many are unconfirmed. Returns its number."""
        number = self._next
        with self._changed:
            self._open[number] = message
            self._next += 1
        self._waiting.append(number)
        if len(self._waiting) >= _RUN:
            self.flush()
        if len(self._open) >= WINDOW:
            self._wait(WINDOW // 2)
        return number

    def flush(self) -> None:
        """Hands over to the connection what waits for more; opens another one if it is broken."""
        if failure := self._failure():
            self._reopen(failure)
        if self._waiting and self._connection is not None:
            numbers, self._waiting = self._waiting, []
            self._connection.send([(number, self._open[number]) for number in numbers])

    def finish(self) -> None:
        """Waits until all is confirmed."""
        self.flush()
        self._wait(0)

    def _wait(self, left_max: int) -> None:
        self.flush()
        while True:
            with self._changed:
                self._changed.wait_for(lambda: len(self._open) <= left_max or self._failure(), 1.0)
                if len(self._open) <= left_max:
                    return
                failure = self._failure()
            if failure:
                self._reopen(failure)

    def _failure(self) -> str:
        return "" if self._connection is None else self._connection.failure

    def _reopen(self, reason: str) -> None:
        """Opens a connection, for as long as it may take, and sends what is unconfirmed."""
        deadline = time.monotonic() + self._retry_s
        if self._connection is not None:
            self._give_up()
        while True:
            self._connection = _Connection(self._urls[0], self._name, self)
            if self._connection.is_open():
                break
            reason = self._connection.failure
            self._give_up()
            if time.monotonic() >= deadline:
                raise PipelineError(f"{reason} (tried for {self._retry_s:g} s)")
            time.sleep(_PAUSE_S)
        with self._changed:
            again = list(self._open.items())
        self._waiting = []
        self._connection.send(again)

    def _give_up(self) -> None:
        """Leaves a connection for the next url; raises what will not get better there."""
        assert self._connection is not None, "it was opened"
        self._connection.close()
        if self._connection.is_final:
            raise PipelineError(self._connection.failure)
        self._urls.rotate(-1)

    # --- called by the connection's thread ------------------------------------------------------

    def on_confirmed(self, numbers: Sequence[int]) -> None:
        """Takes messages that are confirmed."""
        with self._changed:
            for number in numbers:
                self._open.pop(number, None)
            self._changed.notify()

    def on_returned(self, routing_key: str) -> None:
        """Counts a message that reached no queue; its confirm follows."""
        with self._changed:
            self.unroutable += 1
            if len(self.unroutable_keys) < _RUN:
                self.unroutable_keys[routing_key] = None

    def on_failed(self) -> None:
        """Wakes who waits for confirms."""
        with self._changed:
            self._changed.notify()


class _Connection:
    """A connection of pika in a thread of its own."""

    def __init__(self, url: str, name: str, owner: Publisher) -> None:
        import pika  # type: ignore[import-untyped]

        # It tells each refused connection at length, and the sentence is ours.
        logging.getLogger("pika").setLevel(logging.CRITICAL)
        self._pika = pika
        self._name = name
        self._owner = owner
        #: Why it does not work (any more), and whether that stays so.
        self.failure = ""
        self.is_final = False
        self._opened = threading.Event()
        self._channel: Any = None
        #: Numbers by delivery tag, ascending.
        self._sent: deque[tuple[int, int]] = deque()
        self._tag = 0
        self._is_closing = False
        try:
            parameters = pika.URLParameters(url)
        except (ValueError, TypeError):
            # What pika says may quote a part of the password.
            text = "--url: write amqp://USER:PASSWORD@HOST:PORT/VHOST, percent-encoded"
            raise OptionError(text) from None
        parameters.socket_timeout = parameters.stack_timeout = _OPEN_S
        self._address = f"{parameters.host}:{parameters.port}"
        self._connection = pika.SelectConnection(
            parameters, on_open_callback=self._on_open,
            on_open_error_callback=self._on_lost, on_close_callback=self._on_lost,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def is_open(self) -> bool:
        """Waits until messages can be sent, or it is known that they cannot."""
        if not self._opened.wait(_OPEN_S):
            self.failure = f"{self._address}: no answer within {_OPEN_S:g} s"
        return not self.failure

    def send(self, messages: list[tuple[int, Message]]) -> None:
        """Sends messages, in order."""
        if messages:
            call = functools.partial(self._send, messages)
            self._connection.ioloop.add_callback_threadsafe(call)

    def close(self) -> None:
        """Closes it, and ends its thread."""
        self._is_closing = True
        if self._thread.is_alive():
            self._connection.ioloop.add_callback_threadsafe(self._end)
        self._thread.join(_OPEN_S)
        if not self._thread.is_alive():
            self._connection.ioloop.close()

    # --- in its thread --------------------------------------------------------------------------

    def _end(self) -> None:
        if self._connection.is_open:
            self._connection.close()
        elif not self._connection.is_closing:
            self._connection.ioloop.stop()

    def _serve(self) -> None:
        try:
            self._connection.ioloop.start()
        except Exception as error:
            # Of pika, in a thread that nobody would hear of.
            self._fail(f"{type(error).__name__}: {error}", is_final=False)

    def _on_open(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._on_channel)

    def _on_channel(self, channel: Any) -> None:
        self._channel = channel
        channel.add_on_close_callback(self._on_lost)
        channel.add_on_return_callback(
            lambda _, method, __, ___: self._owner.on_returned(method.routing_key)
        )
        channel.confirm_delivery(self._on_confirm, callback=lambda _: self._opened.set())

    def _send(self, messages: list[tuple[int, Message]]) -> None:
        if self.failure:
            return
        for number, each in messages:
            headers = {**each.headers, PUBLISHER: self._name, SEQUENCE: number}
            properties = self._pika.BasicProperties(headers=headers, **each.properties)
            self._tag += 1
            self._sent.append((self._tag, number))
            self._channel.basic_publish(
                each.exchange, each.routing_key, each.body, properties, mandatory=True
            )

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        if method.NAME == "Basic.Nack":
            self._fail("a queue refused a message (basic.nack): it is full", is_final=True)
            return
        sent, tag = self._sent, method.delivery_tag
        if not method.multiple and sent and sent[0][0] != tag:
            found = [number for each, number in sent if each == tag]
            self._sent = deque(each for each in sent if each[0] != tag)
            self._owner.on_confirmed(found)
            return
        confirmed: list[int] = []
        while sent and sent[0][0] <= tag:
            confirmed.append(sent.popleft()[1])
        self._owner.on_confirmed(confirmed)

    def _on_lost(self, _: Any, reason: Any) -> None:
        code = getattr(reason, "reply_code", 0)
        text = str(getattr(reason, "reply_text", "") or reason or type(reason).__name__)
        errors = self._pika.exceptions
        refused = (errors.ProbableAuthenticationError, errors.ProbableAccessDeniedError)
        # 320: the node goes; 541: it ends this connection alone. Others serve on.
        final = isinstance(reason, refused) or code not in (0, 200, 320, 541)
        self._fail(text, is_final=final)

    def _fail(self, text: str, *, is_final: bool) -> None:
        if not self.failure and not self._is_closing:
            self.failure, self.is_final = f"{self._address}: {text}", is_final
        if self._connection.is_open:
            self._connection.close()
        elif self._connection.is_closed:
            self._connection.ioloop.stop()
        self._opened.set()
        self._owner.on_failed()
