"""The reader of tools: records with their places, damage where it is."""

import pytest

from fedq.journal.decoding import CorruptRecord
from fedq.journal.events import Drop, Reset
from fedq.journal.reader import Located, read
from tests.unit.journal.samples import ONE, TWO, encode_all


def test_every_record_has_its_place() -> None:
    first, second = encode_all([Reset(ONE, 3, 9)]), encode_all([Drop(TWO, 0)])
    assert list(read(first + second)) == [
        Located(0, len(first), Reset(ONE, 3, 9)),
        Located(len(first), len(second), Drop(TWO, 0)),
    ]


def test_what_is_whole_is_read_before_damage_is_raised() -> None:
    whole = encode_all([Reset(ONE, 3, 9)])
    reader = read(whole + b"\xff")
    assert next(reader).record == Reset(ONE, 3, 9)
    with pytest.raises(CorruptRecord):
        next(reader)
