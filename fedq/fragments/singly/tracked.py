"""Messages of which more is to be said than where they are: those with a history, kept singly.

They came back from a taker, were left by an earlier reign, have a time or a priority, are dead, or
are counted by their bytes. All others are in runs (`fedq.fragments.runs.runs`). A message that has
come here stays here until it is gone. A fragment has no `TrackedMessages` before it has such a
message.

Invariants: `unacked`, `redelivered` and most notes speak of what is here; a message without
a holder stands in the line, and in order of position within a priority (P4).
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Final

from fedq.amqp.content import expiration_of
from fedq.amqp.rewriting import delay_of, with_headers
from fedq.amqp.values import Long
from fedq.core.ids import NodeId
from fedq.core.message import FLAG_DELAYED, FLAG_EXPIRES, FLAG_PERSISTENT, FLAG_SEEN, body_size
from fedq.core.policy import QueuePolicy
from fedq.core.ranges import Range, to_ranges
from fedq.fragments.runs.beginnings import KnownNotes
from fedq.fragments.runs.ranked import RankedFresh
from fedq.fragments.singly.absent import Absent
from fedq.fragments.singly.holders import DEAD, DELAYED, RESERVED
from fedq.fragments.singly.ready import ByPriority, Fifo, ReadyOrder
from fedq.fragments.singly.times import Deadlines, Expiring
from fedq.journal.notes import Notes, copy_of, table_of
from fedq.journal.records import (
    NOTE_DEAD,
    NOTE_DUE,
    NOTE_EXPIRES,
    NOTE_RESERVED,
    NOTE_RETURNS,
)
from fedq.journal.steps import Steps, forget_within

#: A time to live is told to this part of it, as a shift: what goes by steps has some in common.
_GRAIN_SHIFT: Final = 16


class TrackedMessages:
    """The messages of a fragment that have a history, kept singly."""

    __slots__ = (
        "_ascending", "_highest", "absent", "delayed", "died_before", "expiring", "line", "longest",
        "messages", "notes", "policy", "ranked", "ready_bytes", "redelivered", "unacked",
    )  # fmt: skip

    def __init__(self, policy: QueuePolicy, on_disk: RankedFresh | None = None) -> None:
        """`on_disk`: what stands among these by priority, and is not in memory."""
        self.policy = policy
        self.messages: dict[int, bytes] = {}
        #: Those that are on disk alone yet, and told as `ON_DISK`; whether they are persistent.
        self.absent = Absent()
        #: No message here has had more bytes.
        self.longest = 1
        self.unacked: dict[int, NodeId] = {}
        #: Positions handed out before and returned; only asked for membership.
        self.redelivered: set[int] = set()
        #: When those expire that do, in runs or here.
        self.expiring = Expiring()
        #: Of messages that are here; when those in runs expire, and how often they came back.
        self.notes: Notes = {NOTE_EXPIRES: self.expiring.times}
        #: Dead when the reign began: an earlier primary may have sent them on.
        self.died_before: frozenset[int] = frozenset()
        self.delayed = Deadlines()
        #: The same line, where messages have priorities.
        self.ranked = ByPriority(policy.max_priority, on_disk) if policy.max_priority else None
        self.line: ReadyOrder = self.ranked if self.ranked is not None else Fifo()
        #: Bytes of the bodies of ready messages; counted only for `max_bytes`.
        self.ready_bytes = 0
        #: Whether `messages` is known to be in ascending order, and its highest position.
        self._ascending = True
        self._highest = 0

    @property
    def ready_count(self) -> int:
        """How many messages wait for a taker."""
        return len(self.messages) - len(self.unacked)

    def in_order(self) -> dict[int, bytes]:
        """The messages by ascending position."""
        if not self._ascending:
            self.messages = dict(sorted(self.messages.items()))
            self._ascending = True
        return self.messages

    def oldest_persistent(self) -> int | None:
        """The first position of a persistent message."""
        return oldest_persistent(self.in_order(), self.absent)

    def is_persistent(self, position: int) -> bool:
        """Whether a message that is here is persistent, wherever its body is."""
        message = self.messages[position]
        return message[0] & FLAG_PERSISTENT != 0 if message else self.absent[position]

    def count_bytes(self) -> int:
        """Counts the bytes of ready messages anew, which count from now on; how many were seen."""
        unacked, size = self.unacked, 0
        for position, message in self.messages.items():
            if position not in unacked:
                size += body_size(message)
        self.ready_bytes = size
        return len(self.messages)

    # --- they come ---------------------------------------------------------------------------

    def take_over(
        self, messages: Mapping[int, bytes], notes: Mapping[int, Mapping[int, int]], unix_ms: int,
        transient: Container[int] = (),
    ) -> list[int]:  # fmt: skip
        """Takes over the messages (ascending) of an earlier reign; returns the dead ones.

        `transient`: of those that are on disk alone.
        """
        self.messages = dict(messages)
        self._highest = max(self.messages, default=0)
        for position, message in messages.items():
            if not message:
                self.absent.add(position, position not in transient)
        self.longest = max(map(len, self.messages.values()), default=1)
        self.expiring.begin_with(notes.get(NOTE_EXPIRES, {}))
        self.notes = copy_of(notes)
        self.notes[NOTE_EXPIRES] = self.expiring.times
        due = self.notes.get(NOTE_DUE, {})
        for position, when in list(due.items()):
            if when <= unix_ms:
                del due[position]
                continue
            self.delayed.add(when, position)
            self.unacked[position] = DELAYED
        dead = list(self.notes.get(NOTE_DEAD, {}))
        self.died_before = frozenset(dead)
        self.unacked.update(dict.fromkeys(dead, DEAD))
        if reserved := self.notes.get(NOTE_RESERVED):
            for position in dead:
                reserved.pop(position, None)
            self.unacked.update(dict.fromkeys(reserved, RESERVED))
        ready = [position for position in self.messages if position not in self.unacked]
        waiting = [self.messages[position] for position in ready]
        self.line.extend(ready, waiting)
        if self.policy.max_bytes is not None:
            self.ready_bytes = sum(map(body_size, waiting))
        return dead

    def add(self, first: int, messages: Sequence[bytes]) -> None:
        """Adds new messages, from this position on, behind all others."""
        positions = range(first, first + len(messages))
        self._grow(first, positions[-1])
        self.longest = max(self.longest, max(map(len, messages)))
        self.messages.update(zip(positions, messages, strict=True))
        self.line.extend(positions, messages)
        if self.policy.max_bytes is not None:
            self.ready_bytes += sum(map(body_size, messages))

    def adopt(
        self, position: int, message: bytes, holder: NodeId | None, persistent: bool = True
    ) -> None:
        """Adopts a message that was in a run; ready if it has no holder.

        `persistent`: says it of one that is on disk alone.
        """
        self._grow(position, position)
        self.messages[position] = message
        if not message:
            self.absent.add(position, persistent)
        if len(message) > self.longest:
            self.longest = len(message)
        if holder is not None:
            self.unacked[position] = holder
            return
        self.line.put_back(position, message)
        if self.policy.max_bytes is not None:
            self.ready_bytes += body_size(message)

    def fill(self, position: int, message: bytes) -> bool:
        """Takes a message that was read from the disk, if it is waited for."""
        if position not in self.absent:
            return False
        self.absent.discard(position)
        self.messages[position] = message
        self.longest = max(self.longest, len(message))
        if message[0] & FLAG_SEEN:
            self.redelivered.add(position)
        if position not in self.unacked:
            if self.policy.max_priority:
                self.line.put_back(position, message)
            if self.policy.max_bytes is not None:
                self.ready_bytes += body_size(message)
        return True

    def _grow(self, first: int, last: int) -> None:
        if first < self._highest:
            self._ascending = False
        self._highest = max(self._highest, last)

    def make_appointments(self, first: int, messages: Sequence[bytes], unix_ms: int) -> KnownNotes:
        """When these messages, from this position on, are due and expire, as notes."""
        expires: dict[int, int] = {}
        due: dict[int, int] = {}
        for position, message in enumerate(messages, first):
            visible = unix_ms
            if message[0] & FLAG_DELAYED and (delay := delay_of(message)):
                visible += delay
                due[position] = visible
                self.delayed.add(visible, position)
                self.hold_back(position, DELAYED)
            time_to_live = self.policy.message_ttl_ms
            when = None if time_to_live is None else self._expires_ms(visible, time_to_live)
            if message[0] & FLAG_EXPIRES:
                own = visible + expiration_of(message)
                when = own if when is None else min(own, when)
            if when is not None:
                expires[position] = when
        for low, high, when in Steps(expires).steps():
            self.expiring.add(low, high, when)
        if due:
            table_of(self.notes, NOTE_DUE).update(due)
        return {NOTE_EXPIRES: expires, NOTE_DUE: due}

    def make_deadlines(
        self, first: int, messages: Sequence[bytes], flags: int, unix_ms: int
    ) -> KnownNotes:
        """When these messages in a run, from this position on, expire, as notes.

        `flags`: theirs together.
        """
        time_to_live = self.policy.message_ttl_ms
        if flags & FLAG_EXPIRES:
            return self.make_appointments(first, messages, unix_ms)
        if time_to_live is None:
            return {}
        when = self._expires_ms(unix_ms, time_to_live)
        last = first + len(messages) - 1
        self.expiring.add(first, last, when)
        return {NOTE_EXPIRES: dict.fromkeys(range(first, last + 1), when)}

    def _expires_ms(self, visible_ms: int, time_to_live: int) -> int:
        """When a message expires by the queue's time to live: never too late."""
        when = visible_ms + time_to_live
        return when - when % ((time_to_live >> _GRAIN_SHIFT) or 1)

    # --- they change hands -------------------------------------------------------------------

    def hold_back(self, position: int, holder: NodeId) -> None:
        """Gives a ready message a holder, though it was not handed out."""
        self.unacked[position] = holder
        if self.policy.max_bytes is not None:
            self.ready_bytes -= body_size(self.messages[position])

    def next(self) -> int | None:
        """The position of the message that is handed out next; None without one."""
        return self.line.next(self.messages, self.unacked)

    def ready_before(self, position: int) -> int:
        """How many ready ones stand before a position, of a line that is one of positions.

        Of many some are counted: one at least, if there is any.
        """
        first = self.next()
        if first is None or first >= position:
            return 0
        return self.line.count_before(position, self.messages, self.unacked)

    def take(self, amount: int, before: int | None) -> tuple[list[int], list[bytes]]:
        """Takes the next ones in line, those `before` a position; a holder or an end follows."""
        live = self.messages
        positions = self.line.take(amount, live, self.unacked, before)
        bodies = [live[position] for position in positions]
        if self.policy.max_bytes is not None:
            self.ready_bytes -= sum(map(body_size, bodies))
        return positions, bodies

    def take_whatever(self, amount: int, before: int) -> list[int]:
        """Takes ready ones `before` a position that nobody is to be handed; an end follows."""
        if self.ranked is None:
            return self.take(amount, before)[0]
        positions = self.ranked.take_whatever(amount, self.messages, self.unacked, before)
        if self.policy.max_bytes is not None:
            self.ready_bytes -= sum([body_size(self.messages[position]) for position in positions])
        return positions

    def take_size(
        self, amount: int, size: int, taker: NodeId, before: int | None
    ) -> tuple[list[int], int]:
        """Hands the next ones to a taker: so many, or fewer if their bodies have that size.

        Those `before` a position. Returns where they are, and what is left of the size.
        """
        positions, bodies = self.take(amount, before)
        for index, body in enumerate(bodies, 1):
            size -= body_size(body)
            if size <= 0:
                for position in positions[index:]:
                    self.line.put_back(position, self.messages[position])
                    self.ready_bytes += body_size(self.messages[position])
                positions = positions[:index]
                break
        self.unacked.update(dict.fromkeys(positions, taker))
        return positions, size

    def told(self, positions: list[int], bodies: list[bytes]) -> list[bytes]:
        """Messages as consumers see them: `x-delivery-count` says how often one came back."""
        returns = self.notes.get(NOTE_RETURNS)
        if not returns or not self.policy.counts_returns:
            return bodies
        return [
            with_headers(body, {"x-delivery-count": Long(returns[p])}) if p in returns else body
            for p, body in zip(positions, bodies, strict=True)
        ]

    def held_by(self, taker: NodeId, positions: Iterable[int]) -> list[int]:
        """The positions, each once, that the taker has of those given."""
        unacked = self.unacked
        return list(dict.fromkeys(p for p in positions if unacked.get(p) == taker))

    def put_back(self, positions: Iterable[int]) -> None:
        """Makes messages that are with a taker ready again, at their old places."""
        times = self.expiring.times
        for position in positions:
            del self.unacked[position]
            message = self.messages[position]
            self.line.put_back(position, message)
            if times:
                self.expiring.again(position, position)
            if self.policy.max_bytes is not None:
                self.ready_bytes += body_size(message)

    def count_returns(self, positions: Iterable[int]) -> dict[int, int]:
        """Counts that these came back once more; returns how often each has by now."""
        returns = table_of(self.notes, NOTE_RETURNS)
        for position in positions:
            returns[position] = returns.get(position, 0) + 1
        return {position: returns[position] for position in positions}

    def release(self, taker: NodeId, positions: Iterable[int]) -> list[int]:
        """Takes those of these positions from the taker that it may decide about; ascending.

        A message that is ready may be decided about by anybody (see `Fragment.settle`).
        """
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
        return sorted(released)

    def attach(self, taker: NodeId, held: Iterable[int]) -> None:
        """Gives the taker, since an earlier reign, these messages, if they are here."""
        for position in held:
            if position not in self.messages:
                continue
            holder = self.unacked.get(position)
            if holder is None:
                self.hold_back(position, taker)
            elif holder == DELAYED:
                # It was due by the clock of the earlier primary, which was ahead of this one's.
                self.unacked[position] = taker
                del self.notes[NOTE_DUE][position]
            else:
                continue
            self.redelivered.add(position)

    # --- they go -----------------------------------------------------------------------------

    def leave_memory(self, position: int) -> bytes:
        """Lets go of a message, but for what is noted of it: it stands elsewhere from now on."""
        message = self.messages.pop(position)
        self.unacked.pop(position, None)
        self.redelivered.discard(position)
        if not self.messages:
            self.longest = 1
        return message

    def forget(self, positions: list[int]) -> tuple[list[bytes], list[Range]]:
        """Forgets messages without a holder (ascending)."""
        pop, discard = self.messages.pop, self.redelivered.discard
        gone = [pop(position) for position in positions]
        if self.absent:
            for position in positions:
                self.absent.discard(position)
        if self.redelivered:
            for position in positions:
                discard(position)
        for table in self.notes.values():
            if table:
                forget_within(table, positions)
        if not self.messages:
            self.longest = 1
        return gone, to_ranges(positions)

    # --- what is held true -------------------------------------------------------------------

    def check(self) -> None:
        """Asserts the invariants; costs a walk over everything."""
        waiting = {p for p in self.line.positions() if p in self.messages and p not in self.unacked}
        assert all(position in self.messages for position in self.unacked)
        if self.policy.max_priority:
            waiting |= set(self.absent) - set(self.unacked)
        assert waiting == set(self.messages) - set(self.unacked)
        assert list(self.in_order()) == sorted(self.messages)
        assert self.longest >= max(map(len, self.messages.values()), default=1)
        assert self.redelivered <= set(self.messages)
        assert list(self.absent) == [p for p, message in self.messages.items() if not message]
        for what, table in self.notes.items():
            if what not in (NOTE_EXPIRES, NOTE_RETURNS):
                assert all(position in self.messages for position in table), f"stray notes {what}"
        for what, owner in ((NOTE_DEAD, DEAD), (NOTE_RESERVED, RESERVED)):
            assert self.notes.get(what, {}).keys() == {
                p for p, holder in self.unacked.items() if holder == owner
            }
        if self.policy.max_bytes is not None:
            assert self.ready_bytes == sum(body_size(self.messages[p]) for p in waiting)


def oldest_persistent(
    messages: Mapping[int, bytes], absent: Mapping[int, bool] | None = None
) -> int | None:
    """The first persistent position of messages that are in ascending order.

    `absent`: whether those are that are on disk alone.
    """
    for position, message in messages.items():
        if message[0] & FLAG_PERSISTENT if message else absent is None or absent[position]:
            return position
    return None
