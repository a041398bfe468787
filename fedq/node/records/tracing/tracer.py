"""Notes what happens to messages, for the traces that want to hear of it (docs/adr/0079).

Inputs: what the flows of a node do, by the run. Outputs: lines that wait for each trace
(`fedq.node.records.tracing.trace_lines`), and taps for the firehose
(`fedq.node.records.tracing.taps`). There is a tracer only while there is a trace, or a firehose;
`fedq.node.tracing` writes what has gathered.

Invariants: nothing is held but within bounds, and nothing else of the node changes; what comes from
and goes to the streams of traces is not noted.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from fedq.channels.confirms import Verdict
from fedq.core import trace_records
from fedq.core.ids import FragmentId, NodeId, Origin, QueueKey, Target
from fedq.core.message import route_of
from fedq.core.policy import DEATHS, QUARANTINE_REASON
from fedq.core.ranges import Range, join_ranges, ranges_of, to_ranges
from fedq.fragments.fragment import Fragment
from fedq.fragments.primary.losses import REASONS, Losses
from fedq.node.records.client_state import Channel, Consumer
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.settling import ACKNOWLEDGED, REQUEUED
from fedq.node.records.streams.stream_readers import READ, as_read
from fedq.node.records.tracing.taps import Taps
from fedq.node.records.tracing.trace_fields import (
    NOTHING,
    Beside,
    Fields,
    fields_of_client,
    fields_of_positions,
    line_of,
    names_of,
    sampled_fields,
)
from fedq.node.records.tracing.trace_lines import TraceLines
from fedq.wiring.cluster_map.state import MapState

#: How many ranges say what a fragment holds; and how many that are kept singly are looked at.
STANDING_RANGES_MAX: Final = 1_000
STANDING_SINGLES_MAX: Final = 10_000


class Tracer:
    """What this node notes of messages. See the module's docstring."""

    __slots__ = (
        "_known", "_private", "losses", "ms", "names_queues", "published", "taps", "targets",
        "writings",
    )  # fmt: skip

    def __init__(
        self, known: MapState, private: Mapping[int, PrivateQueue], losses: Losses, ms: int
    ) -> None:
        self._known = known
        self._private = private
        self.losses = losses
        #: The wall clock of the turn, in milliseconds.
        self.ms = ms
        #: Whether somebody wants to know which queues a publish goes to.
        self.names_queues = False
        self.writings: list[TraceLines] = []
        #: The streams that traces are written to.
        self.targets: dict[QueueKey, None] = {}
        self.taps = Taps()
        #: How many publishes each channel is known to have made, and whether in confirm mode.
        self.published: dict[Channel, tuple[int, bool]] = {}

    # --- the publisher's side ----------------------------------------------------------------

    def on_accepted(
        self, channel: Channel, messages: Sequence[bytes], queues: Sequence[Target],
        private: Sequence[int] = (), route: bytes | None = None,
    ) -> None:  # fmt: skip
        """Publishes of a channel were taken, which all go to the same queues.

        `route`: the one that all have, if that is known.
        """
        vhost, count = channel.client.vhost, len(messages)
        first = self._number(channel, count)
        names: list[str] = []
        if self.names_queues:
            names = [key.name for key in map(self._key_of, queues) if key is not None]
            known = self._private
            names += [known[number].key.name for number in private if number in known]
            if vhost in self.taps.vhosts:
                self.taps.on_publishes(channel, messages, names)
        if not self.writings:
            return
        if route is not None or count == 1:
            self._accepted(channel, route or route_of(messages[0]), first, count, names)
            return
        start = 0
        while start < count:
            route = route_of(messages[start])
            end = start + 1
            while end < count and route_of(messages[end]) == route:
                end += 1
            self._accepted(channel, route, first + start, end - start, names)
            start = end

    def _accepted(
        self, channel: Channel, route: bytes, first: int, count: int, names: Sequence[str]
    ) -> None:
        """Publishes of one route were taken."""
        client = channel.client
        publisher = client.connection, channel.number
        exchange, key = names_of(route)
        line = b""
        for writing in self.writings:
            if not writing.wants_publish(client.vhost, exchange, names, publisher):
                continue
            if not line:
                fields = self._fields(trace_records.ACCEPTED, client.vhost)
                fields["connection"], fields["channel"] = publisher
                fields["user"] = client.user
                fields["sequences"] = [(first, first + count - 1)]
                if channel.confirms is not None:
                    fields["confirms"] = True
                fields["exchange"], fields["routing_key"] = exchange, key
                line = line_of(fields)
            writing.add(line, self.ms)

    def _number(self, channel: Channel, count: int) -> int:
        """Numbers publishes of a channel; returns the first number."""
        is_confirming = channel.confirms is not None
        known = self.published.get(channel)
        if known is None or known[1] != is_confirming:
            # What was published before the trace began has set out.
            known = (0 if channel.confirms is None else channel.confirms.last_tag, is_confirming)
        last = known[0] + count
        self.published[channel] = last, is_confirming
        return last - count + 1

    def on_routed(
        self, channel: Channel, fragment: FragmentId, first: int, count: int,
        sequences: Sequence[Range] = (),
    ) -> None:  # fmt: skip
        """Publishes of a channel go to a fragment, with numbers from `first` on.

        `sequences`: which of the channel's; without them its last ones.
        """
        key = self._key_of(fragment)
        if key is None or key in self.targets:
            return
        publisher = channel.client.connection, channel.number
        line = b""
        for writing in self.writings:
            if writing.wants_routed(key, publisher):
                if not line:
                    fields = self._fields(trace_records.ROUTED, key.vhost)
                    fields["queue"], fields["fragment"] = key.name, fragment
                    if count:
                        what = "numbers" if fragment > 0 else "positions"
                        fields[what] = [(first, first + count - 1)]
                    fields["connection"], fields["channel"] = publisher
                    fields["sequences"] = sequences or self._last(channel, count)
                    line = line_of(fields)
                writing.add(line, self.ms)

    def on_spread(
        self, channel: Channel, ways: Sequence[tuple[Target, ...]],
        firsts: Sequence[tuple[Target, FragmentId, int]],
    ) -> None:  # fmt: skip
        """The last publishes of a channel went different ways; for each queue its first number."""
        sequence = self.published.get(channel, (0, False))[0] - len(ways) + 1
        mine: dict[Target, list[int]] = {}
        for way in ways:
            for target in way:
                found = mine.get(target)
                if found is None:
                    found = mine[target] = []
                found.append(sequence)
            sequence += 1
        for target, fragment, first in firsts:
            sequences = mine[target]
            self.on_routed(channel, fragment, first, len(sequences), to_ranges(sequences))

    def _last(self, channel: Channel, count: int) -> list[Range]:
        """The last so many sequences of a channel."""
        last = self.published.get(channel, (0, False))[0]
        return [(last - count + 1, last)]

    def on_relayed(self, channel: Channel, vhost: str, nodes: Sequence[NodeId], count: int) -> None:
        """The channel's last publishes go to queues of other nodes, too."""
        publisher = channel.client.connection, channel.number
        for node in nodes:
            fields = self._fields(trace_records.ROUTED, vhost)
            fields["origin"], fields["reason"] = node, "relay"
            fields["connection"], fields["channel"] = publisher
            fields["sequences"] = self._last(channel, count)
            self._say_to_channels(fields, vhost, publisher)

    def on_fanned(self, vhost: str, messages: Sequence[bytes], queues: int) -> None:
        """Messages (of one route) went to consumers of so many queues that were empty."""
        exchange, key = names_of(route_of(messages[0]))
        fields = self._fields(trace_records.FANNED, vhost)
        fields["exchange"], fields["routing_key"] = exchange, key
        fields["amount"] = queues * len(messages)
        line = b""
        for writing in self.writings:
            if writing.wants_publish(vhost, exchange, (), (0, 0)):
                line = line or line_of(fields)
                writing.add(line, self.ms)

    def on_confirmed(self, channel: Channel, told: int, verdicts: Sequence[Verdict]) -> None:
        """Confirms were said, to a channel that had been told up to a tag."""
        client = channel.client
        publisher = client.connection, channel.number
        for tag, multiple, safe in verdicts:
            kind = trace_records.CONFIRMED if safe else trace_records.NACKED
            fields = self._fields(kind, client.vhost)
            fields["connection"], fields["channel"] = publisher
            fields["sequences"] = [(told + 1 if multiple else tag, tag)]
            told = tag
            self._say_to_channels(fields, client.vhost, publisher)

    def on_returned(self, channel: Channel, message: bytes) -> None:
        """A mandatory publish was given back."""
        vhost, publisher = channel.client.vhost, (channel.client.connection, channel.number)
        exchange, key = names_of(route_of(message))
        fields = self._fields(trace_records.RETURNED, vhost)
        fields["connection"], fields["channel"] = publisher
        fields["exchange"], fields["routing_key"] = exchange, key
        fields["reason"], fields["amount"] = "NO_ROUTE", 1
        self._say_to_channels(fields, vhost, publisher)

    def _say_to_channels(self, fields: Fields, vhost: str, publisher: tuple[int, int]) -> None:
        line = b""
        for writing in self.writings:
            if writing.wants_channel(vhost, publisher):
                line = line or line_of(fields)
                writing.add(line, self.ms)

    # --- the fragment's side -----------------------------------------------------------------

    def on_enqueued(
        self, fragment: Fragment, first: int, count: int, messages: Sequence[bytes],
        origin: Origin | None = None, through: int = 0, resent: bool = False,
    ) -> None:  # fmt: skip
        """The last `count` of these messages were enqueued, at the positions from `first` on.

        `through`: the number of the last one, of that origin.
        """
        if count <= 0:
            return
        extra: Fields = {}
        beside = NOTHING
        if origin is not None:
            extra["origin"], extra["origin_incarnation"] = origin
            beside = {"numbers": through - count + 1}
            if resent:
                extra["reason"] = "resent"
        ranges = [(first, first + count - 1)]
        number = fragment.fragment_id
        self._say(trace_records.ENQUEUED, number, ranges, messages, extra, beside)

    def on_refused(
        self, fragment: Fragment, origin: Origin, first: int, count: int, reason: str = ""
    ) -> None:
        """The fragment is full, and refuses publishes; or has them already (`DUPLICATE`)."""
        extra: Fields = {"origin": origin.node, "origin_incarnation": origin.incarnation}
        extra["numbers"] = [(first, first + count - 1)]
        if reason:
            extra["reason"] = reason
        self._say(trace_records.REFUSED, fragment.fragment_id, None, None, extra)

    def on_settled_by(
        self, node: NodeId, fragment: FragmentId, lanes: Sequence[tuple[str, Sequence[int]]]
    ) -> None:
        """Another node has said what became of deliveries."""
        for reason, positions in lanes:
            if positions:
                extra: Fields = {"origin": node, "reason": reason}
                self._say(trace_records.SETTLED, fragment, ranges_of(positions), None, extra)

    def on_released(self, fragment: FragmentId, node: NodeId, count: int) -> None:
        """What consumers of a node had, which went down, is back."""
        if count:
            extra: Fields = {"origin": node, "amount": count}
            self._say(trace_records.RELEASED, fragment, None, None, extra)

    def on_dead_lettered(
        self, fragment: FragmentId, position: int, reason: int, letter: bytes,
        targets: Sequence[tuple[FragmentId, int]],
    ) -> None:  # fmt: skip
        """A dead message goes on, as a letter, to these fragments with these numbers."""
        exchange, key = names_of(route_of(letter))
        at = [(position, position)]
        extra: Fields = {"reason": DEATHS.get(reason, QUARANTINE_REASON), "exchange": exchange}
        extra["routing_key"] = key
        self._say(trace_records.DEAD_LETTERED, fragment, at, None, extra)
        for target, number in targets:
            queue = self._key_of(target)
            if queue is None or queue in self.targets:
                continue
            fields = self._fields(trace_records.ROUTED, queue.vhost)
            fields["queue"], fields["fragment"] = queue.name, target
            fields["numbers"] = [(number, number)]
            fields["from_fragment"], fields["from_positions"] = fragment, at
            line = line_of(fields)
            for writing in self.writings:
                if writing.wants_routed(queue, None):
                    writing.add(line, self.ms)

    def drain_losses(self) -> None:
        """Says what left queues otherwise than by acknowledgement."""
        for fragment, why, ranges in self.losses.take():
            extra: Fields = {"reason": REASONS.get(why, "")}
            self._say(trace_records.DROPPED, fragment, join_ranges(ranges), None, extra)

    def on_leads(self, fragment: Fragment) -> None:
        """A reign begins here, with what it holds."""
        self._say(trace_records.LEADS, fragment.fragment_id, None, None, {})
        self.on_standing(fragment)

    def on_standing(self, fragment: Fragment) -> None:
        """Says what a fragment holds; of very many that are kept singly, only how many."""
        if self._key_of(fragment.fragment_id) in self.targets:
            return
        tracked = fragment.tracked
        extra: Fields = {"amount": len(fragment.messages)}
        if tracked is not None and len(tracked.messages) > STANDING_SINGLES_MAX:
            extra["reason"] = "cut"
            self._say(trace_records.STANDING, fragment.fragment_id, None, None, extra)
            return
        ranges = fragment.messages.ranges()
        if len(ranges) > STANDING_RANGES_MAX:
            ranges = ranges[:STANDING_RANGES_MAX]
            extra["reason"] = "cut"
        self._say(trace_records.STANDING, fragment.fragment_id, ranges, None, extra)

    def on_passed_on(
        self, key: QueueKey, fragment: FragmentId, origin: Origin, numbers: Range
    ) -> None:
        """Publishes of this node go on to another fragment of the queue: theirs was retired."""
        if key in self.targets:
            return
        fields = self._fields(trace_records.REFUSED, key.vhost)
        fields["queue"], fields["fragment"] = key.name, fragment
        fields["origin"], fields["origin_incarnation"] = origin
        fields["numbers"], fields["reason"] = [numbers], trace_records.PASSED_ON
        line = line_of(fields)
        for writing in self.writings:
            if writing.wants_fragment(key, fragment):
                writing.add(line, self.ms)

    def on_deleted(self, key: QueueKey, fragment: FragmentId) -> None:
        """The queue of a fragment was deleted."""
        if key in self.targets:
            return
        fields = self._fields(trace_records.DELETED, key.vhost)
        fields["queue"], fields["fragment"] = key.name, fragment
        line = line_of(fields)
        for writing in self.writings:
            if writing.wants_fragment(key, fragment):
                writing.add(line, self.ms)

    # --- the consumer's side -----------------------------------------------------------------

    def on_delivered(
        self, consumer: Consumer, fragment: FragmentId, pieces: Sequence[Sequence[int]],
        messages: Sequence[bytes], redelivered: Sequence[int], tag: int,
    ) -> None:  # fmt: skip
        """Messages were delivered to a consumer, from this tag on."""
        channel = consumer.channel
        extra = fields_of_client(channel, consumer.tag)
        if consumer.no_ack:
            extra["no_ack"] = True
        if fragment >= READ:
            fragment = as_read(fragment)
            extra["reason"] = "stream"
        ranges = [each for piece in pieces for each in ranges_of(piece)]
        beside = {"tags": tag}
        self._say(
            trace_records.DELIVERED, fragment, ranges, messages, extra, beside, redelivered
        )  # fmt: skip
        if channel.client.vhost in self.taps.vhosts:
            self.taps.on_deliveries(channel, consumer.queue.name, messages, pieces, redelivered)

    def on_got(
        self, channel: Channel, fragment: FragmentId, positions: Sequence[int], message: bytes,
        is_redelivered: bool, no_ack: bool, tag: int,
    ) -> None:  # fmt: skip
        """A message was got by basic.get."""
        extra = fields_of_client(channel, "")
        extra["reason"] = "get"
        if no_ack:
            extra["no_ack"] = True
        again = positions if is_redelivered else ()
        beside = {"tags": tag}
        self._say(
            trace_records.DELIVERED, fragment, ranges_of(positions), [message], extra, beside, again
        )  # fmt: skip
        key = self._key_of(fragment)
        if key is not None and key.vhost in self.taps.vhosts:
            self.taps.on_deliveries(channel, key.name, [message], [positions], again)

    def on_settled(
        self, channel: Channel, consumer: Consumer | None, fragment: FragmentId,
        positions: Sequence[int], outcome: int, reason: str = "",
    ) -> None:  # fmt: skip
        """A client said what became of deliveries, or (`reason`) it follows from their channel."""
        kind = trace_records.REJECTED
        if outcome in (ACKNOWLEDGED, REQUEUED):
            acked = outcome == ACKNOWLEDGED
            kind = trace_records.ACKED if acked else trace_records.REQUEUED
        extra = fields_of_client(channel, consumer.tag if consumer is not None else "")
        if reason:
            extra["reason"] = reason
        if fragment >= READ:
            fragment = as_read(fragment)
        self._say(kind, fragment, ranges_of(positions), None, extra)

    @property
    def bytes_held(self) -> int:
        """What waits to be written."""
        return sum([writing.size for writing in self.writings]) + self.taps.size

    # --- lines -------------------------------------------------------------------------------

    def say_to(self, writing: TraceLines, kind: str, amount: int = 0) -> bytes:
        """A line about the trace itself."""
        fields = self._fields(kind, "")
        del fields["vhost"]
        if amount:
            fields["amount"] = amount
        return line_of(fields)

    def _fields(self, kind: str, vhost: str) -> Fields:
        return {"kind": kind, "ms": self.ms, "vhost": vhost}

    def _key_of(self, target: Target) -> QueueKey | None:
        """The queue that a publish goes to, or that a fragment is of."""
        if isinstance(target, tuple):
            return target
        info = self._known.fragments.get(target)
        if info is not None:
            return info.queue
        private = self._private.get(target)
        return private.key if private is not None else None

    def _say(
        self, kind: str, fragment: FragmentId, ranges: list[Range] | None,
        messages: Sequence[bytes] | None, extra: Fields, beside: Beside = NOTHING,
        redelivered: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """Says what happened in a fragment, at these positions, to the traces that want it."""
        key = self._key_of(fragment)
        if key is None or key in self.targets:
            return
        info = self._known.fragments.get(fragment)
        line = b""
        for writing in self.writings:
            if not writing.wants_fragment(key, fragment, messages):
                continue
            if writing.sample > 1 and ranges is not None:
                fields = sampled_fields(writing.sample, fragment, ranges, beside, redelivered)
                if fields is None:
                    continue
            elif line:
                writing.add(line, self.ms)
                continue
            else:
                fields = fields_of_positions(ranges, beside)
                if redelivered:
                    fields["redelivered"] = to_ranges(sorted(redelivered))
            whole = self._fields(kind, key.vhost)
            whole["queue"], whole["fragment"] = key.name, fragment
            if info is not None:
                whole["reign"] = info.reign
            whole.update(fields)
            whole.update(extra)
            said = line_of(whole)
            writing.add(said, self.ms)
            if writing.sample == 1 or ranges is None:
                line = said
