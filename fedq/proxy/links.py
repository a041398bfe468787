"""A reliable, ordered stream of messages to one peer over connections that come and go.

Inputs: messages to send, frames received, connection news, the map's word on both members.
Outputs: frames to send, messages in order, exactly once.

A link's *session* is named by the map versions at which the two members came up last. Within
a session nothing is lost: what the peer has not acknowledged is kept and sent again after a
broken connection. When either member goes down the session ends, unacknowledged messages are
void, and the machines start over from the map. So no machine ever asks what a lost message may
have said.

A frame names the sender's map version; its messages are handed up only when the receiver has
applied that version too (frames wait in `held`). So a message never speaks of a fragment, queue or
reign that its receiver has not heard of.

A message may be *patient*: nobody waits for it, so it travels with the next one that is not, or
after `LINGER_MS`. Records of a fragment that follow on each other unsent become one message.

This is a go-back-N ARQ: messages are numbered, the receiver takes them in order only and
acknowledges up to a number, and a sender that hears nothing for `RESEND_MS` goes back to the first
one that is not acknowledged. It then sends one frame, and the rest when some of that was heard.

Acknowledgements only let the sender forget, so they are in no hurry: they travel with the next
messages, or alone after `ACK_MS`; at once if the sender asks, because it keeps much.

A peer for which very much is kept, and which does not acknowledge what it was told long ago, is not
heard until it does: what it says brings answers, and those would pile up for ever. It sends what
was not heard again. (A frame is heard now and then: perhaps it does not hear this node either.)
"""

from collections import deque
from typing import Final

from fedq.core.ids import Incarnation, MapVersion, NodeId
from fedq.core.limits import (
    KIB,
    MIB,
    PEER_FRAME_BYTES_MAX,
    PEER_WINDOW_BYTES_MAX,
    UNACKED_BYTES_MAX,
    UNACKED_MESSAGES_MAX,
    UNACKED_STALL_MS,
)
from fedq.core.peer_messages import (
    CARRY_MESSAGES,
    CARRY_RECORDS,
    Got,
    Heartbeat,
    Interest,
    PeerFrame,
    PeerMessage,
    PublishAtomic,
    PublishBatch,
    Replicate,
)
from fedq.proxy.fanout import interest_bytes

Session = tuple[int, int]
NO_SESSION: Session = (0, 0)
RESEND_MS = 1_000
#: How long an acknowledgement waits for messages to travel with; with ticks, up to twice that.
ACK_MS = 40
#: How long a patient message waits for company.
LINGER_MS = 5
#: Messages are joined as long as copying the one that grows costs next to nothing.
JOINED_BYTES_MAX = 64 * KIB
#: With so much unacknowledged, frames ask for an acknowledgement at once.
ASK_BYTES = MIB
#: Frames that wait for the map: so many, and not more bytes but for one that waits alone.
HELD_FRAMES_MAX = 1_000
HELD_BYTES_MAX = PEER_WINDOW_BYTES_MAX
FIXED_BYTES = 64
#: What one frame brings at most, so that neither end takes long with it.
FRAME_MESSAGES_MAX = 4_096
#: What a run of a publisher with a name takes beside the name.
_RUN_BYTES: Final = 24


def size_of(message: PeerMessage) -> int:
    """The bytes of a message on the wire, roughly; exact for what is large."""
    if isinstance(message, (CARRY_MESSAGES, Got, PublishAtomic)):
        size = FIXED_BYTES + sum(map(len, message.messages)) + 8 * len(message.messages)
        if isinstance(message, PublishBatch | PublishAtomic) and message.named:
            size += sum([_RUN_BYTES + len(run.publisher) for run in message.named])
        return size
    if isinstance(message, CARRY_RECORDS):
        return FIXED_BYTES + len(message.records)
    if isinstance(message, Interest):
        return FIXED_BYTES + interest_bytes(message)
    return FIXED_BYTES


def joined(earlier: PeerMessage, later: PeerMessage) -> Replicate | None:
    """One message for two that follow on each other; None if they cannot become one."""
    if (
        not isinstance(earlier, Replicate)
        or not isinstance(later, Replicate)
        or (earlier.fragment, earlier.reign, earlier.last)
        != (later.fragment, later.reign, later.previous)
        or len(earlier.records) > JOINED_BYTES_MAX
    ):
        return None
    return earlier._replace(last=later.last, records=earlier.records + later.records)


def _frame_bytes(frame: PeerFrame) -> int:
    return FIXED_BYTES + sum(map(size_of, frame.messages))


