"""Deliveries decode back to the messages they were made of."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.content import Body
from fedq.amqp.deliveries import append_deliveries, deliver_prefix, deliver_suffix, pack_tag
from fedq.amqp.methods import BasicDeliver
from fedq.core.message import encode, make_route, route_of, split_route
from tests.property import amqp_strategies as random
from tests.unit.amqp.wire import contents_of

_bodies = st.binary(max_size=20) | st.sampled_from([4_087, 4_088, 4_089, 9_000]).map(bytes)
_messages = st.builds(
    lambda exchange, key, properties, body, flags: encode(
        flags, make_route(exchange, key), properties, body
    ),
    random.names, random.names, random.properties, _bodies, st.integers(0, 1),
)  # fmt: skip
_runs = st.lists(st.tuples(_messages, st.integers(1, 3)), max_size=6).map(
    lambda runs: [message for message, times in runs for _ in range(times)]
)


@given(
    st.integers(1, 65_535), random.names, st.integers(0, 2**60), _runs,
    st.sets(st.integers(0, 18)), st.sampled_from([4_096, 8_192, 131_072]),
)  # fmt: skip
def test_deliveries_decode_back(
    channel: int, tag: str, first: int, messages: list[bytes], again: set[int], frame_max: int
) -> None:
    parts: list[Body] = []
    append_deliveries(parts, channel, tag, first, messages, again, frame_max)
    contents = contents_of(b"".join(parts), frame_max)
    assert [
        encode(message[0], make_route(each.method.exchange, each.method.routing_key),
               each.properties, each.body)
        for each, message in zip(contents, messages, strict=True)
        if isinstance(each.method, BasicDeliver)
    ] == messages  # fmt: skip
    for index, (each, message) in enumerate(zip(contents, messages, strict=True)):
        expected = BasicDeliver(tag, first + index, index in again, *split_route(route_of(message)))
        assert (each.channel, each.method) == (channel, expected)


@given(st.integers(1, 65_535), random.names, st.integers(0, 2**60), _messages, st.booleans())
def test_the_shared_form_is_the_same_bytes(
    channel: int, tag: str, number: int, message: bytes, redelivered: bool
) -> None:
    parts: list[Body] = []
    append_deliveries(parts, channel, tag, number, [message], {0} if redelivered else None, 4_096)
    prefix = deliver_prefix(channel, tag).head(len(route_of(message)))
    suffix = deliver_suffix(channel, message, redelivered, 4_096)
    assert prefix + pack_tag(number) + suffix == b"".join(parts)
