"""The real clock. Everything below the shell is told the time; only the shell reads it.

Invariant: never goes back, not even when somebody sets the wall clock.
"""

import time


def monotonic_ms() -> int:
    """Milliseconds since an arbitrary moment before the process started."""
    return time.monotonic_ns() // 1_000_000
