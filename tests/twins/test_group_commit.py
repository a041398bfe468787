"""Group commits by both forms: every buffer in its file, in order; nothing is reported too soon."""

import errno
import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.integration.full_disk import fill, small_disk
from tests.integration.waiting import patient, until
from tests.twins import KINDS, twin

DEADLINE_S = patient(20.0)
NAME = "fedq.shell.disk.group_commit"
#: What a pipe holds by default, at most.
PIPE_BYTES = 65_536
#: What a small disk gives at a time, at least.
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Writer:
    """A queue and the thread that serves it, with a file for each segment."""

    def __init__(self, module: ModuleType, open_file: Callable[[int], int]) -> None:
        self.called, pipe = os.pipe()
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self.queue: Any = module.GroupCommit(pipe)
        self._open = open_file
        self._files: list[int] = []
        self.interrupted = threading.Semaphore(0)
        self.failure: OSError | None = None
        self.is_last = False
        # A test that fails leaves it waiting, and must not keep the process.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        segment, file = 0, -1
        try:
            while True:
                segment = self.queue.serve(file, segment)
                if segment:
                    file = self._open(segment)
                    self._files.append(file)
                    continue
                segment, file = 0, -1
                self.interrupted.release()
                if self.is_last:
                    return
        except OSError as error:
            self.failure = error

    @property
    def thread_id(self) -> int:
        """For signals."""
        assert self._thread.ident is not None
        return self._thread.ident

    def wait_written(self) -> None:
        """Everything pushed so far is written."""
        self.queue.interrupt()
        assert self.interrupted.acquire(timeout=DEADLINE_S)

    def end(self) -> None:
        """Ends the thread, unless it has failed, and closes all files."""
        self.is_last = True
        self.queue.interrupt()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        for descriptor in (self.called, self._pipe, *self._files):
            os.close(descriptor)


@pytest.fixture(params=KINDS)
def module(request: pytest.FixtureRequest) -> ModuleType:
    """The module, in each of its forms."""
    return twin(NAME, request.param)


def files_in(folder: Path) -> Callable[[int], int]:
    """Opens a file by the segment's number."""
    return lambda segment: os.open(
        folder / str(segment), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
    )


def is_full(pipe: int) -> bool:
    """Nothing more goes in by this end: who writes waits."""
    return not select.select([], [pipe], [], 0)[1]


PUSHES = st.lists(st.tuples(st.booleans(), st.binary(max_size=9), st.booleans()), max_size=200)


