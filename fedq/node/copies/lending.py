"""Messages for copies elsewhere that cannot be read there: the other side of mending.

Inputs: questions of nodes that serve or copy a fragment which this node serves or copies, too.
Outputs: `Bodies`, of memory and of this node's own disk, about a mebibyte in each. A few questions
are worked on at a time, the others wait; of one node and fragment only the newest one does.

An answer without a message says that it is not here, and where nobody has it, it is lost. So what
this disk fails to read is read again for a while, shorter than the other side waits.
"""

from collections.abc import Iterator
from typing import Final

from fedq.amqp.stored import as_published
from fedq.core.ids import FragmentId, NodeId
from fedq.core.limits import MIB
from fedq.core.peer_messages import Bodies, BodiesWanted
from fedq.core.ranges import from_ranges, to_ranges
from fedq.fragments.upkeep.alive import Found
from fedq.journal.places import Place
from fedq.journal.rot import note_rot
from fedq.node.copies.held import LOOK_SHIFT, Held, alive_in, content_of, find_held, place_of
from fedq.node.copies.mending import ANSWER_MS, POSITIONS_MAX
from fedq.node.records.disk.reads import messages_of
from fedq.node.records.pieces import ask_in_pieces
from fedq.node.records.state import NodeState

#: What one answer brings, but for its last message (`NodeSettings.piece_bytes`).
_ANSWER_BYTES_MAX: Final = MIB
#: Questions that are worked on at a time.
_LOANS_MAX: Final = 4
#: Bytes that are taken apart for a unit of work, as a shift.
_BYTES_SHIFT: Final = 11
#: What the disk fails to read is read anew every so often, and for so long.
_AGAIN_MS: Final = 1_000
_AGAIN_MS_MAX: Final = ANSWER_MS // 2


