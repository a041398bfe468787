"""Two ends of a link over a channel that loses, repeats and breaks: exactly once, in order.

The channel between the ends delivers frames in order while a connection lasts; a break loses what
is under way, and on a bad day frames are lost or repeated within a connection too. The two
maps move at different times, and now and then one of the two goes down and comes back, which ends
the session. The model is a list per direction of what was said in the session.
"""

from collections import deque
from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fedq.core.ids import FragmentId, Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import Heartbeat, Offer, PeerFrame, Relay, Replicate
from fedq.proxy import links
from fedq.proxy.links import LINGER_MS, NO_SESSION, RESEND_MS, Link
from tests.examples import examples

FRAME_BYTES_MAX = 400

ends = st.integers(0, 1)


def singly(messages: Sequence[object]) -> list[object]:
    """The messages, with records that were joined (a byte for each event) one by one again."""
    single: list[object] = []
    for message in messages:
        if isinstance(message, Replicate):
            events = range(message.previous + 1, message.last + 1)
            single.extend(zip(events, message.records, strict=True))
        else:
            single.append(message)
    return single


class End:
    """One member: its link, its map, and what was said and heard in the link's session."""

    def __init__(self, me: str, peer: str) -> None:
        self.link = Link(NodeId(me), Incarnation(1), NodeId(peer), FRAME_BYTES_MAX)
        self.version = 0
        self.said: list[object] = []
        self.heard: list[object] = []
        #: The last event of its fragment.
        self.event = 0
        #: Since when patient messages may have been waiting.
        self.spoke_ms = 0
        self.wire: deque[PeerFrame] = deque()


