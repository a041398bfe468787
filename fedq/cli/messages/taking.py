"""Takes messages of a queue as a consumer, hands each on, and settles it after that.

In: a queue, how many, what is done with them. Out: each message to a `Sink`, once it is whole.
Invariants: a message is settled only after the sink has flushed it; with a count exactly so many
are taken, and no other one is touched: what may be acknowledged early would have further messages
come, so the last ones are settled once the consumer is cancelled. What was not settled the broker
puts back when the connection ends.
"""

import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

from fedq.amqp import method_types as m
from fedq.amqp.values import FieldTable
from fedq.cli.asking.amqp_client import Message
from fedq.cli.asking.amqp_dialogue import Dialogue
from fedq.cli.terminal.failure import FAILED, CommandError
from fedq.cli.terminal.stopping import Stop

_IDLE_S: Final = 60.0
_TAG: Final = "fedq"


class Settle(StrEnum):
    """What becomes of a message that was handed on."""

    ACK = "ack"
    REJECT = "reject"
    REQUEUE = "requeue"
    NONE = "none"


class Sink(Protocol):
    """Where messages go."""

    @property
    def is_full(self) -> bool:
        """There are enough."""

    def take(self, message: Message) -> bool:
        """Hands on a message; False: it does not fit any more, and is left where it was."""

    def flush(self) -> None:
        """What was taken is where it should be; raises `OSError` if that cannot be."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be taken."""

    queue: str
    settle: Settle
    prefetch: int
    #: Exactly so many; None: all that come.
    count: int | None = None
    #: It ends when nothing has come for so long; None: never.
    idle_s: float | None = None
    arguments: FieldTable = field(default_factory=dict)


class Taker:
    """One consumer, from its beginning to its end."""

    def __init__(self, dialogue: Dialogue, wish: Wish, sink: Sink, stop: Stop) -> None:
        self._dialogue = dialogue
        self._wish = wish
        self._sink = sink
        self._stop = stop
        self._patience_s = 10.0
        count = wish.count
        self._prefetch = wish.prefetch if count is None else min(wish.prefetch, count)
        #: Of these tags so many may be settled while messages come: the rest would bring more.
        self._free = None if count is None else count - self._prefetch
        self._settled = 0
        self._is_full = False
        #: Messages handed on.
        self.taken = 0

    def run(self) -> None:
        """Takes messages until there are enough, none come, or the user wants an end.

        Raises `CommandError` if the broker ends it, and `OSError` if the sink can take no more.
        """
        self._begin()
        heard = time.monotonic()
        while True:
            if self._take_what_came():
                heard = time.monotonic()
            now = time.monotonic()
            idle_s = self._wish.idle_s
            left = _IDLE_S if idle_s is None else heard + idle_s - now
            if self._has_enough or self._stop.asked or left <= 0:
                break
            self._dialogue.turn(left)
        self._end()

    @property
    def _has_enough(self) -> bool:
        return self._is_full or self._sink.is_full or self.taken == self._wish.count

    def _begin(self) -> None:
        wish, no_ack = self._wish, self._wish.settle is Settle.NONE
        if not no_ack:
            self._dialogue.call(m.BasicQos(0, self._prefetch, False), m.BasicQosOk)
        consume = m.BasicConsume(wish.queue, _TAG, no_ack=no_ack, arguments=wish.arguments)
        self._dialogue.call(consume, m.BasicConsumeOk)
        self._dialogue.begin()

    def _take_what_came(self) -> bool:
        """Hands on what has come whole, and settles it; returns whether there was anything."""
        before = self.taken
        try:
            while not self._has_enough and (arrived := self._dialogue.arrived()) is not None:
                self._hand_on(arrived)
        finally:
            if self.taken > before:
                self._sink.flush()
        if self.taken > before:
            self._settle(self.taken if self._free is None else min(self.taken, self._free))
        return self.taken > before

    def _hand_on(self, arrived: object) -> None:
        if not isinstance(arrived, Message) or not isinstance(arrived.method, m.BasicDeliver):
            raise CommandError(
                f"{self._dialogue.place} answered with {type(arrived).__name__}, out of turn"
            )
        if self._sink.take(arrived):
            self.taken += 1
        else:
            self._is_full = True

    def _settle(self, last: int) -> None:
        """Settles messages up to the last one of these."""
        if last <= self._settled:
            return
        match self._wish.settle:
            case Settle.ACK:
                self._dialogue.say(m.BasicAck(last, multiple=True))
            case Settle.REJECT:
                self._dialogue.say(m.BasicNack(last, multiple=True, requeue=False))
        self._settled = last

    def _end(self) -> None:
        self._dialogue.say(m.BasicCancel(_TAG))
        self._until_cancelled()
        if self.taken:
            self._sink.flush()
        self._settle(self.taken)
        self._dialogue.finish(self._patience_s)

    def _until_cancelled(self) -> None:
        """Waits for the end of deliveries; without acknowledgements all that come are handed on."""
        until = time.monotonic() + self._patience_s
        while True:
            while (arrived := self._dialogue.arrived()) is not None:
                if isinstance(arrived, m.BasicCancelOk):
                    return
                if self._wish.settle is Settle.NONE:
                    self._hand_on(arrived)
            left = until - time.monotonic()
            if left <= 0:
                raise CommandError(f"{self._dialogue.place} did not cancel the consumer", FAILED)
            self._dialogue.turn(left)
