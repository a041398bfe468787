"""Virtual time: one event heap, one clock, one seed for a whole simulated cluster.

Inputs: actions with the delay after which they happen. Outputs: their effects, in one total order
that depends on nothing but the seed. Time is in microseconds; nodes see milliseconds.

Invariants: time never goes back; two actions of the same instant happen in the order in which they
were asked for; every user draws from a generator of its own name, so a new draw in one place never
changes the history of another.
"""

import hashlib
import heapq
import sys
from collections.abc import Callable

from fedq.core.seeds import Rng, derive

Action = Callable[[], None]

MS = 1_000
SECOND = 1_000_000


class Trace:
    """What happened, for people (`echo`) and for comparing two runs (`digest`)."""

    __slots__ = ("_hash", "echo", "lines", "on", "tail_lines")

    def __init__(self, echo: bool = False, digest: bool = False, tail_lines: int = 0) -> None:
        self.echo = echo
        self.tail_lines = tail_lines
        #: Whether anything is to be noted: callers skip building the text otherwise.
        self.on = echo or digest or tail_lines > 0
        self.lines: list[str] = []
        self._hash = hashlib.blake2b(digest_size=16) if digest else None

    def note(self, now_us: int, who: str, text: str) -> None:
        """One event of `who`; only called when `on`."""
        line = f"{now_us / MS:10.3f} {who:<12} {text}"
        if self._hash is not None:
            self._hash.update(line.encode("utf-8", "backslashreplace") + b"\n")
        if self.echo:
            sys.stdout.write(line + "\n")
        if self.tail_lines:
            self.lines.append(line)
            if len(self.lines) > 2 * self.tail_lines:
                del self.lines[: -self.tail_lines]

    def digest(self) -> str:
        """A hash over every line so far; empty when no digest was asked for."""
        return self._hash.hexdigest() if self._hash is not None else ""


class World:
    """The clock, the heap of coming actions and the root of every generator."""

    __slots__ = ("_heap", "_sequence", "events", "now_us", "seed", "trace")

    def __init__(self, seed: int, trace: Trace | None = None) -> None:
        self.seed = seed
        self.now_us = 0
        #: Actions done so far.
        self.events = 0
        self.trace = trace if trace is not None else Trace()
        self._heap: list[tuple[int, int, Action]] = []
        self._sequence = 0

    def generator(self, name: str) -> Rng:
        """The random stream of `name`, the same for every run of this seed."""
        return derive(self.seed, name)

    def after(self, delay_us: int, action: Action) -> None:
        """Does `action` in `delay_us` microseconds (not before what is due at that instant)."""
        assert delay_us >= 0, delay_us
        self._sequence += 1
        heapq.heappush(self._heap, (self.now_us + delay_us, self._sequence, action))

    def at(self, when_us: int, action: Action) -> None:
        """Does `action` at `when_us`, or now if that is past."""
        self.after(max(0, when_us - self.now_us), action)

    def every(self, period_us: int, action: Callable[[], bool]) -> None:
        """Does `action` once a period until it returns False."""

        def again() -> None:
            if action():
                self.after(period_us, again)

        self.after(period_us, again)

    def run(self, until_us: int, done: Callable[[], bool] | None = None) -> bool:
        """Lives until `until_us` or until `done` is true; returns whether `done` became true.

        `done` is asked at most once a virtual millisecond: it may be costly.
        """
        heap = self._heap
        next_check_us = self.now_us
        while heap and heap[0][0] <= until_us:
            when_us, _, action = heapq.heappop(heap)
            if when_us > self.now_us:
                self.now_us = when_us
                if done is not None and when_us >= next_check_us:
                    next_check_us = when_us + MS
                    if done():
                        heapq.heappush(heap, (when_us, 0, action))
                        return True
            self.events += 1
            action()
        self.now_us = max(self.now_us, until_us)
        return done is not None and done()

    def note(self, who: str, text: str) -> None:
        """Notes an event when somebody reads the trace."""
        if self.trace.on:
            self.trace.note(self.now_us, who, text)


def between(generator: Rng, low: int, high: int) -> int:
    """A whole number in [low, high]; cheaper than `randint` on the simulator's hot path."""
    return low + int(generator.random() * (high - low + 1))