@given(pushes=PUSHES, pauses=st.sets(st.integers(0, 200)))
@settings(max_examples=examples(25), deadline=None)
@pytest.mark.parametrize("kind", KINDS)
def test_every_buffer_is_in_its_file_in_order(
    tmp_path_factory: pytest.TempPathFactory, kind: str,
    pushes: list[tuple[bool, bytes, bool]], pauses: set[int],
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("segments")
    writer = Writer(twin(NAME, kind), files_in(folder))
    wanted: dict[int, bytes] = {}
    segment, last_sync = 1, 0
    for number, (rolls, data, sync) in enumerate(pushes, 1):
        segment += rolls
        wanted[segment] = wanted.get(segment, b"") + data
        writer.queue.push(number, segment, data, sync)
        last_sync = number if sync else last_sync
        if number in pauses:
            writer.wait_written()
            assert writer.queue.synced() >= last_sync
            assert writer.queue.backlog_bytes() == 0
    writer.wait_written()
    assert last_sync <= writer.queue.synced() <= len(pushes)
    assert (writer.queue.synced() > 0) == (last_sync > 0)
    writer.end()
    assert writer.failure is None
    found = {int(path.name): path.read_bytes() for path in folder.iterdir()}
    assert found == wanted


def test_it_calls_when_more_is_synced(module: ModuleType, tmp_path: Path) -> None:
    writer = Writer(module, files_in(tmp_path))
    writer.queue.push(1, 1, b"nobody waits", False)
    writer.queue.push(2, 1, b"somebody does", True)
    assert os.read(writer.called, 100)
    assert writer.queue.synced() == 2
    writer.end()


def test_what_is_written_is_not_held_until_there_is_more(
    module: ModuleType, tmp_path: Path
) -> None:
    """Before, the last batch was: a handful of long messages, for as long as publishers wait."""
    writer = Writer(module, files_in(tmp_path))
    data = bytes(1_000)
    held_by_others = sys.getrefcount(data)
    writer.queue.push(1, 1, data, True)
    assert os.read(writer.called, 100)
    assert writer.queue.synced() == 1
    until("it is held no more", lambda: sys.getrefcount(data) == held_by_others)
    writer.end()


def test_an_interruption_does_not_wait_for_what_comes_later(
    module: ModuleType, tmp_path: Path
) -> None:
    """Else a busy journal would never come to delete a segment."""
    gate = threading.Event()
    opened = files_in(tmp_path)

    def open_late(segment: int) -> int:
        assert gate.wait(DEADLINE_S)
        return opened(segment)

    writer = Writer(module, open_late)
    writer.queue.push(1, 1, b"before", True)
    writer.queue.interrupt()
    for number in range(2, 50):
        writer.queue.push(number, number, b"after", False)
    gate.set()
    assert writer.interrupted.acquire(timeout=DEADLINE_S)
    writer.wait_written()
    assert len(list(tmp_path.iterdir())) == 49
    writer.end()


def test_what_a_file_takes_in_pieces_arrives_whole(module: ModuleType) -> None:
    """A write that a signal cuts short goes on where it stopped."""
    reading, writing = os.pipe()
    earlier = signal.signal(signal.SIGUSR1, lambda *_: None)
    writer = Writer(module, lambda _: writing)
    parts = [bytes([number % 251]) * (1 + number * 7 % 5_000) for number in range(1_500)]
    for number, part in enumerate(parts, 1):
        writer.queue.push(number, 1, part, False)
    heard, left = bytearray(), sum(map(len, parts))
    cut = 0
    while len(heard) < left:
        if cut < 5 and left - len(heard) > PIPE_BYTES:
            until("the pipe is full", lambda: is_full(writing))
            signal.pthread_kill(writer.thread_id, signal.SIGUSR1)
            cut += 1
        heard += os.read(reading, 30_001)
    assert bytes(heard) == b"".join(parts)
    writer.end()
    signal.signal(signal.SIGUSR1, earlier)
    os.close(reading)


def test_a_failed_write_is_raised_with_its_reason(module: ModuleType) -> None:
    reading, writing = os.pipe()
    writer = Writer(module, lambda _: reading)
    writer.queue.push(1, 1, b"nobody may write here", True)
    writer.end()
    assert writer.failure is not None
    assert writer.failure.strerror == "Bad file descriptor"
    assert writer.queue.synced() == 0
    os.close(writing)


def test_a_failed_sync_is_raised_and_nothing_counts(module: ModuleType) -> None:
    """A pipe can be written to, and not be synced."""
    reading, writing = os.pipe()
    writer = Writer(module, lambda _: writing)
    writer.queue.push(1, 1, b"lost", True)
    writer.end()
    assert writer.failure is not None
    assert writer.failure.strerror == "Invalid argument"
    assert writer.queue.synced() == 0
    os.close(reading)


def test_a_full_disk_is_waited_for(module: ModuleType, tmp_path: Path) -> None:
    """Cut off in the middle of a buffer, it goes on behind what found room."""
    buffers = [bytes([number]) * 3_000 for number in range(1, 9)]
    with small_disk(tmp_path / "disk", "64k") as disk:
        writer = Writer(module, files_in(disk))
        # Of the next buffer a part still fits on its page, and no more, however soon it is written.
        first = bytes(PAGE_BYTES - 1_000)
        writer.queue.push(1, 1, first, True)
        writer.wait_written()
        filler = fill(disk)
        for number, data in enumerate(buffers, 2):
            writer.queue.push(number, 1, data, True)
        until("it is full", writer.queue.is_full, DEADLINE_S)
        assert writer.queue.synced() == 1
        assert writer.queue.backlog_bytes() > 0
        filler.unlink()
        until("all is written", lambda: writer.queue.synced() == 9, DEADLINE_S)
        assert not writer.queue.is_full()
        writer.end()
        assert (disk / "1").read_bytes() == first + b"".join(buffers)
    assert writer.failure is None


def test_at_the_end_a_full_disk_is_a_failure(module: ModuleType) -> None:
    writer = Writer(module, lambda _: os.open("/dev/full", os.O_WRONLY))
    writer.queue.push(1, 1, b"x", True)
    until("it is full", writer.queue.is_full, DEADLINE_S)
    writer.queue.give_up()
    writer.end()
    assert writer.failure is not None
    assert writer.failure.errno == errno.ENOSPC
