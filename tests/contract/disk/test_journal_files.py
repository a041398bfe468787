"""What every journal disk promises: the real one, and the one of the simulator.

The same suite runs over both, so that what the simulator proves holds for the real disk too.
"""

import asyncio
import resource
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from fedq.journal.segments import Chunk
from fedq.shell.disk.journal_files import JournalFiles, SegmentFiles
from fedq.shell.durations import Durations
from tests.integration.full_disk import fill, small_disk
from tests.integration.waiting import patient, until
from tests.sim.disk import Disk, DiskOptions
from tests.sim.world import SECOND, World

DEADLINE_S = patient(10.0)


class Bench(Protocol):
    """A disk with what it reported."""

    synced: list[int]
    failed: list[str]

    def append(self, *chunks: Chunk) -> None: ...
    def drop(self, *segments: int) -> None: ...

    def wait(self, done: Callable[[], bool]) -> None:
        """Lets the disk work until `done`; fails the test after a deadline."""

    def fail(self) -> None:
        """From now on no write succeeds any more."""

    def crash(self) -> dict[int, bytes]:
        """The process ends with no more notice than a crash gives; what its successor reads."""


class RealBench:
    """`JournalFiles` on a directory and an event loop."""

    def __init__(self, directory: Path) -> None:
        self.synced: list[int] = []
        self.failed: list[str] = []
        self.directory = directory
        self.loop = asyncio.new_event_loop()
        self.syncs = Durations()
        self.files = JournalFiles(
            directory, self._on_synced, self._on_failed, self.loop, self.syncs
        )
        self._reported = asyncio.Event()
        self._limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def append(self, *chunks: Chunk) -> None:
        self.files.append(list(chunks))

    def drop(self, *segments: int) -> None:
        self.files.drop(list(segments))

    def wait(self, done: Callable[[], bool]) -> None:
        async def until_done() -> None:
            async with asyncio.timeout(DEADLINE_S):
                while not done():
                    self._reported.clear()
                    await self._reported.wait()

        self.loop.run_until_complete(until_done())

    def fail(self) -> None:
        # The kernel itself refuses: a file may not grow beyond a few bytes.
        resource.setrlimit(resource.RLIMIT_FSIZE, (3, self._limits[1]))

    def crash(self) -> dict[int, bytes]:
        self.close()
        return dict(SegmentFiles(self.directory))

    def close(self) -> None:
        self.files.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limits)

    def _on_synced(self, number: int) -> None:
        self.synced.append(number)
        self._reported.set()

    def _on_failed(self, reason: str) -> None:
        self.failed.append(reason)
        self._reported.set()


class SimulatedBench:
    """The simulator's disk in virtual time."""

    def __init__(self, seed: int) -> None:
        self.synced: list[int] = []
        self.failed: list[str] = []
        self.world = World(seed)
        self.disk = Disk(self.world, DiskOptions(), "n1")
        self.disk.open(self.synced.append, self.failed.append)

    def append(self, *chunks: Chunk) -> None:
        self.disk.append(list(chunks))

    def drop(self, *segments: int) -> None:
        self.disk.drop(list(segments))

    def wait(self, done: Callable[[], bool]) -> None:
        assert self.world.run(self.world.now_us + 10 * SECOND, done)

    def fail(self) -> None:
        self.disk.fail()

    def crash(self) -> dict[int, bytes]:
        self.world.run(self.world.now_us + SECOND)
        self.disk.crash()
        return dict(self.disk.read_segments())


