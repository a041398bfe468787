"""The plugins in a pytest of their own: what they fail is seen, and what they print holds."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.integration.harness import ROOT, environment
from tests.integration.waiting import patient

PATIENCE_S = patient(60)
LEAKS = """
import asyncio, os, subprocess, sys, threading
import pytest

gate, kept = threading.Event(), []

@pytest.fixture(scope="module")
def shared():
    yield os.open(os.devnull, os.O_RDONLY)
    gate.set()

def test_thread(shared):
    kept.append(threading.Thread(target=threading.Event().wait))
    kept[-1].start()

def test_descriptor(shared):
    kept.append(os.open(os.devnull, os.O_RDONLY))

def test_child(shared):
    kept.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))

def test_task(shared):
    async def main():
        kept.append(asyncio.create_task(asyncio.Event().wait()))
    asyncio.run(main())

def test_nothing(shared):
    thread = threading.Thread(target=gate.wait, args=(0.1,))
    thread.start()
"""
MODULE = "".join(f"def test_{number}(): pass\n" for number in range(20))


class Run(NamedTuple):
    """What a pytest said."""

    exit_code: int
    out: str
    err: str

    @property
    def order(self) -> list[str]:
        """The tests as they ran."""
        return re.findall(r"^(\S+::\w+) PASSED", self.out, re.MULTILINE)


def pytest_in(folder: Path, *arguments: str) -> Run:
    """Runs what is in the folder with the plugins."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p",
         "tests.plugins.order", "-p", "tests.plugins.leaks", *arguments],
        cwd=folder, env=environment() | {"PYTHONPATH": str(ROOT), "FEDQ_TEST_PATIENCE": "0.5"},
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    return Run(done.returncode, done.stdout, done.stderr)


def test_whatever_is_left_behind_fails_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(LEAKS)
    run = pytest_in(tmp_path, "--tb=line")
    assert run.exit_code == 1
    failed = re.findall(
        r"^ERROR test_it.py::(\w+) - AssertionError: left behind: (\w+)", run.out, re.M
    )
    wanted = [(f"test_{word}", word) for word in ("thread", "descriptor", "task")]
    assert sorted(failed) == sorted([*wanted, ("test_child", "descriptor")])
    assert "; process " in run.out
    assert "threads are left behind, and not waited for: Thread-" in run.err


def test_the_seed_is_the_order(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / f"test_{name}.py").write_text(MODULE)
    written = pytest_in(tmp_path, "--order", "written").order
    one = pytest_in(tmp_path)
    found = re.search(r"tests ran in the order of --order (\d+)", one.out)
    assert found is not None
    again = pytest_in(tmp_path, "--order", found[1])
    part = pytest_in(tmp_path, "--order", found[1], "test_b.py", "-k", "1")
    assert written == sorted(written, key=lambda name: (name[:9], int(name.rpartition("_")[2])))
    assert one.order != written
    assert sorted(one.order) == sorted(written)
    assert again.order == one.order
    assert part.order == [name for name in one.order if name.startswith("test_b") and "1" in name]


LANE = """
import os, signal, threading
import pytest

@pytest.fixture
def ends_badly():
    yield
    raise RuntimeError("this is in nobody's way")

def test_fails():
    assert 1 == 2, "two\\nlines"

def test_is_interrupted(ends_badly):
    left = threading.Thread(target=threading.Event().wait, daemon=True)
    left.start()
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait()
"""


def test_a_lane_that_is_ended_early_names_what_failed(tmp_path: Path) -> None:
    lanes = tmp_path / "lanes"
    (tmp_path / "conftest.py").write_text(
        f"import pathlib, tests.lanes\ntests.lanes.FOLDER = pathlib.Path({str(lanes)!r})\n"
    )
    (tmp_path / "test_it.py").write_text(LANE)
    run = pytest_in(tmp_path, "--order", "written", "-p", "tests.plugins.lane", "--lane", "trial")
    assert run.exit_code == 2
    assert "FAILED test_it.py::test_fails - AssertionError: two" in run.out
    assert "RuntimeError: this is in nobody's way" in run.err
    assert "left behind" not in run.out + run.err
    found = json.loads((lanes / "trial.json").read_text())
    assert found["failed"] == [["test_it.py::test_fails", "AssertionError: two"]]
    assert found["ran"] == "1 failed, interrupted"
    assert not found["is_green"]
