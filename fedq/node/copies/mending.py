"""Messages that cannot be read from this node's disk: fetched from another copy and written anew.

Inputs: positions of a fragment that this node serves or copies; what other copies answer. Outputs:
questions, a bounded piece to one node at a time; and what came, appended as copied messages at the
same positions, so that the newest place of each is a good one (`SegmentPlan.locate_all`). Whoever
asked hears, once that is on disk, which messages nobody had.

Invariants: only what was asked for, and is alive and persistent, is taken in; a copy that does not
answer in time may have the message all the same, and whoever asked is told so.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from fedq.core.ids import FragmentId, NodeId
from fedq.core.message import FLAG_PERSISTENT
from fedq.core.peer_messages import Bodies, BodiesWanted
from fedq.core.versions import MENDING
from fedq.fragments.upkeep.stowing import fill
from fedq.journal.records import encode_copy
from fedq.node.copies.held import (
    Held,
    content_of,
    find_held,
    is_alive,
    is_in_journal,
    place_of,
)
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState

#: So many messages are asked for at once.
POSITIONS_MAX: Final = 256
#: How long an answer is waited for: it may have to be read from a disk that is busy.
ANSWER_MS: Final = 5_000
#: Bytes that are written for a unit of work, as a shift.
_BYTES_SHIFT: Final = 12

#: Hears which positions nobody had, and whether a copy that may have them did not answer.
Done: TypeAlias = Callable[[list[int], bool], None]


class Mending:
    """Fetches what cannot be read here from copies elsewhere."""

    __slots__ = ("_cases", "_last", "_lines", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: By the number of the question that is under way, or was the last one.
        self._cases: dict[int, _Case] = {}
        #: Of each fragment the case under way, and those that wait behind it.
        self._lines: dict[FragmentId, deque[_Case]] = {}
        self._last = 0

    def is_under_way(self, fragment: FragmentId) -> bool:
        """Whether messages of the fragment are waited for."""
        return fragment in self._lines

    def ask(
        self, fragment: FragmentId, positions: Sequence[int], done: Done, *, fills: bool
    ) -> None:
        """Asks for messages at ascending positions; `done` hears the outcome, perhaps at once.

        `fills`: they go to their places in the line, too, which waits for them.
        """
        held = find_held(self.state, fragment)
        case = _Case(fragment, held, list(positions), done, fills)
        line = self._lines.setdefault(fragment, deque())
        line.append(case)
        if len(line) == 1:
            self._advance(fragment)

    def tick(self) -> None:
        """Gives up nodes that do not answer, and tells those whose messages are on disk."""
        for case in list(self._cases.values()):
            if case.node is not None and self.state.now_ms < case.until_ms:
                continue
            self._take_back(case)
            if case.node is not None:
                case.node, case.is_silent = None, True
                case.ahead = []
            self._advance(case.fragment)

    def on_bodies(self, sender: NodeId, message: Bodies) -> None:
        """Takes in what another copy had, and asks on."""
        case = self._cases.get(message.request)
        if case is None or case.node != sender or case.fragment != message.fragment:
            return
        held = find_held(self.state, case.fragment)
        if held is None or place_of(held).reign != message.reign:
            return
        self._take_back(case)
        answered = [position for position in case.asked if position <= message.through]
        wanted = dict.fromkeys(answered)
        bodies = {
            position: b"%c%b" % (flags, body[1:])
            for position, body, flags in zip(
                message.positions, message.messages, message.flags, strict=True
            )
            if position in wanted and flags & FLAG_PERSISTENT
        }
        if content_of(held) is case.content:
            self._take_in(case, held, bodies)
            case.left = [position for position in case.left if position not in bodies]
        # Whoever answers nothing at all is asked nothing more.
        case.ahead = case.ahead[len(answered) :] if answered else []
        self._advance(case.fragment)

    def _advance(self, fragment: FragmentId) -> None:
        """Goes on with the cases of a fragment, one after the other, until one has to wait."""
        while (line := self._lines.get(fragment)) is not None:
            case = line[0]
            if case.number or not self._has_ended(case):
                return
            line.popleft()
            if not line:
                del self._lines[fragment]
            self.state.mark_fragment(fragment)
            case.done(case.left, case.is_silent)

    def _wait(self, case: "_Case") -> None:
        """Lets the case wait for an answer, or for the disk, under a number of its own."""
        self._last += 1
        case.number = self._last
        self._cases[case.number] = case

    def _take_back(self, case: "_Case") -> None:
        del self._cases[case.number]
        case.number = 0

    def _look_for_others(self, case: "_Case") -> None:
        """Finds who may have the messages: the primary first, then copies in sync, then others."""
        state, info = self.state, self.state.map.fragments.get(case.fragment)
        if info is None:
            return
        for node in dict.fromkeys([info.primary, *info.in_sync, *info.backups]):
            if node == state.me:
                continue
            member = state.map.members.get(node)
            is_up = member is not None and member.up and node in state.peers
            if is_up and state.map.cluster_version >= MENDING:
                case.others.append(node)
            elif node in info.in_sync:
                case.is_silent = True

    def _has_ended(self, case: "_Case") -> bool:
        """Asks for the next piece, of the next node if need be; true if there is nothing to ask."""
        state = self.state
        held = find_held(state, case.fragment)
        if held is None or content_of(held) is not case.content:
            # It is held otherwise by now, if at all.
            case.is_silent = True
            return True
        if not case.is_begun:
            case.is_begun = True
            if is_in_journal(held):
                self._look_for_others(case)
        if not case.ahead and case.left and case.others:
            case.node, case.ahead = case.others.popleft(), list(case.left)
        if case.node is not None and case.ahead and case.left:
            self._wait(case)
            case.asked = case.ahead[:POSITIONS_MAX]
            case.until_ms = state.now_ms + ANSWER_MS
            reign = place_of(held).reign
            state.send(case.node, BodiesWanted(case.fragment, reign, case.number, case.asked))
            return False
        case.node = None
        if case.chunk > state.synced:
            # Nothing is looked for where it is not yet.
            self._wait(case)
            return False
        return True

    def _take_in(self, case: "_Case", held: Held, bodies: dict[int, bytes]) -> None:
        """Appends messages that are alive anew, and puts them in their places in the line."""
        state = self.state
        alive = {position: body for position, body in bodies.items() if is_alive(held, position)}
        if not alive:
            return
        positions = list(alive)
        data = encode_copy(case.fragment, place_of(held).reign, positions, list(alive.values()), {})
        state.risk.begin()
        case.chunk = state.plan.append(
            case.fragment, data, True, positions[0], positions[-1], copied=True
        )
        state.sync_asked = max(state.sync_asked, case.chunk)
        if case.fills and isinstance(held, Primary):
            fill(held.fragment, alive)
        state.risk.end()
        state.work.spend(1 + (len(data) >> _BYTES_SHIFT))
        state.scrub.mended += len(alive)
        text = (
            f"{len(alive)} messages of fragment {case.fragment} could not be read from this node's "
            f"disk (positions {positions[0]} to {positions[-1]}): fetched from {case.node} and "
            "written anew; check the disk"
        )
        state.out.warnings.append(text)
        state.found[f"mended {case.fragment}"] = (text, state.now_ms)
        state.mark_fragment(case.fragment)


class _Case:
    """Messages of one fragment that are looked for, and who was asked."""

    __slots__ = (
        "ahead", "asked", "chunk", "content", "done", "fills", "fragment", "is_begun",
        "is_silent", "left", "node", "number", "others", "until_ms",
    )  # fmt: skip

    def __init__(
        self, fragment: FragmentId, held: Held | None, left: list[int], done: Done, fills: bool
    ) -> None:
        self.fragment = fragment
        #: The very messages that are mended: those of another reign are looked for anew.
        self.content = content_of(held) if held is not None else None
        self.left = left
        self.done = done
        self.fills = fills
        #: Who is to be asked, who is, what of them, and what of them after that.
        self.others: deque[NodeId] = deque()
        self.node: NodeId | None = None
        self.asked: list[int] = []
        self.ahead: list[int] = []
        self.until_ms = 0
        #: Somebody who may have them did not answer.
        self.is_silent = False
        #: It is asked about, not only waits behind others; the number of what it waits for.
        self.is_begun = False
        self.number = 0
        #: The chunk with the last of what was written anew.
        self.chunk = 0
