"""How many examples a property is tried with: all of them, or a share in the lanes of `make test`.

    FEDQ_TEST_EXAMPLES=0.25 pytest tests/property     # a quarter of what each test names

A test names what it takes to find what it is there for (`@settings(max_examples=examples(200))`),
and has all of that where nothing else is said, as in `make properties` and `make coverage`.
"""

import os
from typing import Final

#: What Hypothesis tries of a test that says nothing.
USUAL: Final = 100
#: With fewer, Hypothesis has hardly left the smallest values.
FEWEST: Final = 5
SHARE: Final = float(os.environ.get("FEDQ_TEST_EXAMPLES", "1"))


def examples(whole: int = USUAL) -> int:
    """So many of them as are wanted in this run: never fewer than `FEWEST`, or than there are."""
    return max(min(whole, FEWEST), round(whole * SHARE))
