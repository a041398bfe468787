"""The index of a full segment: what it says, and what is none."""

import struct
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import first_position
from fedq.journal.indexes import OPENING_BYTES, decode_index, encode_index
from fedq.journal.segments import Segment
from tests.unit.golden import GOLDEN
from tests.unit.journal.samples import ONE, PRIVATE, TWO

INDEX = Path(GOLDEN) / "places-v1.places"
FIRST = first_position(3)
OPENING = bytes(range(OPENING_BYTES))
FILE_BYTES = 9_000_000


def sample() -> Segment:
    """A segment with something of everything."""
    segment = Segment(7, 8_999_000)
    for fragment, first, last, start, stop, copied in (
        (ONE, FIRST + 1, FIRST + 40, 49, 60_000, False),
        (TWO, 5, 5, 60_000, 60_100, False),
        (ONE, FIRST + 41, FIRST + 80, 60_100, 130_000, False),
        (ONE, 3, 9, 130_000, 1_200_000, True),
        (PRIVATE, FIRST + 2, FIRST + 2, 1_200_000, 1_200_080, True),
        (ONE, FIRST + 82, FIRST + 90, 1_200_080, 8_999_000, False),
    ):
        note = segment.copied if copied else segment.arrived
        note(fragment, first, last)
        segment.places.add(fragment, first, last, stop, stop - start, copied)
    segment.places.finish_chunk(0, 0)
    return segment


def same(one: Segment, other: Segment) -> bool:
    fragments = list(one.spans)
    return (
        one == other
        and one.places.size == other.places.size
        and [one.places.of(each, 7) for each in fragments]
        == [other.places.of(each, 7) for each in fragments]
        and [one.places.weights(each) for each in fragments]
        == [other.places.weights(each) for each in fragments]
    )


def test_an_index_says_what_is_known_of_its_segment() -> None:
    data = encode_index(sample(), FILE_BYTES, OPENING)
    found = decode_index(data, 7, FILE_BYTES, OPENING)
    assert found is not None
    assert same(sample(), found)
    assert encode_index(found, FILE_BYTES, OPENING) == data
    found.places.add(ONE, FIRST + 91, FIRST + 91, 8_999_900, 900, False)
    assert found.places.arrival_at(ONE, FIRST + 50, 7) == sample().places.of(ONE, 7)[1]


def test_an_empty_segment_has_one_too() -> None:
    data = encode_index(Segment(7), 0, b"")
    assert decode_index(data, 7, 0, b"") == Segment(7)


def test_the_golden_index_still_reads_and_is_still_written_alike() -> None:
    golden = INDEX.read_bytes()
    assert encode_index(sample(), FILE_BYTES, OPENING) == golden
    found = decode_index(golden, 7, FILE_BYTES, OPENING)
    assert found is not None
    assert same(sample(), found)


def test_that_of_another_segment_or_of_an_earlier_state_is_none() -> None:
    data = encode_index(sample(), FILE_BYTES, OPENING)
    assert decode_index(data, 8, FILE_BYTES, OPENING) is None
    assert decode_index(data, 7, FILE_BYTES - 1, OPENING) is None
    assert decode_index(data, 7, FILE_BYTES, OPENING[::-1]) is None


def test_a_torn_or_damaged_one_is_none() -> None:
    data = encode_index(sample(), FILE_BYTES, OPENING)
    for end in range(len(data)):
        assert decode_index(data[:end], 7, FILE_BYTES, OPENING) is None
    for at in range(len(data)):
        spoilt = bytearray(data)
        spoilt[at] ^= 0x40
        assert decode_index(bytes(spoilt), 7, FILE_BYTES, OPENING) is None
    assert decode_index(data + data[-4:], 7, FILE_BYTES, OPENING) is None


def signed(content: bytes) -> bytes:
    """Content with the checksum that belongs to it."""
    return content + struct.pack(">I", crc32(content))


@pytest.mark.parametrize(
    "rows",
    [
        [(1, 2, 4, 0, 5)],
        [(1, 1, 0, 0, 1)],
        [(1, 0, 4, 0, 4)],
        [(1, 2, 3, 0, 5)],
        [(1, 2, 0, 6, 8)],
        [(1, 1 << 31, 0, 0, 2)],
    ],
)
def test_counts_that_do_not_fit_are_none(rows: list[tuple[int, int, int, int, int]]) -> None:
    head = struct.pack(">8sBQQQII", b"fqplaces", 1, 7, 10, 10, crc32(b""), len(rows))
    table = b"".join(struct.pack(">qIII", *row[:4]) for row in rows)
    numbers = bytes(8 * sum(row[4] for row in rows))
    assert decode_index(signed(head + table + numbers), 7, 10, b"") is None


def test_one_of_a_newer_release_is_none() -> None:
    head = struct.pack(">8sBQQQII", b"fqplaces", 2, 7, 10, 10, crc32(b""), 0)
    assert decode_index(signed(head), 7, 10, b"") is None
    head = struct.pack(">8sBQQQII", b"fqplaces", 1, 7, 10, 10, crc32(b""), 0)
    assert decode_index(signed(head), 7, 10, b"") == Segment(7, 10)


@given(st.binary(max_size=200), st.integers(0, 60))
def test_no_bytes_raise_anything(data: bytes, at: int) -> None:
    """Not even with the right checksum."""
    whole = encode_index(sample(), FILE_BYTES, OPENING)[:-4]
    content = whole[:at] + data + whole[at + len(data) :]
    for each in (data, signed(data), signed(content), signed(whole[:at] + data)):
        found = decode_index(each, 7, FILE_BYTES, OPENING)
        if found is not None:
            for fragment in found.places.fragments():
                found.places.runs(fragment)
                found.places.of(fragment, 7)
