"""A short part of `make powercut`: the power of real nodes is cut, and nothing is lost."""

import random
from pathlib import Path

import pytest

from tests.faults.power import compiler
from tests.powercut import record
from tests.powercut.play import Play

#: Alone they take some 15 s in all; beside other lanes on two cores, longer than most tests may.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.patience(180),
    pytest.mark.skipif(compiler() is None, reason="needs a C compiler"),
]


@pytest.mark.parametrize("names", ["a", "abc"])
def test_a_power_cut_takes_nothing_that_was_confirmed(tmp_path: Path, names: str) -> None:
    records = tmp_path / "records"
    records.mkdir()
    library = record.build(tmp_path)
    with Play(tmp_path / "cluster", names, random.Random(3), library, records) as play:
        done = play.round(1.5)
    assert done.verdict.wrong == [], done.cut
    assert done.cut.lines


def test_a_disk_that_lies_is_found_out(tmp_path: Path) -> None:
    """So the others would find a node that confirms what it has not synced."""
    records = tmp_path / "records"
    records.mkdir()
    library = record.build(tmp_path)
    dice = random.Random(1)
    with Play(tmp_path / "cluster", "a", dice, library, records, -1, patience_s=1) as play:
        rounds = [play.round(0.5)]
        while not rounds[-1].verdict.wrong and len(rounds) < 5:
            rounds.append(play.round(0.5))
    assert rounds[-1].verdict.wrong