class Link:
    """The end of a link on this node: see the module's docstring."""

    __slots__ = (
        "_ack_asked", "_ack_since_ms", "_frame_bytes_max", "_framed", "_hurry", "_mark",
        "_mark_ms", "_moved_ms", "_next", "_patient_since_ms", "_probes", "_received", "_sent",
        "_unacked", "bytes_held", "bytes_unacked", "connected", "deaf_ms", "hear_ms", "held",
        "incarnation", "lingers", "me", "peer", "session",
    )  # fmt: skip

    def __init__(
        self, me: NodeId, incarnation: Incarnation, peer: NodeId,
        frame_bytes_max: int = PEER_FRAME_BYTES_MAX,
    ) -> None:  # fmt: skip
        """`FRAME_BYTES_MAX`: a frame takes in no further message when it is so long."""
        self._frame_bytes_max = frame_bytes_max
        self.me = me
        self.incarnation = incarnation
        self.peer = peer
        self.connected = False
        self.session: Session = NO_SESSION
        self.held: deque[PeerFrame] = deque()
        #: What those take.
        self.bytes_held = 0
        self._start_over()

    def _start_over(self) -> None:
        self._next = 1
        self._sent = 0
        #: The highest number that was ever in a frame: the peer may have it.
        self._framed = 0
        #: Something that is to be sent is not patient.
        self._hurry = False
        self._patient_since_ms: int | None = None
        #: Patient messages wait: take frames again after `LINGER_MS`.
        self.lingers = False
        self._received = 0
        #: Since when the peer has not been told what was received; None: it knows.
        self._ack_since_ms: int | None = None
        self._ack_asked = False
        self._moved_ms = 0
        self._unacked: deque[tuple[int, PeerMessage, int]] = deque()
        self.bytes_unacked = 0
        #: The last message there was at a time while much was unacknowledged; 0: not much is.
        self._mark = 0
        #: Of what was not acknowledged the first has been sent again, and the rest not yet.
        self._probes = False
        self._mark_ms = 0
        #: For how long the peer is not heard, and when it is for a frame; 0: it is.
        self.deaf_ms = 0
        self.hear_ms = 0

    @property
    def unacked(self) -> int:
        """How many messages the peer has not acknowledged."""
        return len(self._unacked)

    @property
    def received(self) -> int:
        """The number of the last message that was taken in this session."""
        return self._received

    def set_session(self, mine_up: int, peer_up: int) -> bool:
        """Sets the session by when the map says both came up (0: is down). True if it is new."""
        session = (mine_up, peer_up) if mine_up and peer_up else NO_SESSION
        if session == self.session:
            return False
        self.session = session
        self._start_over()
        return session != NO_SESSION

    def send(self, message: PeerMessage, patient: bool = False) -> None:
        """Takes a message for the peer; void when one of the two is down."""
        if self.session == NO_SESSION:
            return
        self._hurry = self._hurry or not patient
        if self._framed < self._next - 1:
            number, last, size = self._unacked[-1]
            one = joined(last, message)
            if one is not None:
                grown = size_of(one)
                self._unacked[-1] = (number, one, grown)
                self.bytes_unacked += grown - size
                return
        size = size_of(message)
        self._unacked.append((self._next, message, size))
        self.bytes_unacked += size
        self._next += 1

    def on_connected(self) -> None:
        """Begins to send, as a connection is there: what was not acknowledged goes again."""
        self.connected = True
        self._sent = self._next - 1 - len(self._unacked)
        self._hurry = bool(self._unacked)
        self._probes = False

    def on_disconnected(self) -> None:
        """Stops sending for now."""
        self.connected = False

    def take_frames(
        self, version: MapVersion, now_ms: int, heartbeat: Heartbeat | None
    ) -> list[PeerFrame]:
        """The frames for everything that is new, with the acknowledgement and the heartbeat."""
        self.lingers = False
        if not self.connected:
            return []
        is_again = self._sent == self._next - 1 and self._goes_back(now_ms)
        ack_due = self._ack_asked or (
            self._ack_since_ms is not None and now_ms - self._ack_since_ms >= ACK_MS
        )
        frames: list[PeerFrame] = []
        if heartbeat is None and not ack_due and not self._may_send(now_ms):
            return frames
        while self._sent < self._next - 1 or heartbeat is not None or ack_due:
            frames.append(self._cut(version, now_ms, heartbeat))
            heartbeat = None
            ack_due = False
            if is_again and self._sent < self._next - 1:
                # One frame of it; the rest when some of that has been acknowledged.
                self._probes = True
                self._sent = self._next - 1
        self._framed = max(self._framed, self._sent)
        self._hurry = False
        self._patient_since_ms = None
        return frames

    def _goes_back(self, now_ms: int) -> bool:
        """Whether, when all was sent, what is not acknowledged of it is to be sent again."""
        if not self._unacked or now_ms - self._moved_ms <= RESEND_MS:
            return False
        self._sent -= len(self._unacked)
        self._hurry = True
        return True

    def _cut(self, version: MapVersion, now_ms: int, heartbeat: Heartbeat | None) -> PeerFrame:
        """The next frame: as much of what is not sent as fits, and what was received."""
        unacked = self._unacked
        skip = len(unacked) - (self._next - 1 - self._sent)
        if skip == 0:
            self._moved_ms = now_ms
        first = self._sent + 1
        messages: list[PeerMessage] = []
        size = 0
        last = min(self._next - 1, self._sent + FRAME_MESSAGES_MAX)
        while self._sent < last and (not messages or size < self._frame_bytes_max):
            _, message, cost = unacked[skip]
            messages.append(message)
            size += cost
            skip += 1
            self._sent += 1
        self._ack_asked = False
        self._ack_since_ms = None
        return PeerFrame(
            self.me, self.incarnation, self.session, first if messages else 0,
            self._received, version, messages, heartbeat, self.bytes_unacked >= ASK_BYTES,
        )  # fmt: skip

    def _may_send(self, now_ms: int) -> bool:
        """Whether something that is to be sent has waited long enough, or must not wait."""
        if self._hurry or self._sent == self._next - 1:
            return self._hurry
        if self._patient_since_ms is None:
            self._patient_since_ms = now_ms
        self.lingers = now_ms - self._patient_since_ms < LINGER_MS
        return not self.lingers

    def on_frame(self, frame: PeerFrame, version: MapVersion, now_ms: int) -> list[PeerMessage]:
        """Takes a frame; returns the messages that can be handed up now, in order."""
        if frame.map_version > version or self.held:
            self.hold(frame)
            return []
        return self._take(frame, now_ms)

    def refuses(self, frame: PeerFrame, now_ms: int) -> bool:
        """Whether the peer is not heard for now, see the module's docstring.

        What the frame acknowledges counts, and its messages are to be sent again.
        """
        if not self._mark and not self._keeps_much:
            return False
        if self.session == NO_SESSION or frame.session != self.session[::-1]:
            return False
        self._acknowledge(frame, now_ms)
        if not self._keeps_much:
            self._mark = self.deaf_ms = 0
            return False
        if not self._mark or self._unacked[0][0] > self._mark:
            # All that there was at the last look has been acknowledged.
            self._mark, self._mark_ms, self.deaf_ms = self._next - 1, now_ms, 0
        if now_ms - self._mark_ms < UNACKED_STALL_MS:
            return False
        is_next = frame.first <= self._received + 1 < frame.first + len(frame.messages)
        if self.deaf_ms and is_next and now_ms >= self.hear_ms:
            self.deaf_ms *= 2
            self.hear_ms = now_ms + self.deaf_ms
            return False
        if not self.deaf_ms:
            self.deaf_ms = UNACKED_STALL_MS
            self.hear_ms = now_ms + self.deaf_ms
            self.held.clear()
            self.bytes_held = 0
        return True

    @property
    def _keeps_much(self) -> bool:
        return len(self._unacked) > UNACKED_MESSAGES_MAX or self.bytes_unacked > UNACKED_BYTES_MAX

    def may_release(self, version: MapVersion) -> bool:
        """Whether the map is where the first frame that waits wants it."""
        return bool(self.held) and self.held[0].map_version <= version

    def release(self, version: MapVersion, now_ms: int) -> list[PeerMessage]:
        """Releases the first of the frames that waited, if it may be heard by now."""
        if not self.may_release(version):
            return []
        frame = self.held.popleft()
        self.bytes_held -= _frame_bytes(frame)
        return self._take(frame, now_ms)

    def hold(self, frame: PeerFrame) -> None:
        """Holds a frame until those before it come; one without room is sent again later."""
        size = _frame_bytes(frame)
        if not self.held or (
            len(self.held) < HELD_FRAMES_MAX and self.bytes_held + size <= HELD_BYTES_MAX
        ):
            self.held.append(frame)
            self.bytes_held += size

    def _take(self, frame: PeerFrame, now_ms: int) -> list[PeerMessage]:
        if self.session == NO_SESSION or frame.session != self.session[::-1]:
            return []
        self._acknowledge(frame, now_ms)
        if not frame.messages:
            return []
        self._ack_asked = self._ack_asked or frame.asks
        if self._ack_since_ms is None:
            self._ack_since_ms = now_ms
        new = self._received + 1 - frame.first
        if not 0 <= new < len(frame.messages):
            return []
        self._received = frame.first + len(frame.messages) - 1
        return frame.messages[new:]

    def _acknowledge(self, frame: PeerFrame, now_ms: int) -> None:
        """Forgets what the peer has acknowledged."""
        unacked = self._unacked
        # It cannot have what was never in a frame.
        acknowledged = min(frame.acknowledged, self._framed)
        while unacked and unacked[0][0] <= acknowledged:
            self.bytes_unacked -= unacked.popleft()[2]
            self._moved_ms = now_ms
            if self._probes:
                self._probes = False
                self._sent = 0
                self._hurry = True
        # After a reconnect it may acknowledge what was about to be sent again.
        self._sent = max(self._sent, self._next - 1 - len(unacked))
