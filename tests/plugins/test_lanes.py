"""What is told of the lanes at the end of `make test`."""

from pathlib import Path

import pytest

from tests import lanes
from tests.lanes import FAILURES_TOLD, REASONS_TOLD, Lane, note, told


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
        "celery       RED: did not come to its end: see above",
    ]
    first, *_, last = told(["integration"])
    assert first == "integration  RED: 1 failed, 6 passed in 3 s"
    assert last.strip() == "3 skipped for 3 other reasons"


def test_all_that_failed_is_told_in_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "FOLDER", tmp_path / "lanes")
    one = ("tests/test_a.py::test_one", "assert 1 == 2")
    many = [(f"tests/test_b.py::test_{number}", "no") for number in range(FAILURES_TOLD + 2)]
    note("unit", Lane("1 failed", False, 1.0, failed=[one]))
    note("surface", Lane("7 passed", True, 1.0))
    note("celery", Lane("", False, failed=many, is_over=False))
    lines = told(["unit", "surface", "celery", "pure"])
    assert lines[:6] == [
        "unit         RED: 1 failed in 1 s",
        "surface      7 passed in 1 s",
        "celery       RED: did not come to its end: see above",
        "pure         RED: did not come to its end: see above",
        "What failed:",
        "unit         tests/test_a.py::test_one: assert 1 == 2",
    ]
    assert lines[6] == "celery       tests/test_b.py::test_0: no"
    assert lines[-1] == "celery       and 2 others: see above"
