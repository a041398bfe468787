"""Values of messages in streams: found in encoded properties, or surely not there."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedq.amqp.content import decode_properties, encode_properties, message_flags
from fedq.amqp.filtering import Sieve, StreamFilter, fault_of_values, filter_value
from fedq.amqp.values import FieldTable, TableValue
from fedq.core.limits import STREAM_FILTER_BYTES_MAX, STREAM_FILTER_VALUES_MAX
from fedq.core.message import encode

NAME = "x-stream-filter-value"
ROUTE = b"\x00\x01s"


def message(headers: FieldTable | None = None, **properties: TableValue) -> bytes:
    """A message with these headers and properties."""
    table: FieldTable = {**properties}
    if headers is not None:
        table["headers"] = headers
    data = encode_properties(table)
    return encode(message_flags(data), ROUTE, data, b"body " + NAME.encode())


@pytest.mark.parametrize(
    ("headers", "value"),
    [
        (None, None),
        ({}, None),
        ({"a": 1}, None),
        ({NAME: "eu"}, b"eu"),
        ({NAME: ""}, b""),
        ({NAME: "ü\udcff"}, b"\xc3\xbc\xff"),
        ({"a": [1, {NAME: "no"}], NAME: "yes", "b": {NAME: "no"}}, b"yes"),
        # What only looks like it.
        ({"a": {NAME: "no"}}, None),
        ({"a": f"\x15{NAME}S\x00\x00\x00\x01x"}, None),
        ({f"{NAME}s": "no"}, None),
        # What is no string is no value.
        ({NAME: 1}, None),
        ({NAME: b"eu"}, None),
        ({NAME: None}, None),
        ({NAME: ["eu"]}, None),
    ],
)
def test_the_value_is_that_of_the_header(headers: FieldTable | None, value: bytes | None) -> None:
    assert filter_value(message(headers)) == value
    told: FieldTable = {"content_type": NAME, "content_encoding": "x", "message_id": NAME}
    assert filter_value(message(headers, **told)) == value


def test_of_repeated_headers_the_last_one_counts() -> None:
    once = encode_properties({"headers": {NAME: "a"}})
    entries = once[6:]
    other = entries[:-1] + b"b"
    for both, last in ((entries + other, b"b"), (other + entries, b"a")):
        data = once[:2] + len(both).to_bytes(4, "big") + both
        assert decode_properties(data)["headers"] == {NAME: last.decode()}
        assert filter_value(encode(message_flags(data), ROUTE, data, b"")) == last


VALUES: st.SearchStrategy[TableValue] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5)
    | st.binary(max_size=5) | st.just(f"\x15{NAME}S\x00\x00\x00\x01x"),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from([NAME, "a", "b"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
HEADERS: st.SearchStrategy[FieldTable] = st.dictionaries(
    st.sampled_from([NAME, "a", "", NAME.upper(), "b" * 21]), VALUES, max_size=4
)
MESSAGES = st.builds(
    lambda headers, properties: message(headers, **properties),
    st.none() | HEADERS | st.sampled_from(["a", "b", "c"]).map(lambda value: {NAME: value}),
    st.dictionaries(st.sampled_from(["content_type", "content_encoding"]), st.just(NAME)),
)
WANTED = st.builds(
    lambda values, unfiltered: StreamFilter(tuple(values), unfiltered),
    st.lists(st.sampled_from([b"a", b"b", b"", b"zz"]), unique=True), st.booleans(),
)  # fmt: skip


def plain_value(content: bytes) -> bytes | None:
    """The value, by decoding everything."""
    size = int.from_bytes(content[3:7], "big")
    headers = decode_properties(content[10 : 10 + size]).get("headers")
    found = headers.get(NAME) if isinstance(headers, dict) else None
    return found.encode() if isinstance(found, str) else None


@given(st.lists(MESSAGES, max_size=8), WANTED, st.integers(1, 4), st.integers(1, 300))
@example([message({NAME: "a"})] * 3, StreamFilter((b"a",)), 2, 1_000)
def test_a_sieve_finds_what_a_plain_look_finds(
    messages: list[bytes], wanted: StreamFilter, most: int, size: int
) -> None:
    sieve, at, found = Sieve(wanted), 0, []
    while at < len(messages):
        count, picked = sieve.pick(messages[at:], most, size)
        assert count
        assert len(picked) <= most
        assert sum(len(messages[at + each]) for each in picked[:-1]) < size
        found += [at + each for each in picked]
        at += count
    values = [plain_value(each) for each in messages]
    assert found == [
        place
        for place, value in enumerate(values)
        if (wanted.unfiltered if value is None else value in wanted.values)
    ]
    assert [filter_value(each) for each in messages] == values
    assert sieve.work >= len(messages) // 2


def test_what_a_long_property_list_costs_is_counted() -> None:
    """Whether or not the header is in it; alike neighbours are judged once."""
    headers: FieldTable = {f"{number:04}": None for number in range(10_000)}
    quiet, loud = Sieve(StreamFilter((b"a",))), Sieve(StreamFilter((b"a",)))
    quiet.pick([message(headers)] * 100, 100, 1 << 30)
    loud.pick([message({**headers, NAME: "b"})] * 100, 100, 1 << 30)
    assert 50 < quiet.work < 100
    assert 3_000 < loud.work < 10_000


def test_values_of_a_filter_have_bounds() -> None:
    most = STREAM_FILTER_VALUES_MAX
    assert fault_of_values([b"x" * 63] * most) is None
    assert fault_of_values([b"x" * 64] * most) is None
    assert f"at most {STREAM_FILTER_BYTES_MAX}" in str(fault_of_values([b"x" * 65] * most))
    assert f"at most {most}" in str(fault_of_values([b""] * (most + 1)))
    assert fault_of_values([b"x" * 255]) is None
    assert "a value of 256 bytes" in str(fault_of_values([b"x" * 256]))