@pytest.fixture(params=["real", "simulated 1", "simulated 2"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    kind, _, seed = str(request.param).partition(" ")
    if kind == "simulated":
        yield SimulatedBench(int(seed))
        return
    real = RealBench(tmp_path / "journal")
    yield real
    real.close()
    real.loop.close()


def test_a_chunk_that_asks_is_reported_when_it_is_safe(bench: Bench) -> None:
    bench.append(Chunk(1, 1, b"one", False), Chunk(2, 1, b"two", True))
    bench.wait(lambda: bench.synced == [2])
    assert bench.crash() == {1: b"onetwo"}
    assert bench.failed == []


def test_reports_ascend_and_end_with_the_last_chunk(bench: Bench) -> None:
    for number in range(1, 101):
        bench.append(Chunk(number, 1 + number // 40, b"%3d" % number, number % 3 == 1))
    bench.wait(lambda: bench.synced[-1:] == [100])
    assert bench.synced == sorted(set(bench.synced))
    content = bench.crash()
    assert sorted(content) == [1, 2, 3]
    assert b"".join(content[n] for n in (1, 2, 3)) == b"".join(b"%3d" % n for n in range(1, 101))


def test_what_was_not_asked_for_is_reported_with_what_was(bench: Bench) -> None:
    bench.append(Chunk(1, 1, b"a", False))
    bench.append(Chunk(2, 1, b"b", False))
    bench.append(Chunk(3, 1, b"c", True))
    bench.wait(lambda: bool(bench.synced))
    assert bench.synced == [3]


def test_dropped_segments_are_gone_and_the_others_are_not(bench: Bench) -> None:
    bench.append(*(Chunk(number, number, b"x%d" % number, True) for number in range(1, 5)))
    bench.wait(lambda: bench.synced[-1:] == [4])
    bench.drop(1, 2)
    bench.append(Chunk(5, 4, b"y", True))
    bench.wait(lambda: bench.synced[-1:] == [5])
    assert bench.crash() == {3: b"x3", 4: b"x4y"}


def is_synced(bench: Bench, number: int) -> bool:
    return bench.synced[-1:] == [number]


def test_a_dead_segment_makes_room_on_a_full_disk(tmp_path: Path) -> None:
    """Though what is to be written waits for room, and what was appended before with it."""
    with small_disk(tmp_path / "small", "256k") as disk:
        real = RealBench(disk / "journal")
        real.append(Chunk(1, 1, bytes(100_000), True), Chunk(2, 2, b"dead", True))
        real.wait(partial(is_synced, real, 2))
        fill(disk)
        real.append(Chunk(3, 2, bytes(20_000), True))
        until("it is full", lambda: real.files.is_full, DEADLINE_S)
        real.drop(1)
        real.wait(partial(is_synced, real, 3))
        assert real.crash() == {2: b"dead" + bytes(20_000)}
        real.loop.close()


def test_the_end_waits_for_drops_and_for_what_was_appended_behind_them(tmp_path: Path) -> None:
    for attempt in range(50):
        real = RealBench(tmp_path / str(attempt))
        real.append(*(Chunk(number, number, b"%d" % number, True) for number in range(1, 20)))
        real.wait(partial(is_synced, real, 19))
        for number in range(1, 19):
            real.drop(number)
            real.append(Chunk(number + 19, 19, b".", False))
        assert real.crash() == {19: b"19" + b"." * 18}
        real.loop.close()


def test_a_failure_is_told_once_and_is_final(bench: Bench) -> None:
    bench.append(Chunk(1, 1, b"abc", True))
    bench.wait(lambda: bench.synced == [1])
    bench.fail()
    bench.append(Chunk(2, 1, b"defghi", True))
    bench.wait(lambda: bool(bench.failed))
    bench.append(Chunk(3, 1, b"j", True))
    bench.append(Chunk(4, 2, b"", True))
    content = bench.crash()
    assert len(bench.failed) == 1
    assert bench.synced == [1], "nothing is reported as safe after a failure"
    assert content[1].startswith(b"abc"), "what was reported is kept"


def test_what_is_synced_is_measured_once_for_each_hand_over(tmp_path: Path) -> None:
    bench = RealBench(tmp_path)
    bench.append(Chunk(1, 1, b"a", sync=False), Chunk(2, 1, b"b", sync=True))
    bench.append(Chunk(3, 1, b"c", sync=True))
    bench.append(Chunk(4, 1, b"d", sync=False))
    bench.wait(lambda: max(bench.synced, default=0) >= 3)
    assert sum(bench.syncs.counts) == 2
    bench.close()
    bench.loop.close()
