"""Frames from both twins."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.errors import ConnectionViolation
from tests.twins import KINDS, pairs, twin

NAME = "fedq.amqp.frames"
FRAME_MAX = 4_096


@pytest.fixture(params=KINDS)
def frames(request: pytest.FixtureRequest) -> ModuleType:
    """The module, as each of its twins."""
    return twin(NAME, request.param)


def test_a_frame_is_cut_where_it_ends(frames: ModuleType) -> None:
    data = frames.frame(3, 65_535, b"body") + frames.HEARTBEAT
    assert frames.scan_frame(data, 0, FRAME_MAX) == (3, 65_535, 7, 11)
    assert frames.scan_frame(data, 12, FRAME_MAX) == (8, 0, 19, 19)
    assert frames.scan_frame(data, 20, FRAME_MAX) is None


def test_the_limit_is_the_payloads(frames: ModuleType) -> None:
    data = frames.frame(3, 1, bytes(FRAME_MAX))
    assert frames.scan_frame(data, 0, FRAME_MAX) == (3, 1, 7, 7 + FRAME_MAX)


def test_what_is_missing_is_known(frames: ModuleType) -> None:
    data = frames.frame(1, 1, bytes(20))
    for size in range(len(data)):
        part = data[:size]
        assert frames.scan_frame(part, 0, FRAME_MAX) is None
        wanted = 7 if size < 7 else len(data)
        assert frames.wanted_bytes(part) == frames.wanted_bytes(bytearray(part)) == wanted


@pytest.mark.parametrize("size", [FRAME_MAX + 1, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_frame_above_the_limit_is_refused_by_its_head(frames: ModuleType, size: int) -> None:
    with pytest.raises(ConnectionViolation, match=f"a frame of {size + 8} bytes") as raised:
        frames.scan_frame(b"?\1\0\1" + size.to_bytes(4), 1, FRAME_MAX)
    assert raised.value.reply_code == 501


def test_a_frame_without_its_end_is_refused(frames: ModuleType) -> None:
    with pytest.raises(ConnectionViolation, match="ends in 0x0a and not in 0xCE"):
        frames.scan_frame(frames.frame(1, 1, b"x")[:-1] + b"\n", 0, FRAME_MAX)


@given(
    st.integers(0, 255), st.integers(0, 65_535), st.binary(max_size=9), st.integers(0, 12),
    st.integers(0, 255), st.integers(0, 25),
)  # fmt: skip
def test_both_give_the_same(
    kind: int, channel: int, payload: bytes, place: int, octet: int, at: int
) -> None:
    outcomes: list[object] = []
    for module in pairs(NAME):
        data = bytearray(module.frame(kind, channel, payload) * 2)
        data[place % len(data)] = octet
        outcomes += [bytes(data), module.wanted_bytes(data)]
        try:
            outcomes.append(module.scan_frame(bytes(data), at, FRAME_MAX))
        except ConnectionViolation as violation:
            outcomes.append(violation.text)
    assert outcomes[:3] == outcomes[3:]
