"""How much of a fragment a node is handed before it acknowledges, where others have consumers, too.

In: messages handed to a node, what it held before each hand, messages that wait. Out: the size of
its window, and by how much windows have to grow although nothing was acknowledged.

The nearest comes first only as far as it keeps up (ADR 0039). A window has one message for each
consumer of the node at first. Time is looked at in *rounds*: one begins with a hand that fills the
window, and is over when all that was out then has come back. A node that took at most a quarter
longer for a full window than for the least one gets twice as much; of one that took longer the
window shrinks to what it does in that time, so that nothing waits there. What is fast
(`FAST_PER_MS`) may have `KEEP_UP_MS_MAX` of work: it should not have to wait either.

Who acknowledges nothing gets everything all the same, as with any broker, but not at once: where
messages wait and nobody is handed any for `KEEP_UP_MS_MAX` (or twice as long as rounds take), all
windows grow, by more each time; that of a node ends when it acknowledges something.
"""

from typing import Final

from fedq.core.ids import NodeId
from fedq.core.limits import KEEP_UP_MS_MAX, KEEP_UP_WINDOW_MAX

#: From this pace on (2,000 messages a second) consumers are fast.
FAST_PER_MS: Final = 2
#: Rounds that a window which had grown too far stays as it is, at most, before it grows again.
_REST_MAX: Final = 31
#: By how much windows grow at first where messages wait, and how much more each time.
FIRST_STEP: Final = 4
STEP_FACTOR: Final = 4
#: Not longer than this is an acknowledgement waited for, in milliseconds.
_PATIENCE_MS_MAX: Final = 1_000


