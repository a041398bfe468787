"""A fragment as its primary serves it: a disjoint part of a queue, in order.

Inputs: batches of publishes, takes, settlements. Outputs: messages to hand out, and the lanes of
`FragmentOut`. A *taker* is a node: the fragment hands messages to nodes and leaves it to their
hubs (`fedq.proxy.hub`) which consumer gets which; so a consumer's place never matters here.
What the queue's policy asks (`fedq.core.policy`) is enforced by `fedq.fragments.enforcement`.

Invariants (held by `check`):
* every message is either ready or with exactly one taker (P2); what is dead and what is not due
  yet are with takers of their own, `DEAD` and `DELAYED`;
* ready messages are handed out in order of position, within a priority, whatever way they came
  back (P4);
* an event number is used once, and grows; those of a new reign are beyond all earlier ones;
* a publish of an origin is taken once, however often it is sent (`origins`).

A message may be handed out before it is committed (docs/adr/0006): waiting would cost a round
trip per message and protects nobody, since an unconfirmed publish may be lost anyhow.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fedq.amqp.content import expiration_of
from fedq.amqp.rewriting import delay_of, with_headers
from fedq.amqp.values import Long
from fedq.core.ids import FragmentId, NodeId, Origin, first_position
from fedq.core.message import (
    FLAG_DELAYED,
    FLAG_EXPIRES,
    FLAG_PERSISTENT,
    FLAG_SEEN,
    body_size,
)
from fedq.core.policy import DROP_HEAD, PLAIN, REJECTED, RETURNED_TOO_OFTEN, QueuePolicy
from fedq.fragments.outbox import FragmentOut, Owed
from fedq.fragments.ready import ByPriority, Fifo, Line
from fedq.fragments.recorder import Recorder
from fedq.fragments.times import Appointments
from fedq.journal.records import (
    NOTE_DEAD,
    NOTE_DUE,
    NOTE_EXPIRES,
    NOTE_RETURNS,
)

#: Who holds messages that wait for their dead-lettering to be committed.
DEAD: Final = NodeId("\0dead")
#: Who holds messages that are not due yet.
DELAYED: Final = NodeId("\0delayed")

_TIMED: Final = FLAG_EXPIRES | FLAG_DELAYED

Notes = dict[int, dict[int, int]]


class Taken(NamedTuple):
    """Messages handed to one taker, in their order; `redelivered` are those handed out before."""

    positions: list[int]
    messages: list[bytes]
    redelivered: list[int]


class Fragment:
    """The primary's copy of one fragment. See the module's docstring."""

    __slots__ = (
        "_timed", "bytes_held", "delayed", "dropped", "expiring", "fragment_id", "last", "line",
        "messages", "notes", "origins", "out", "policy", "ready_bytes", "recorder",
        "redelivered", "refuses", "reign", "seen_through", "unacked",
    )  # fmt: skip

    def __init__(
        self,
        fragment_id: FragmentId,
        reign: int,
        *,
        durable: bool,
        recording: bool,
        policy: QueuePolicy = PLAIN,
        messages: Mapping[int, bytes] | None = None,
        origins: Mapping[Origin, int] | None = None,
        notes: Mapping[int, Mapping[int, int]] | None = None,
        unix_ms: int = 0,
    ) -> None:
        """A fragment that begins its reign with `messages` (ascending) left by an earlier one.

        `recording`: events are encoded for a journal or for backups; a private queue has neither.
        `policy`: this fragment's part of its queue's. `notes`: what the journal notes of the
        messages (`fedq.journal.records`), by kind and position; `unix_ms`: the time of the wall.
        """
        self.fragment_id = fragment_id
        self.reign = reign
        self.policy = policy
        #: Publishes may have to be refused: they come in by way of `fits`.
        self.refuses = policy.overflow != DROP_HEAD and (
            policy.max_length is not None or policy.max_bytes is not None
        )
        self._timed = policy.message_ttl_ms is not None
        #: All live messages by position, ascending.
        self.messages: dict[int, bytes] = dict(messages or {})
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
        #: Bytes of the bodies of ready messages; counted only for `max_bytes`.
        self.ready_bytes = 0
        #: How many messages the policy dropped that had no dead-letter exchange to go to.
        self.dropped = 0
        self.out = FragmentOut()
        self.recorder = Recorder(fragment_id, reign, self.out, active=recording, durable=durable)
        self.notes: Notes = {what: dict(values) for what, values in (notes or {}).items()}
        self.expiring = Appointments()
        self.delayed = Appointments()
        self.line: Line = ByPriority(policy.max_priority) if policy.max_priority else Fifo()
        self._line_up(unix_ms)

    def _line_up(self, unix_ms: int) -> None:
        """The messages of an earlier reign take their places."""
        for position, when in self.notes.get(NOTE_EXPIRES, {}).items():
            self.expiring.add(when, position)
        due = self.notes.get(NOTE_DUE, {})
        for position, when in list(due.items()):
            if when <= unix_ms:
                del due[position]
                continue
            self.delayed.add(when, position)
            self.unacked[position] = DELAYED
        for position in self.notes.get(NOTE_DEAD, {}):
            self.unacked[position] = DEAD
            self.out.dead.append(position)
        ready = [position for position in self.messages if position not in self.unacked]
        waiting = [self.messages[position] for position in ready]
        self.line.extend(ready, waiting)
        if self.policy.max_bytes is not None:
            self.ready_bytes = sum(map(body_size, waiting))

    @property
    def ready_count(self) -> int:
        """Messages that wait for a taker."""
        return len(self.messages) - len(self.unacked)

    # --- publishes ---------------------------------------------------------------------------

    def publish(
        self, origin: Origin, first: int, messages: Sequence[bytes], resent: bool = False,
        unix_ms: int = 0,
    ) -> None:  # fmt: skip
        """Enqueues publishes `first`, `first + 1`, … of an origin; those known are left out.

        A fragment that `refuses` cannot tell which of the known ones it had refused before a
        failover: they are refused (again), so that nothing is confirmed that is nowhere.
        """
        through = first + len(messages) - 1
        known = self.origins.get(origin, 0)
        doubtful: tuple[int, ...] = ()
        if known >= first:
            if self.refuses:
                doubtful = tuple(range(first, min(known, through) + 1))
            messages = messages[known + 1 - first :]
            first = known + 1
        if messages:
            self.origins[origin] = through
            self._enqueue(origin, first, messages, resent, unix_ms)
        self.out.owed.append(Owed(self.last, origin, through, doubtful))

    def take_number(self, origin: Origin, number: int) -> None:
        """A transaction without publishes: should it be sent again, it will be known."""
        self.origins[origin] = number
        self.last += 1
        self.recorder.origin(self.last, origin, number)
        self.out.owed.append(Owed(self.last, origin, number, ()))

    def refuse(self, origin: Origin, first: int, count: int) -> None:
        """Publishes that the policy turns away; their publisher hears so."""
        through = first + count - 1
        self.origins[origin] = max(through, self.origins.get(origin, 0))
        refused = tuple(range(first, through + 1))
        self.out.owed.append(Owed(self.last, origin, through, refused))

    def _enqueue(
        self, origin: Origin, number: int, messages: Sequence[bytes], resent: bool, unix_ms: int
    ) -> None:
        first = self.last + 1
        flags = self._add(messages, unix_ms)
        if resent:
            self.redelivered.update(range(first, self.last + 1))
        notes = self._times_since(first) if self._timed or flags & _TIMED else {}
        persistent = flags & FLAG_PERSISTENT != 0
        self.recorder.enqueue(self.last, origin, number, messages, resent, persistent, notes)

    def publish_private(self, messages: Sequence[bytes], unix_ms: int = 0) -> None:
        """Enqueues into a private queue: no origin, no record, no confirm to wait for."""
        self._add(messages, unix_ms)

    def _add(self, messages: Sequence[bytes], unix_ms: int) -> int:
        """New messages join the line; returns all their flags together."""
        first = self.last + 1
        self.last += len(messages)
        positions = range(first, self.last + 1)
        self.messages.update(zip(positions, messages, strict=True))
        self.line.extend(positions, messages)
        self.bytes_held += sum(map(len, messages))
        if self.policy.max_bytes is not None:
            self.ready_bytes += sum(map(body_size, messages))
        flags = 0
        for message in messages:
            flags |= message[0]
        if flags & FLAG_SEEN:
            seen = (p for p, m in enumerate(messages, first) if m[0] & FLAG_SEEN)
            self.redelivered.update(seen)
        if self._timed or flags & _TIMED:
            self._make_appointments(first, messages, unix_ms)
        return flags

    def _make_appointments(self, first: int, messages: Sequence[bytes], unix_ms: int) -> None:
        expires = self.notes.setdefault(NOTE_EXPIRES, {})
        due = self.notes.setdefault(NOTE_DUE, {})
        for position, message in enumerate(messages, first):
            visible = unix_ms
            if message[0] & FLAG_DELAYED and (delay := delay_of(message)):
                visible += delay
                due[position] = visible
                self.delayed.add(visible, position)
                self._hold_back(position, DELAYED)
            time_to_live = self.policy.message_ttl_ms
            if message[0] & FLAG_EXPIRES:
                own = expiration_of(message)
                time_to_live = own if time_to_live is None else min(own, time_to_live)
            if time_to_live is not None:
                expires[position] = visible + time_to_live
                self.expiring.add(visible + time_to_live, position)

    def _hold_back(self, position: int, holder: NodeId) -> None:
        """A ready message is with one of the fragment's own takers."""
        self.unacked[position] = holder
        if self.policy.max_bytes is not None:
            self.ready_bytes -= body_size(self.messages[position])

    def _times_since(self, first: int) -> Notes:
        """When the messages from this position on expire and are due."""
        positions = range(first, self.last + 1)
        return {
            what: {p: table[p] for p in positions if p in table}
            for what in (NOTE_EXPIRES, NOTE_DUE)
            if (table := self.notes.get(what))
        }

    # --- takers ------------------------------------------------------------------------------

    def take(self, taker: NodeId, amount: int, settled: bool = False) -> Taken:
        """Hands up to `amount` ready messages to a taker, the next ones in line.

        `settled`: its consumers acknowledge by receiving (no-ack), so they are gone at once.
        """
        live = self.messages
        positions = self.line.take(amount, live, self.unacked)
        bodies = [live[position] for position in positions]
        seen: list[int] = []
        redelivered, seen_through = self.redelivered, self.seen_through
        if redelivered or seen_through:
            seen = [p for p in positions if p <= seen_through or p in redelivered]
        if self.policy.max_bytes is not None:
            self.ready_bytes -= sum(map(body_size, bodies))
        if self.policy.counts_returns:
            bodies = self._tell_returns(positions, bodies)
        if settled:
            self._remove(positions)
        else:
            self.unacked.update(dict.fromkeys(positions, taker))
        return Taken(positions, bodies, seen)

    def _tell_returns(self, positions: list[int], bodies: list[bytes]) -> list[bytes]:
        """Consumers see how often a message came back, in RabbitMQ's `x-delivery-count`."""
        returns = self.notes.get(NOTE_RETURNS)
        if not returns:
            return bodies
        return [
            with_headers(body, {"x-delivery-count": Long(returns[p])}) if p in returns else body
            for p, body in zip(positions, bodies, strict=True)
        ]

    def settle(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Deliveries that the taker's consumers acknowledged: gone.

        After a failover the acknowledgement may concern a message that is ready here, because the
        taker had not attached yet: it counts. One that is with another taker by now does not.
        """
        self._remove(sorted(self._release(taker, positions)))

    def reject(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Deliveries that the taker's consumers rejected for good: dead."""
        self.bury(sorted(self._release(taker, positions)), REJECTED)

    def _release(self, taker: NodeId, positions: Iterable[int]) -> dict[int, None]:
        """Which of these the taker may decide about; they are with nobody after that."""
        unacked, messages = self.unacked, self.messages
        # A message that was delivered twice may be acknowledged twice in one batch.
        released: dict[int, None] = {}
        for position in positions:
            holder = unacked.get(position)
            if holder == taker:
                del unacked[position]
                released[position] = None
            elif holder is None and position in messages and position not in released:
                released[position] = None
                if self.policy.max_bytes is not None:
                    self.ready_bytes -= body_size(messages[position])
        return released

    def requeue(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Deliveries that come back to their old places, marked redelivered."""
        back = self._held_by(taker, positions)
        self.put_back(back)
        self.redelivered.update(back)
        if self.policy.counts_returns and back:
            self._count_returns(back)

    def take_back(self, taker: NodeId, positions: Iterable[int]) -> None:
        """Deliveries that come back to their old places without having reached a consumer.

        They count as no return; but they are marked, as they may be behind younger ones now (P4).
        """
        back = self._held_by(taker, positions)
        self.put_back(back)
        self.redelivered.update(back)

    def _held_by(self, taker: NodeId, positions: Iterable[int]) -> list[int]:
        """Those of these positions that the taker has, each once."""
        unacked = self.unacked
        return list(dict.fromkeys(p for p in positions if unacked.get(p) == taker))

    def put_back(self, positions: Iterable[int]) -> None:
        """Messages that are with a taker are ready again, at their old places."""
        expires = self.notes.get(NOTE_EXPIRES)
        for position in positions:
            del self.unacked[position]
            message = self.messages[position]
            self.line.put_back(position, message)
            if expires and position in expires:
                self.expiring.add(expires[position], position)
            if self.policy.max_bytes is not None:
                self.ready_bytes += body_size(message)

    def _count_returns(self, positions: list[int]) -> None:
        returns = self.notes.setdefault(NOTE_RETURNS, {})
        for position in positions:
            returns[position] = returns.get(position, 0) + 1
        limit = self.policy.delivery_limit
        # A count that only consumers see is not worth a disk full of it.
        self._record_note(NOTE_RETURNS, {p: returns[p] for p in positions}, limit is not None)
        if limit is not None:
            often = [position for position in positions if returns[position] > limit]
            self.bury_ready(often, RETURNED_TOO_OFTEN)

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
        for position in sorted(held & self.messages.keys()):
            holder = self.unacked.get(position)
            if holder is None:
                self._hold_back(position, taker)
            elif holder == DELAYED:
                # It was due by the clock of the earlier primary, which was ahead of this one's.
                self.unacked[position] = taker
                del self.notes[NOTE_DUE][position]
            else:
                continue
            self.redelivered.add(position)

    def purge(self) -> int:
        """Removes what is ready, not what is with consumers. Returns how many messages."""
        gone = [position for position in self.messages if position not in self.unacked]
        self.line.clear()
        self.ready_bytes = 0
        self._remove(gone)
        return len(gone)

    # --- death -------------------------------------------------------------------------------

    def bury(self, positions: list[int], reason: int) -> None:
        """Messages that are in nobody's hands (ascending) die; see `bury_ready`.

        With a dead-letter exchange they stay, as `DEAD`'s, until they are safe where it leads
        (`settle` by `DEAD`): a failover in between repeats the dead-lettering, and loses nothing.
        """
        if not positions:
            return
        if self.policy.dead_letter_exchange is None:
            for position in positions:
                self.unacked.pop(position, None)
            if reason != REJECTED:
                self.dropped += len(positions)
            self._remove(positions)
            return
        dead = self.notes.setdefault(NOTE_DEAD, {})
        for position in positions:
            self.unacked[position] = DEAD
            dead[position] = reason
        self.out.dead.extend(positions)
        self._record_note(NOTE_DEAD, dict.fromkeys(positions, reason))

    def bury_ready(self, positions: list[int], reason: int) -> None:
        """Messages that are ready, or not due yet, die (ascending).

        What the line and the appointments still say of them is forgotten later.
        """
        for position in positions:
            if position not in self.unacked:
                self._hold_back(position, DEAD)
        self.bury(positions, reason)

    # --- records -----------------------------------------------------------------------------

    def _record_note(self, what: int, values: Mapping[int, int], keep: bool = True) -> None:
        self.last += 1
        persistent = any(self.messages[p][0] & FLAG_PERSISTENT for p in values)
        self.recorder.note(self.last, what, values, keep and persistent)

    def oldest_persistent(self) -> int | None:
        """The lowest live position that the journal must keep."""
        return oldest_persistent(self.messages) if self.recorder.durable else None

    def _remove(self, positions: list[int]) -> None:
        """Forgets live messages (ascending, with no taker) and records that they are gone."""
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
        for table in self.notes.values():
            for position in positions:
                table.pop(position, None)
        self.last += 1
        self.recorder.settle(self.last, positions, persistent)

    def check(self) -> None:
        """Asserts the invariants; costs a walk over everything."""
        waiting = {p for p in self.line.positions() if p in self.messages and p not in self.unacked}
        assert all(position in self.messages for position in self.unacked)
        assert waiting == set(self.messages) - set(self.unacked)
        assert self.bytes_held == sum(map(len, self.messages.values()))
        assert list(self.messages) == sorted(self.messages)
        assert max(self.messages, default=0) <= self.last
        for what, table in self.notes.items():
            assert all(position in self.messages for position in table), f"stray notes {what}"
        assert self.notes.get(NOTE_DEAD, {}).keys() == {
            p for p, holder in self.unacked.items() if holder == DEAD
        }
        if self.policy.max_bytes is not None:
            assert self.ready_bytes == sum(body_size(self.messages[p]) for p in waiting)


def oldest_persistent(messages: Mapping[int, bytes]) -> int | None:
    """The first persistent position of messages that are in ascending order."""
    for position, message in messages.items():
        if message[0] & FLAG_PERSISTENT:
            return position
    return None
