"""Records: what was encoded comes back, and no damaged byte goes unnoticed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.journal.decoding import CorruptRecord, decode, scan
from fedq.journal.records import Record
from tests.property.journal_model import WIDE_RECORDS
from tests.unit.journal.samples import encode_all, encode_record


@given(st.lists(WIDE_RECORDS, max_size=6))
def test_records_come_back_as_they_were(records: list[Record]) -> None:
    data = encode_all(records)
    assert list(decode(data)) == records
    assert scan(data) == (records, len(data))


@given(st.lists(WIDE_RECORDS, min_size=1, max_size=3), st.data())
def test_any_flipped_byte_is_detected(records: list[Record], data: st.DataObject) -> None:
    encoded = bytearray(encode_all(records))
    at = data.draw(st.integers(0, len(encoded) - 1), "byte")
    encoded[at] ^= data.draw(st.integers(1, 255), "flipped bits")
    damaged, begin = 0, 0
    for record in records:
        begin += len(encode_record(record))
        if begin > at:
            break
        damaged += 1
    with pytest.raises(CorruptRecord) as caught:
        list(decode(bytes(encoded)))
    assert caught.value.offset == len(encode_all(records[:damaged]))
    assert scan(bytes(encoded)) == (records[:damaged], caught.value.offset)


@given(st.binary(max_size=200))
def test_noise_is_never_taken_for_a_record(noise: bytes) -> None:
    assert scan(noise) == ([], 0)
