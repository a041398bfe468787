"""What is told of the lanes at the end of `make test`."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import lanes
from tests.integration.waiting import until
from tests.lanes import FAILURES_TOLD, MODULES_TOLD, REASONS_TOLD, Lane, efforts, note, told
from tests.plugins.effort import Effort


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


def test_what_modules_took_is_told_with_the_most_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "FOLDER", tmp_path / "lanes")
    assert efforts() == ["No lane has been noted yet: make test, or one lane of it."]
    effort = {f"test_{number}.py": number / 2 for number in range(MODULES_TOLD + 2)}
    note("unit", Lane("7 passed", True, 12.4, effort=effort))
    note("sim", Lane("1000 seeds passed", True))
    assert told(["unit"]) == ["unit         7 passed in 12 s, 68 s of a processor"]
    assert efforts()[:2] == [
        "unit             68.0 s of a processor", f"{'':12}      8.0 s  test_16.py",
    ]  # fmt: skip
    assert efforts()[-1].split() == ["0.5", "s", "2", "other", "modules"]


def test_the_work_of_other_processes_is_their_modules(tmp_path: Path) -> None:
    effort = Effort()
    effort.note("before")
    done = tmp_path / "done"
    work = "sum(range(30_000_000))"
    text = f"import os, pathlib\n{work}\npathlib.Path({str(done)!r}).touch()\ninput()"
    # One that has ended by then, and one that has a child and still runs.
    subprocess.run([sys.executable, "-c", work], check=True)
    effort.note("ended")
    inner = [sys.executable, "-c", text]
    outer = f"import subprocess; subprocess.run({inner!r})"
    with subprocess.Popen([sys.executable, "-c", outer], stdin=subprocess.PIPE):
        until("it has worked", done.exists)
        effort.note("running")
    effort.note("after")
    few = effort.modules["after"]
    assert min(effort.modules["ended"], effort.modules["running"]) > max(few, 0.1)
