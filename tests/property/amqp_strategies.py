"""Random AMQP values, methods and client streams, for the property tests of `fedq.amqp`."""

from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import cast

from hypothesis import strategies as st

from fedq.amqp import method_types, spec
from fedq.amqp.content import encode_properties
from fedq.amqp.methods import (
    BasicAck,
    BasicConsume,
    BasicNack,
    BasicQos,
    BasicReject,
    ChannelClose,
    Method,
    QueueDeclare,
    encode_method,
)
from fedq.amqp.values import FieldTable, TableValue, Timestamp
from fedq.core.errors import ConnectionViolation
from tests.unit.amqp.wire import publish

short_texts = st.text(max_size=60)
names = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-_", max_size=20)

_scalars: st.SearchStrategy[TableValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 2**64 - 1).map(Timestamp),
    st.floats(allow_nan=False),
    st.builds(
        lambda unscaled, scale: Decimal(unscaled).scaleb(-scale),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(0, 255),
    ),
    st.text(max_size=20),
    st.binary(max_size=20),
)
_values: st.SearchStrategy[TableValue] = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=10), inner, max_size=4)
    ),
    max_leaves=12,
)
tables: st.SearchStrategy[FieldTable] = st.dictionaries(st.text(max_size=10), _values, max_size=5)

_FIELDS: dict[str, st.SearchStrategy[object]] = {
    "bit": st.booleans(),
    "octet": st.integers(0, 2**8 - 1),
    "short": st.integers(0, 2**16 - 1),
    "long": st.integers(0, 2**32 - 1),
    "longlong": st.integers(0, 2**64 - 1),
    "shortstr": names,
    "longstr": st.binary(max_size=40),
    "table": tables,
}


def methods_of(
    row: spec.MethodSpec, **fields: st.SearchStrategy[object]
) -> st.SearchStrategy[Method]:
    """Random arguments for one row of the table of methods; `fields` replaces domains."""
    found = vars(method_types)[row.name.replace(".", "-").title().replace("-", "")]
    domains = {**_FIELDS, **fields}
    arguments = [domains[field.kind] for field in row.fields if field.name != spec.RESERVED]
    return st.tuples(*arguments).map(lambda values: found(*values))


any_method: st.SearchStrategy[Method] = st.one_of([methods_of(row) for row in spec.METHODS])

properties = st.fixed_dictionaries(
    {},
    optional={
        "content_type": short_texts,
        "headers": tables,
        "delivery_mode": st.integers(0, 255),
        "correlation_id": short_texts,
        "message_id": short_texts,
        "timestamp": st.integers(0, 2**64 - 1),
        "app_id": short_texts,
    },
).map(lambda found: encode_properties(cast(FieldTable, found)))

FRAME_MAX = 4_096
_channels = st.integers(1, 3)
_bodies = st.one_of(st.binary(max_size=30), st.integers(0, 10_000).map(lambda size: b"z" * size))

_publishes = st.builds(
    lambda channel, exchange, key, body, listed, bits, times: times
    * publish(channel, exchange, key, body, listed, bits, FRAME_MAX),
    _channels, names, names, _bodies, properties, st.integers(0, 3), st.integers(1, 3),
)  # fmt: skip
_tags = st.integers(0, 2**64 - 1)
_channel_methods: st.SearchStrategy[Method] = st.one_of(
    st.builds(BasicAck, _tags, st.booleans()),
    st.builds(BasicNack, _tags, st.booleans(), st.booleans()),
    st.builds(BasicReject, _tags, st.booleans()),
    st.builds(BasicQos, st.just(0), st.integers(0, 100), st.booleans()),
    st.builds(QueueDeclare, names, arguments=tables),
    st.builds(BasicConsume, names, names),
)
_heartbeats = st.just(b"\x08\x00\x00\x00\x00\x00\x00\xce")
_closings = _channels.map(lambda channel: encode_method(channel, ChannelClose(200, "bye", 0, 0)))

#: Pieces of what a well-behaved client sends on the open channels 1 to 3.
client_pieces = st.one_of(
    _publishes, _publishes, st.builds(encode_method, _channels, _channel_methods), _heartbeats,
    _closings,
)  # fmt: skip
client_streams = st.lists(client_pieces, max_size=12).map(b"".join)


@st.composite
def chunkings(draw: st.DrawFn, stream: bytes) -> list[bytes]:
    """The stream in pieces of any size."""
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *cuts, len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


def fault_of(call: Callable[[], object]) -> tuple[int, int, int] | None:
    """(reply code, class id, method id) of the violation that the call raises, if it does."""
    try:
        call()
    except ConnectionViolation as violation:
        return violation.reply_code, violation.class_id, violation.method_id
    return None
