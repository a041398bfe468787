"""Having everybody keep quiet about a fragment that is to be handed over, or retired.

See docs/adr/0083 and 0100.

Inputs: fragments that are to be quiet, or to go on; the others' words. Outputs: `Quiesce` to peers,
`NodeState.quiet` and `Marks.aloud` for this node's own clients, `Primary.handing_over`.

A silence ends with the primary's word, or with its reign: then everybody goes on by itself. It is
void once a session with anybody has begun or ended since.
"""

from typing import Final

from fedq.core.ids import FragmentId, NodeId
from fedq.core.quiet_messages import Quiesce, Quiesced
from fedq.core.versions import PLANNED_MOVES
from fedq.node.records.quiet import Quiet
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState

#: So long a primary waits for everybody's word.
QUIET_MS_MAX: Final = 1_000


class _Silence:
    """A fragment about which others have been asked to keep quiet."""

    __slots__ = ("awaited", "is_refused", "number", "reign", "retires", "sessions", "until_ms")

    def __init__(
        self, reign: int, number: int, sessions: dict[NodeId, tuple[int, int]], until_ms: int,
        retires: bool,
    ) -> None:  # fmt: skip
        self.reign = reign
        self.retires = retires
        #: Somebody has publishes on their way to a fragment that is to be retired.
        self.is_refused = False
        self.number = number
        #: Who was asked, in which session; and who has not answered.
        self.sessions = sessions
        self.awaited = dict.fromkeys(sessions)
        self.until_ms = until_ms


class Quiescing:
    """The silences that this node has asked for."""

    __slots__ = ("_last", "_silences", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: The number of the last question.
        self._last = 0
        self._silences: dict[FragmentId, _Silence] = {}

    @property
    def fragments(self) -> list[FragmentId]:
        """The fragments that are to be handed over, about which others are to keep quiet."""
        return [fragment for fragment, each in self._silences.items() if not each.retires]

    def retires(self, fragment: FragmentId) -> bool:
        """Whether others have been asked to keep quiet about it since it is to be retired."""
        silence = self._silences.get(fragment)
        return silence is not None and silence.retires

    def is_possible(self) -> bool:
        """Whether all members know what it means."""
        return self.state.all_speak(PLANNED_MOVES)

    def begin(self, primary: Primary, *, retires: bool = False) -> None:
        """Asks everybody to keep quiet, unless that was done; nothing is handed out from now on."""
        state, fragment = self.state, primary.fragment
        number = fragment.fragment_id
        if number in self._silences:
            return
        self._last += 1
        primary.handing_over = True
        sessions = self._sessions()
        until_ms = state.now_ms + QUIET_MS_MAX
        self._silences[number] = _Silence(fragment.reign, self._last, sessions, until_ms, retires)
        mine = state.session_with(state.me)
        state.quiet[number] = Quiet(state.me, self._last, fragment.reign, mine, retires)
        for node in sessions:
            state.send(node, Quiesce(number, fragment.reign, self._last, retires))

    def _sessions(self) -> dict[NodeId, tuple[int, int]]:
        """The sessions with all who are there to be asked."""
        return {node: self.state.peers[node].link.session for node in self.state.live_peers()}

    def has_begun(self, fragment: FragmentId) -> bool:
        """Whether others have been asked to keep quiet about the fragment."""
        return fragment in self._silences

    def is_quiet(self, fragment: FragmentId) -> bool:
        """Whether all who were asked have said that they keep quiet."""
        silence = self._silences.get(fragment)
        return silence is not None and not silence.awaited

    def is_refused(self, fragment: FragmentId) -> bool:
        """Whether somebody has publishes on their way to a fragment that is to be retired."""
        silence = self._silences.get(fragment)
        return silence is not None and silence.is_refused

    def is_late(self, fragment: FragmentId) -> bool:
        """Whether somebody has been waited for too long."""
        silence = self._silences.get(fragment)
        return silence is not None and self.state.now_ms >= silence.until_ms

    def is_void(self, fragment: FragmentId) -> bool:
        """Whether somebody may not have heard of it, or forgot: sessions have begun, or ended."""
        silence = self._silences.get(fragment)
        if silence is None:
            return False
        return fragment not in self.state.quiet or silence.sessions != self._sessions()

    def on_quiesced(self, sender: NodeId, message: Quiesced) -> None:
        """A node keeps quiet, as it was asked to."""
        silence = self._silences.get(message.fragment)
        if silence is not None and silence.number == message.number:
            silence.awaited.pop(sender, None)
            silence.is_refused = silence.is_refused or message.busy

    def end(self, fragment: FragmentId) -> None:
        """Ends a silence: all may go on, if this node leads as before; else they do anyhow."""
        state = self.state
        silence = self._silences.pop(fragment, None)
        if silence is None:
            return
        primary = state.primaries.get(fragment)
        if primary is None or primary.fragment.reign != silence.reign:
            return
        primary.handing_over = False
        state.marks.aloud[fragment] = None
        state.marks.primaries[fragment] = None
        state.marks.queues[primary.queue] = None
        for node, session in silence.sessions.items():
            if state.peers[node].link.session == session:
                state.send(node, Quiesce(fragment, silence.reign, 0))
