"""Cutting lists of messages: every piece is small enough, and none is smaller than need be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.batches import cut

MESSAGES = st.lists(st.integers(0, 12).map(bytes), max_size=20)


@pytest.mark.parametrize(
    ("sizes", "pieces"),
    [
        ([], []),
        ([4, 6], [(0, 2)]),
        ([4, 6, 1], [(0, 2), (2, 3)]),
        ([11, 1], [(0, 1), (1, 2)]),
        ([1, 11, 11], [(0, 1), (1, 2), (2, 3)]),
    ],
)
def test_pieces(sizes: list[int], pieces: list[tuple[int, int]]) -> None:
    assert cut([bytes(size) for size in sizes], 10) == pieces


@given(MESSAGES, st.integers(0, 30))
def test_any_list_is_cut_where_it_must_be(messages: list[bytes], bytes_max: int) -> None:
    pieces = cut(messages, bytes_max)
    assert [one for start, stop in pieces for one in messages[start:stop]] == messages
    for start, stop in pieces:
        size = sum(map(len, messages[start:stop]))
        assert size <= bytes_max or stop - start == 1
        if stop < len(messages):
            assert size + len(messages[stop]) > bytes_max
