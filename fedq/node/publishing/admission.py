"""Publishes enter the fragments of this node, or are refused where a queue's length asks for it.

A queue with `x-overflow` reject-publish is full only as long as no consumer takes what is there:
before a publish is refused, the queue is dispatched.

Changes fragments; marks their primaries and queues.
"""

from collections.abc import Sequence
from typing import Protocol

from fedq.core.ids import NodeId, Origin, QueueKey
from fedq.core.policy import REJECT_PUBLISH_DLX, TOO_LONG
from fedq.core.publish_messages import NamedRun
from fedq.core.trace_records import ACKED, DUPLICATE, REJECTED, REQUEUED
from fedq.fragments.fragment import Fragment
from fedq.fragments.primary.arrivals import Named, behind, pieces_of
from fedq.fragments.primary.outbox import Owed
from fedq.fragments.upkeep.asides import publish_aside, publish_private_aside
from fedq.fragments.upkeep.enforcement import fits
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.proxy.publisher import Settled


class Dispatcher(Protocol):
    """Hands out what a queue has: `fedq.node.copies.dispatching`, which is above this."""

    def everywhere(self, queue: QueueKey, /) -> None:
        """Hands out what consumers can take now, here and elsewhere."""


class Admission:
    """Admits publishes to the fragments of this node, or refuses them."""

    __slots__ = ("dispatcher", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: Set by the node: who hands out publishes dead-lettered messages, too, and so this.
        self.dispatcher: Dispatcher

    def publish(
        self, primary: Primary, origin: Origin, first: int, messages: Sequence[bytes],
        resent: bool, runs: tuple[NamedRun, ...] = (), named: Named | None = None,
    ) -> None:  # fmt: skip
        """Takes a batch of one origin's publishes for a fragment that this node serves.

        `runs`: those of publishers with names. `named`: all are of this one, and new.
        """
        if runs:
            self._publish_runs(primary, origin, first, messages, resent, runs)
            return
        fragment, unix_ms = primary.fragment, self.state.unix_ms
        before = fragment.last
        self.state.marks.primaries[fragment.fragment_id] = None
        if self.state.suspects.count and (found := self.state.suspects.find(messages)):
            self._publish_around(primary, origin, first, messages, resent, found, False, named)
            return
        if not fragment.refuses:
            fragment.publish(origin, first, messages, resent, unix_ms, named)
            if self.state.tracer is not None:
                through = first + len(messages) - 1
                self._trace(fragment, before, origin, through, messages, resent)
            return
        known = max(0, min(len(messages), fragment.origins.get(origin, 0) - first + 1))
        if known:
            fragment.publish(origin, first, messages[:known], resent, unix_ms, named)
        number, left = first + known, messages[known:]
        while left:
            room = self._room(primary.queue, fragment, left)
            if not room:
                break
            part = behind(named, number - first)
            self._admit(fragment, origin, number, left[:room], resent, part)
            number, left = number + room, left[room:]
        if not left:
            return
        if named is not None:
            sequence = named.first + number - first
            publishers = fragment.know_publishers(unix_ms)
            publishers.refuse(named.publisher, sequence, sequence + len(left) - 1, unix_ms)
        if fragment.policy.overflow == REJECT_PUBLISH_DLX:
            self._publish_dead(fragment, origin, number, left)
        fragment.refuse(origin, number, len(left))
        if self.state.tracer is not None:
            self.state.tracer.on_refused(fragment, origin, number, len(left))

    def _admit(
        self, fragment: Fragment, origin: Origin, first: int, messages: Sequence[bytes],
        resent: bool, named: Named | None = None,
    ) -> None:  # fmt: skip
        """Takes publishes for which there is room."""
        before = fragment.last
        fragment.publish(origin, first, messages, resent, self.state.unix_ms, named)
        if self.state.tracer is not None:
            self._trace(fragment, before, origin, first + len(messages) - 1, messages, resent)

    def _trace(
        self, fragment: Fragment, before: int, origin: Origin, through: int,
        messages: Sequence[bytes], resent: bool,
    ) -> None:  # fmt: skip
        """Notes what is in the fragment beyond that position, up to that number of the origin."""
        tracer, count = self.state.tracer, fragment.last - before
        if tracer is not None:
            tracer.on_enqueued(fragment, before + 1, count, messages, origin, through, resent)

    def _trace_duplicates(self, fragment: Fragment, origin: Origin, first: int, count: int) -> None:
        """Notes that publishes are not taken, as they were before, from a publisher with a name."""
        if self.state.tracer is not None:
            self.state.tracer.on_refused(fragment, origin, first, count, DUPLICATE)

    def _publish_runs(
        self, primary: Primary, origin: Origin, first: int, messages: Sequence[bytes],
        resent: bool, runs: tuple[NamedRun, ...],
    ) -> None:  # fmt: skip
        """Takes a batch piece by piece, without what is known of its publishers."""
        for start, stop, is_new, named in pieces_of(primary.fragment, messages, runs):
            if is_new:
                piece = messages[start:stop]
                self.publish(primary, origin, first + start, piece, resent, (), named)
            else:
                primary.fragment.pass_over(origin, first + start, stop - start)
                self._trace_duplicates(primary.fragment, origin, first + start, stop - start)
        self.state.marks.primaries[primary.fragment.fragment_id] = None
        self.state.named[primary.fragment.fragment_id] = None

    def _publish_around(
        self, primary: Primary, origin: Origin, first: int, messages: Sequence[bytes],
        resent: bool, found: list[int], in_any_case: bool, named: Named | None,
    ) -> None:  # fmt: skip
        """Takes a batch of which some were failed at: these are set aside in their places.

        `in_any_case`: whatever the queue's length is.
        """
        fragment, start = primary.fragment, 0
        for index in [*found, len(messages)]:
            piece, number, who = messages[start:index], first + start, behind(named, start)
            if piece and in_any_case:
                self._admit(fragment, origin, number, piece, resent, who)
            elif piece:
                self.publish(primary, origin, number, piece, resent, (), who)
            if index < len(messages):
                number, who = first + index, behind(named, index)
                position = publish_aside(
                    fragment, origin, number, messages[index], who, self.state.unix_ms
                )
                if position is not None:
                    self.state.untold[fragment.fragment_id, position] = None
                    self._trace_aside(fragment, position, origin, first + index, messages[index])
            start = index + 1

    def _trace_aside(
        self, fragment: Fragment, position: int, origin: Origin, number: int, message: bytes
    ) -> None:
        """Notes that a message is in its place, though out of everybody's reach."""
        if self.state.tracer is not None:
            self.state.tracer.on_enqueued(fragment, position, 1, [message], origin, number)

    def _publish_dead(
        self, fragment: Fragment, origin: Origin, number: int, messages: Sequence[bytes]
    ) -> None:
        """Passes refused messages that go to the dead-letter exchange through the fragment."""
        first = fragment.last + 1
        self._admit(fragment, origin, number, messages, False)
        fragment.out.owed.pop()
        fragment.dead_letter_ready(list(range(first, first + len(messages))), TOO_LONG)

    def publish_atomic(
        self, primary: Primary, taker: NodeId, origin: Origin, first: int,
        messages: Sequence[bytes], resent: bool, settled: Settled,
        named: tuple[NamedRun, ...] = (),
    ) -> None:  # fmt: skip
        """Takes a transaction: all of it becomes one event for journal and backups.

        It is not refused for the queue's length, which a transaction may exceed. One that is known
        is sent again for its answer alone: what it settled may be with a consumer again. So may,
        of one that went down with the last primary, what it gave back: that has been ready here
        since its node attached, or was delivered anew before, and is held as such.
        """
        fragment = primary.fragment
        self.state.marks.primaries[fragment.fragment_id] = None
        if named:
            self.state.named[fragment.fragment_id] = None
        last = first + max(1, len(messages)) - 1
        if fragment.origins.get(origin, 0) >= last:
            fragment.out.owed.append(Owed(fragment.last, origin, last, ()))
            return
        mark = fragment.recorder.begin_atomic()
        owed_before = len(fragment.out.owed)
        if self.state.tracer is not None and taker != self.state.me:
            lanes = zip((ACKED, REQUEUED, REJECTED), settled, strict=True)
            self.state.tracer.on_settled_by(taker, fragment.fragment_id, list(lanes))
        before = fragment.last
        for start, stop, is_new, who in pieces_of(fragment, messages, named):
            if is_new:
                piece = messages[start:stop]
                found = self.state.suspects.find(piece) if self.state.suspects.count else []
                number = first + start
                self._publish_around(primary, origin, number, piece, resent, found, True, who)
            else:
                self._trace_duplicates(fragment, origin, first + start, stop - start)
        if fragment.last == before or fragment.origins.get(origin, 0) < last:
            # Nothing that is new is last: if it is sent again, it is known.
            fragment.take_number(origin, last)
        fragment.settle(taker, settled.acknowledged)
        if primary.windows is not None:
            primary.windows.came_back(taker, sum(map(len, settled)), self.state.now_ms)
        if not resent:
            fragment.requeue(taker, settled.requeued)
        fragment.reject(taker, settled.rejected)
        fragment.recorder.end_atomic(mark)
        # What is owed waits for the whole.
        while len(fragment.out.owed) > owed_before:
            fragment.out.owed.pop()
        fragment.out.owed.append(Owed(fragment.last, origin, last, ()))
        self.state.marks.queues[primary.queue] = None

    def publish_private(self, private: PrivateQueue, messages: Sequence[bytes]) -> list[int]:
        """Takes publishes for a private queue; returns the indexes of those that it refuses.

        Not of those that its node drops: nobody who publishes hears that a subscriber is slow.
        """
        fragment, unix_ms = private.fragment, self.state.unix_ms
        private.sole_consumer = None
        self.state.marks.queues[private.key] = None
        if self.state.suspects.count and (found := self.state.suspects.find(messages)):
            return self._publish_private_around(private, messages, found)
        before = fragment.last
        if not fragment.refuses:
            fragment.publish_private(messages, unix_ms)
            if self.state.tracer is not None:
                count = fragment.last - before
                self.state.tracer.on_enqueued(fragment, before + 1, count, messages)
            return []
        start = 0
        while start < len(messages):
            room = self._room_private(private, messages[start:])
            if not room:
                break
            self._admit_private(fragment, messages[start : start + room])
            start += room
        refused = list(range(start, len(messages)))
        if refused and fragment.policy.overflow == REJECT_PUBLISH_DLX:
            first = fragment.last + 1
            self._admit_private(fragment, messages[start:])
            fragment.dead_letter_ready(list(range(first, first + len(refused))), TOO_LONG)
        if not private.keeps_oldest:
            return refused
        private.dropped += len(refused)
        self.state.exclusive_dropped += len(refused)
        return []

    def _admit_private(self, fragment: Fragment, messages: Sequence[bytes]) -> None:
        """Takes publishes for which there is room, or that are to die at once."""
        first = fragment.last + 1
        fragment.publish_private(messages, self.state.unix_ms)
        if self.state.tracer is not None:
            self.state.tracer.on_enqueued(fragment, first, len(messages), messages)

    def _publish_private_around(
        self, private: PrivateQueue, messages: Sequence[bytes], found: list[int]
    ) -> list[int]:
        """As `_publish_around`; returns the indexes of those that the queue refuses."""
        refused: list[int] = []
        start = 0
        for index in [*found, len(messages)]:
            if start < index:
                piece = self.publish_private(private, messages[start:index])
                refused += [start + each for each in piece]
            if index < len(messages):
                position = publish_private_aside(private.fragment, messages[index])
                self.state.untold[private.fragment.fragment_id, position] = None
            start = index + 1
        return refused

    def _room(self, queue: QueueKey, fragment: Fragment, messages: Sequence[bytes]) -> int:
        room = fits(fragment, messages)
        if room < len(messages):
            # Nothing is refused for want of time: who is free gets a batch.
            self.state.work.owes_batch = not room
            self.dispatcher.everywhere(queue)
            self.state.work.owes_batch = False
            room = fits(fragment, messages)
        return room

    def _room_private(self, private: PrivateQueue, messages: Sequence[bytes]) -> int:
        """As `_room`, and what all exclusive queues together have room for."""
        room = self._room(private.key, private.fragment, messages)
        waiting = self.state.exclusive_waiting
        if not room or not waiting.bounds:
            return room
        # Others may have published to it in this turn.
        waiting.note(private)
        if waiting.fits(private, messages) >= room:
            return room
        # As above: what is free gets a batch, and is noted.
        self.state.work.owes_batch = True
        self.dispatcher.everywhere(private.key)
        self.state.work.owes_batch = False
        return min(room, waiting.fits(private, messages))
