"""Deliveries in bulk: what is taken, where it stops, and that both twins agree."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.frames import HEARTBEAT
from fedq.amqp.methods import BasicCancel, encode_method
from tests.twins import KINDS, pairs, twin
from tests.unit.bench.streams import body, deliveries, numbered, redelivered

NAME = "fedq.bench.cut"


@pytest.fixture(params=KINDS)
def module(request: pytest.FixtureRequest) -> ModuleType:
    """The module, as each of its twins."""
    return twin(NAME, request.param)


def taken(module: ModuleType, data: bytes, at: int = 0) -> tuple[object, ...]:
    """All that it appends, and where it stopped."""
    numbers: list[int] = []
    times: list[int] = []
    tags: list[bytes] = []
    ends: list[int] = []
    stopped = module.cut(data, at, numbers, times, tags, ends)
    bare: list[int] = []
    assert module.cut(data, at, bare, [], None, None) == stopped
    assert bare == numbers
    return numbers, times, tags, ends, stopped


@pytest.mark.parametrize("at", [0, 1, 3, 4, 5, 39])
def test_it_stops_at_what_is_redelivered(module: ModuleType, at: int) -> None:
    each = [numbered([number]) for number in range(40)]
    each[at] = redelivered(each[at])
    assert taken(module, b"".join(each))[4] == sum(map(len, each[:at]))


@pytest.mark.parametrize("count", [1, 3, 4, 5, 40])
def test_a_run(module: ModuleType, count: int) -> None:
    data = b"?" + numbered(range(count), padding=4, tag="0000002a")
    size = (len(data) - 1) // count
    numbers, times, tags, ends, stopped = taken(module, data, 1)
    assert numbers == times == list(range(count))
    assert tags == [b"0000002a"] * count
    assert ends == list(range(1 + size, len(data) + 1, size))
    assert stopped == len(data)


@pytest.mark.parametrize("lacking", [1, 2, 20, 30, 60, 77])
def test_only_whole_deliveries_are_taken(module: ModuleType, lacking: int) -> None:
    data = numbered(range(6))
    assert taken(module, data[:-lacking])[0] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("count", [1, 9])
def test_a_damaged_delivery_ends_the_run(module: ModuleType, count: int) -> None:
    data, last = numbered(range(count)), numbered([0])
    second, third = last.index(b"\2\0\1"), last.index(b"\3\0\1")
    free = {
        1, 2, *range(12, 28), *range(29, second - 1),
        second + 1, second + 2, *range(second + 19, third - 1),
        third + 1, third + 2, *range(third + 7, len(last) - 1),
    }  # fmt: skip
    for place in range(len(last)):
        bad = bytearray(last)
        bad[place] ^= 0x80
        numbers = taken(module, data + bytes(bad))[0]
        assert isinstance(numbers, list)
        assert len(numbers) == count + (place in free), place


@pytest.mark.parametrize("size", [2**32 - 1, 2**31, 2**31 - 1, 60])
def test_lengths_beyond_the_data_are_not_believed(module: ModuleType, size: int) -> None:
    good = numbered([0])
    second, third = good.index(b"\2\0\1"), good.index(b"\3\0\1")
    for place in (3, second + 3, third + 3):
        bad = good[:place] + size.to_bytes(4, "big") + good[place + 4 :]
        assert taken(module, bad)[4] == 0
        assert taken(module, bad + good * 5)[4] == 0
    for length in (2**64 - 1, 2**63, 2**63 - 1, 2**32, 15, 0):
        bad = good[: second + 11] + length.to_bytes(8, "big") + good[second + 19 :]
        assert taken(module, bad + good * 5)[4] == 0


PIECES = st.one_of(
    st.builds(
        numbered,
        st.lists(st.integers(0, 2**64 - 1), max_size=9),
        st.sampled_from((0, 0, 1, 50)),
        st.sampled_from(("00000000", "00000001", "short", "too long for a tag")),
    ),
    st.builds(
        lambda key, persistent: deliveries([body(1)] * 5, key=key, persistent=persistent),
        st.sampled_from(("q", "queue", "queue2")),
        st.booleans(),
    ),
    st.builds(lambda data: deliveries([data]), st.binary(max_size=20)),
    st.sampled_from((HEARTBEAT, encode_method(1, BasicCancel("00000000", True)))),
)


@given(st.lists(PIECES, max_size=6), st.integers(0, 40), st.integers(0, 90))
def test_both_give_the_same(pieces: list[bytes], at: int, lacking: int) -> None:
    pure, compiled = pairs(NAME)
    data = b"".join(pieces)
    data = data[: max(len(data) - lacking, 0)]
    assert taken(pure, data, at) == taken(compiled, data, at)
    places = [0]
    while places[-1] < len(data):
        stopped = taken(pure, data, places[-1])[4]
        assert taken(compiled, data, places[-1])[4] == stopped
        assert isinstance(stopped, int)
        places.append(max(stopped, places[-1] + 1))


@given(st.binary(max_size=300), st.integers(0, 10))
def test_any_bytes_are_survived(data: bytes, at: int) -> None:
    pure, compiled = pairs(NAME)
    assert taken(pure, data, at) == taken(compiled, data, at)