class LinkMachine(RuleBasedStateMachine):
    """Both ends, the wire between them, and the history of the map."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = [End("ann", "ben"), End("ben", "ann")]
        #: By map version: when each of the two came up last (0: is down).
        self.history: list[tuple[int, int]] = [(0, 0), (1, 1)]
        #: What was said and heard in sessions, by session and side: to compare in the end.
        self.said: dict[tuple[links.Session, int], list[object]] = {}
        self.heard: dict[tuple[links.Session, int], list[object]] = {}
        self.now_ms = 0
        self.number = 0
        for side in (0, 1):
            self.apply(side)
            self.connect(side)

    def teardown(self) -> None:
        """However bad the day was: on a good one everything of the session arrives."""
        for side in (0, 1):
            while self.ends[side].version < len(self.history) - 1:
                self.apply(side)
            self.connect(side)
        for _ in range(4):
            self.now_ms += RESEND_MS + 1
            for side in (0, 1):
                self.turn(side, False)
                self.arrive(side, 1_000)
        for side in (0, 1):
            key = self.key(side)
            if key is not None:
                assert self.heard.get(key, []) == self.said.get(key, [])
                assert self.ends[side].link.bytes_unacked == 0

    # --- the two nodes ---------------------------------------------------------------------------

    @rule(side=ends, sizes=st.lists(st.integers(0, 500), min_size=1, max_size=6))
    def say(self, side: int, sizes: list[int]) -> None:
        """Small and large messages, so that some fill frames of their own."""
        end = self.ends[side]
        for size in sizes:
            self.number += 1
            message = (
                Relay(self.number, "/", [bytes(size)])
                if size > 100
                else Offer(FragmentId(self.number), 1)
            )
            end.link.send(message)
            key = self.key(side)
            if key is not None:
                self.said.setdefault(key, []).append(message)

    @rule(side=ends, events=st.integers(1, 3), patient=st.booleans())
    def record(self, side: int, events: int, patient: bool) -> None:
        """Records of a fragment, which may become one message while they wait."""
        end = self.ends[side]
        records = bytes(event % 256 for event in range(end.event + 1, end.event + events + 1))
        message = Replicate(FragmentId(1), 1, end.event, end.event + events, records)
        end.event += events
        end.link.send(message, patient)
        key = self.key(side)
        if key is not None:
            self.said.setdefault(key, []).extend(singly([message]))

    @rule(side=ends, beat=st.booleans())
    def turn(self, side: int, beat: bool) -> None:
        end = self.ends[side]
        heartbeat = Heartbeat(self.now_ms, 0, False) if beat else None
        if not end.link.lingers:
            end.spoke_ms = self.now_ms
        frames = end.link.take_frames(MapVersion(end.version), self.now_ms, heartbeat)
        assert not (end.link.lingers and self.now_ms - end.spoke_ms >= LINGER_MS)
        assert not (end.link.lingers and (frames or not end.link.connected))
        for frame in frames:
            assert frame.messages or frame.first == 0
            assert sum(map(links.size_of, frame.messages[:-1])) < FRAME_BYTES_MAX
        assert [f.heartbeat for f in frames if f.heartbeat] == ([heartbeat] if beat and frames
                                                               else [])  # fmt: skip
        end.wire.extend(frames)

    @rule(side=ends)
    def apply(self, side: int) -> None:
        """The next version of the map arrives; frames that waited for it are released."""
        end = self.ends[side]
        if end.version == len(self.history) - 1:
            return
        end.version += 1
        up = self.history[end.version]
        before = end.link.session
        begins = end.link.set_session(up[side], up[1 - side])
        assert begins == (end.link.session not in (before, NO_SESSION))
        while end.link.may_release(MapVersion(end.version)):
            self.take(side, end.link.release(MapVersion(end.version), self.now_ms))

    @precondition(lambda self: 0 in self.history[-1] or self.number > 8 * len(self.history))
    @rule(side=ends, bounce=st.booleans())
    def go_down(self, side: int, bounce: bool) -> None:
        """The map says that a member went down; with `bounce` that it came up at once."""
        version = len(self.history)
        up = list(self.history[-1])
        up[side] = version if bounce or not up[side] else 0
        self.history.append((up[0], up[1]))

    # --- the wire --------------------------------------------------------------------------------

    @rule(side=ends, amount=st.integers(1, 5))
    def arrive(self, side: int, amount: int) -> None:
        """Frames that `side` sent reach the other."""
        wire, other = self.ends[side].wire, self.ends[1 - side]
        for _ in range(min(amount, len(wire))):
            frame = wire.popleft()
            messages = other.link.on_frame(frame, MapVersion(other.version), self.now_ms)
            self.take(1 - side, messages)

    @rule(sizes=st.lists(st.integers(0, 500), min_size=1, max_size=4), amount=st.integers(1, 9))
    def talk(self, sizes: list[int], amount: int) -> None:
        """A good moment: both speak, and some of it arrives."""
        for side in (0, 1):
            self.apply(side)
            self.say(side, sizes)
            self.turn(side, False)
        for side in (0, 1):
            self.arrive(side, amount)

    @precondition(lambda self: any(end.wire for end in self.ends))
    @rule(side=ends, repeat=st.booleans(), data=st.data())
    def corrupt(self, side: int, repeat: bool, data: st.DataObject) -> None:
        """A frame is lost, or comes again later."""
        wire = self.ends[side].wire
        if wire:
            index = data.draw(st.integers(0, len(wire) - 1))
            if repeat:
                wire.append(wire[index])
            else:
                del wire[index]

    @rule(side=ends)
    def break_off(self, side: int) -> None:
        """The connection breaks: what was under way is lost."""
        self.ends[side].link.on_disconnected()
        self.ends[side].wire.clear()

    @rule(side=ends)
    def connect(self, side: int) -> None:
        self.ends[side].wire.clear()
        self.ends[side].link.on_connected()

    @rule(passed_ms=st.sampled_from([1, LINGER_MS, 50, RESEND_MS + 1]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms

    # --- what must hold --------------------------------------------------------------------------

    def take(self, side: int, messages: Sequence[object]) -> None:
        session = self.ends[side].link.session
        if messages:
            assert session != NO_SESSION, "heard something after the session's end"
            self.heard.setdefault((session[::-1], 1 - side), []).extend(singly(messages))

    @invariant()
    def once_and_in_order(self) -> None:
        for key, heard in self.heard.items():
            assert heard == self.said.get(key, [])[: len(heard)]

    @invariant()
    def count_bytes(self) -> None:
        for end in self.ends:
            link = end.link
            assert link.bytes_unacked == sum(size for _, _, size in link._unacked)

    def key(self, side: int) -> tuple[links.Session, int] | None:
        session = self.ends[side].link.session
        return (session, side) if session != NO_SESSION else None


TestLink = LinkMachine.TestCase
TestLink.settings = settings(max_examples=examples(150), stateful_step_count=40)
