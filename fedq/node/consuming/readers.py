"""Clients that do not read what they have asked for: what they ask for next waits.

Inputs: commands about to be performed, whether a client's socket takes more, what a turn has
written. Outputs: channels that wait, connections that are not read, connections that end.

A client has *enough* while more than the high-water mark of its socket is unread, or so much was
written to it in this turn. Then whatever would be answered waits at the head of its channel's
backlog, and the connection is not read: at most one content answer is on top of the mark.
Settlements, and publishes that nobody hears of, are not answered, so they do not wait: who is about
to write before it reads again gets rid of them.

When all that is unread takes more than its share of the node's memory, gets wait everywhere, and
those who have read nothing for `UNREAD_STALL_MS` are cut off, the largest first.

Invariants: a channel waits here only while its client has enough, or is about to be looked at;
a client that is gone has never enough.
"""

from collections import deque
from collections.abc import Callable

from fedq.amqp.commands import Publishes, Request, Settles
from fedq.amqp.method_types import BasicGet
from fedq.core.limits import UNREAD_BYTES_MAX, UNREAD_STALL_MS
from fedq.node.records.client_state import Channel, Client
from fedq.node.records.state import NodeState

#: Why clients that do not read are not read.
HOLD = "unread"
UNREAD = "what this connection asked for is not read, and the node is low on memory"

_MANDATORY = 1


class Readers:
    """Clients that do not read: what waits for them, and how much they leave unread."""

    __slots__ = (
        "_answered", "_answered_before", "_late", "_turn", "_unread", "bytes_unread", "state",
    )  # fmt: skip

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: Channels whose next command waits until their client reads.
        self._late: dict[Channel, None] = {}
        #: Who does not read: so many bytes, since then.
        self._unread: dict[Client, tuple[int, int]] = {}
        self.bytes_unread = 0
        #: Long answers of the last turn that had some, and of the turn before it: whether they are
        #: read is not known yet.
        self._answered = self._answered_before = 0
        self._turn = 0

    def is_full(self) -> bool:
        """What is unread takes more than its share of this node's memory."""
        size, turn = self.bytes_unread, self.state.work.turn
        if self._turn == turn:
            size += self._answered + self._answered_before
        elif self._turn == turn - 1:
            size += self._answered
        return size > self.state.settings.share_bytes_max

    def on_long_answer(self, size: int) -> None:
        """Notes that so much was written to one client at once."""
        turn = self.state.work.turn
        if self._turn != turn:
            self._answered_before = self._answered if self._turn == turn - 1 else 0
            self._answered, self._turn = 0, turn
        self._answered += size

    def puts_off(self, channel: Channel, command: Publishes | Settles | Request) -> bool:
        """Whether the command waits, now, at the head of its channel's backlog."""
        client = channel.client
        if client.gone or channel.leaving:
            return False
        if not has_enough(client):
            if not self.is_full() or not _is_get(command):
                return False
        elif not _is_answered(channel, command):
            return False
        channel.waiting = True
        self.state.waiting.pop(channel, None)
        if channel.backlog is None:
            channel.backlog = deque()
        channel.backlog.appendleft(command)
        self._late[channel] = None
        self.state.hold_reading(client, HOLD)
        return True

    def resume(self) -> None:
        """Lets channels whose clients read again go on; near the end of a turn."""
        state = self.state
        if state.written_much:
            self._note_written()
        if not self._late:
            return
        is_full = self.is_full()
        late, self._late = self._late, {}
        for channel in late:
            client = channel.client
            if not client.gone and not channel.closed and not channel.leaving and (
                has_enough(client) or (is_full and client.writable and _waits_for_get(channel))
            ):  # fmt: skip
                self._late[channel] = None
                continue
            state.marks.answered[channel] = None
        kept = dict.fromkeys(channel.client for channel in self._late)
        for channel in late:
            if channel.client not in kept:
                state.release_reading(channel.client, HOLD)

    @property
    def is_waited_for(self) -> bool:
        """Whether a further turn would let somebody go on."""
        if not self._late or self.is_full():
            return False
        return any(channel.client.writable for channel in self._late)

    def _note_written(self) -> None:
        """Notes what earlier turns wrote: unread as long as its socket takes no more."""
        written, self.state.written_much = self.state.written_much, {}
        for client, size in written.items():
            if not client.writable and not client.gone:
                self._add(client, size)

    def on_writable(self, client: Client, writable: bool) -> None:
        """Notes that the client's socket has more than the mark, or little, to send."""
        if writable:
            self.forget(client)
        elif client not in self._unread:
            self._add(client, UNREAD_BYTES_MAX)

    def _add(self, client: Client, size: int) -> None:
        held, since_ms = self._unread.get(client, (0, self.state.now_ms))
        self._unread[client] = (held + size, since_ms)
        self.bytes_unread += size

    def forget(self, client: Client) -> None:
        """Forgets a client that has read, or is gone."""
        held = self._unread.pop(client, None)
        if held is not None:
            self.bytes_unread -= held[0]

    def tick(self, cut_off: Callable[[Client, str], None]) -> None:
        """Cuts off clients that have read nothing for long, while too much is unread."""
        if not self.is_full():
            return
        for client, (_, since_ms) in sorted(self._unread.items(), key=_size_of, reverse=True):
            if not self.is_full():
                return
            if self.state.now_ms - since_ms >= UNREAD_STALL_MS:
                self.forget(client)
                cut_off(client, UNREAD)


def has_enough(client: Client) -> bool:
    """Whether the client should read before it is answered again."""
    return not client.writable or client.delivered_bytes >= UNREAD_BYTES_MAX


def _is_answered(channel: Channel, command: Publishes | Settles | Request) -> bool:
    if isinstance(command, Request):
        return True
    if isinstance(command, Settles):
        return False
    return channel.confirms is not None or any(bits & _MANDATORY for _, bits, _ in command.batch)


def _is_get(command: Publishes | Settles | Request) -> bool:
    return isinstance(command, Request) and isinstance(command.method, BasicGet)


def _waits_for_get(channel: Channel) -> bool:
    backlog = channel.backlog
    return backlog is not None and len(backlog) > 0 and _is_get(backlog[0])


def _size_of(entry: tuple[Client, tuple[int, int]]) -> int:
    return entry[1][0]
