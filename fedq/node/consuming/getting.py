"""basic.get over a queue's fragments: the local ones first, then one remote fragment at a time.

Only when every fragment has said that it is empty is the answer get-empty (P5); one that nobody can
serve before its node returns is left out. One that is to begin anew from a disk is waited for.

Changes channels' unacked windows; sends `Get` to peers.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from fedq.amqp.method_types import BasicGetEmpty
from fedq.amqp.rare_contents import append_get_ok
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.limits import UNREAD_BYTES_MAX, WORK_BYTES_SHIFT
from fedq.core.peer_messages import CALL_DECLARE, Call, Got
from fedq.core.peer_messages import Get as GetMessage
from fedq.fragments.fragment import Fragment
from fedq.node.consuming.queue_timers import QueueTimers
from fedq.node.consuming.readers import Readers, has_enough
from fedq.node.consuming.settle_flow import SettleFlow
from fedq.node.records.client_state import Channel
from fedq.node.records.private_queue import PrivateQueue
from fedq.node.records.settling import Settlements
from fedq.node.records.state import NodeState
from fedq.node.records.unserved import begins_soon

#: A question whose answer nobody waits for.
NO_REQUEST: Final = 0

#: A message that is got is copied on its own, into fresh memory, and again for its socket.
_COPIES: Final = 4


class Get:
    """One basic.get that waits for a fragment."""

    __slots__ = ("asked", "channel", "no_ack", "queue", "to_ask")

    def __init__(
        self, channel: Channel, queue: QueueKey, no_ack: bool, to_ask: deque[FragmentId]
    ) -> None:
        self.channel = channel
        self.queue = queue
        self.no_ack = no_ack
        self.asked: FragmentId | None = None
        self.to_ask = to_ask


class Overdue:
    """A chore: a basic.get of a queue of this node, once nothing that is over is left."""

    __slots__ = ("_channel", "_fragment", "_getting", "_no_ack")

    def __init__(
        self, getting: "Getting", channel: Channel, fragment: Fragment, no_ack: bool
    ) -> None:
        self._getting = getting
        self._channel = channel
        self._fragment = fragment
        self._no_ack = no_ack

    def go_on(self) -> bool:
        """Drops the next messages that are over."""
        work = self._getting.state.work
        while not self._getting.answer_private(self._channel, self._fragment, self._no_ack):
            if work.is_spent:
                return False
        return True


class Getting:
    """Answers basic.get from a queue's fragments, wherever they are."""

    __slots__ = (
        "_beginning", "_last", "_open", "_put_off", "_unread", "readers", "settling", "state",
        "timers",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, timers: QueueTimers, readers: Readers, settling: SettleFlow
    ) -> None:
        self.readers = readers
        self.settling = settling
        self.state = state
        self.timers = timers
        self._last = 0
        self._open: dict[int, Get] = {}
        #: Of these, those that wait for a fragment that nobody serves yet.
        self._beginning: dict[int, None] = {}
        #: Those whose clients do not read: they start over.
        self._put_off: list[Get] = []
        #: Those of private queues whose next message has to be read.
        self._unread: dict[Channel, tuple[Fragment, bool]] = {}

    def get_private(self, channel: Channel, private: PrivateQueue, no_ack: bool) -> bool:
        """Gets from a queue of this node alone: at once (true), unless very much of it is over.

        Then the channel waits until that is dead; or what is next has to be read, and it waits for
        that.
        """
        private.used_ms = self.state.now_ms
        overdue = Overdue(self, channel, private.fragment, no_ack)
        return self.state.chores.begin(channel.client, overdue) and channel not in self._unread

    def answer_private(self, channel: Channel, fragment: Fragment, no_ack: bool) -> bool:
        """Answers a get from a queue of this node alone, once nothing is over; false before."""
        if not self.timers.before(fragment):
            return False
        if not channel.closed and not channel.leaving:
            if fragment.must_read and fragment.fragment_id in self.state.private_by_id:
                self._unread[channel] = fragment, no_ack
                return True
            if not self._answer_from(channel, fragment, no_ack):
                self._answer_empty(channel)
            if channel.waiting:
                self.state.marks.answered[channel] = None
        return True

    def get(self, channel: Channel, queue: QueueKey, no_ack: bool) -> bool:
        """Gets a message: at once (true), or later; then the channel waits."""
        state = self.state
        to_ask: deque[FragmentId] = deque()
        info = state.map.queues[queue]
        if '"x-expires"' in info.arguments:
            self._tell_first(info.fragments[0])
        for fragment in info.fragments:
            if not self._serves(fragment):
                to_ask.append(fragment)
                continue
            primary = state.primaries[fragment]
            primary.used_ms = state.now_ms
            if not self.timers.before(primary.fragment):
                to_ask.append(fragment)
                continue
            if self._answer_from(channel, primary.fragment, no_ack):
                state.marks.primaries[fragment] = None
                return True
        if not to_ask:
            self._answer_empty(channel)
            return True
        self._ask_next(Get(channel, queue, no_ack, to_ask))
        return False

    def _tell_first(self, fragment: FragmentId) -> None:
        """Tells the queue's first fragment that it is in use, whichever one has a message."""
        info = self.state.map.fragments[fragment]
        if info.primary != self.state.me:
            self.state.send(info.primary, Call(NO_REQUEST, fragment, CALL_DECLARE))

    def _serves(self, fragment: FragmentId) -> bool:
        primary = self.state.primaries.get(fragment)
        if primary is None or not self.state.serving:
            return False
        if primary.holds_back or primary.ending:
            return False
        return not primary.fragment.shut and not primary.fragment.must_read

    def _ask_next(self, get: Get) -> None:
        while get.to_ask:
            fragment = get.to_ask.popleft()
            is_served = self.state.primary_of(fragment) is not None
            if not is_served and not begins_soon(self.state, fragment):
                continue
            self._last += 1
            self._open[self._last] = get
            get.asked = fragment
            if is_served:
                self._ask(self._last, fragment)
            else:
                self._beginning[self._last] = None
            return
        if not get.channel.closed:
            if not get.channel.leaving:
                self._answer_empty(get.channel)
            self.state.marks.answered[get.channel] = None

    def _ask(self, request: int, fragment: FragmentId) -> None:
        """Asks a fragment; one of this very node is looked at again by `tick`, until it serves."""
        info = self.state.map.fragments[fragment]
        if info.primary != self.state.me:
            self.state.send(info.primary, GetMessage(request, fragment, info.reign))

    def on_got(self, sender: NodeId, message: Got) -> None:
        """A remote fragment has answered."""
        get = self._open.pop(message.request, None)
        if get is None or get.channel.closed or get.channel.leaving:
            self.settling.settle(message.fragment, Settlements([], [], [], [message.positions]))
        elif not message.positions:
            self._ask_next(get)
        elif has_enough(get.channel.client) or self.readers.is_full():
            # It would be one answer more for each channel that asked.
            self.settling.settle(message.fragment, Settlements([], [], [], [message.positions]))
            self._put_off.append(get)
        else:
            self._answer(
                get.channel, message.fragment, message.positions, message.messages[0],
                bool(message.redelivered), get.no_ack, message.ready,
            )  # fmt: skip
            if get.no_ack:
                self.settling.settle(message.fragment, Settlements([message.positions], [], [], []))
            self.state.marks.answered[get.channel] = None

    def on_fragment_moved(self, fragment: FragmentId) -> None:
        """The fragment has a new primary, or lost it, or has a new link: its gets ask again."""
        for request in [r for r, get in self._open.items() if get.asked == fragment]:
            self._ask_again(request, fragment)

    def _ask_again(self, request: int, fragment: FragmentId) -> None:
        """Asks whoever serves the fragment by now; goes on to the next one if nobody will."""
        if self.state.primary_of(fragment) is not None:
            self._beginning.pop(request, None)
            self._ask(request, fragment)
        elif begins_soon(self.state, fragment):
            self._beginning[request] = None
        else:
            self._beginning.pop(request, None)
            self._ask_next(self._open.pop(request))

    def on_fragment_gone(self, fragment: FragmentId, is_retired: bool) -> None:
        """The queue was deleted, or the fragment retired.

        Then what was kept for it is in another one, perhaps in one that was asked before: all are
        asked again.
        """
        for request, get in list(self._open.items()):
            if is_retired and fragment in get.to_ask:
                get.to_ask = deque(self.state.map.queues[get.queue].fragments)
            if get.asked != fragment:
                continue
            del self._open[request]
            self._beginning.pop(request, None)
            if not is_retired or get.channel.closed or get.channel.leaving:
                self._ask_next(get)
            elif self.get(get.channel, get.queue, get.no_ack):
                self.state.marks.answered[get.channel] = None

    def tick(self) -> None:
        """Gets that wait for a fragment of this very node start over when it serves.

        So do those whose clients had enough, when they have read; and those that wait for the disk.
        """
        if self._put_off:
            self._start_over()
        for request in list(self._beginning):
            get = self._open.get(request)
            if get is None or get.asked is None:
                del self._beginning[request]
            else:
                self._ask_again(request, get.asked)
        unread, self._unread = self._unread, {}
        for channel, (fragment, no_ack) in unread.items():
            if not self.answer_private(channel, fragment, no_ack):
                self._unread[channel] = fragment, no_ack
        for request, get in list(self._open.items()):
            if get.asked is not None and self._serves(get.asked):
                del self._open[request]
                if not get.channel.closed and self.get(get.channel, get.queue, get.no_ack):
                    self.state.marks.answered[get.channel] = None

    def _start_over(self) -> None:
        put_off, self._put_off = self._put_off, []
        for get in put_off:
            channel = get.channel
            if channel.closed:
                continue
            if not channel.leaving and (has_enough(channel.client) or self.readers.is_full()):
                self._put_off.append(get)
                continue
            if not channel.leaving and get.queue not in self.state.map.queues:
                self._answer_empty(channel)
            elif not channel.leaving and not self.get(channel, get.queue, get.no_ack):
                continue
            self.state.marks.answered[channel] = None

    def _answer_from(self, channel: Channel, fragment: Fragment, no_ack: bool) -> bool:
        taken = fragment.take(self.state.me, 1, no_ack)
        if not taken.messages:
            return False
        self.state.at, self.state.at_what = fragment, taken
        self._answer(
            channel, fragment.fragment_id, taken.pieces[0], taken.messages[0],
            bool(taken.redelivered), no_ack, fragment.ready_count,
        )  # fmt: skip
        return True

    def _answer(
        self, channel: Channel, fragment: FragmentId, positions: Sequence[int], message: bytes,
        redelivered: bool, no_ack: bool, left: int,
    ) -> None:  # fmt: skip
        if no_ack:
            tag = channel.unacked.skip(1)
        else:
            tag = channel.unacked.add(None, fragment, positions)
            channel.got += 1
        counts = self.state.counts
        counts.got += 1
        if redelivered:
            counts.redelivered += 1
        machine = channel.client.machine
        append_get_ok(
            machine.parts, channel.number, tag, redelivered, message, left,
            machine.frame_bytes_max,
        )  # fmt: skip
        if self.state.tracer is not None:
            self.state.tracer.on_got(
                channel, fragment, positions, message, redelivered, no_ack, tag
            )
        size = len(message)
        if size > UNREAD_BYTES_MAX:
            self.readers.on_long_answer(size)
        channel.client.delivered_bytes += size
        self.state.work.spend(size * _COPIES >> WORK_BYTES_SHIFT)
        self.state.dirty_clients[channel.client] = None

    def _answer_empty(self, channel: Channel) -> None:
        self.state.counts.got_nothing += 1
        channel.client.machine.send(channel.number, BasicGetEmpty())
        self.state.dirty_clients[channel.client] = None