class Lending:
    """Answers what other copies ask for."""

    __slots__ = ("_resting", "_under_way", "_waiting", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: Those of the questions worked on whose disk fails, and when they go on.
        self._resting: dict[_Loan, int] = {}
        self._waiting: dict[tuple[NodeId, FragmentId], BodiesWanted] = {}
        self._under_way = 0

    def on_wanted(self, sender: NodeId, message: BodiesWanted) -> None:
        """Takes a question, if the sender has a copy of the fragment, and so has this node."""
        info = self.state.map.fragments.get(message.fragment)
        if info is None or sender not in info.copies or not message.positions:
            return
        self._waiting[sender, message.fragment] = message
        self._begin_some()

    def _begin_some(self) -> None:
        state = self.state
        while self._waiting and self._under_way < _LOANS_MAX:
            key = next(iter(self._waiting))
            message = self._waiting.pop(key)
            held = find_held(state, message.fragment)
            if held is not None and place_of(held).reign == message.reign:
                self._under_way += 1
                loan = _Loan(self, key[0], message, held)
                state.chores.add(loan, loan)

    def tick(self) -> None:
        """Goes on with questions whose disk has failed."""
        for loan, at_ms in list(self._resting.items()):
            if self.state.now_ms >= at_ms:
                del self._resting[loan]
                loan.read_again()

    def rest(self, loan: "_Loan") -> None:
        """Lets a question be for a moment."""
        self._resting[loan] = self.state.now_ms + _AGAIN_MS

    def on_done(self, asker: NodeId, answer: Bodies | None) -> None:
        """Sends an answer, if there is one; begins with the next question."""
        self._under_way -= 1
        if answer is not None:
            self.state.send(asker, answer)
        self._begin_some()


class _Loan:
    """A chore, and then what waits for reads: one question on its way to an answer."""

    __slots__ = (
        "_again", "_asked", "_asker", "_away", "_bodies", "_bytes", "_content", "_failed",
        "_lending", "_looked", "_message", "_pieces", "_place", "_until_ms",
    )  # fmt: skip

    def __init__(self, lending: Lending, asker: NodeId, message: BodiesWanted, held: Held) -> None:
        self._lending = lending
        self._asker = asker
        self._message = message
        self._content = content_of(held)
        self._asked = message.positions[:POSITIONS_MAX]
        self._pieces: Iterator[Found] = alive_in(held, to_ranges(self._asked))
        self._bodies: dict[int, bytes] = {}
        self._bytes = 0
        #: What is on disk alone, ascending; where that was looked for, and is looked for now.
        self._away: list[int] = []
        self._looked: dict[Place, None] = {}
        self._place: Place | None = None
        #: Where the disk has failed, what is to be looked for there again, and until when.
        self._failed: dict[Place, None] = {}
        self._again: list[int] = []
        self._until_ms = 0

    def go_on(self) -> bool:
        """Looks for the next messages; true when all were looked for."""
        work = self._lending.state.work
        if not self._is_current():
            self._lending.on_done(self._asker, None)
            return True
        while (found := next(self._pieces, None)) is not None:
            work.spend(1 + (found.looked_at >> LOOK_SHIFT))
            for position in from_ranges(found.ranges):
                body = found.body(position)
                if body:
                    self._bodies[position] = body
                elif body is not None:
                    self._away.append(position)
            if work.is_spent:
                return False
        self._away = sorted(position for position in self._away if position not in self._bodies)
        self._read_next()
        return True

    def on_read(self, data: bytes) -> None:
        """Takes what is wanted out of a piece of a segment."""
        if self._take(data):
            # internal: it is asked for with a place only.
            assert self._place is not None
            note_rot(self._lending.state.plan, self._place.segment)
        self._read_next()

    def on_read_in_part(self, data: bytes, reason: str) -> None:
        """Takes what could be read."""
        self._take(data)
        self._note_failure()
        self._read_next()

    def on_read_failed(self, reason: str) -> None:
        """Looks elsewhere: the segment may have been moved, or the disk fails there."""
        self._note_failure()
        self._read_next()

    def read_again(self) -> None:
        """Reads once more what the disk has failed to read."""
        self._away = sorted([*self._again, *self._away])
        self._looked = {place: None for place in self._looked if place not in self._failed}
        self._again, self._failed = [], {}
        self._read_next()

    def _note_failure(self) -> None:
        # internal: it is asked for with a place only.
        assert self._place is not None
        self._failed[self._place] = None
        if not self._until_ms:
            self._until_ms = self._lending.state.now_ms + _AGAIN_MS_MAX

    def _take(self, data: bytes) -> list[str]:
        """Takes what is wanted; returns what could not be read."""
        state, place = self._lending.state, self._place
        # internal: it is asked for with a place only.
        assert place is not None
        state.work.spend(1 + (len(data) >> _BYTES_SHIFT))
        found, reasons = messages_of(state.plan, self._message.fragment, place, data, place.first)
        for position in [position for position in self._away if position in found]:
            self._bodies[position] = found[position]
            self._bytes += len(found[position])
        self._away = [position for position in self._away if position not in self._bodies]
        return reasons

    def _read_next(self) -> None:
        """Reads what is on disk alone, wherever it may be, up to the bound of an answer."""
        state, fragment = self._lending.state, self._message.fragment
        if not self._is_current():
            self._lending.on_done(self._asker, None)
            return
        while self._away and (
            # An answer of nothing says that there is nothing, so the first one is looked for all
            # the same: what was found where it may have been can be as much as an answer takes.
            self._bytes < self._answer_bytes() or self._away[0] == self._asked[0]
        ):
            # No place is looked at twice, however many messages are missing there.
            places = state.plan.locate_all(fragment, self._away[0])
            place = next((place for place in places if place not in self._looked), None)
            if place is not None:
                self._place = place
                self._looked[place] = None
                ask_in_pieces(state, place, self)
                return
            position = self._away.pop(0)
            if any(place in self._failed for place in places):
                self._again.append(position)
        if self._again and state.now_ms < self._until_ms:
            self._lending.rest(self)
        else:
            self._answer()

    def _answer(self) -> None:
        """Answers with what was found, in order and up to the bound."""
        message, left = self._message, dict.fromkeys(self._away)
        most = self._answer_bytes()
        positions: list[int] = []
        messages: list[bytes] = []
        size = through = 0
        for position in self._asked:
            if position in left or size >= most:
                break
            through = position
            body = self._bodies.get(position)
            if body is not None:
                positions.append(position)
                messages.append(body)
                size += len(body)
        # A stream keeps them with other flags than they came with.
        answer = Bodies(
            message.fragment,
            message.reign,
            message.request,
            through,
            positions,
            as_published(messages),
            bytes([each[0] for each in messages]),
        )
        self._lending.on_done(self._asker, answer)

    def _answer_bytes(self) -> int:
        """What the answer brings, but for its last message."""
        return self._lending.state.settings.piece_bytes(_ANSWER_BYTES_MAX)

    def _is_current(self) -> bool:
        """Whether the messages are still held as they were when it was asked for them."""
        held = find_held(self._lending.state, self._message.fragment)
        return held is not None and content_of(held) is self._content
