"""Two ways to count what a call costs: instructions of the interpreter, and requests for memory.

In: calls, made through `run`. Out: what they cost beyond a call of nothing. Both counts depend on
the code, the Python version and the hash seed, and on nothing else: not on the machine or its load.

`Instructions` counts every bytecode that runs inside the call, function by function; what built-in
and compiled functions do is not seen. `Blocks` counts how often anything, compiled or not, asks
Python's allocators for memory, and for how many bytes; it needs a C compiler for its counter.
"""

import ctypes
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol, final

#: Calls of nothing by which a meter learns what it costs itself.
CALIBRATIONS = 5
COUNTER_SOURCE = Path(__file__).with_name("allocator.c")
ROOT = Path(__file__).parents[2]

Trace = Callable[[FrameType, str, Any], Any]


class Meter(Protocol):
    """Counts what calls cost."""

    def run(self, function: Callable[..., object], *arguments: object) -> None:
        """Calls the function, counted."""


def source_name(path: str) -> str:
    """A source file as it is called on every machine: within the repository, or its last part."""
    if path.startswith(f"{ROOT}/"):
        return path.removeprefix(f"{ROOT}/")
    return Path(path).name


def nothing() -> None:
    """What a meter is calibrated with."""


@final
class Unmetered:
    """Counts nothing."""

    def run(self, function: Callable[..., object], *arguments: object) -> None:
        """Calls the function."""
        function(*arguments)


class Function:
    """One function's share. `enter` is what the interpreter calls for each of its instructions."""

    __slots__ = ("code", "count", "enter")

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.count = 0
        self.enter: Trace = self._on_event

    def _on_event(self, frame: FrameType, event: str, _: object) -> Trace:
        if event == "opcode":
            self.count += 1
        return self.enter

    @property
    def name(self) -> str:
        """Module path and qualified name."""
        return f"{source_name(self.code.co_filename)}: {self.code.co_qualname}"


@final
class Instructions:
    """Instructions of the interpreter, by function."""

    def __init__(self) -> None:
        # By identity: a code object's hash would be computed from its whole content.
        self._functions: dict[int, Function] = {}

    def run(self, function: Callable[..., object], *arguments: object) -> None:
        """Calls the function, and counts the instructions of all Python functions it calls."""
        before = sys.gettrace()
        sys.settrace(self._on_call)
        try:
            function(*arguments)
        finally:
            sys.settrace(before)

    def _on_call(self, frame: FrameType, _event: str, _: object) -> Trace:
        code = frame.f_code
        found = self._functions.get(id(code))
        if found is None:
            found = self._functions[id(code)] = Function(code)
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return found.enter

    def functions(self) -> list[Function]:
        """All functions that ran, with what was counted in each."""
        return list(self._functions.values())

    def by_function(self) -> dict[str, int]:
        """Instructions in each function, its callees and what the rig does left out."""
        counts: dict[str, int] = {}
        for function in self._functions.values():
            if not function.name.startswith("tests/"):
                counts[function.name] = counts.get(function.name, 0) + function.count
        return counts


@final
class Blocks:
    """Requests to Python's allocators, and the bytes they asked for."""

    def __init__(self, counter: ctypes.PyDLL) -> None:
        self._counter = counter
        self._requests = ctypes.c_ulonglong.in_dll(counter, "requests")
        self._bytes = ctypes.c_ulonglong.in_dll(counter, "bytes_requested")
        self._calls = 0
        self._own_requests = self._own_bytes = 0
        with self:
            # What the last of several calls takes: the first ones fill the interpreter's caches.
            for _ in range(CALIBRATIONS):
                self._reset()
                self.run(nothing)
            self._own_requests, self._own_bytes = self._requests.value, self._bytes.value

    def __enter__(self) -> "Blocks":
        """Stands before the allocators, and counts from zero."""
        self._reset()
        self._counter.hook()
        return self

    def __exit__(self, *_: object) -> None:
        """Gives the allocators back."""
        self._counter.unhook()

    def _reset(self) -> None:
        self._requests.value = self._bytes.value = self._calls = 0

    def run(self, function: Callable[..., object], *arguments: object) -> None:
        """Calls the function, and counts what it asks for."""
        start, stop = self._counter.start, self._counter.stop
        self._calls += 1
        start()
        function(*arguments)
        stop()

    @property
    def requests(self) -> int:
        """How often memory was asked for, new or to grow."""
        return self._requests.value - self._calls * self._own_requests

    @property
    def bytes(self) -> int:
        """How many bytes these requests were about."""
        return self._bytes.value - self._calls * self._own_bytes


def build_counter(folder: Path) -> ctypes.PyDLL | None:
    """The counter of `Blocks`, compiled into the folder; None where there is no C compiler."""
    names = [*str(sysconfig.get_config_var("CC") or "").split()[:1], "cc"]
    compiler = next((name for name in names if shutil.which(name)), None)
    if compiler is None:
        return None
    library = folder / "allocator.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(COUNTER_SOURCE)], check=True
    )
    return ctypes.PyDLL(str(library))
