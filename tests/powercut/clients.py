"""Stock clients in threads of their own, which write into the book and end with their node.

A publisher has several messages under way at a time; a consumer does with each what its habit says.
"""

import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from tests.integration.stock import PERSISTENT, Address, connect, parameters, pika
from tests.powercut.book import Book, Target, number_of

#: What a consumer does with a message (or one that it holds): its number in, what to do out.
Habit = Callable[[int], str]
ACK: Final = "ack"
HOLD: Final = "hold"
#: Something that it holds, acknowledged or given back.
ACK_HELD: Final = "ack held"
RETURN_HELD: Final = "return held"

_PREFETCH: Final = 60


class Publisher(threading.Thread):
    """Publishes to a target, with `window` messages whose confirms have not come."""

    def __init__(
        self, address: Address, book: Book, target: tuple[str, Target], window: int, most: int
    ) -> None:
        """`target`: with its name; `most`: messages, all in all."""
        super().__init__(name=f"publisher of {target[0]}")
        self._book = book
        self._name, self._target = target
        self._window = window
        self._left = most
        self._address = address
        self._channel: Any = None
        #: Delivery tags whose confirms are awaited, and their numbers.
        self._open: dict[int, int] = {}
        self._tag = 0

    def run(self) -> None:
        """Until the node is gone."""
        connection = pika.SelectConnection(
            parameters(self._address),
            on_open_callback=lambda opened: opened.channel(on_open_callback=self._begin),
            on_open_error_callback=lambda gone, _: gone.ioloop.stop(),
            on_close_callback=lambda gone, _: gone.ioloop.stop(),
        )
        try:
            connection.ioloop.start()
        finally:
            connection.ioloop.close()

    def _begin(self, channel: Any) -> None:
        self._channel = channel
        channel.confirm_delivery(self._hear, callback=lambda _: self._publish())

    def _publish(self) -> None:
        while len(self._open) < self._window and self._left and self._channel.is_open:
            number, body = self._book.publish(self._name, self._target)
            self._left -= 1
            self._tag += 1
            self._open[self._tag] = number
            self._channel.basic_publish(self._target.exchange, self._target.key, body, PERSISTENT)

    def _hear(self, frame: Any) -> None:
        last = frame.method.delivery_tag
        tags = [tag for tag in self._open if tag <= last] if frame.method.multiple else [last]
        for tag in tags:
            number = self._open.pop(tag)
            if isinstance(frame.method, pika.spec.Basic.Ack):
                self._book.confirm(self._target, number)
        self._publish()


class Consumer(threading.Thread):
    """Consumes a queue."""

    def __init__(
        self, address: Address, book: Book, queue: str, habit: Habit, dice: random.Random,
        pause_s: float,
    ) -> None:  # fmt: skip
        """`pause_s`: how long it looks at each message."""
        super().__init__(name=f"consumer of {queue}")
        self._address = address
        self._book = book
        self._queue = queue
        self._habit = habit
        self._dice = dice
        self._pause_s = pause_s
        #: Number and delivery tag.
        self._held: list[tuple[int, int]] = []

    def run(self) -> None:
        """Until the node is gone."""
        try:
            connection = connect(self._address)
        except (pika.exceptions.AMQPError, OSError):
            return
        try:
            channel = connection.channel()
            channel.basic_qos(prefetch_count=_PREFETCH)
            channel.basic_consume(self._queue, self._take)
            channel.start_consuming()
        except (pika.exceptions.AMQPError, OSError):
            pass
        finally:
            if connection.is_open:
                connection.close()

    def _take(self, channel: Any, method: Any, _: object, body: bytes) -> None:
        number = number_of(body)
        self._book.deliver((self._queue, number))
        self._held.append((number, method.delivery_tag))
        time.sleep(self._pause_s)
        what = self._habit(number)
        if what == ACK:
            self._acknowledge(channel, len(self._held) - 1)
        elif what == ACK_HELD:
            self._acknowledge(channel, self._dice.randrange(len(self._held)))
        elif what == RETURN_HELD:
            _, tag = self._held.pop(self._dice.randrange(len(self._held)))
            channel.basic_nack(tag, requeue=True)

    def _acknowledge(self, channel: Any, at: int) -> None:
        number, tag = self._held.pop(at)
        self._book.acknowledge((self._queue, number))
        channel.basic_ack(tag)


def acks_all(_: int) -> str:
    """Acknowledges each at once."""
    return ACK


def keeps_first(number: int) -> str:
    """Never acknowledges the oldest one."""
    return HOLD if number == 1 else ACK


def picks(dice: random.Random) -> Habit:
    """Holds some, and acknowledges or returns any of them."""
    return lambda _: dice.choices([HOLD, ACK_HELD, RETURN_HELD], [30, 65, 5])[0]
