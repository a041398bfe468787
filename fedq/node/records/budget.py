"""How often something may happen: a token bucket, so many a second and some at once.

In: the time in milliseconds. Out: whether one more is allowed. Invariant: it begins full, and never
holds more than its burst.
"""

from typing import Final

_SECOND_MS: Final = 1_000


class Budget:
    """A token bucket: `per_s` tokens a second, and not more than `burst` at once."""

    __slots__ = ("_burst", "_left", "_per_s", "_seen_ms")

    def __init__(self, per_s: int, burst: int) -> None:
        self._per_s = per_s
        self._burst = burst * _SECOND_MS
        #: In thousandths.
        self._left = self._burst
        self._seen_ms = 0

    def has_left(self, now_ms: int) -> bool:
        """Whether one more is allowed now."""
        earned = (now_ms - self._seen_ms) * self._per_s
        self._left = min(self._burst, self._left + earned)
        self._seen_ms = now_ms
        return self._left >= _SECOND_MS

    def spend(self) -> None:
        """Spends one token."""
        self._left -= _SECOND_MS

    def give_back(self) -> None:
        """Gives back a token that was spent and not used."""
        self._left += _SECOND_MS
