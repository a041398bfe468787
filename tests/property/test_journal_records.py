"""Records: what was encoded comes back, damage is noticed, and no bytes crash a reader."""

import struct
from dataclasses import replace
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import FragmentId
from fedq.fragments.replica import Replica
from fedq.journal.decoding import CorruptRecord, ForeignRecord, decode, scan
from fedq.journal.events import Group, Record, Single
from fedq.journal.records import KIND_GROUP, VERSION
from fedq.journal.recovery import recover
from tests.property.journal_model import OWN_RECORDS, WIDE_RECORDS
from tests.unit.journal.samples import encode_all, encode_record


@given(st.lists(WIDE_RECORDS | OWN_RECORDS, max_size=6))
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


def framed(body: bytes) -> bytes:
    """A body whose length and checksum hold, as only a liar or a bug would write it."""
    return struct.pack(">II", len(body), crc32(body)) + body


def heads(kinds: st.SearchStrategy[int]) -> st.SearchStrategy[bytes]:
    return st.builds(
        lambda kind, fragment: struct.pack(">BBqQ", VERSION, kind, fragment, 1),
        kinds,
        st.integers(0, 1),
    )


#: Small numbers where counts and lengths are, so that tables often fit.
PAYLOADS = st.lists(st.integers(0, 3).map(lambda n: bytes([n])) | st.binary(max_size=3)).map(
    b"".join
)
LIES = st.builds(lambda head, payload: framed(head + payload), heads(st.integers(0, 15)), PAYLOADS)
GROUPED_LIES = st.builds(
    lambda head, inner: framed(head + b"".join(inner)),
    heads(st.just(KIND_GROUP)),
    st.lists(
        LIES | (WIDE_RECORDS | OWN_RECORDS).map(encode_record) | st.binary(max_size=20), max_size=3
    ),
)


@given(st.lists(LIES | GROUPED_LIES | st.binary(max_size=9), max_size=4).map(b"".join))
def test_a_liar_is_told_so_and_changes_no_copy(data: bytes) -> None:
    """Nor does it take long to believe one that is whole: a range may be as wide as it likes."""
    copy = Replica(FragmentId(1), durable=True)
    try:
        list(decode(data))
    except CorruptRecord:
        with pytest.raises(CorruptRecord):
            copy.apply(data)
        assert (copy.messages, copy.notes, copy.origins) == ({}, {}, {})
    else:
        try:
            copy.apply(data)
        except ForeignRecord:
            # Whole, and of another fragment.
            assert (copy.messages, copy.notes, copy.origins) == ({}, {}, {})
        recover({1: data})


@given(OWN_RECORDS, st.booleans())
def test_a_checkpoint_of_another_node_is_refused(record: Single, grouped: bool) -> None:
    """It would say of this node's disk what is not so."""
    copy = Replica(FragmentId(1), durable=True)
    one = replace(record, fragment=FragmentId(1))
    data = encode_record(Group(FragmentId(1), 1, [one]) if grouped else one)
    with pytest.raises(CorruptRecord):
        copy.apply(data)


def test_groups_in_groups_are_refused_before_they_are_entered() -> None:
    nested = b""
    for _ in range(5_000):
        nested = framed(struct.pack(">BBqQ", VERSION, KIND_GROUP, 1, 1) + nested)
    with pytest.raises(ForeignRecord, match="a group in a group"):
        list(decode(nested))
