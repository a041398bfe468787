"""The audit as a loop finds what was planted in histories, and nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pipeline.jobs.histories import PLANTS, history, judged


@given(st.integers(0, 1 << 32), st.lists(st.sampled_from(["", *PLANTS]), min_size=1, max_size=9))
def test_the_loop_finds_each_plant_and_nothing_else(seed: int, plants: list[str]) -> None:
    events, expected = history(seed, plants)
    assert judged(events) == expected
    assert len(expected) == sum(map(bool, plants))


@pytest.mark.parametrize("plant", PLANTS)
def test_each_kind_of_fault_is_found(plant: str) -> None:
    events, expected = history(1, [plant])
    assert judged(events) == expected
