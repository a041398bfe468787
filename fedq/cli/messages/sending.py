"""Publishes bodies, and learns of each what became of it.

In: a source of bodies, a connection in confirm mode. Out: a `Tally`. Invariants: at most `window`
messages are unconfirmed, and little more than one message waits for the socket; what failed stops
the source, so nobody has to guess which of a million lines came to nothing.
"""

import time
from dataclasses import dataclass, field
from typing import Final

from fedq.amqp import method_types as m
from fedq.amqp.values import TableValue
from fedq.cli.asking.amqp_client import Message
from fedq.cli.asking.amqp_dialogue import Dialogue
from fedq.cli.messages.sources import Source
from fedq.cli.terminal.failure import (
    BLOCKED,
    INTERRUPTED,
    REFUSED,
    UNREACHABLE,
    UNROUTABLE,
    CommandError,
)
from fedq.cli.terminal.stopping import Stop

#: So much may wait for the socket before another message is taken from the source.
_UNSENT_BYTES: Final = 1 << 20
_IDLE_S: Final = 60.0


@dataclass(slots=True)
class Tally:
    """What became of the messages of one channel in confirm mode."""

    published: int = 0
    acknowledged: int = 0
    unroutable: int = 0
    refused: int = 0
    bytes: int = 0
    #: Why the last one that reached no queue did not, as the broker says it.
    reason: str = ""
    _open: dict[int, None] = field(default_factory=dict)

    @property
    def confirmed(self) -> int:
        """Messages that are safe in a queue: what reached none is acknowledged, too."""
        return max(0, self.acknowledged - self.unroutable)

    @property
    def unconfirmed(self) -> int:
        """Messages of which nothing was heard yet."""
        return len(self._open)

    @property
    def has_failed(self) -> bool:
        """A message came to nothing."""
        return bool(self.unroutable or self.refused)

    def on_published(self, size: int) -> None:
        """Notes that another message is on its way."""
        self.published += 1
        self.bytes += size
        self._open[self.published] = None

    def on_answer(self, answer: object) -> None:
        """Takes what the broker says of messages; other methods say nothing of them."""
        match answer:
            case m.BasicAck(tag, multiple):
                self.acknowledged += self._settle(tag, multiple)
            case m.BasicNack(tag, multiple, _):
                self.refused += self._settle(tag, multiple)
            case Message(m.BasicReturn() as method, _, _, _):
                # Its confirm follows, and says that it was dealt with, not that it arrived.
                self.unroutable += 1
                self.reason = f"{method.reply_code} {method.reply_text}"

    def _settle(self, tag: int, multiple: bool) -> int:
        settled = [each for each in self._open if each <= tag] if multiple else [tag]
        settled = [each for each in settled if each in self._open]
        for each in settled:
            del self._open[each]
        return len(settled)


@dataclass(frozen=True, slots=True)
class Manner:
    """Where messages go, and how fast."""

    exchange: str
    key: str
    properties: dict[str, TableValue]
    mandatory: bool
    window: int
    #: Messages a second; None: as fast as the broker confirms.
    rate: float | None
    #: So long nothing may be heard of the broker while something is waited for.
    patience_s: float


def publish_all(
    dialogue: Dialogue, source: Source, manner: Manner, tally: Tally, stop: Stop
) -> None:
    """Publishes until the source is over, a message came to nothing, or the user wants an end.

    All that was published is counted in `tally`, also when this raises `CommandError`: the broker
    was lost, or says nothing for too long.
    """
    began = heard = time.monotonic()
    was_blocked = dialogue.blocked
    while True:
        while (answer := dialogue.arrived()) is not None:
            tally.on_answer(answer)
            heard = time.monotonic()
        now = time.monotonic()
        is_ending = source.is_over or tally.has_failed or stop.asked
        waits = bool(tally.unconfirmed or dialogue.unsent_bytes)
        if is_ending and not waits:
            return
        # What is there and may not be sent waits, too.
        waits = waits or (dialogue.blocked is not None and source.waits_for is None)
        if not waits or dialogue.blocked != was_blocked:
            heard, was_blocked = now, dialogue.blocked
        due = began + tally.published / manner.rate if manner.rate else now
        if not is_ending and _has_room(dialogue, manner, tally):
            if source.waits_for is None and due <= now:
                _publish(dialogue, manner, tally, source.next())
                dialogue.turn(0.0)
                continue
            wanted = source.waits_for
            wait = _IDLE_S if wanted is not None else due - now
        else:
            wanted, wait = None, manner.patience_s
        if waits:
            if now - heard > manner.patience_s:
                raise _silent(dialogue, manner)
            wait = min(wait, heard + manner.patience_s - now)
        if dialogue.turn(wait + 0.001, wanted):
            source.read()


def _has_room(dialogue: Dialogue, manner: Manner, tally: Tally) -> bool:
    return (
        tally.unconfirmed < manner.window
        and dialogue.unsent_bytes < _UNSENT_BYTES
        and dialogue.blocked is None
    )


def _publish(dialogue: Dialogue, manner: Manner, tally: Tally, body: bytes) -> None:
    dialogue.say_message(
        manner.exchange, manner.key, manner.properties, body, mandatory=manner.mandatory
    )
    tally.on_published(len(body))


def _silent(dialogue: Dialogue, manner: Manner) -> CommandError:
    if dialogue.blocked is not None:
        return CommandError(
            f"{dialogue.place} takes no messages at present (connection.blocked: "
            f"{dialogue.blocked}); see what it is short of, and publish the rest then",
            BLOCKED,
        )
    return CommandError(
        f"{dialogue.place} has confirmed nothing for {manner.patience_s:g} s", UNREACHABLE
    )


def failure_of(tally: Tally, manner: Manner, stop: Stop) -> CommandError | None:
    """What is to be said of messages that came to nothing; None: all are where they should be."""
    where = f"with the key {manner.key!r}" if manner.exchange else f"to queue {manner.key!r}"
    if tally.unroutable:
        return CommandError(
            f"{tally.unroutable} of {tally.published} messages {where} reached no queue: "
            f"{tally.reason}; declare or bind one, or say --allow-unroutable",
            UNROUTABLE,
        )
    if tally.refused:
        return CommandError(
            f"the broker refused {tally.refused} of {tally.published} messages {where} "
            "(basic.nack): the queue may be full",
            REFUSED,
        )
    if stop.asked:
        return CommandError(
            f"ended: {tally.confirmed} messages are confirmed, of {tally.unconfirmed} nothing is "
            "known",
            INTERRUPTED,
        )
    return None
