"""A test fails that leaves threads, descriptors, child processes or asyncio tasks behind.

Counted is what is there after a test, its fixtures torn down, and was not before. What fixtures of
a wider scope start belongs to all their tests. What ends by itself within `GRACE_S` is no leak.
"""

import asyncio
import gc
import os
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil  # type: ignore[import-untyped]
import pytest
import uvloop

from fedq.shell.disk.descriptors import SPARES
from tests.integration.ports import kept
from tests.integration.waiting import patient

#: Threads and processes that were told to end need a moment on a busy machine.
GRACE_S: Final = patient(3.0)
_POLL_S: Final = 0.05
#: Where Linux shows a process's descriptors; elsewhere they are not looked at.
DESCRIPTORS: Final = Path("/proc/self/fd")


class Watch:
    """What is known to be there, and what event loops ended with."""

    def __init__(self) -> None:
        #: What fixtures of a wider scope hold.
        self.shared: set[str] = set()
        #: Tasks that were not done when their loop was closed.
        self.tasks: list[str] = []
        #: How all tests went.
        self.exit_status = 0


watch = Watch()


def held() -> set[str]:
    """Everything of this process that would outlive a test, in words."""
    found = {f"thread {each.name} ({each.ident})" for each in threading.enumerate()}
    return found | _descriptors() | _children()


def _descriptors() -> set[str]:
    found: set[str] = set()
    if not DESCRIPTORS.exists():
        return found
    # They outlive their tests on purpose: the ports', and those that a process keeps for files.
    wanted = {*map(str, SPARES.kept), *(str(probe.fileno()) for probe in kept)}
    for name in set(os.listdir(DESCRIPTORS)) - wanted:
        with suppress(FileNotFoundError):  # The one by which the folder was listed.
            found.add(_named(name))
    return found


def _named(descriptor: str) -> str:
    return f"descriptor {descriptor}: {os.readlink(DESCRIPTORS / descriptor)}"


def keep(descriptors: Iterable[int]) -> None:
    """A fixture of a wider scope has opened these meanwhile, and will close them."""
    if DESCRIPTORS.exists():
        watch.shared |= {_named(str(each)) for each in descriptors}


def keep_processes(numbers: Iterable[int]) -> None:
    """What a fixture of a wider scope runs was begun anew in a test, and will be ended by it."""
    watch.shared |= {f"process {each}" for each in numbers}


def _children() -> set[str]:
    try:
        # Cheap, and mostly the whole answer; it takes in nobody's exit code.
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()
    return {f"process {each.pid}" for each in psutil.Process().children()}


def new_since(before: set[str]) -> set[str]:
    """What is there now, was not there before, and is not shared; waits for it to end."""
    until = time.monotonic() + GRACE_S
    pause = threading.Event()
    while (left := held() - before - watch.shared) and time.monotonic() < until:
        # gRPC ends its thread with the last channel that is freed.
        gc.collect()
        pause.wait(_POLL_S)
    return left


def _note_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Notes what does not end by itself in a loop that is about to be closed."""
    if loop.is_closed() or not (tasks := asyncio.all_tasks(loop)):
        return
    _, pending = loop.run_until_complete(asyncio.wait(tasks, timeout=GRACE_S))
    watch.tasks += [f"task {task.get_coro()!r}" for task in pending]


@pytest.fixture(autouse=True, scope="session")
def _tasks_are_noted() -> Iterator[None]:
    """`asyncio.run` cancels what is left, and says nothing; a loop alone does not even look."""
    close_runner, close_loop = asyncio.Runner.close, asyncio.BaseEventLoop.close

    def look_and_close_runner(runner: asyncio.Runner) -> None:
        _note_tasks(runner.get_loop())
        close_runner(runner)

    def look_and_close_loop(loop: asyncio.BaseEventLoop) -> None:
        _note_tasks(loop)
        close_loop(loop)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncio.Runner, "close", look_and_close_runner)
        patch.setattr(asyncio.BaseEventLoop, "close", look_and_close_loop)
        yield


@pytest.fixture(autouse=True, scope="session")
def _uvloop_is_up() -> None:
    """With its first loop it opens a pipe for signals, which the process keeps."""
    uvloop.new_event_loop().close()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Tests, and all they import, live till the end: no look for garbage is for them."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[object],
) -> Generator[None, object, object]:
    """What a fixture of a wider scope starts is not its first test's."""
    if fixturedef.scope == "function":
        return (yield)
    before = held()
    try:
        return (yield)
    finally:
        watch.shared |= held() - before


@pytest.fixture(autouse=True)
def _nothing_is_left(
    request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> Iterator[None]:
    before = held()
    watch.tasks.clear()
    yield
    if request.session.exitstatus == pytest.ExitCode.INTERRUPTED:
        return  # In the middle of it, and what it would be told is in the way of the summary.
    for record in caplog.get_records("call"):
        # pytest keeps them, they their exceptions, and those what the test has let go.
        record.msg, record.args, record.exc_info = record.getMessage(), None, None
    left = sorted(new_since(before)) + watch.tasks
    assert not left, "left behind: " + "; ".join(left)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(exitstatus: int) -> None:
    """Keeps how all tests went for `pytest_unconfigure`."""
    watch.exit_status = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Ends the process in spite of threads that a failed test has left: Python waits for them."""
    left = [each.name for each in threading.enumerate() if not each.daemon]
    left.remove(threading.main_thread().name)
    if left:
        sys.stderr.write(f"threads are left behind, and not waited for: {', '.join(left)}\n")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(watch.exit_status or 1)
