"""What is told of the lanes at the end of `make test`."""

from pathlib import Path

import pytest

from tests import lanes
from tests.lanes import REASONS_TOLD, Lane, note, told


def test_each_lane_is_told_with_what_it_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "FOLDER", tmp_path / "lanes")
    many = {f"reason {number}": 1 for number in range(REASONS_TOLD + 3)}
    note("unit", Lane("7 passed, 5 skipped", True, 12.4, {"no compiler": 3, "no disk": 2}))
    note("integration", Lane("1 failed, 6 passed", False, 3.0, many))
    assert told(["unit", "celery"]) == [
        "unit         7 passed, 5 skipped in 12 s",
        "                  3 skipped: no compiler",
        "                  2 skipped: no disk",
        "celery       did not come to its end: see above",
    ]
    first, *_, last = told(["integration"])
    assert first == "integration  RED: 1 failed, 6 passed in 3 s"
    assert last.strip() == "3 skipped for 3 other reasons"
