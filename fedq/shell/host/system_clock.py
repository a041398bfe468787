"""The real clock. Everything below the shell is told the time; only the shell reads it.

Invariant: `monotonic_ms` never goes back, not even when somebody sets the wall clock.
"""

import time


def monotonic_ms() -> int:
    """Milliseconds since an arbitrary moment before the process started."""
    return time.monotonic_ns() // 1_000_000


def unix_offset_ms() -> int:
    """What to add to `monotonic_ms` for the wall clock as it is now (milliseconds since 1970)."""
    return time.time_ns() // 1_000_000 - monotonic_ms()
