"""Runs that never had a taker, cut in parts, weighed, and made of what is on disk alone.

Inputs: runs without gaps (`fedq.fragments.runs.fresh`). Outputs: runs, counts, bytes.
"""

from collections.abc import Sequence
from typing import Final

from fedq.core.message import FLAG_PERSISTENT
from fedq.core.weights import weigh
from fedq.fragments.runs.runs import Run, StowedMix, stowed_mix

#: Neighbours on disk become one run up to so many bytes: parts of it are told by their share.
STOWED_RUN_BYTES: Final = 1 << 20


class Filled:
    """What came back from the disk: how many messages, by how much their bytes were misjudged."""

    __slots__ = ("bytes_read", "count", "flags", "misjudged")

    def __init__(self) -> None:
        self.bytes_read = self.count = self.misjudged = 0
        #: The flags of all messages together.
        self.flags = 0


class Written:
    """What was written elsewhere: its positions; `through`: the journal has what is persistent."""

    __slots__ = ("_positions", "through")

    def __init__(self, positions: Sequence[int], through: int) -> None:
        self._positions = dict.fromkeys(positions)
        #: 0: there is no journal.
        self.through = through

    def has(self, run: Run) -> bool:
        """Whether all messages of a run in memory are on disk."""
        written, through = self._positions, self.through
        return all(
            position in written or (position <= through and message[0] & FLAG_PERSISTENT)
            for position, message in run.pairs()
        )


def may_join(run: Run, first: int, size: int, persistent: bool) -> bool:
    """Whether stowed messages from this position on may become a part of the run before them."""
    if not run.stowed or run.persistent != persistent or isinstance(run, StowedMix):
        return False
    return run.last + 1 == first and run.stowed + size <= STOWED_RUN_BYTES


def up_to(run: Run, size: int) -> tuple[int, int]:
    """How many of a run's first messages have about so many bytes, at least 1; and their bytes."""
    taken = weigh_run(run)
    if taken <= size:
        return run.left, taken
    count = taken = 0
    for message in run.messages:
        assert message is not None
        count += 1
        taken += len(message)
        if taken >= size:
            break
    return count, taken


def split(run: Run, at: int) -> Run:
    """Cuts a run in memory, from the message at this index on; returns the second part."""
    rest = Run(run.first + at, run.messages[at:], run.persistent, None)
    rest.is_mixed = run.is_mixed
    del run.messages[at:]
    run.left = at
    return rest


def may_go(run: Run) -> bool:
    """Whether the run is in memory, and may have nothing but persistent messages."""
    return not run.stowed and run.persistent and not run.is_mixed


def size_if_persistent(run: Run) -> int:
    """The bytes of the run's messages if all of them are persistent; else 0, and the run knows."""
    size = 0
    for message in run.messages:
        assert message is not None
        if not message[0] & FLAG_PERSISTENT:
            run.is_mixed = True
            return 0
        size += len(message)
    return size


def weigh_run(run: Run) -> int:
    """The bytes of a run in memory that has no gaps; 0 for a stowed one."""
    messages: list[bytes] = run.messages  # type: ignore[assignment]  # no gaps
    return weigh(messages)[0]


def let_go_of_mix(run: Run) -> Run:
    """A run in memory whose persistent messages the journal has, and a scratch file the others."""
    kinds = bytes([1 if message[0] & FLAG_PERSISTENT else 0 for _, message in run.pairs()])
    return stowed_mix(run.first, kinds, weigh_run(run))


def trimmed(run: Run, at_front: bool) -> tuple[Run | None, Run | None, Run | None]:
    """A mixed run cut in what is persistent before and behind all others, and what is between.

    If that is wanted at the front. Each part may be missing.
    """
    transient = [at for at, (_, m) in enumerate(run.pairs()) if not m[0] & FLAG_PERSISTENT]
    if not transient:
        run.is_mixed = False
        return run, None, None
    before: Run | None = None
    behind: Run | None = None
    if transient[-1] + 1 < run.left:
        behind = split(run, transient[-1] + 1)
        behind.is_mixed = False
    if at_front and transient[0]:
        before, run = run, split(run, transient[0])
        before.is_mixed = False
    return before, run, behind


def transient_of(run: Run) -> tuple[list[int], list[bytes]]:
    """The positions and messages of a mixed run that are not persistent."""
    found = [(p, message) for p, message in run.pairs() if not message[0] & FLAG_PERSISTENT]
    return [position for position, _ in found], [message for _, message in found]
