"""How fast a fragment's own node takes its messages: an exponentially decayed rate.

In: what the consumers here took, and when. Out: how many messages they are expected to take soon.

A message that crosses to another node costs several times one that stays, and consumers here that
cannot take more for a moment (their socket is full, their acknowledgements are on the way) take it
a few milliseconds later. So what they take within `WINDOW_MS` at their pace is left for them, and
only what is beyond that goes elsewhere.

Invariants: nothing is left for consumers that take less than `LEAST_PER_WINDOW`; those that stop
are believed half as much with each window that passes.
"""

from typing import Final

WINDOW_MS: Final = 25
#: Slower consumers (2,000 messages a second) would be waited for beside an idle one elsewhere.
LEAST_PER_WINDOW: Final = 50


class Pace:
    """The pace of a fragment's consumers on the node of its primary."""

    __slots__ = ("_per_window", "_since_ms", "_taken")

    def __init__(self, now_ms: int) -> None:
        self._since_ms = now_ms
        self._taken = 0
        self._per_window = 0

    def note(self, taken: int, now_ms: int) -> None:
        """Notes how many messages they took since the last time."""
        self._taken += taken
        windows = (now_ms - self._since_ms) // WINDOW_MS
        if windows > 0:
            self._per_window = max(self._taken // windows, self._per_window >> min(windows, 32))
            self._taken = 0
            self._since_ms = now_ms

    def soon(self) -> int:
        """How many more messages they are expected to take within `WINDOW_MS`; 0 if not many."""
        return self._per_window if self._per_window >= LEAST_PER_WINDOW else 0
