"""Runs of settlements: what is taken, and where a run stops."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.deliveries import ack_frame, nack_frame
from fedq.amqp.method_types import BasicNack, BasicReject
from fedq.amqp.methods import encode_method
from fedq.amqp.spec import BASIC_ACK, BASIC_NACK, BASIC_REJECT
from tests.twins import KINDS, pairs, twin

NAME = "fedq.amqp.settlements"


@pytest.fixture(params=KINDS)
def settlements(request: pytest.FixtureRequest) -> ModuleType:
    """The module, as each of its twins."""
    return twin(NAME, request.param)


def test_each_kind_is_taken_with_its_bits(settlements: ModuleType) -> None:
    data = b"".join((
        ack_frame(7, 1, False),
        ack_frame(7, 2**64 - 1, True),
        nack_frame(7, 3, True),
        encode_method(7, BasicNack(4, multiple=False, requeue=True)),
        encode_method(7, BasicReject(5, requeue=True)),
        encode_method(7, BasicReject(6, requeue=False)),
    ))  # fmt: skip
    batch: list[tuple[int, int, int, bool, bool]] = []
    assert settlements.take_settles(data, 0, batch) == len(data)
    assert batch == [
        (BASIC_ACK, 1, 1, False, False),
        (BASIC_ACK, 2**64 - 1, 2**64 - 1, True, False),
        (BASIC_NACK, 3, 3, True, False),
        (BASIC_NACK, 4, 4, False, True),
        (BASIC_REJECT, 5, 5, False, True),
        (BASIC_REJECT, 6, 6, False, False),
    ]


def test_tags_in_a_row_are_one_settlement(settlements: ModuleType) -> None:
    acks = [ack_frame(1, tag, False) for tag in (7, 8, 9, 11, 12, 12, 2**64 - 1, 0, 1)]
    acks += [ack_frame(1, 2, True), ack_frame(1, 3, False), nack_frame(1, 4, False)]
    batch: list[tuple[int, int, int, bool, bool]] = []
    settlements.take_settles(b"".join(acks), 0, batch)
    ack, nack = BASIC_ACK, BASIC_NACK
    ranges = [(7, 9), (11, 12), (12, 12), (2**64 - 1, 2**64 - 1), (0, 1)]
    assert batch == [
        *((ack, first, last, False, False) for first, last in ranges),
        (ack, 2, 2, True, False),
        (ack, 3, 3, False, False),
        (nack, 4, 4, False, False),
    ]


@pytest.mark.parametrize("place", range(21))
def test_a_damaged_frame_ends_the_run(settlements: ModuleType, place: int) -> None:
    good, bad = ack_frame(1, 1, False), bytearray(ack_frame(1, 2, False))
    bad[place] ^= 0x04
    batch: list[tuple[int, int, int, bool, bool]] = []
    stopped = settlements.take_settles(good + bytes(bad), 0, batch)
    # Tag and bits may be anything; whatever else differs is not an acknowledgement on channel 1.
    is_content = 11 <= place <= 19
    assert stopped == (42 if is_content else 21)
    assert sum(last - first + 1 for _, first, last, _, _ in batch) == (2 if is_content else 1)


@pytest.mark.parametrize("size", range(22))
def test_only_whole_frames_are_taken(settlements: ModuleType, size: int) -> None:
    batch: list[tuple[int, int, int, bool, bool]] = []
    data = b"?" + ack_frame(1, 1, False)[:size]
    assert settlements.take_settles(data, 1, batch) == (22 if size == 21 else 1)


def test_another_channel_ends_the_run(settlements: ModuleType) -> None:
    batch: list[tuple[int, int, int, bool, bool]] = []
    data = ack_frame(1, 1, False) + ack_frame(2, 1, False)
    assert settlements.take_settles(data, 0, batch) == 21


TAGS = st.integers(0, 4) | st.sampled_from((2**64 - 2, 2**64 - 1))
FRAMES = st.one_of(
    st.builds(ack_frame, st.integers(0, 1), TAGS, st.booleans()),
    st.builds(nack_frame, st.integers(0, 1), TAGS, st.booleans()),
    st.binary(max_size=30),
)


@given(st.lists(FRAMES, max_size=8), st.integers(0, 30), st.integers(0, 40))
def test_both_give_the_same(frames: list[bytes], at: int, cut: int) -> None:
    pure, compiled = pairs(NAME)
    data = b"".join(frames)
    data = data[: len(data) - cut] if cut < len(data) else data
    one: list[object] = []
    other: list[object] = []
    assert pure.take_settles(data, at, one) == compiled.take_settles(data, at, other)
    assert one == other
