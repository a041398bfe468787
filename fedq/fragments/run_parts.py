"""Runs that never had a taker, cut in parts, weighed, and made of what is on disk alone.

Inputs: runs without gaps (`fedq.fragments.fresh`). Outputs: runs, counts, bytes.
"""

from typing import Final

from fedq.core.message import FLAG_PERSISTENT
from fedq.core.weights import weigh
from fedq.fragments.runs import Run

#: Neighbours on disk become one run up to so many bytes: parts of it are told by their share.
STOWED_RUN_BYTES: Final = 1 << 20


def stowed_run(first: int, count: int, size: int, persistent: bool) -> Run:
    """A run of messages that are on disk alone, and take so many bytes."""
    run = Run(first, [], persistent, None)
    run.left, run.stowed = count, size
    return run


def may_join(run: Run, first: int, size: int, persistent: bool) -> bool:
    """Whether stowed messages from this position on may become a part of the run before them."""
    if not run.stowed or run.persistent != persistent:
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
