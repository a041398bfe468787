"""Runs of publishes: what is taken, how runs are sorted, and where they end."""

from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.content import encode_properties
from fedq.core.message import FLAG_COPIES, FLAG_PERSISTENT, encode, make_route
from tests.twins import KINDS, pairs, twin
from tests.unit.amqp.wire import publish

NAME = "fedq.amqp.publishes"
FRAME_MAX = 4_096
PERSISTENT = encode_properties({"delivery_mode": 2})
COPIES = encode_properties({"headers": {"CC": ["a"]}})

Run = tuple[bytes, int, list[bytes]]


@pytest.fixture(params=KINDS)
def publishes(request: pytest.FixtureRequest) -> ModuleType:
    """The module, as each of its twins."""
    return twin(NAME, request.param)


def take(publishes: ModuleType, data: bytes, at: int = 0) -> tuple[int, list[Run]]:
    """Where the run ended, and what it was."""
    batch: list[Run] = []
    return publishes.take_publishes(data, at, FRAME_MAX, {}, batch), batch


def test_neighbours_of_one_route_are_one_run(publishes: ModuleType) -> None:
    data = b"".join((
        publish(1, "e", "k", b"1"), publish(1, "e", "k", b"22", PERSISTENT),
        publish(1, "e", "k", b""), publish(1, "e", "l", b"3"), publish(1, "e", "k", b"4", bits=1),
        publish(1, "e", "k", b"5", COPIES), publish(1, "e", "k", b"6", COPIES),
    ))  # fmt: skip
    one, other = make_route("e", "k"), make_route("e", "l")
    assert take(publishes, data) == (
        len(data),
        [
            (one, 0, [
                encode(0, one, b"\0\0", b"1"), encode(FLAG_PERSISTENT, one, PERSISTENT, b"22"),
                encode(0, one, b"\0\0", b""),
            ]),
            (other, 0, [encode(0, other, b"\0\0", b"3")]),
            (one, 1, [encode(0, one, b"\0\0", b"4")]),
            (one, FLAG_COPIES, [encode(FLAG_COPIES, one, COPIES, b) for b in (b"5", b"6")]),
        ],
    )  # fmt: skip


def test_a_run_that_is_there_goes_on(publishes: ModuleType) -> None:
    data = publish(1, "e", "k", b"1")
    _, batch = take(publishes, data)
    publishes.take_publishes(data, 0, FRAME_MAX, {}, batch)
    publishes.add_publish(batch, (b"m", make_route("e", "k"), 0))
    publishes.add_publish(batch, (b"n", make_route("e", "k"), 2))
    message = encode(0, make_route("e", "k"), b"\0\0", b"1")
    assert batch == [
        (make_route("e", "k"), 0, [message, message, b"m"]),
        (make_route("e", "k"), 2, [b"n"]),
    ]


@pytest.mark.parametrize("before", [b"", publish(1, "e", "k", b"body", PERSISTENT)])
def test_only_whole_publishes_are_taken(publishes: ModuleType, before: bytes) -> None:
    data = before + publish(1, "e", "k", b"body", PERSISTENT)
    for size in range(len(before), len(data)):
        assert take(publishes, data[:size])[0] == len(before)
    assert take(publishes, data)[0] == len(data)


@pytest.mark.parametrize("before", [b"", publish(1, "e", "key", b"body", PERSISTENT)])
@pytest.mark.parametrize("flip", [0x01, 0x80, 0xFF])
def test_a_changed_byte_is_never_misread(publishes: ModuleType, before: bytes, flip: int) -> None:
    whole = publish(1, "e", "key", b"body", PERSISTENT)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= flip
        stopped, batch = take(publishes, before + bytes(damaged))
        if stopped > len(before):
            # Then it still was a publish, and its parts are those on the wire.
            assert stopped == len(before) + len(whole)
            assert batch[-1][2][-1][0] in (0, FLAG_PERSISTENT)
            assert len(batch[-1][2][-1]) == 7 + 6 + len(PERSISTENT) + 4


def test_another_channel_ends_the_run(publishes: ModuleType) -> None:
    first = publish(1, "e", "k", b"x")
    assert take(publishes, first + publish(2, "e", "k", b"x"))[0] == len(first)


def test_a_malformed_property_list_ends_the_run(publishes: ModuleType) -> None:
    first = publish(1, "e", "k", b"x")
    assert take(publishes, first + publish(1, "e", "k", b"x", b"\0\3"))[0] == len(first)


def test_a_body_of_more_than_one_frame_is_not_taken(publishes: ModuleType) -> None:
    most = publish(1, "e", "k", bytes(FRAME_MAX), frame_bytes_max=9_999)
    assert take(publishes, most)[0] == len(most)
    assert (
        take(publishes, publish(1, "e", "k", bytes(FRAME_MAX + 1), frame_bytes_max=9_999))[0] == 0
    )


def test_lengths_up_to_the_last_are_compared_without_overflow(publishes: ModuleType) -> None:
    whole = publish(1, "e", "k", b"body", PERSISTENT)
    for place in (3, 3 + whole.index(b"\xce\x02") + 1, 3 + whole.index(b"\xce\x03") + 1):
        for size in (0x7FFFFFFF, 0x80000000, 0xFFFFFFFF):
            damaged = bytearray(whole)
            damaged[place : place + 4] = size.to_bytes(4)
            assert take(publishes, bytes(damaged))[0] == 0


PROPERTIES = st.sampled_from((b"\0\0", PERSISTENT, COPIES, b"\0\3", b"\x80\0\5ab"))
PUBLISHES = st.builds(
    publish, st.integers(1, 2), st.sampled_from(("", "e")), st.sampled_from(("k", "ä" * 100)),
    st.binary(max_size=20), PROPERTIES, st.integers(0, 3),
)  # fmt: skip


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Publishes, of which a few bytes are changed and the end may be missing."""
    data = bytearray(b"".join(draw(st.lists(st.sampled_from(draw(SOME)), max_size=8))))
    for _ in range(draw(st.integers(0, 2))):
        if data:
            data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: len(data) - draw(st.integers(0, 3))])


SOME = st.lists(PUBLISHES, min_size=1, max_size=3)


@given(streams(), st.sampled_from((30, 4_096)), st.integers(0, 60))
def test_both_give_the_same(data: bytes, frame_max: int, at: int) -> None:
    pure, compiled = pairs(NAME)
    outcomes = []
    for module in (pure, compiled):
        batch: list[Run] = []
        checked: dict[bytes, int] = {}
        outcomes.append(
            (module.take_publishes(data, at, frame_max, checked, batch), batch, checked)
        )
    assert outcomes[0] == outcomes[1]
