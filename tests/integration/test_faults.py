"""A short part of `make faults`: each kind of fault on three real nodes under load."""

import random
from pathlib import Path

import pytest

from tests.faults import power
from tests.faults.play import FAULTS, Play

#: Alone it takes some 40 s; beside other lanes on two cores, longer than most tests may.
pytestmark = [pytest.mark.slow, pytest.mark.patience(180)]


def test_faults_lose_nothing_and_repeat_nothing_unmarked(tmp_path: Path) -> None:
    library = power.build(tmp_path) if power.compiler() else None
    kinds = [kind for kind in FAULTS if kind != "cuts" or library]
    with Play(tmp_path / "cluster", random.Random(7), 100, library) as play:
        told = [play.hurt(kind) for kind in kinds]
        verdict = play.finish()
    assert verdict.lost == [], told
    assert verdict.duplicates_unflagged == 0, told
    assert verdict.confirmed > 100
