"""Checkpoints of what is alive here: so segments without any of it go, and a start reads little.

Inputs: ticks. Outputs: records for the journal (`fedq.journal.checkpoints`), written as a chore,
piece by piece while messages come and go. A checkpoint is begun when the journal has begun another
segment since the last one, or holds much more than memory does; and not before a multiple of the
time, and of the bytes, that the last one took. (Of the bytes it is none where a segment has rot.)

While another release may have to read this journal, or this node is being stopped, there is none:
the last word on what was seen would be void. One that fails is given up, and tried again later; the
one before it counts as long.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from fedq.core.errors import NodeFailure
from fedq.core.ids import FragmentId
from fedq.core.versions import CHECKPOINTS
from fedq.fragments.publishers.known_publishers import PUBLISHER_WORK
from fedq.fragments.upkeep.alive import Found
from fedq.journal.events import ALL, SURE, Standing
from fedq.journal.records import (
    encode_group,
    encode_live,
    encode_note,
    encode_publishers,
    encode_readers,
    encode_seen,
    encode_standing,
)
from fedq.journal.rot import wants_checkpoint
from fedq.node.copies.fragment_roles import FragmentRoles
from fedq.node.copies.held import (
    LOOK_SHIFT,
    Held,
    alive_in,
    content_of,
    find_held,
    has_failed_copy,
    has_much_dead,
    is_in_journal,
    is_whole,
    origins_of,
    place_of,
    publishers_in,
    readers_in,
    seen_in,
)
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.node.risk import Fault

#: How long after one the next checkpoint begins, in times that it took; and at least.
_REST: Final = 8
_REST_MS_MIN: Final = 100
#: How often it is asked whether much is dead.
_LOOK_EVERY_MS: Final = 1_000
#: After one that failed, and between two that are begun because much may be dead.
_PAUSE_MS: Final = 10_000
#: What a fragment costs, and each piece of it, in units of work.
_FRAGMENT_WORK: Final = 8
_PIECE_WORK: Final = 8


class Checkpointing:
    """Begins checkpoints, one after the other."""

    __slots__ = (
        "_began_ms", "_bytes_before", "_last", "_look_ms", "_next_bytes", "_next_ms", "roles",
        "state",
    )  # fmt: skip

    def __init__(self, state: NodeState, roles: FragmentRoles) -> None:
        self.state = state
        self.roles = roles
        #: The segment at which the last one began, when that was, and what was written until then.
        self._last = state.plan.checkpoint
        self._began_ms = self._bytes_before = 0
        #: When, and after how much was written, the next one may begin.
        self._next_ms = self._next_bytes = 0
        #: When to ask again whether much is dead.
        self._look_ms = 0

    def tick(self) -> None:
        """Begins one when it is due."""
        state = self.state
        if state.plan.is_checkpointing or not self._may_begin() or not self._is_due():
            return
        self._began_ms = state.now_ms
        self._bytes_before = state.plan.bytes_written
        self._last = state.plan.begin_checkpoint()
        state.chores.add_patient(self, _Writing(state, self.roles, self._last, self._on_done))

    def _may_begin(self) -> bool:
        state = self.state
        if state.stopping or state.map.cluster_version < CHECKPOINTS:
            return False
        return state.now_ms >= self._next_ms and not has_failed_copy(state)

    def _is_due(self) -> bool:
        state, plan = self.state, self.state.plan
        if plan.newest > self._last and plan.bytes_written >= self._next_bytes:
            return True
        if plan.newest > self._last and wants_checkpoint(plan):
            return True
        if len(plan.segments) == 1 or state.now_ms < self._look_ms:
            return False
        self._look_ms = state.now_ms + _LOOK_EVERY_MS
        if state.now_ms - self._began_ms < _PAUSE_MS:
            return False
        return has_much_dead(state)

    def _on_done(self, is_whole: bool) -> None:
        """Takes note that one is written, or given up: the next one is not due at once."""
        state = self.state
        took_ms = state.now_ms - self._began_ms
        self._next_ms = state.now_ms + max(_REST_MS_MIN, _REST * took_ms)
        if is_whole:
            state.plan.end_checkpoint()
            size = state.plan.bytes_of_checkpoint
            self._next_bytes = self._bytes_before + _REST * size
        else:
            state.plan.give_up_checkpoint()
            self._next_ms = state.now_ms + _PAUSE_MS


class _Writing:
    """A chore: writes a checkpoint. `done` hears whether it is whole."""

    __slots__ = (
        "_content",
        "_done",
        "_fragment",
        "_held",
        "_left",
        "_pieces",
        "_roles",
        "_segment",
        "_state",
    )

    def __init__(
        self, state: NodeState, roles: FragmentRoles, segment: int, done: Callable[[bool], None]
    ) -> None:
        self._state = state
        self._roles = roles
        self._segment = segment
        self._done = done
        self._left = deque([*state.primaries, *state.backups, *state.recovered])
        #: The fragment at hand, what this node has of it, and what of that is left to write.
        self._fragment = FragmentId(0)
        self._held: Held | None = None
        self._content: object = None
        self._pieces: Iterator[Found] = iter(())

    def go_on(self) -> bool:
        """Writes a piece at least; true when all is written, or nothing more will be."""
        try:
            return self._go_on()
        except (NodeFailure, MemoryError):
            raise
        except Exception as failure:
            if self._state.risk.is_open:
                raise
            # Without its end, what was written counts for nothing.
            text = "a checkpoint of the journal was given up, and is begun again later"
            self._state.out.faults.append(Fault(text, failure))
            self._done(False)
            return True

    def _go_on(self) -> bool:
        state = self._state
        while not (state.stopping or has_failed_copy(state)):
            held = find_held(self._state, self._fragment) if self._held is not None else None
            if held is not None and content_of(held) is self._content:
                self._write_piece(held)
            elif held is not None or self._left:
                # Held otherwise by now, it is begun again; or the next one is.
                if held is None:
                    self._fragment = self._left.popleft()
                self._begin(find_held(self._state, self._fragment))
            else:
                self._done(True)
                return True
            if state.work.is_spent:
                return False
        self._done(False)
        return True

    def _begin(self, held: Held | None) -> None:
        """Says where the fragment stands, if the journal has anything of it."""
        state, fragment = self._state, self._fragment
        state.work.spend(_FRAGMENT_WORK)
        self._held = None
        if held is None or not is_in_journal(held):
            return
        if isinstance(held, Primary):
            self._roles.drain(held)
        self._held, self._content, self._pieces = held, content_of(held), alive_in(held)
        place, seen = place_of(held), seen_in(held)
        standing = Standing(
            fragment, place.reign, self._segment, place.event, is_whole(held), origins_of(held)
        )
        data = encode_standing(standing)
        if seen is not None:
            data += encode_seen(fragment, seen.reign, seen.event, seen.epoch, seen.ranges)
        if readers := readers_in(held):
            data += encode_readers(fragment, place.reign, place.event, True, readers)
        sure, ahead = publishers_in(held)
        if ahead is not None and (sure or ahead):
            data += encode_publishers(fragment, place.reign, place.event, SURE, sure)
        if known := sure if ahead is None else ahead:
            data += encode_publishers(fragment, place.reign, place.event, ALL, known)
            state.work.spend((len(sure) + len(known)) * PUBLISHER_WORK)
        state.plan.append_checkpoint(fragment, data)

    def _write_piece(self, held: Held) -> None:
        """Writes the next piece of what is alive of the fragment at hand."""
        state, fragment = self._state, self._fragment
        if isinstance(held, Primary):
            # What is alive in memory must not be ahead of what the journal has.
            self._roles.drain(held)
        found = next(self._pieces, None)
        if found is None:
            self._held = None
            return
        state.work.spend(_PIECE_WORK + (found.looked_at >> LOOK_SHIFT))
        if not found.ranges:
            return
        place = place_of(held)
        data = encode_live(fragment, place.reign, self._segment, found.ranges)
        if found.notes:
            notes = [
                encode_note(fragment, place.reign, place.event, what, values)
                for what, values in found.notes.items()
            ]
            data = encode_group(fragment, place.reign, b"".join([data, *notes]))
        state.plan.append_checkpoint(fragment, data)
        state.work.spend(state.plan.found_live(fragment, found.ranges, place.bytes_each))
