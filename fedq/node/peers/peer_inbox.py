"""Messages of peers on their way to whoever they are for, as far as a turn has room for them.

    frame --link--> messages in order --> handlers
                        |  the turn has done enough
                        +--> the rest waits for the next one, and frames behind it wait in the link

Inputs: frames, the map's progress, turns. What is left over of a peer comes before what it says
next, so everything takes effect in order. A quarter of a turn is for peers whatever else there is
to do: what they acknowledge lets clients go on (docs/adr/0033). Heartbeats never wait.

Invariants: of each peer not more waits than one frame brings, beside what its link holds; what a
session said is void when it ends.
"""

from collections.abc import Callable
from typing import Any, Final

from fedq.core.ids import NodeId
from fedq.core.limits import MIB, WORK_BYTES_SHIFT
from fedq.core.peer_messages import (
    CARRY_MESSAGES,
    CARRY_RECORDS,
    Attach,
    Call,
    CopyStart,
    PeerFrame,
    PeerMessage,
    PublishAtomic,
    PublishBatch,
    ReplicaOffer,
    Settle,
)
from fedq.core.publish_messages import RUN_WORK
from fedq.node.records.state import NodeState
from fedq.proxy.links import size_of

Handler = Callable[[NodeId, Any], None]

#: What it costs to begin with a node's consumers, or its copy, of a fragment, with what the end of
#: the turn makes of it.
_BEGINNING_WORK: Final = 12


class PeerInbox:
    """Messages of peers that wait to be heard."""

    __slots__ = ("_handlers", "_told", "_waiting", "state")

    def __init__(self, state: NodeState, handlers: dict[type, Handler]) -> None:
        self.state = state
        self._handlers = handlers
        #: Peers of whom something waits for a further turn, the next one first.
        self._waiting: dict[NodeId, None] = {}
        #: Peers that were said not to be heard, until when.
        self._told: dict[NodeId, int] = {}

    @property
    def has_more(self) -> bool:
        """Whether something waits for a further turn."""
        return bool(self._waiting)

    def on_frame(self, frame: PeerFrame) -> None:
        """A frame of a peer that is known."""
        state, sender = self.state, frame.sender
        peer = state.peers[sender]
        link = peer.link
        if frame.messages and link.refuses(frame, state.now_ms):
            self._tell_deaf(sender)
        elif frame.messages and (sender in self._waiting or peer.forgetting):
            # Or it is of a session that begins here in a moment.
            link.hold(frame)
            self._waiting[sender] = None
        else:
            self._hear(sender, link.on_frame(frame, state.map.version, state.now_ms))

    def _tell_deaf(self, sender: NodeId) -> None:
        """Tells, once for each time, that a peer is not heard."""
        state, link = self.state, self.state.peers[sender].link
        if self._told.get(sender) == link.hear_ms:
            return
        self._told[sender] = link.hear_ms
        sentence = (
            f"{sender} acknowledges nothing of what it is told: {link.unacked} messages wait for "
            f"it, {link.bytes_unacked // MIB} MiB; what it says is not heard until it does. If it "
            f"goes on, restart {sender}"
        )
        state.out.warnings.append(sentence)
        state.found[f"deaf to {sender}"] = (sentence, state.now_ms + link.deaf_ms)

    def on_map(self) -> None:
        """Releases frames that waited for the map, which has moved."""
        for sender, peer in self.state.peers.items():
            if peer.link.held and sender not in self._waiting:
                self._release(sender)

    def begin_turn(self) -> None:
        """Begins with what the last turn left over, another peer first each time."""
        waiting, self._waiting = self._waiting, {}
        for sender in waiting:
            peer = self.state.peers[sender]
            messages, peer.waiting = peer.waiting, []
            self._hear(sender, messages)
            if sender not in self._waiting:
                self._release(sender)

    def _release(self, sender: NodeId) -> None:
        """Releases held frames, one by one as long as the turn has room."""
        state, peer = self.state, self.state.peers[sender]
        link = peer.link
        while link.may_release(state.map.version):
            if peer.forgetting or not state.work.may_serve:
                self._waiting[sender] = None
                return
            self._hear(sender, link.release(state.map.version, state.now_ms))
            if sender in self._waiting:
                return

    def _hear(self, sender: NodeId, messages: list[PeerMessage]) -> None:
        """Hands messages on, in order; the rest waits once the turn has done enough."""
        state, handlers, work = self.state, self._handlers, self.state.work
        for place, message in enumerate(messages):
            if not work.may_serve:
                state.peers[sender].waiting = messages[place:]
                self._waiting[sender] = None
                return
            work.serve(_work_of(message))
            state.bytes_taken += size_of(message)
            state.at, state.at_what = sender, message
            handlers[type(message)](sender, message)


def _work_of(message: PeerMessage) -> int:
    """The work of taking a message in, by what is long in it."""
    if isinstance(message, PublishBatch | PublishAtomic):
        return 1 + (len(message.messages) >> 2) + RUN_WORK * len(message.named)
    if isinstance(message, CARRY_MESSAGES):
        return 1 + (len(message.messages) >> 2)
    if isinstance(message, CARRY_RECORDS):
        return 1 + (len(message.records) >> WORK_BYTES_SHIFT)
    if isinstance(message, Settle):
        returned = len(message.requeued) + len(message.rejected) + len(message.unseen)
        return 1 + returned + (len(message.acknowledged) >> 3)
    if isinstance(message, Attach | ReplicaOffer):
        return _BEGINNING_WORK + len(message.held)
    if isinstance(message, CopyStart):
        return _BEGINNING_WORK + len(message.dropped)
    return 5 if isinstance(message, Call) else 1
