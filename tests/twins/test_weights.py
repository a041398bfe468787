"""What a batch of messages weighs."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.twins import KINDS, pairs, twin

NAME = "fedq.core.weights"


@pytest.fixture(params=KINDS)
def weights(request: pytest.FixtureRequest) -> ModuleType:
    """The module, as each of its twins."""
    return twin(NAME, request.param)


def test_bytes_are_added_up_and_flags_put_together(weights: ModuleType) -> None:
    assert weights.weigh([]) == (0, 0)
    assert weights.weigh([b"\x01abc", b"\x82", b"\x01"]) == (6, 0x83)


@pytest.mark.parametrize("nothing", [[b""], [b"\x01", b""]])
def test_nothing_is_read_where_nothing_is(weights: ModuleType, nothing: list[bytes]) -> None:
    with pytest.raises(IndexError):
        weights.weigh(nothing)


def test_what_is_no_bytes_is_refused(weights: ModuleType) -> None:
    with pytest.raises(TypeError):
        weights.weigh(["a"])
    with pytest.raises(TypeError):
        weights.weigh([None])


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=20))
def test_both_give_the_same(messages: list[bytes]) -> None:
    pure, compiled = pairs(NAME)
    for batch in (messages, tuple(messages)):
        assert pure.weigh(batch) == compiled.weigh(batch)
