"""The machine's instructions for each message, compiled code included, where valgrind is installed.

    python -m tests.cost --machine --only alike

Counts of the interpreter's instructions do not see what compiled modules do; these do. They depend
on the compiler and on the build of Python, so they have no budget: they are for comparing two
versions of the code on one machine, however busy it is. System calls and waiting for memory are not
in them.

In: the name of a work. Out: instructions for each item, and the functions that have most of them.
"""

import ctypes
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, final

from tests.cost.figures import CannotCount, Mode, environment, refuse
from tests.cost.meters import ROOT, Unmetered, build_counter
from tests.cost.works import WORKS

TIMEOUT_S = 600
_LINE = re.compile(r"^\s*([\d,]+) \([ \d.]+%\)\s+(?:[^:]*:)?(\S+)")


class Machine(NamedTuple):
    """Instructions for each item, in all and by function (its callees not included)."""

    each: float
    by_function: dict[str, float]


@final
class Door:
    """A meter that calls through the function inside which callgrind counts."""

    def __init__(self, library: ctypes.PyDLL) -> None:
        self._call = library.measured
        self._call.argtypes = [ctypes.py_object, ctypes.py_object]
        self._call.restype = ctypes.py_object
        library.instrument()

    def run(self, function: Callable[..., object], *arguments: object) -> None:
        """Calls the function where callgrind counts."""
        self._call(function, arguments)


def count_machine(mode: Mode, work: str) -> Machine:
    """Runs one work under callgrind, in a child process; raises `CannotCount`."""
    refuse(mode)
    for tool in ("valgrind", "callgrind_annotate"):
        if shutil.which(tool) is None:
            raise CannotCount(f"{tool} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder) / "profile"
        done = subprocess.run(
            [
                "valgrind", "--tool=callgrind", "-q", "--instr-atstart=no",
                "--collect-atstart=no", f"--callgrind-out-file={profile}",
                sys.executable, "-m", "tests.cost.machine", work,
            ],
            cwd=ROOT, env=environment(mode), stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        items = int(done.stdout)
        totals = re.search(r"^(?:totals|summary): (\d+)", profile.read_text(), re.MULTILINE)
        assert totals is not None, "callgrind wrote no totals"
        annotated = subprocess.run(
            ["callgrind_annotate", "--threshold=95", str(profile)],
            stdout=subprocess.PIPE, text=True, check=True, timeout=TIMEOUT_S,
        )  # fmt: skip
    by_function: dict[str, float] = {}
    for match in filter(None, map(_LINE.match, annotated.stdout.splitlines())):
        # callgrind gives the inner calls of a recursion a name of their own.
        name = match[2].split("'")[0]
        if name != "PROGRAM":
            spent = int(match[1].replace(",", "")) / items
            by_function[name] = by_function.get(name, 0.0) + spent
    return Machine(int(totals[1]) / items, by_function)


def main() -> None:
    """In the child, under callgrind: steps the work the argument names, and prints its items."""
    (work,) = (each for each in WORKS if each.name == sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        library = build_counter(Path(folder))
        assert library is not None, "there is no C compiler"
        assert ctypes.c_int.in_dll(library, "has_callgrind").value, "valgrind's headers are missing"
        running = work.build()
        running.rig.watched = work.node
        for _ in range(work.warm_up):
            running.step()
        running.rig.meter = Door(library)
        items = sum(running.step() for _ in range(work.steps))
        running.rig.meter = Unmetered()
    sys.stdout.write(str(items))


if __name__ == "__main__":
    main()
