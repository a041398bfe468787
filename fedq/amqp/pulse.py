"""When a client was heard last, and when it is to hear from the server: heartbeats.

Inputs: the clock, bytes that came. Outputs: whether a heartbeat is due, whether the client counts
as gone (AMQP 0-9-1 clause 4.2.7). No I/O.

A client that is not read cannot be heard. So its silence is excused, but not for ever: who is gone
while it is not read would keep its connection.
"""

from fedq.core.limits import UNHEARD_MS_MAX


class Pulse:
    """The heartbeats of one connection, in both directions."""

    __slots__ = ("_beat_ms", "_heard_ms", "_next_ms", "_waited_ms")

    def __init__(self, now_ms: int) -> None:
        #: The agreed heartbeat; 0: none.
        self._beat_ms = 0
        self._next_ms = 0
        self._heard_ms = self._waited_ms = now_ms

    def begin(self, heartbeat_s: int, now_ms: int) -> None:
        """Begins: both sides have agreed on an interval."""
        self._beat_ms = heartbeat_s * 1_000
        self._next_ms = now_ms + self._beat_ms // 2

    @property
    def wake_ms(self) -> int | None:
        """When there is next something to do; None for never."""
        if not self._beat_ms:
            return None
        return min(self._next_ms, self._waited_ms + 2 * self._beat_ms)

    def hear(self, now_ms: int) -> None:
        """Notes that bytes came from the client."""
        self._heard_ms = self._waited_ms = now_ms

    def excuse(self, now_ms: int) -> None:
        """Excuses the client's silence, up to a bound: nobody has been reading what it sends."""
        if now_ms - self._heard_ms < UNHEARD_MS_MAX:
            self._waited_ms = now_ms

    def silence_ms(self, now_ms: int) -> int:
        """How many milliseconds the client was silent, if that means that it is gone; else 0."""
        if not self._beat_ms or now_ms < self._waited_ms + 2 * self._beat_ms:
            return 0
        return now_ms - self._heard_ms

    def take_beat(self, now_ms: int) -> bool:
        """Takes the heartbeat that is due and counts it as sent; false if none is."""
        if not self._beat_ms or now_ms < self._next_ms:
            return False
        # Twice as often as agreed, so that one that is late is not one that is missing.
        self._next_ms = now_ms + self._beat_ms // 2
        return True
