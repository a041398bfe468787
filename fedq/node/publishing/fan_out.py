"""A publish handed to many private queues at once: the short way, where nothing can be seen of it.

A message for a private queue goes into its fragment, waits for the end of the turn, is dealt by the
hub and taken out again. If its one consumer is idle and acknowledges by receiving, all of that
leaves no trace: the consumer gets the message, and the queue is as empty as before. So such a
consumer (`PrivateQueue.sole_consumer`) gets it here, at once; the queues of all others are
returned, to go the long way. Who gets nothing else in the turn is not even marked: the piece is in
a lane of its own, `NodeOut.fanned`. For ten thousand subscribers, what counts is how many objects
are looked at: all of them are cold (ADR 0030).

What a delivery says between its tag and the next one depends only on the channel's number and the
frame size, and tags run alike on most channels; so it is encoded once for a run of messages, and a
consumer's own bytes are put between (`bytes.join`).

Changes delivery tags and parts of connections; marks them.

Invariants: a consumer gets the same bytes in the same order as by the long way (held by
`tests/property/test_fan_out.py`). So nobody is served here whose queue holds anything, or has a
policy that may have a say; nor who publishes himself: his connection has read on already, and may
be closing, while his publishes are worked off.
"""

from collections.abc import Sequence
from typing import Final

from fedq.amqp.content import Body
from fedq.amqp.deliveries import deliver_prefix, deliver_suffix, pack_tag
from fedq.core.limits import (
    DELIVERY_BYTES_PER_TURN_MAX,
    FAN_OUT_BYTES_PER_DELIVERY,
    KIB,
)
from fedq.core.message import FLAG_DELAYED, FLAG_SEEN
from fedq.node.publishing.pieces import Pieces
from fedq.node.records.client_state import Client, Consumer
from fedq.node.records.state import NodeState

#: Messages with these go the long way: they are marked, or held back.
_LONG_WAY: Final = FLAG_SEEN | FLAG_DELAYED
#: So many short messages go to all of their queues together, however many these are.
_SHORT_RUN: Final = 4
#: What follows the tag of a delivery is not copied for each consumer when it is longer than this.
_COPIED_BYTES_MAX: Final = 4 * KIB


class FanOut:
    """The short way of a publish to many private queues whose consumers are idle.

    `sender`, of `deliver`: whose commands are being worked off, if a client's are.
    """

    __slots__ = ("_run_bytes_max", "state")

    def __init__(self, state: NodeState, run_bytes_max: int = DELIVERY_BYTES_PER_TURN_MAX) -> None:
        """`run_bytes_max`: messages that are so long together go the long way."""
        self.state = state
        self._run_bytes_max = run_bytes_max

    def deliver(
        self, numbers: Sequence[int], messages: Sequence[bytes], sender: Client | None
    ) -> Sequence[int]:
        """Hands messages (of one route) to idle consumers; returns the queues that it left out."""
        size, flags = sum(map(len, messages)), 0
        for message in messages:
            flags |= message[0]
        if flags & _LONG_WAY or size >= self._run_bytes_max:
            return numbers
        if self.state.suspects.count and self.state.suspects.find(messages):
            return numbers
        left: list[int] = []
        count, is_long = len(messages), size > _COPIED_BYTES_MAX * len(messages)
        route_size = messages[0][1] << 8 | messages[0][2]
        state = self.state
        queues, dirty, fanned = state.private_by_id, state.dirty_clients, state.fanned_clients
        fanned_to, pieces = state.out.fanned_to, state.out.fanned
        lane, run = Pieces(state), _Run(messages)
        # Of the consumer before: most are like it. Written out, as is what `Pieces` would do for
        # one that gets nothing else: as calls both cost each subscriber 30 % more instructions.
        channel_number = frame_bytes_max = tag = -1
        tails: list[bytes] = []
        for number in numbers:
            consumer = queues[number].sole_consumer
            if consumer is None:
                left.append(number)
                continue
            channel = consumer.channel
            client, window = channel.client, channel.unacked
            if (
                not client.writable or not channel.flow or client is sender
                or client.delivered_bytes >= DELIVERY_BYTES_PER_TURN_MAX
            ):  # fmt: skip
                left.append(number)
                continue
            if consumer.route_size != route_size:
                _set_head(consumer, route_size)
            if (
                window.last_tag != tag or channel.number != channel_number
                or consumer.frame_bytes_max != frame_bytes_max
            ):  # fmt: skip
                tag, channel_number = window.last_tag, channel.number
                frame_bytes_max = consumer.frame_bytes_max
                tails = run.tails(channel_number, frame_bytes_max, tag)
            window.last_tag = tag + count
            if is_long:
                lane.add(client, run.apart(consumer.head, tag), size)
                continue
            data, place = consumer.head.join(tails), client.place
            if (
                client in dirty or client in fanned
                or (place < len(fanned_to) and fanned_to[place] is client.known_as)
            ):  # fmt: skip
                lane.add(client, [data], len(data))
            else:
                client.place = len(pieces)
                pieces.append(data)
                fanned_to.append(client.known_as)
        state.counts.add_settled((len(numbers) - len(left)) * count)
        return left


def _set_head(consumer: Consumer, route_size: int) -> None:
    channel = consumer.channel
    consumer.route_size = route_size
    consumer.head = deliver_prefix(channel.number, consumer.tag).head(route_size)
    consumer.frame_bytes_max = channel.client.machine.frame_bytes_max


class _Run:
    """The messages of one run as they go to consumers."""

    __slots__ = ("_frame_bytes_max", "_messages", "_number", "_suffixes")

    def __init__(self, messages: Sequence[bytes]) -> None:
        self._messages = messages
        self._number = self._frame_bytes_max = -1
        self._suffixes: list[bytes] = []

    def tails(self, number: int, frame_bytes_max: int, last_tag: int) -> list[bytes]:
        """What a consumer's head stands between, and before: the deliveries after `last_tag`."""
        if number != self._number or frame_bytes_max != self._frame_bytes_max:
            self._number, self._frame_bytes_max = number, frame_bytes_max
            self._suffixes = [
                deliver_suffix(number, message, False, frame_bytes_max)
                for message in self._messages
            ]
        tagged = [pack_tag(tag) + tail for tag, tail in enumerate(self._suffixes, last_tag + 1)]
        return [b"", *tagged]

    def apart(self, head: bytes, last_tag: int) -> list[Body]:
        """The deliveries of the last `tails`, as parts: nothing long is copied."""
        parts: list[Body] = []
        for tag, suffix in enumerate(self._suffixes, last_tag + 1):
            parts += (head + pack_tag(tag), suffix)
        return parts


def weight_of(numbers: Sequence[int], message: bytes) -> int:
    """What a message for these private queues takes of a turn's room for fan-out."""
    return len(numbers) * (1 + len(message) // FAN_OUT_BYTES_PER_DELIVERY)


def run_max(numbers: Sequence[int], message: bytes, room: int) -> int:
    """How many messages like this one may go to these private queues in this turn; at least one.

    Of short ones a few more: to look at each queue costs more than to hand it one message more.
    """
    least = _SHORT_RUN if len(message) <= FAN_OUT_BYTES_PER_DELIVERY // _SHORT_RUN else 1
    return max(least, room // weight_of(numbers, message))