class Window:
    """The window of one node; see the module's docstring."""

    __slots__ = (
        "_base_ms", "_begun_ms", "_ended_ms", "_filled", "_left", "_out", "_rest", "_rests",
        "_size", "_widened",
    )  # fmt: skip

    def __init__(self) -> None:
        #: What was measured, and what it may have meanwhile because it acknowledges nothing.
        self._size = 1
        self._widened = 0
        #: What was out after the last hand, and what of the round's is out yet.
        self._out = 0
        self._left = 0
        self._begun_ms = 0
        #: When all of that had come back; -1: not yet. What follows until the next hand is no work.
        self._ended_ms = -1
        #: How large the window was that the round began with, if it was full: then its time says
        #: something, of that many messages. 0: it was not.
        self._filled = 0
        #: The shortest round; that of the least window is the measure whenever there is one.
        self._base_ms = -1
        self._rest = 0
        self._rests = 0

    def size(self, consumers: int) -> int:
        """How many messages a node with so many consumers may hold."""
        return max(self._size, self._widened, consumers)

    def give(self, held: int, count: int, consumers: int, now_ms: int) -> int:
        """Notes that `count` messages go to the node, which holds `held` already.

        Returns how long the round took that this ends; -1: it ends none.
        """
        self._left -= self._out - held
        self._out = held + count
        if self._left > 0:
            return -1
        ended_ms = self._ended_ms if self._ended_ms >= 0 else now_ms
        elapsed = ended_ms - self._begun_ms if self._filled else -1
        if elapsed >= 0:
            self._measure(elapsed, self._filled, consumers)
        self._left = self._out
        self._begun_ms = now_ms
        self._ended_ms = -1
        size = self.size(consumers)
        self._filled = size if self._out >= size else 0
        return elapsed

    def _measure(self, elapsed: int, size: int, consumers: int) -> None:
        """Measures a full window of that size that came back within this time.

        By now it may be larger: what it may have because it acknowledged nothing was not tried.
        """
        if size <= consumers or not 0 <= self._base_ms <= elapsed:
            self._base_ms = elapsed
        patience = self._base_ms + max(1, self._base_ms // 4)
        if size >= FAST_PER_MS * max(1, elapsed):
            patience = max(patience, KEEP_UP_MS_MAX)
        if elapsed > patience:
            self._size = size * patience // elapsed
            self._rests = min(2 * self._rests + 1, _REST_MAX)
            self._rest = self._rests
        elif self._rest:
            self._rest -= 1
        else:
            self._size = max(self._size, min(2 * size, KEEP_UP_WINDOW_MAX))
            self._rests //= 2

    def widen(self, size: int) -> None:
        """Lets the node have so many messages, as long as it acknowledges nothing."""
        self._widened = size

    def on_back(self, held: int, count: int, now_ms: int) -> None:
        """Notes that the node has acknowledged so many at once: its window must allow that again.

        `held`: what it has left.
        """
        self._left -= self._out - held
        self._out = held
        if self._left <= 0 and self._ended_ms < 0:
            self._ended_ms = now_ms
        self._widened = 0
        self._size = max(self._size, count)


class Windows:
    """The windows of all nodes that have consumers of one fragment."""

    __slots__ = ("_grown", "_handed", "_held", "_idle", "_of", "_round_ms", "_since_ms", "_step")

    def __init__(self, held: dict[NodeId, int]) -> None:
        """`held`: how many messages each node holds already."""
        self._held = held
        #: How many consumers of a node have nothing, as it said, and were handed nothing since.
        self._idle: dict[NodeId, int] = {}
        self._of: dict[NodeId, Window] = {}
        #: How many were handed out when messages were seen to wait, and since when; -1: none do.
        self._handed = -1
        self._since_ms = 0
        #: Windows have grown since, and nobody was handed any for it.
        self._grown = False
        self._step = FIRST_STEP
        self._round_ms = 0

    def room(self, node: NodeId, consumers: int, unacked: int) -> int:
        """How many more a node with so many consumers may be handed.

        `unacked`: what all nodes hold, of which none has more (what is told to `took` and
        `came_back` may differ by what a failover left behind).
        """
        held = self._held.get(node, 0)
        if held > unacked:
            held = self._held[node] = unacked
        window = self._of.get(node)
        free = (consumers if window is None else window.size(consumers)) - held
        return max(free, min(self._idle.get(node, 0), consumers))

    def took(self, node: NodeId, count: int, consumers: int, now_ms: int) -> None:
        """Notes that the node, which has so many consumers, was handed `count` to settle."""
        held = self._held.get(node, 0)
        self._held[node] = held + count
        idle = self._idle.get(node, 0)
        if idle:
            self._idle[node] = max(0, idle - count)
        elapsed = self._window(node).give(held, count, consumers, now_ms)
        if elapsed >= 0:
            self._round_ms = elapsed
            self._step = FIRST_STEP

    def came_back(self, node: NodeId, count: int, now_ms: int) -> None:
        """Notes that the node has settled so many, or given them back."""
        held = self._held.get(node, 0)
        if held:
            left = self._held[node] = max(0, held - count)
            self._window(node).on_back(left, min(count, held, KEEP_UP_WINDOW_MAX), now_ms)

    def note_idle(self, node: NodeId, idle: int) -> None:
        """Lets so many consumers of the node, which have nothing, have one message each.

        What their neighbours hold may stay there for hours.
        """
        self._idle[node] = idle

    def attach(self, node: NodeId, held: int) -> None:
        """Begins anew with the node, which has so many messages; with none, if it is gone."""
        self._of.pop(node, None)
        self._idle.pop(node, None)
        self._held[node] = held

    def nothing_waits(self) -> None:
        """Notes that no message waits: all are with somebody."""
        self._handed = -1

    def grow_by(self, handed: int, now_ms: int) -> int:
        """Notes that messages wait; `handed`: how many were ever handed out.

        Returns how many more are to go to each consumer now, by `widen`; 0: none yet.
        """
        if handed != self._handed:
            self._handed = handed
            self._since_ms = now_ms
            self._grown = False
            return 0
        patience = min(max(KEEP_UP_MS_MAX, 2 * self._round_ms), _PATIENCE_MS_MAX)
        if self._grown or now_ms - self._since_ms < patience:
            return 0
        self._grown = True
        step = self._step
        self._step = min(STEP_FACTOR * step, KEEP_UP_WINDOW_MAX)
        return step

    def widen(self, node: NodeId, more: int) -> None:
        """Lets the node have so many more than it holds, whatever was measured."""
        self._window(node).widen(self._held.get(node, 0) + more)

    def _window(self, node: NodeId) -> Window:
        window = self._of.get(node)
        if window is None:
            window = self._of[node] = Window()
        return window
