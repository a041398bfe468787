"""The plugins in a pytest of their own: what they fail is seen, and what they print holds."""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.integration.harness import ROOT, environment

PATIENCE_S = 60
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
        cwd=folder, env=environment() | {"PYTHONPATH": str(ROOT)},
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
