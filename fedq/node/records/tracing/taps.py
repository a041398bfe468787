"""What the firehose is to say of publishes and deliveries, until the end of the turn.

Inputs: messages of virtual hosts whose firehose is on. What is beyond a turn's bound is counted.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Final

from fedq.core.message import HEAD_SIZE
from fedq.node.records.client_state import Channel
from fedq.wiring.cluster_map.state import TRACE_EXCHANGE

#: What is tapped in a turn, at most.
TAPS_MAX: Final = 1_000
TAPS_BYTES_MAX: Final = 4 << 20
#: As the route of a message begins that the firehose itself has published.
_OWN: Final = b"%c%b" % (len(TRACE_EXCHANGE), TRACE_EXCHANGE.encode())
_OWN_END: Final = HEAD_SIZE + len(_OWN)
#: What stands in the headers of each dead letter of such a message, and of its dead letters.
_OWN_DEATH: Final = b"\x08exchangeS" + len(TRACE_EXCHANGE).to_bytes(4, "big") + _OWN[1:]


class Tap:
    """One publish or delivery: the message, and what the firehose says of it."""

    __slots__ = (
        "address", "channel", "message", "queue", "queues", "redelivered", "user", "vhost",
    )  # fmt: skip

    def __init__(self, channel: Channel, message: bytes) -> None:
        client = channel.client
        self.vhost = client.vhost
        self.user = client.user
        self.address = client.address
        self.channel = channel.number
        self.message = message
        #: The queues that a publish goes to.
        self.queues: list[str] = []
        #: Of a delivery: its queue; None: it is a publish.
        self.queue: str | None = None
        self.redelivered = False


class Taps:
    """What was tapped in this turn."""

    __slots__ = ("lost", "size", "taken", "vhosts")

    def __init__(self) -> None:
        #: The virtual hosts whose firehose is on.
        self.vhosts: dict[str, None] = {}
        self.taken: list[Tap] = []
        self.size = 0
        #: How many had no room since somebody looked.
        self.lost = 0

    def on_publishes(self, channel: Channel, messages: Sequence[bytes], queues: list[str]) -> None:
        """Taps publishes that go to these queues."""
        for message in messages:
            tap = self._take(channel, message)
            if tap is not None:
                tap.queues = queues

    def on_deliveries(
        self, channel: Channel, queue: str, messages: Sequence[bytes],
        pieces: Sequence[Sequence[int]], redelivered: Sequence[int],
    ) -> None:  # fmt: skip
        """Taps deliveries of a queue, of which some are marked."""
        again = dict.fromkeys(redelivered)
        for position, message in zip(chain.from_iterable(pieces), messages, strict=False):
            tap = self._take(channel, message)
            if tap is not None:
                tap.queue, tap.redelivered = queue, position in again

    def _take(self, channel: Channel, message: bytes) -> Tap | None:
        if message[HEAD_SIZE:_OWN_END] == _OWN or _OWN_DEATH in message:
            return None
        if len(self.taken) >= TAPS_MAX or self.size + len(message) > TAPS_BYTES_MAX:
            self.lost += 1
            return None
        self.size += len(message)
        tap = Tap(channel, message)
        self.taken.append(tap)
        return tap

    def take(self) -> list[Tap]:
        """Takes what was tapped."""
        taken, self.taken, self.size = self.taken, [], 0
        return taken
