"""When the messages of a paced producer are due.

In: a rate, a start, the time. Out: how many are due by now, and when the next one is. The schedule
does not slip: what could not be sent in time is still due, and its delay counts as latency.
"""

from typing import Final

_SECOND_NS: Final = 1_000_000_000


class Pace:
    """A constant rate: message `n` is due at `start + n / rate`."""

    __slots__ = ("_per_second", "_start_ns")

    def __init__(self, per_second: float, start_ns: int) -> None:
        self._per_second = per_second
        self._start_ns = start_ns

    def due(self, now_ns: int) -> int:
        """How many messages should have been sent by now."""
        if now_ns < self._start_ns:
            return 0
        return 1 + int((now_ns - self._start_ns) * self._per_second / _SECOND_NS)

    def time_of(self, number: int) -> int:
        """When the message with this number, from 0, is due, in nanoseconds."""
        return self._start_ns + -int(-number * _SECOND_NS // self._per_second)
