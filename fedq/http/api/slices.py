"""Work on many things in slices, with room for the thread's other work, and its pace, in between.

One call of the interpreter's own, such as a sort, keeps its lock until it is done, and the node
waits for as long. So lists are put in order by sorting runs of a few, and merging two at a time,
each of which takes a few milliseconds at most; and whatever looks at each thing looks at some, and
lets others go on.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, TypeVar

from fedq.http.bounds import HTTP_MATCHING_MS
from fedq.http.refusal import bad_request

Thing = TypeVar("Thing")

#: Things that one slice looks at, and those that are sorted at once.
_SLICE: Final = 1_000
_RUN: Final = 2_000


async def slices(things: Sequence[Thing], size: int = _SLICE) -> AsyncIterator[Sequence[Thing]]:
    """The things, some at a time."""
    for start in range(0, len(things), size):
        if start:
            await asyncio.sleep(0)
        yield things[start : start + size]


async def wanted(things: Sequence[Thing], is_wanted: Callable[[Thing], bool]) -> list[Thing]:
    """The things that are wanted; for what is cheap to say."""
    found: list[Thing] = []
    async for part in slices(things):
        found += [each for each in part if is_wanted(each)]
    return found


async def matching(things: Sequence[Thing], matches: Callable[[Thing], bool]) -> list[Thing]:
    """The things that match; raises `HttpRefusal` when that takes too much of the thread's time.

    For what takes as long as whoever asks likes: patterns.
    """
    found: list[Thing] = []
    left_s = HTTP_MATCHING_MS / 1_000
    async for part in slices(things, 50):
        began_s = time.thread_time()
        found += [each for each in part if matches(each)]
        left_s -= time.thread_time() - began_s
        if left_s < 0:
            raise bad_request(
                f"this pattern takes longer than {HTTP_MATCHING_MS} ms on {len(things)} names: "
                "give a simpler one, or a part of the name without use_regex"
            )
    return found


async def in_order(
    things: Sequence[Thing], rank: Callable[[Thing], tuple[Any, ...]]
) -> list[Thing]:
    """The things in order of their ranks, which are tuples of one form; of equals as they came."""
    runs: list[list[tuple[Any, ...]]] = []
    number = 0
    async for part in slices(things, _RUN):
        ranked = [(*rank(each), at) for at, each in enumerate(part, number)]
        number += len(part)
        ranked.sort()
        runs.append(ranked)
    while len(runs) > 1:
        # What is in order already is only merged.
        runs = [
            await _merged(runs[at], runs[at + 1]) if at + 1 < len(runs) else runs[at]
            for at in range(0, len(runs), 2)
        ]
    found: list[Thing] = []
    async for ranks in slices(runs[0] if runs else []):
        found += [things[each[-1]] for each in ranks]
    return found


async def _merged(one: list[Any], other: list[Any]) -> list[Any]:
    """Two runs as one: some of the first at a time, with what of the second belongs before them."""
    found: list[Any] = []
    at = 0
    async for part in slices(one, _RUN):
        end = bisect_right(other, part[-1], at)
        found += sorted([*part, *other[at:end]])
        at = end
    found += other[at:]
    return found
