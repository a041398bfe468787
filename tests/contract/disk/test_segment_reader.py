"""What every reader of segments promises: the real one, and the disk of the simulator."""

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from fedq.journal.segments import Chunk
from fedq.node.outbox import ReadWanted
from fedq.shell.disk.durable_files import segment_name
from fedq.shell.disk.segment_reader import SegmentReader
from tests.integration.waiting import patient
from tests.sim.disk import Disk, DiskOptions
from tests.sim.world import SECOND, World

DEADLINE_S = patient(10.0)
SEGMENT = b"0123456789" * 1_000


class Bench(Protocol):
    """A segment 1, and a reader."""

    #: By number, what was read; None: it could not be.
    answers: dict[int, bytes | None]

    def read(self, *wanted: ReadWanted) -> None:
        """Has these read, and waits for the answers."""

    def extend(self, data: bytes) -> None: ...
    def delete(self) -> None: ...


class RealBench:
    """`SegmentReader` on a directory and an event loop."""

    def __init__(self, directory: Path) -> None:
        self.answers: dict[int, bytes | None] = {}
        self.path = directory / segment_name(1)
        self.path.write_bytes(SEGMENT)
        self.loop = asyncio.new_event_loop()
        self._answered = asyncio.Event()
        self.reader = SegmentReader(directory, directory, self._on_read, self._on_failed, self.loop)

    def _on_read(self, number: int, data: bytes) -> None:
        assert number not in self.answers
        self.answers[number] = data
        self._answered.set()

    def _on_failed(self, number: int, reason: str) -> None:
        assert reason
        assert number not in self.answers
        self.answers[number] = None
        self._answered.set()

    def read(self, *wanted: ReadWanted) -> None:
        self.reader.read(wanted)
        numbers = {each.number for each in wanted}
        self.loop.run_until_complete(asyncio.wait_for(self._until(numbers), DEADLINE_S))

    async def _until(self, numbers: set[int]) -> None:
        while not numbers <= set(self.answers):
            self._answered.clear()
            await self._answered.wait()

    def extend(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def delete(self) -> None:
        self.path.unlink()

    def close(self) -> None:
        self.reader.close()
        self.loop.close()


class SimBench:
    """The simulator's disk."""

    def __init__(self) -> None:
        self.answers: dict[int, bytes | None] = {}
        self.world = World(1)
        self.disk = Disk(self.world, DiskOptions(), "n1")
        self.disk.open(lambda _: None, lambda _: None)
        self.disk.append([Chunk(1, 1, SEGMENT, True)])

    def read(self, *wanted: ReadWanted) -> None:
        for each in wanted:
            self.disk.read(each, partial(self._answer, each.number))
        self.world.run(self.world.now_us + SECOND)

    def _answer(self, number: int, data: bytes | None) -> None:
        assert number not in self.answers
        self.answers[number] = data

    def extend(self, data: bytes) -> None:
        self.disk.append([Chunk(2, 1, data, True)])

    def delete(self) -> None:
        del self.disk.segments[1]

    def close(self) -> None:
        pass


@pytest.fixture(params=["real", "simulated"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    made = RealBench(tmp_path) if request.param == "real" else SimBench()
    yield made
    made.close()


def test_each_piece_is_answered_with_its_very_bytes(bench: Bench) -> None:
    wanted = [ReadWanted(number, 1, number * 7, 1 + number * 30) for number in range(1, 200)]
    bench.read(*wanted)
    for each in wanted:
        assert bench.answers[each.number] == SEGMENT[each.offset : each.offset + each.length]


def test_the_whole_segment_is_a_piece_and_what_is_beyond_its_end_is_none(bench: Bench) -> None:
    bench.read(
        ReadWanted(1, 1, 0, len(SEGMENT)),
        ReadWanted(2, 1, 1, len(SEGMENT)),
        ReadWanted(3, 1, len(SEGMENT) + 5, 1),
    )
    assert bench.answers == {1: SEGMENT, 2: None, 3: None}


def test_what_is_appended_meanwhile_is_read(bench: Bench) -> None:
    bench.extend(b"more")
    bench.read(ReadWanted(1, 1, len(SEGMENT) - 1, 5))
    assert bench.answers == {1: b"9more"}


def test_a_segment_that_is_gone_cannot_be_read(bench: Bench) -> None:
    bench.delete()
    bench.read(ReadWanted(1, 1, 0, 1), ReadWanted(2, 77, 0, 1))
    assert bench.answers == {1: None, 2: None}


def test_no_fault_ends_a_thread_that_others_wait_for(tmp_path: Path) -> None:
    bench = RealBench(tmp_path)
    # No disk says so: it is no `OSError`. More of them than there are threads.
    wanted = [ReadWanted(number, 1, 1 << 70, 1) for number in range(1, 6)]
    bench.read(*wanted, ReadWanted(6, 1, 0, len(SEGMENT)))
    assert bench.answers == {**{each.number: None for each in wanted}, 6: SEGMENT}
    bench.close()


def test_a_reader_that_is_closed_answers_nothing_more(tmp_path: Path) -> None:
    bench = RealBench(tmp_path)
    os.mkfifo(tmp_path / segment_name(2))
    # Two that hang in the open of a pipe without a writer, and one behind them.
    bench.reader.read([ReadWanted(1, 2, 0, 1), ReadWanted(2, 2, 0, 1), ReadWanted(3, 1, 0, 1)])
    bench.close()
    assert bench.answers == {}
    # The two get their writer, so that their threads end.
    for thread in bench.reader.threads():
        os.close(os.open(tmp_path / segment_name(2), os.O_RDWR))
        thread.join(10)
        assert not thread.is_alive()
