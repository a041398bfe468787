"""Bytes that are sent in bulk: blocks of publishes, and runs of acknowledgements.

A body begins with its *number* (producer << 48 | sequence) and the time it was sent, both
little-endian in 8 bytes. All messages of one round of a block share the upper bytes of the number
and the time: so a block keeps what lies between these 13 or 14 bytes, and a round is one join.
"""

import random
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from fedq.amqp.content import encode_properties
from fedq.amqp.deliveries import ack_frame
from fedq.amqp.frames import frame
from fedq.amqp.method_types import BasicPublish
from fedq.amqp.methods import encode_method
from fedq.amqp.spec import END, FRAME_BODY, FRAME_HEADER, HEADER_IDS

#: Publishes travel on this channel of their own connection.
CHANNEL: Final = 1
PRODUCER_SHIFT: Final = 48
SEQUENCE_MASK: Final = (1 << PRODUCER_SHIFT) - 1
ACK_BYTES: Final = 21

_NUMBER: Final = struct.Struct("<Q")
_HEADER: Final = struct.Struct(">IQ")
_ACK_RUN: Final = 256
#: Where the delivery tag is in a basic.ack frame.
_TAG_AT: Final = 11
#: Bodies differ by where in this text their padding begins.
_PADDING: Final = bytes(random.Random(1).choices(range(33, 127), k=4_096))


class Shape(NamedTuple):
    """The destination of a message, and the size of its body in bytes."""

    exchange: str
    key: str
    size: int


class Block:
    """The messages of one producer, repeated; 256 or 65,536 of them make a round."""

    __slots__ = ("_between", "_index_bytes", "_producer", "ends", "size")

    def __init__(self, producer: int, shapes: Sequence[Shape], is_persistent: bool) -> None:
        assert len(shapes) in (256, 65_536), "a round's index fills whole bytes"
        self._index_bytes = (len(shapes).bit_length() - 1) // 8
        self._producer = producer
        self.size = len(shapes)
        properties = encode_properties({"delivery_mode": 2} if is_persistent else {})
        fronts: list[bytes] = []
        ends: list[bytes] = []
        for index, shape in enumerate(shapes):
            publish = BasicPublish(exchange=shape.exchange, routing_key=shape.key)
            header = _HEADER.pack(HEADER_IDS, shape.size) + properties
            body = frame(FRAME_BODY, CHANNEL, bytes(16) + _padding(index, shape.size - 16))
            fronts.append(
                encode_method(CHANNEL, publish)
                + frame(FRAME_HEADER, CHANNEL, header)
                + body[:7]
                + index.to_bytes(self._index_bytes, "little")
            )
            ends.append(body[23:])
        #: What lies between the stamps of neighbours: the end of one and the front of the next.
        self._between = [end + front for end, front in zip([b"", *ends[:-1]], fronts, strict=True)]
        self._between.append(ends[-1])
        self.ends = ends

    def take(self, sequence: int, count: int, time_ns: int) -> bytes:
        """The publishes from this sequence on, as many as the round still has and `count` allows.

        `room` tells how many these are.
        """
        first = sequence % self.size
        last = first + self.room(sequence, count)
        number = _NUMBER.pack(self._producer << PRODUCER_SHIFT | sequence)
        stamp = number[self._index_bytes :] + _NUMBER.pack(time_ns)
        data = stamp.join(self._between[first : last + 1])
        # The first piece ends the message before, and the last begins the one behind.
        start = len(self.ends[first - 1]) if first else 0
        surplus = len(self._between[last]) - len(self.ends[last - 1])
        return data[start : len(data) - surplus] if start or surplus else data

    def room(self, sequence: int, count: int) -> int:
        """How many messages `take` gives for these arguments."""
        return min(count, self.size - sequence % self.size)


def _padding(index: int, size: int) -> bytes:
    text = _PADDING[index * 53 % 3_000 :]
    return (text * (size // len(text) + 1))[:size]


class AckRun:
    """basic.ack frames for consecutive delivery tags, each for one delivery, without making each.

    What a consumer sends, and what a producer expects when its confirms come one by one.
    """

    __slots__ = ("_frames", "_round")

    def __init__(self, channel: int) -> None:
        self._round = 0
        front, end = ack_frame(channel, 0, multiple=False)[:-3], b"\0" + END
        self._frames = bytearray(b"".join([front + bytes((n,)) + end for n in range(_ACK_RUN)]))

    def take(self, first_tag: int, count: int) -> bytes:
        """The frames for the tags from `first_tag` on."""
        pieces: list[bytes] = []
        tag, stop = first_tag, first_tag + count
        while tag < stop:
            at = tag % _ACK_RUN
            taken = min(stop - tag, _ACK_RUN - at)
            self._turn_to(tag // _ACK_RUN)
            pieces.append(bytes(self._frames[at * ACK_BYTES : (at + taken) * ACK_BYTES]))
            tag += taken
        return b"".join(pieces)

    def _turn_to(self, number: int) -> None:
        """Writes this number into the upper bytes of all tags, where they differ."""
        before, after = self._round.to_bytes(7, "big"), number.to_bytes(7, "big")
        self._round = number
        for place, byte in enumerate(after):
            if byte != before[place]:
                column = bytes((byte,)) * _ACK_RUN
                self._frames[_TAG_AT + place :: ACK_BYTES] = column
