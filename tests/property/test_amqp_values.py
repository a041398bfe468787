"""Tables, property lists and methods survive the way to the wire and back."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp import base as other_base
from pamqp import decode as other_decode
from pamqp import encode as other_encode
from pamqp import frame as other_frame

from fedq.amqp import spec
from fedq.amqp.content import decode_properties, encode_properties, headers_of, message_flags
from fedq.amqp.methods import Method, decode_method, encode_method, name_of
from fedq.amqp.values import FieldTable, decode_table, encode_table
from tests.examples import examples
from tests.property import amqp_strategies as random


@given(random.tables, st.binary(max_size=5))
def test_tables_round_trip(table: FieldTable, rest: bytes) -> None:
    data = encode_table(table)
    assert decode_table(data + rest) == (table, len(data))


@given(random.tables)
def test_another_library_reads_our_tables(table: FieldTable) -> None:
    data = encode_table(table)
    try:
        size, _ = other_decode.field_table(data)
    except (OverflowError, ValueError):
        return  # Its timestamps end with Python's calendar.
    assert size == len(data)


@given(st.dictionaries(st.text(max_size=9), st.integers(-(2**31), 2**31 - 1) | st.text(max_size=9)))
def test_we_read_the_tables_of_another_library(table: dict[str, int | str]) -> None:
    assert decode_table(other_encode.field_table(dict(table)))[0] == table


@given(st.binary(max_size=60))
def test_garbage_is_no_table(data: bytes) -> None:
    for odd in (data, len(data).to_bytes(4, "big") + data):
        fault = random.fault_of(partial(decode_table, odd))
        assert fault == (502, 0, 0) or decode_table(odd)[1] <= len(odd)


@given(random.properties)
def test_property_lists_round_trip(data: bytes) -> None:
    decoded = decode_properties(data)
    assert encode_properties(decoded) == data
    assert headers_of(data) == decoded.get("headers", {})
    assert message_flags(data) == int(decoded.get("delivery_mode") == 2)


@given(st.binary(max_size=40))
def test_a_checked_property_list_can_be_decoded(data: bytes) -> None:
    fault = random.fault_of(lambda: message_flags(data))
    if fault is None:
        assert headers_of(data) == decode_properties(data).get("headers", {})
    else:
        assert fault == (502, 60, 40)


@given(st.integers(0, 65_535), random.any_method)
def test_methods_round_trip(channel: int, method: Method) -> None:
    data = encode_method(channel, method)
    assert int.from_bytes(data[1:3], "big") == channel
    assert decode_method(data[7:-1]) == method


@pytest.mark.filterwarnings("ignore:This command is deprecated:DeprecationWarning")
@pytest.mark.parametrize(
    "row",
    # It has no class access, which AMQP 0-9-1 has not either.
    [row for row in spec.METHODS if row.class_id != spec.ACCESS],
    ids=lambda row: row.name,
)
@given(drawn=st.data())
@settings(max_examples=examples(5))
def test_another_library_agrees_on_every_method(row: spec.MethodSpec, drawn: st.DataObject) -> None:
    # Names that it accepts; tables that have only one form.
    plain = st.text("abc.", min_size=1, max_size=9)
    tables = st.dictionaries(plain, st.booleans() | plain, max_size=1)
    method = drawn.draw(
        random.methods_of(row, shortstr=plain, table=tables, longstr=plain.map(str.encode))
    )
    data = encode_method(7, method)
    size, channel, other = other_frame.unmarshal(data)
    assert (size, channel) == (len(data), 7)
    assert isinstance(other, other_base.Frame)
    assert other.name.replace("_", "").lower() == name_of(method).replace("-", "").lower()
    if name_of(method) not in ("channel.open", "channel.open-ok"):
        # For their reserved fields it insists on a text that older versions used.
        assert other_frame.marshal(other, 7) == data


@given(st.binary(max_size=80))
def test_garbage_is_no_method(payload: bytes) -> None:
    fault = random.fault_of(lambda: decode_method(payload))
    if fault is None:
        assert encode_method(0, decode_method(payload))[7:11] == payload[:4]
    else:
        assert fault[0] in (502, 540)


@given(st.sampled_from(spec.METHODS), st.binary(max_size=60))
def test_garbage_arguments_are_a_syntax_error(row: spec.MethodSpec, arguments: bytes) -> None:
    ids = row.class_id.to_bytes(2, "big") + row.method_id.to_bytes(2, "big")
    fault = random.fault_of(lambda: decode_method(ids + arguments))
    assert fault in (None, (502, row.class_id, row.method_id))
