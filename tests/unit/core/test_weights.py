"""What a batch of messages weighs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.weights import weigh


def test_bytes_are_added_up_and_flags_put_together() -> None:
    assert weigh([]) == (0, 0)
    assert weigh([b"\x01abc", b"\x82", b"\x01"]) == (6, 0x83)


@pytest.mark.parametrize("nothing", [[b""], [b"\x01", b""]])
def test_nothing_is_read_where_nothing_is(nothing: list[bytes]) -> None:
    with pytest.raises(IndexError):
        weigh(nothing)


@pytest.mark.parametrize("wrong", [["a"], [None]])
def test_what_is_no_bytes_is_refused(wrong: list[bytes]) -> None:
    with pytest.raises(TypeError):
        weigh(wrong)


@given(st.lists(st.binary(min_size=1, max_size=20), max_size=20))
def test_any_batch_weighs_what_its_messages_do(messages: list[bytes]) -> None:
    flags = 0
    for message in messages:
        flags |= message[0]
    for batch in (messages, tuple(messages)):
        assert weigh(batch) == (len(b"".join(messages)), flags)
