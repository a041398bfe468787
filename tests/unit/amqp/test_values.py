"""Field tables and strings, byte by byte."""

from decimal import Decimal

import pytest

from fedq.amqp.strings import (
    cut_short_string,
    decode_long_string,
    decode_short_string,
    encode_long_string,
    encode_short_string,
)
from fedq.amqp.values import FieldTable, TableValue, Timestamp, decode_table, encode_table
from fedq.core import limits
from fedq.core.errors import SYNTAX_ERROR, ConnectionViolation


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b"t\x01", True),
        (b"t\x00", False),
        (b"b\xff", -1),
        (b"B\xff", 255),
        (b"s\xff\xfe", -2),
        (b"u\xff\xfe", 65_534),
        (b"I\xff\xff\xff\xfd", -3),
        (b"i\xff\xff\xff\xfd", 4_294_967_293),
        (b"l\xff\xff\xff\xff\xff\xff\xff\xfc", -4),
        (b"L\x7f\xff\xff\xff\xff\xff\xff\xff", 2**63 - 1),
        (b"f\x3f\x80\x00\x00", 1.0),
        (b"d\x3f\xf8\x00\x00\x00\x00\x00\x00", 1.5),
        (b"D\x02\x00\x00\x01\x3a", Decimal("3.14")),
        (b"D\x02\xff\xff\xff\xff", Decimal("-0.01")),
        (b"T\x00\x00\x00\x00\x00\x00\x00\x07", Timestamp(7)),
        (b"S\x00\x00\x00\x03\xe2\x82\xac", "€"),
        (b"S\x00\x00\x00\x01\xff", b"\xff"),
        (b"x\x00\x00\x00\x02hi", b"hi"),
        (b"A\x00\x00\x00\x03t\x01V", [True, None]),
        (b"F\x00\x00\x00\x03\x01kV", {"k": None}),
        (b"V", None),
    ],
)
def test_every_field_type_is_read(field: bytes, value: TableValue) -> None:
    data = b"??" + encode_long_string(b"\x01k" + field) + b"rest"
    table, end = decode_table(data, 2)
    assert table == {"k": value}
    assert type(table["k"]) is type(value)
    assert data[end:] == b"rest"


@pytest.mark.parametrize(
    ("value", "field"),
    [
        (True, b"t\x01"),
        (-5, b"I\xff\xff\xff\xfb"),
        (2**31, b"l\x00\x00\x00\x00\x80\x00\x00\x00"),
        (Timestamp(7), b"T\x00\x00\x00\x00\x00\x00\x00\x07"),
        (1.5, b"d\x3f\xf8\x00\x00\x00\x00\x00\x00"),
        (Decimal("3.14"), b"D\x02\x00\x00\x01\x3a"),
        ("€", b"S\x00\x00\x00\x03\xe2\x82\xac"),
        (b"hi", b"x\x00\x00\x00\x02hi"),
        ([True, None], b"A\x00\x00\x00\x03t\x01V"),
        ({"k": None}, b"F\x00\x00\x00\x03\x01kV"),
    ],
)
def test_values_are_written_in_the_types_that_clients_know(value: TableValue, field: bytes) -> None:
    assert encode_table({"k": value}) == encode_long_string(b"\x01k" + field)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x00\x00",
        b"\x00\x00\x00\x05\x01k",
        encode_long_string(b"\x05key"),
        encode_long_string(b"\x01k"),
        encode_long_string(b"\x01kZ"),
        encode_long_string(b"\x01kI\x00\x00") + b"more bytes behind the table",
        encode_long_string(b"\x01kS\x00\x00\x00\x09text") + b"more bytes behind the table",
        encode_long_string(b"\x01kF\x00\x00\x00\x09\x01") + b"more bytes behind the table",
        encode_long_string(b"\x01kA\x00\x00\x00\x02I\x00\x00"),
        encode_long_string(b"\x01\xffV"),
    ],
)
def test_malformed_tables_are_a_syntax_error(data: bytes) -> None:
    with pytest.raises(ConnectionViolation) as caught:
        decode_table(data)
    assert caught.value.reply_code == SYNTAX_ERROR


@pytest.mark.parametrize("kind", [b"F", b"A"])
def test_nesting_has_a_limit(kind: bytes) -> None:
    def nested(levels: int) -> bytes:
        value = b"V"
        for _ in range(levels - 1):
            value = kind + encode_long_string(value if kind == b"A" else b"\x00" + value)
        return encode_long_string(b"\x01k" + value)

    decode_table(nested(limits.TABLE_DEPTH_MAX))
    with pytest.raises(ConnectionViolation, match="nested deeper than 32"):
        decode_table(nested(limits.TABLE_DEPTH_MAX + 1))


def test_what_is_written_nests_no_deeper_than_what_is_read() -> None:
    table: FieldTable = {}
    for _ in range(limits.TABLE_DEPTH_MAX - 1):
        table = {"k": table}
    assert decode_table(encode_table(table))[0] == table
    with pytest.raises(ValueError, match="nested deeper"):
        encode_table({"k": table})


@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, Timestamp(-1), Decimal("1e3"), Decimal(2**31), Decimal("NaN")]
)
def test_what_has_no_form_on_the_wire_is_refused(value: TableValue) -> None:
    with pytest.raises(ValueError, match=r"bits|seconds|decimal"):
        encode_table({"k": value})


def test_the_last_of_repeated_keys_counts() -> None:
    assert decode_table(encode_long_string(b"\x01kt\x00\x01kt\x01"))[0] == {"k": True}


def test_short_strings_hold_255_bytes_of_utf8() -> None:
    text = "ä" * 127 + "x"
    assert decode_short_string(encode_short_string(text) + b"rest", 0) == (text, 256)
    with pytest.raises(ValueError, match="256 bytes"):
        encode_short_string("ä" * 128)


@pytest.mark.parametrize("data", [b"", b"\x04abc", b"\x01\xff"])
def test_malformed_short_strings_are_a_syntax_error(data: bytes) -> None:
    with pytest.raises(ConnectionViolation) as caught:
        decode_short_string(data, 0)
    assert caught.value.reply_code == SYNTAX_ERROR


@pytest.mark.parametrize("data", [b"\x00\x00", b"\x00\x00\x00\x04abc"])
def test_malformed_long_strings_are_a_syntax_error(data: bytes) -> None:
    with pytest.raises(ConnectionViolation) as caught:
        decode_long_string(data, 0)
    assert caught.value.reply_code == SYNTAX_ERROR


def test_long_sentences_are_cut_between_characters() -> None:
    assert cut_short_string("€" * 200) == "€" * 85
