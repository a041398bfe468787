"""The real clock. Everything below the shell is told the time; only the shell reads it.

Invariant: `monotonic_ms` never goes back, not even when somebody sets the wall clock.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

#: How often `wait_until` looks.
_POLL_S: Final = 0.01


def monotonic_ms() -> int:
    """Milliseconds since an arbitrary moment before the process started."""
    return time.monotonic_ns() // 1_000_000


def unix_offset_ms() -> int:
    """What to add to `monotonic_ms` for the wall clock as it is now (milliseconds since 1970)."""
    return time.time_ns() // 1_000_000 - monotonic_ms()


async def wait_until(condition: Callable[[], bool], timeout_s: float) -> None:
    """Waits for a condition that no event announces, but not longer than that."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not condition() and loop.time() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(_POLL_S)
