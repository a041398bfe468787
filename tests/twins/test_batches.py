"""Cutting lists of messages: every piece is small enough, and none is smaller than need be."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import KINDS, pairs, twin

NAME = "fedq.core.batches"
MESSAGES = st.lists(st.integers(0, 12).map(bytes), max_size=20)


@pytest.fixture(params=KINDS)
def batches(request: pytest.FixtureRequest) -> ModuleType:
    """The module, as each of its twins."""
    return twin(NAME, request.param)


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
def test_pieces(batches: ModuleType, sizes: list[int], pieces: list[tuple[int, int]]) -> None:
    found = batches.cut([bytes(size) for size in sizes], 10)
    assert [(piece.start, piece.stop) for piece in found] == pieces


@given(MESSAGES, st.integers(0, 30))
def test_both_give_the_same(messages: list[bytes], bytes_max: int) -> None:
    pure, compiled = pairs(NAME)
    pieces = pure.cut(messages, bytes_max)
    assert compiled.cut(messages, bytes_max) == pieces
    assert compiled.cut(tuple(messages), bytes_max) == pieces
    assert [one for piece in pieces for one in messages[piece]] == messages
    for piece in pieces:
        size = sum(map(len, messages[piece]))
        assert size <= bytes_max or piece.stop - piece.start == 1
        if piece.stop < len(messages):
            assert size + len(messages[piece.stop]) > bytes_max
