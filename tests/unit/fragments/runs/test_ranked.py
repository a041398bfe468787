"""The line of a queue with priorities on disk alone: what is remembered of it is bounded."""

from fedq.fragments.runs.ranked import RankedFresh
from fedq.fragments.runs.ranked_pages import PAGE, RankedPages


def test_what_was_taken_is_forgotten_behind_one_that_nobody_takes() -> None:
    line, messages = RankedFresh(2), dict[int, bytes]()
    line.leave_memory(1, True, 0, 10)
    line.come_back(1, 10)
    messages[1] = bytes(10)
    bound = line.index_bytes + 1_000_000
    for position in range(2, 20_002):
        line.leave_memory(position, True, 2, 10)
        line.come_back(position, 10)
        # It is taken at once, and the one of the lower priority still waits.
        assert line.bytes_ahead(messages, {}) <= 10 * 2_000
        assert line.index_bytes < bound
    line.check()


def test_where_to_read_on_is_looked_for_in_some_pages_of_very_many() -> None:
    pages = RankedPages(3)
    pages.add_unknown(1, bytes(PAGE * 5_000), PAGE * 5_000)
    assert PAGE < pages.worth_reading() < PAGE * 100
