"""What one channel of a script holds and owes: deliveries, confirms, delivery tags.

Input: what arrived on the channel and what was sent. Output: lines to compare, in *streams*:
things whose order among each other AMQP leaves open are in different streams. Delivery tags do
not appear in lines, since the order of different consumers' deliveries is open; that they count
up from 1 without a gap is checked here.
"""

import re
from typing import Final, NamedTuple

from fedq.amqp import method_types as m
from fedq.amqp.content import DIRECT_REPLY_TO, decode_properties
from tests.differential.client import Arrival
from tests.differential.names import Names
from tests.differential.typed import properties_text

Streams = dict[str, list[str]]
#: Marks a channel, or as channel 0 a connection, that ends in this step.
CLOSING: Final = " closing"
#: The stream of a channel's answers to basic.get, among those of its consumers.
GOT = "get"
#: A name made for a queue that was refused then, so that no script can mean it.
_MADE_NAME: Final = re.compile(r"'amq\.gen-[^']*'")
_ENDS: Final = (m.ChannelClose, m.ChannelCloseOk, m.ConnectionClose, m.ConnectionCloseOk)


class InFlight(NamedTuple):
    """A delivery that waits for its acknowledgement."""

    tag: int
    step: int


class ChannelRecord:
    """One channel from its opening to its end."""

    def __init__(self, place: str, names: Names) -> None:
        self.place = place
        self._names = names
        self.held: list[InFlight] = []
        self.settled_last: int | None = None
        self.confirming = False
        self.published = 0
        self.unconfirmed: dict[int, None] = {}
        #: Consumers and gets whose deliveries need no acknowledgement.
        self.no_ack: dict[str, None] = {}
        self._next_tag = 1
        #: Of this step: (stream, delivery tag), in order of arrival.
        self._fresh: list[tuple[str, int]] = []
        self._returned = 0
        self._confirmed = 0
        self._publishes = 0
        #: Consumers that were cancelled in this step.
        self._cancelled: dict[str, None] = {}

    # --- sending ----------------------------------------------------------------------------------

    def on_published(self, count: int) -> None:
        """So many publishes were sent, by one operation."""
        self._publishes += 1
        if self.confirming:
            for _ in range(count):
                self.published += 1
                self.unconfirmed[self.published] = None

    def settle(self, nth: int, multiple: bool) -> int | None:
        """The delivery tag to acknowledge, or None when fewer are held.

        With `multiple`, everything that came in the same step goes along: which of that has the
        lower tags is open.
        """
        if nth >= len(self.held):
            return None
        chosen = self.held[nth]
        if not multiple:
            self.forget(chosen.tag, False)
            return chosen.tag
        tag = max(each.tag for each in self.held if each.step == chosen.step)
        self.forget(tag, True)
        return tag

    def forget(self, tag: int, multiple: bool) -> None:
        """The delivery was settled; with `multiple` all up to it; 0 means all."""
        self.settled_last = tag
        self.held = [
            each
            for each in self.held
            if each.tag != tag and not (multiple and (each.tag < tag or not tag))
        ]

    # --- receiving --------------------------------------------------------------------------------

    def on_arrival(self, arrival: Arrival, streams: Streams) -> None:
        """Notes what came."""
        method = arrival.method
        if arrival.properties:
            reply_to = str(decode_properties(arrival.properties).get("reply_to", ""))
            if reply_to.startswith(f"{DIRECT_REPLY_TO}."):
                self._names.learn("r", reply_to)
        if isinstance(method, m.BasicDeliver):
            alias = self._names.inward(method.consumer_tag)
            self._on_delivery(arrival, alias, method.delivery_tag, streams)
            if alias in self._cancelled:
                line = f"delivery to {alias} after cancel-ok"
                streams.setdefault(f"{self.place} order", []).append(line)
        elif isinstance(method, m.BasicGetOk):
            self._on_delivery(arrival, GOT, method.delivery_tag, streams)
        elif isinstance(method, m.BasicAck | m.BasicNack):
            self._on_confirm(method, streams)
        else:
            if isinstance(method, m.BasicReturn) and self.confirming:
                if self._confirmed > self._returned and self._publishes < 2:
                    streams.setdefault(f"{self.place} order", []).append("return after its confirm")
                self._returned += 1
            # When the client hears that a consumer was ended is open, compared with other answers.
            stream = f"{self.place} ended" if isinstance(method, m.BasicCancel) else self.place
            streams.setdefault(stream, []).append(self.line(arrival))
        if isinstance(method, m.BasicCancelOk):
            self._cancelled[self._names.inward(method.consumer_tag)] = None
        elif isinstance(method, m.BasicConsumeOk):
            self._cancelled.pop(self._names.inward(method.consumer_tag), None)
        if isinstance(method, _ENDS):
            streams[self.place + CLOSING] = []
        if isinstance(method, m.ChannelClose | m.ConnectionClose):
            text = _MADE_NAME.sub("'amq.gen-…'", self._names.inward(method.reply_text))
            streams.setdefault(f"{self.place} text", []).append(text)

    def _on_delivery(self, arrival: Arrival, stream: str, tag: int, streams: Streams) -> None:
        if tag != self._next_tag:
            text = f"delivery tag {tag} where {self._next_tag} is due"
            streams.setdefault(f"{self.place} order", []).append(text)
        self._next_tag = tag + 1
        self._fresh.append((stream, tag))
        streams.setdefault(f"{self.place} {stream}", []).append(self.line(arrival))

    def _on_confirm(self, method: m.BasicAck | m.BasicNack, streams: Streams) -> None:
        tag = method.delivery_tag
        word = "ack" if isinstance(method, m.BasicAck) else "nack"
        done = [each for each in self.unconfirmed if each <= tag] if method.multiple else [tag]
        lines = streams.setdefault(f"{self.place} confirms", [])
        for each in done:
            if each not in self.unconfirmed:
                lines.append(f"{each:06d} {word} again, or of no publish")
            self.unconfirmed.pop(each, None)
            lines.append(f"{each:06d} {word}")
        self._confirmed += len(done)
        lines.sort()

    def line(self, arrival: Arrival) -> str:
        """A method as text, without delivery tag, reply text and the broker's own names."""
        method = arrival.method
        name = type(method).__name__
        fields = [
            f"{field}={value!r}"
            for field, value in method._asdict().items()
            if field != "delivery_tag" and not (field == "reply_text" and name.endswith("Close"))
        ]
        if arrival.properties:
            fields += [properties_text(arrival.properties), f"body={_body_text(arrival.body)}"]
        return self._names.inward(" ".join([name, *fields]))

    def end_step(self, step: int) -> None:
        """What came in this step is held from now on, in an order without chance."""
        for stream, tag in sorted(self._fresh):
            if stream not in self.no_ack:
                self.held.append(InFlight(tag, step))
        self.no_ack.pop(GOT, None)
        self._fresh.clear()
        self._returned = self._confirmed = self._publishes = 0
        self._cancelled.clear()


def _body_text(body: bytes) -> str:
    word = body.rstrip(b".").decode()
    return f"{word} ({len(body)} bytes)"
