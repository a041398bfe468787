"""A fragment as its primary serves it: a disjoint part of a queue, in order.

Inputs: batches of publishes, takes, settlements. Outputs: messages to hand out, and the lanes of
`FragmentOut`. A *taker* is a node: the fragment hands messages to nodes and leaves it to their
hubs (`fedq.proxy.hub`) which consumer gets which; so a consumer's place never matters here.

Invariants (held by `check`):
* every message is either ready or with exactly one taker (P2);
* ready messages are handed out in order of position, whatever way they came back (P4);
* an event number is used once, and grows; those of a new reign are beyond all earlier ones;
* a publish of an origin is taken once, however often it is sent (`origins`).

A message may be handed out before it is committed (docs/adr/0006): waiting would cost a round
trip per message and protects nobody, since an unconfirmed publish may be lost anyhow.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fedq.core.ids import FragmentId, NodeId, Origin, first_position
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import to_ranges
from fedq.fragments.outbox import FragmentOut, RecordOut
from fedq.journal.records import encode_enqueue, encode_settle


class Taken(NamedTuple):
    """Messages handed to one taker, ascending; `redelivered` are those handed out before."""

    positions: list[int]
    messages: list[bytes]
    redelivered: list[int]


class Fragment:
    """The primary's copy of one fragment. See the module's docstring."""

    __slots__ = (
        "bytes_held", "durable", "fragment_id", "last", "messages", "origins", "out", "ready",
        "recording", "redelivered", "reign", "returned", "seen_through", "unacked",
    )  # fmt: skip

    def __init__(
        self,
        fragment_id: FragmentId,
        reign: int,
        *,
        durable: bool,
        recording: bool,
        messages: Mapping[int, bytes] | None = None,
        origins: Mapping[Origin, int] | None = None,
    ) -> None:
        """A fragment that begins its reign with `messages` (ascending) left by an earlier one.

        `recording`: events are encoded for a journal or for backups; a private queue has neither.
        """
        self.fragment_id = fragment_id
        self.reign = reign
        self.durable = durable
        self.recording = recording
        #: All live messages by position, ascending.
        self.messages: dict[int, bytes] = dict(messages or {})
        #: Positions never handed out in this reign, ascending; may name messages already gone.
        self.ready: deque[int] = deque(self.messages)
        #: Heap of positions that came back; always looked at before `ready`.
        self.returned: list[int] = []
        self.unacked: dict[int, NodeId] = {}
        #: Positions handed out before and returned; only asked for membership.
        self.redelivered: set[int] = set()
        #: Positions up to this one may have been delivered in an earlier reign.
        self.seen_through: int = max(self.messages, default=0)
        #: Highest publish number taken from each origin.
        self.origins: dict[Origin, int] = dict(origins or {})
        self.last: int = first_position(reign)
        assert self.seen_through <= self.last
        self.bytes_held: int = sum(map(len, self.messages.values()))
        self.out = FragmentOut()

    @property
    def ready_count(self) -> int:
        """Messages that wait for a taker."""
        return len(self.messages) - len(self.unacked)

    def publish(
        self, origin: Origin, first: int, messages: Sequence[bytes], resent: bool = False
    ) -> None:
        """Enqueues publishes `first`, `first + 1`, … of an origin; those known are left out."""
        through = first + len(messages) - 1
        known = self.origins.get(origin, 0)
        if known >= first:
            messages = messages[known + 1 - first :]
            first = known + 1
        if messages:
            self.origins[origin] = through
            self._enqueue(origin, first, messages, resent)
        self.out.owed.append((self.last, origin, through))

    def _enqueue(
        self, origin: Origin, number: int, messages: Sequence[bytes], resent: bool
    ) -> None:
        first = self.last + 1
        self.last = last = self.last + len(messages)
        positions = range(first, last + 1)
        self.messages.update(zip(positions, messages, strict=True))
        self.ready.extend(positions)
        if resent:
            self.redelivered.update(positions)
        self.bytes_held += sum(map(len, messages))
        if not self.recording:
            return
        persistent = self.durable and any(m[0] & FLAG_PERSISTENT for m in messages)
        data = encode_enqueue(self.fragment_id, self.reign, first, origin, number, messages, resent)
        self.out.records.append(RecordOut(last, last, data, persistent, persistent))

    def publish_private(self, messages: Sequence[bytes]) -> None:
        """Enqueues into a private queue: no origin, no record, no confirm to wait for."""
        first = self.last + 1
        self.last += len(messages)
        positions = range(first, self.last + 1)
        self.messages.update(zip(positions, messages, strict=True))
        self.ready.extend(positions)
        self.bytes_held += sum(map(len, messages))

    def take(self, taker: NodeId, amount: int, settled: bool = False) -> Taken:
        """Hands up to `amount` ready messages to a taker, oldest first.

        `settled`: its consumers acknowledge by receiving (no-ack), so they are gone at once.
        """
        messages, redelivered = self.messages, self.redelivered
        positions: list[int] = []
        bodies: list[bytes] = []
        seen: list[int] = []
        ready, returned, seen_through = self.ready, self.returned, self.seen_through
        newest = 0
        while len(positions) < amount:
            if returned and (not ready or returned[0] < ready[0]):
                position = heapq.heappop(returned)
            elif ready:
                position = ready.popleft()
            else:
                break
            message = messages.get(position)
            # What was attached while it was ready, and came back since, is listed twice.
            if message is None or position in self.unacked or position == newest:
                continue
            newest = position
            positions.append(position)
            bodies.append(message)
            if position <= seen_through or position in redelivered:
                seen.append(position)
        if settled:
            self._remove(positions)
        else:
            self.unacked.update(dict.fromkeys(positions, taker))
        return Taken(positions, bodies, seen)

    def settle(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Deliveries that the taker's consumers acknowledged, or rejected for good: gone.

        After a failover the acknowledgement may concern a message that is ready here, because the
        taker had not attached yet: it counts. One that is with another taker by now does not.
        """
        unacked, messages = self.unacked, self.messages
        # A message that was delivered twice may be acknowledged twice in one batch.
        gone: dict[int, None] = {}
        for position in positions:
            holder = unacked.get(position)
            if holder == taker:
                del unacked[position]
                gone[position] = None
            elif holder is None and position in messages:
                gone[position] = None
        self._remove(sorted(gone))

    def requeue(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Deliveries that come back to their old places, marked redelivered."""
        for position in positions:
            if self.unacked.get(position) == taker:
                del self.unacked[position]
                self.redelivered.add(position)
                heapq.heappush(self.returned, position)

    def release(self, taker: NodeId) -> int:
        """Everything the taker holds comes back: it is gone. Returns how many messages."""
        held = [position for position, holder in self.unacked.items() if holder == taker]
        self.requeue(taker, held)
        return len(held)

    def attach(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Deliveries of an earlier reign, or session, that are still with the taker's consumers.

        Whatever else this copy believed to be with the taker was lost on its way: it comes back.
        """
        held = set(positions)
        lost = [p for p, holder in self.unacked.items() if holder == taker and p not in held]
        self.requeue(taker, lost)
        for position in sorted(held):
            if position in self.messages and position not in self.unacked:
                self.unacked[position] = taker
                self.redelivered.add(position)

    def purge(self) -> int:
        """Removes what is ready, not what is with consumers. Returns how many messages."""
        gone = [position for position in self.messages if position not in self.unacked]
        self.ready.clear()
        self.returned.clear()
        self._remove(gone)
        return len(gone)

    def oldest_persistent(self) -> int | None:
        """The lowest live position that the journal must keep."""
        if not self.durable:
            return None
        return oldest_persistent(self.messages)

    def _remove(self, positions: list[int]) -> None:
        """Forgets live messages (ascending) and records that they are gone."""
        if not positions:
            return
        pop, discard = self.messages.pop, self.redelivered.discard
        persistent = False
        for position in positions:
            message = pop(position)
            self.bytes_held -= len(message)
            persistent = persistent or message[0] & FLAG_PERSISTENT != 0
        if self.redelivered:
            for position in positions:
                discard(position)
        self.last += 1
        if self.recording:
            data = encode_settle(self.fragment_id, self.reign, self.last, to_ranges(positions))
            journal = persistent and self.durable
            self.out.records.append(RecordOut(self.last, 0, data, journal, False))

    def check(self) -> None:
        """Asserts the invariants; costs a walk over everything."""
        waiting = {p for p in self.ready if p in self.messages and p not in self.unacked}
        waiting |= {p for p in self.returned if p in self.messages and p not in self.unacked}
        assert all(position in self.messages for position in self.unacked)
        assert waiting == set(self.messages) - set(self.unacked)
        assert self.bytes_held == sum(map(len, self.messages.values()))
        assert list(self.messages) == sorted(self.messages)
        assert max(self.messages, default=0) <= self.last


def oldest_persistent(messages: Mapping[int, bytes]) -> int | None:
    """The first persistent position of messages that are in ascending order."""
    for position, message in messages.items():
        if message[0] & FLAG_PERSISTENT:
            return position
    return None
