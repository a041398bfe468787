"""Deliveries and confirms from both twins: the same bytes, and no message is trusted."""

from collections.abc import Callable
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.content import NO_PROPERTIES, encode_properties
from fedq.amqp.methods import BasicDeliver
from fedq.amqp.strings import encode_short_string
from fedq.core.message import encode, make_route, route_of
from tests.twins import KINDS, pairs, twin
from tests.unit.amqp.wire import contents_of

NAME = "fedq.amqp.deliveries"
FRAME_MAX = 4_096


@pytest.fixture(params=KINDS)
def deliveries(request: pytest.FixtureRequest) -> ModuleType:
    """The module, as each of its twins."""
    return twin(NAME, request.param)


def delivered(
    deliveries: ModuleType, messages: list[bytes], tag: str | bytes = "c", first: int = 1
) -> bytes:
    """The bytes of a run of deliveries on channel 1."""
    parts: list[bytes] = []
    deliveries.append_deliveries(parts, 1, tag, first, messages, None, FRAME_MAX)
    return b"".join(parts)


MESSAGE = encode(1, make_route("e", "k"), encode_properties({"delivery_mode": 2}), b"body")


@pytest.mark.parametrize("size", range(len(MESSAGE) - 4))
def test_what_is_no_message_is_refused(deliveries: ModuleType, size: int) -> None:
    with pytest.raises(ValueError, match=r"message"):
        delivered(deliveries, [MESSAGE, MESSAGE[:size]])


@pytest.mark.parametrize("head", [b"\1\xff\xff\0\0\0\0", b"\1\0\0\xff\xff\xff\xff"])
def test_sizes_beyond_the_message_are_refused(deliveries: ModuleType, head: bytes) -> None:
    with pytest.raises(ValueError, match="shorter"):
        delivered(deliveries, [head + MESSAGE[7:]])


@pytest.mark.parametrize("tag", ["c", "ä" * 127, "x" * 255, "odd \udcff", encode_short_string("c")])
def test_any_consumer_tag(deliveries: ModuleType, tag: str | bytes) -> None:
    data = delivered(deliveries, [MESSAGE], tag)
    string = tag if isinstance(tag, bytes) else encode_short_string(tag)
    assert data[11 : 11 + len(string)] == string
    assert deliveries.deliver_prefix(1, tag).head(4) == data[: 11 + len(string)]


def test_a_tag_beyond_a_short_string_is_refused(deliveries: ModuleType) -> None:
    with pytest.raises(ValueError, match="256 bytes"):
        delivered(deliveries, [MESSAGE], "x" * 256)


@pytest.mark.parametrize("size", [0, 1, 4_088, 4_089, 8_176, 8_177])
def test_bodies_are_split_by_the_frame_size(deliveries: ModuleType, size: int) -> None:
    message = encode(0, make_route("", "k"), NO_PROPERTIES, bytes(size))
    suffix = deliveries.deliver_suffix(1, message, False, FRAME_MAX)
    head = deliveries.deliver_prefix(1, "c").head(len(route_of(message)))
    data = head + deliveries.pack_tag(2**64 - 1) + suffix
    assert data == delivered(deliveries, [message], first=2**64 - 1)
    (content,) = contents_of(data, FRAME_MAX)
    assert content.method == BasicDeliver("c", 2**64 - 1, False, "", "k")
    assert len(content.body) == size


MESSAGES = st.builds(
    encode, st.integers(0, 255),
    st.builds(make_route, st.sampled_from(("", "amq.topic")), st.sampled_from(("k", "ä" * 100))),
    st.sampled_from((NO_PROPERTIES, encode_properties({"delivery_mode": 2, "type": "t"}))),
    st.binary(max_size=4) | st.sampled_from((4_087, 4_088, 4_089, 9_000)).map(bytes),
)  # fmt: skip
MARKED: list[Callable[[list[int]], object]] = [list, set, dict.fromkeys, lambda _: None]


@given(
    st.lists(st.sampled_from(range(4)), max_size=8), st.lists(MESSAGES, min_size=4, max_size=4),
    st.integers(1, 65_535), st.integers(0, 2**60), st.lists(st.integers(0, 9)),
    st.sampled_from(MARKED), st.sampled_from((4_096, 8_192)),
)  # fmt: skip
def test_both_give_the_same(
    order: list[int], messages: list[bytes], channel: int, first: int, again: list[int],
    marked: Callable[[list[int]], object], frame_max: int,
) -> None:  # fmt: skip
    run = [messages[index] for index in order]
    outcomes: list[list[bytes]] = []
    for module in pairs(NAME):
        parts: list[bytes] = []
        module.append_deliveries(parts, channel, "tag", first, run, marked(again), frame_max)
        for message in messages:
            parts.append(module.deliver_suffix(channel, message, bool(again), frame_max))
            parts.append(module.deliver_prefix(channel, "tag").head(len(route_of(message))))
        parts.append(module.ack_frame(channel, first, bool(again)))
        parts.append(module.nack_frame(channel, first, bool(again)))
        outcomes.append(parts)
    assert outcomes[0] == outcomes[1]
