"""Offsets written among the headers of messages, against writing each message anew."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.content import decode_properties, encode_properties
from fedq.amqp.offsets import with_offsets
from fedq.amqp.rewriting import with_headers_sorted
from fedq.amqp.strings import encode_short_string
from fedq.amqp.values import FieldTable, Long
from fedq.core.message import encode, make_route
from tests.property.amqp_strategies import properties

#: Headers that stand on either side of the offset, are it, or say in their bytes what it says.
ENTRY = "\x0fx-stream-offsetl" + "\0" * 8
HEADERS = st.dictionaries(
    st.sampled_from(["", "a", "x-stream-offset", "x-stream-offset2", "x-b", "z", "ÿ"])
    | st.text(max_size=3),
    st.none() | st.integers(-1, 1) | st.just(ENTRY) | st.text(max_size=3),
    max_size=4,
)
#: A table as a client may write it: names come in any order, and more than once.
TABLES = st.lists(st.sampled_from([b"a", b"x-stream-offset", b"z", b""]), max_size=4)
OFFSETS = st.integers(0, (1 << 63) - 1)


def fronts(found: bytes, headers: FieldTable) -> bytes:
    return encode_properties({**decode_properties(found), "headers": headers})


def raw(names: list[bytes]) -> bytes:
    table = b"".join(bytes([len(name)]) + name + b"V" for name in names)
    return b"\xa0\x00" + encode_short_string("text") + len(table).to_bytes(4, "big") + table


FRONTS = st.one_of(properties, st.builds(fronts, properties, HEADERS), TABLES.map(raw))


@given(data=st.data(), some=st.lists(FRONTS, min_size=1, max_size=3))
def test_offsets_stand_among_any_headers(data: st.DataObject, some: list[bytes]) -> None:
    routes = st.sampled_from([make_route("", "q"), make_route("x", "")])
    one = st.builds(
        encode, st.integers(0, 255), routes, st.sampled_from(some), st.binary(max_size=4)
    )
    messages = data.draw(st.lists(one, max_size=8))
    offsets = data.draw(st.lists(OFFSETS, min_size=len(messages), max_size=len(messages)))
    expected = [
        with_headers_sorted(message, {"x-stream-offset": Long(offset)})
        for message, offset in zip(messages, offsets, strict=True)
    ]
    assert with_offsets(messages, offsets) == expected


@given(found=properties)
def test_a_list_of_properties_stays_one(found: bytes) -> None:
    message = encode(0, make_route("", "q"), found, b"")
    written = with_offsets([message], [7])[0]
    size = int.from_bytes(written[3:7], "big")
    headers = decode_properties(written[-size:])["headers"]
    assert isinstance(headers, dict)
    assert headers["x-stream-offset"] == 7
