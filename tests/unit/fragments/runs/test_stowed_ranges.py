"""What a copy has on disk alone in very many places takes no more memory than is counted."""

import tracemalloc

from fedq.fragments.runs.stowed import STRETCH_MEMORY, StowedRanges


def test_of_every_other_message_a_few_bytes_are_kept() -> None:
    count = 50_000
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        ranges = StowedRanges([(p, p + 99, 15_000) for p in range(1, 2 * count, 100)])
        # As where every other one had a higher priority, and is acknowledged.
        for position in range(1, 2 * count, 2):
            ranges.forget(position, position)
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert ranges.count == count
    assert taken < count * STRETCH_MEMORY
