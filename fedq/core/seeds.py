"""Where generators come from: one injected seed, a named stream for each user.

The only module below the line that may import `random`; it never touches the global generator.
"""

import random

Rng = random.Random


def derive(seed: int, name: str) -> Rng:
    """An independent generator for `name`; the same seed and name always give the same stream."""
    return random.Random(f"{seed}/{name}")
