"""The rates and the memory of a filling, against hand-made courses."""

from fedq.bench.filling import Filling, Sample


def course(*points: tuple[float, int, int], wanted: int = 100) -> Filling:
    """A filling seen at these moments: (seconds, stored, resident bytes)."""
    return Filling(wanted, [Sample(int(s * 1e9), stored, rss) for s, stored, rss in points])


def test_a_slower_end_shows_in_the_last_part_alone() -> None:
    filling = course((0, 0, 1_000), (1, 10, 2_000), (2, 90, 2_160), (4, 100, 2_180))
    assert filling.is_whole
    assert filling.first_per_second() == 10
    assert filling.last_per_second() == 5
    assert filling.bytes_each() == 2
    assert filling.as_json()["seconds"] == 4


def test_a_filling_that_stopped_has_no_rates() -> None:
    filling = course((0, 0, 1_000), (1, 10, 2_000), (9, 10, 2_000))
    assert not filling.is_whole
    assert filling.stored == 10
    told = filling.as_json()
    assert told["first_per_second"] is told["last_per_second"] is told["rss_bytes_each"] is None


def test_a_filling_between_two_looks_has_no_rates_but_the_whole() -> None:
    filling = course((0, 0, 0), (1, 100, 0))
    assert filling.first_per_second() == filling.last_per_second() == 100
    assert filling.bytes_each() is None
    assert course().as_json()["stored"] == 0
