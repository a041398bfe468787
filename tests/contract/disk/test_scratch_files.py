"""What all that writes scratch files promises: the real one, and the disk of the simulator."""

import asyncio
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from fedq.node.outbox import ReadWanted, ScratchPiece
from fedq.shell.disk.scratch_files import ScratchFiles, scratch_name
from fedq.shell.disk.segment_reader import SegmentReader
from tests.integration.waiting import patient
from tests.sim.disk import Disk, DiskOptions
from tests.sim.world import SECOND, World

DEADLINE_S = patient(10.0)


class Bench(Protocol):
    """Scratch files, and a reader."""

    def write(self, *pieces: ScratchPiece) -> list[str]:
        """Has these written, and waits; why each was not, in order, nothing where it was."""

    def drop(self, segment: int) -> None: ...
    def read(self, segment: int, offset: int, length: int) -> bytes | None: ...


class RealBench:
    """`ScratchFiles` and `SegmentReader` on a directory and an event loop."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "scratch"
        self.answers: dict[int, str] = {}
        self.found: dict[int, bytes | None] = {}
        self.loop = asyncio.new_event_loop()
        self._answered = asyncio.Event()
        self._reads = 0
        self.files = self.open()
        self.reader = SegmentReader(
            directory, self.directory, self._on_read, lambda number, _: self._on_read(number, None),
            self.loop,
        )  # fmt: skip

    def open(self) -> ScratchFiles:
        return ScratchFiles(
            self.directory, lambda number: self._answer(number, ""), self._answer, self.loop
        )

    def _answer(self, number: int, reason: str) -> None:
        assert number not in self.answers
        self.answers[number] = reason
        self._answered.set()

    def _on_read(self, number: int, data: bytes | None) -> None:
        self.found[number] = data
        self._answered.set()

    def write(self, *pieces: ScratchPiece) -> list[str]:
        self.files.write(list(pieces), [])
        numbers = [piece.number for piece in pieces]
        self._wait_for(lambda: set(numbers) <= set(self.answers))
        return [self.answers[number] for number in numbers]

    def _wait_for(self, condition: Callable[[], bool]) -> None:
        async def until() -> None:
            while not condition():
                self._answered.clear()
                await self._answered.wait()

        self.loop.run_until_complete(asyncio.wait_for(until(), DEADLINE_S))

    def drop(self, segment: int) -> None:
        self.files.write([], [segment])
        # What is written after it says that it is done.
        self.write(ScratchPiece(1_000_000 - segment, -1_000_000, 0, b"x"))

    def read(self, segment: int, offset: int, length: int) -> bytes | None:
        self._reads += 1
        number = self._reads
        self.reader.read([ReadWanted(number, segment, offset, length)])
        self._wait_for(lambda: number in self.found)
        return self.found[number]

    def close(self) -> None:
        self.files.close()
        self.reader.close()
        self.loop.close()


class SimBench:
    """The simulator's disk."""

    def __init__(self) -> None:
        self.world = World(1)
        self.disk = Disk(self.world, DiskOptions(full=0.0), "n1")
        self.disk.open(lambda number: None, lambda reason: None)

    def write(self, *pieces: ScratchPiece) -> list[str]:
        answers: dict[int, str] = {}
        for piece in pieces:
            self.disk.write_scratch(piece, partial(answers.__setitem__, piece.number))
        self.world.run(self.world.now_us + SECOND)
        return [answers[piece.number] for piece in pieces]

    def drop(self, segment: int) -> None:
        self.disk.drop_scratch([segment])

    def read(self, segment: int, offset: int, length: int) -> bytes | None:
        found: list[bytes | None] = []
        self.disk.read(ReadWanted(1, segment, offset, length), found.append)
        self.world.run(self.world.now_us + SECOND)
        return found[0]


@pytest.fixture(params=["real", "sim"])
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    if request.param == "sim":
        yield SimBench()
        return
    real = RealBench(tmp_path)
    yield real
    real.close()


@pytest.fixture
def real(tmp_path: Path) -> Iterator[RealBench]:
    made = RealBench(tmp_path)
    yield made
    made.close()


def test_what_is_written_is_read(bench: Bench) -> None:
    pieces = [
        ScratchPiece(1, -1, 0, b"first"),
        ScratchPiece(2, -1, 5, b"second" * 100_000),
        ScratchPiece(3, -2, 0, b"third"),
    ]
    assert bench.write(*pieces) == ["", "", ""]
    for piece in pieces:
        assert bench.read(piece.segment, piece.offset, len(piece.data)) == piece.data
    assert bench.read(-1, 3, 4) == b"stse"


def test_a_file_that_is_dropped_is_gone_and_the_others_stay(bench: Bench) -> None:
    bench.write(ScratchPiece(1, -1, 0, b"first"), ScratchPiece(2, -2, 0, b"second"))
    bench.drop(-1)
    assert bench.read(-1, 0, 5) is None
    assert bench.read(-2, 0, 6) == b"second"
    bench.drop(-7)


def test_no_piece_needs_those_before_it(bench: Bench) -> None:
    """What was refused leaves a hole."""
    assert bench.write(ScratchPiece(1, -1, 100, b"behind")) == [""]
    assert bench.read(-1, 100, 6) == b"behind"
    assert bench.read(-1, 100, 7) is None


def test_what_the_disk_refuses_is_answered_with_its_reason(real: RealBench) -> None:
    (real.directory / scratch_name(-1)).mkdir()
    pieces = [ScratchPiece(1, -1, 0, b"x"), ScratchPiece(2, -2, 0, b"y")]
    refused, written = real.write(*pieces)
    assert refused
    assert not written


def test_a_link_is_not_followed(real: RealBench, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (real.directory / scratch_name(-1)).symlink_to(tmp_path / "precious")
    (refused,) = real.write(ScratchPiece(1, -1, 0, b"x"))
    assert refused
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_start_finds_nothing_and_leaves_what_is_not_its_own(real: RealBench) -> None:
    real.write(ScratchPiece(1, -1, 0, b"x"))
    real.drop(-1_000_000)
    (real.directory / "notes.txt").write_text("mine")
    assert sorted(os.listdir(real.directory)) == [
        scratch_name(-1), scratch_name(-1_000_000), "notes.txt",
    ]  # fmt: skip
    real.open()
    assert os.listdir(real.directory) == ["notes.txt"]


def test_a_close_deletes_all(tmp_path: Path) -> None:
    made = RealBench(tmp_path)
    made.write(ScratchPiece(1, -1, 0, b"x"))
    made.close()
    assert not os.listdir(made.directory)
    assert not any(thread.is_alive() for thread in made.files.threads())
