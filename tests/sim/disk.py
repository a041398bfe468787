"""A disk that loses what was not synced, tears the last write, stalls and fails.

Inputs: journal chunks in order, dropped segments, crashes, faults. Outputs: `on_synced` with the
highest number on disk, `on_failed` once, and after a crash the segments as recovery finds them.

It has the shape of the real one (`fedq.shell.disk.journal_files`): one sync at a time, which serves
all that gathered while the last one ran, and no report after a failure. Data reaches the platter in
the order of writing, so a crash leaves a prefix: everything synced, and of the rest as much as the
dice say, cut anywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from fedq.core.seeds import Rng
from fedq.journal.recovered import Recovered
from fedq.journal.recovery import mended
from fedq.node.outbox import NodeOut, ReadWanted, ScratchPiece
from tests.sim.world import MS, World, between


class Chunk(Protocol):
    """What the disk reads of a journal chunk."""

    @property
    def number(self) -> int: ...

    @property
    def segment(self) -> int: ...

    @property
    def data(self) -> bytes: ...

    @property
    def sync(self) -> bool: ...


class HearsOfScratch(Protocol):
    """A process that has pieces of scratch files written."""

    def on_scratch_written(self, number: int) -> None: ...
    def on_scratch_failed(self, number: int, reason: str) -> None: ...


#: As far as one bad byte reaches.
SECTOR_BYTES = 64

GiveInput = Callable[[Callable[[HearsOfScratch], None]], None]


def _tell(number: int, give_input: GiveInput, refusal: str) -> None:
    if refusal:
        give_input(lambda machine: machine.on_scratch_failed(number, refusal))
    else:
        give_input(lambda machine: machine.on_scratch_written(number))


@dataclass(frozen=True, slots=True)
class DiskOptions:
    """How slow and how treacherous a disk is; delays in microseconds."""

    sync_us_min: int = 200
    sync_us_max: int = 3 * MS
    #: The chance that a sync takes `slow_us` instead.
    slow: float = 0.0
    slow_us: int = 300 * MS
    #: The chance that a piece for a scratch file finds no room.
    full: float = 0.05
    #: The chance that a crash of the process loses what was not synced (a power cut).
    power_cut: float = 0.5


@dataclass(frozen=True, slots=True)
class Start:
    """A start of a process, as its data directory counts it."""

    number: int
    #: Random in the real one; here unique is enough.
    id: str
    #: The starts before it in this directory: number and id.
    past: tuple[tuple[int, str], ...]
    #: The first start whose copies in sync the journal is known to hold.
    vouched_since: int = 0


@dataclass(frozen=True, slots=True)
class DirectoryCopy:
    """A data directory as somebody copied it while no process ran."""

    segments: dict[int, bytes]
    starts: tuple[tuple[int, str], ...]


EMPTY = DirectoryCopy({}, ())


class Disk:
    """One node's data directory, which outlives its processes."""

    def __init__(self, world: World, options: DiskOptions, name: str) -> None:
        self.world = world
        self.options = options
        self.name = name
        #: What a reader of the files finds now, synced or not.
        self.segments: dict[int, bytearray] = {}
        #: From which byte up to which a segment cannot be read any more.
        self.bad: dict[int, list[tuple[int, int]]] = {}
        #: Scratch files, by their negative numbers: those of the process that lives.
        self.scratch: dict[int, bytearray] = {}
        #: The starts that this directory has seen.
        self.starts: tuple[tuple[int, str], ...] = ()
        self._number = 0
        self._vouched_since = 0
        self._random = world.generator(f"disk/{name}")
        self._reads = world.generator(f"reads/{name}")
        self._writes = world.generator(f"scratch/{name}")
        #: Bytes written since the last completed sync, in order: (segment, size).
        self._unsynced: list[tuple[int, int]] = []
        self._waiting: list[Chunk] = []
        self._deleted_us = 0
        self._syncing = False
        self._last_number = 0
        self._life = 0
        self._failing = False
        self._stalled_until_us = 0
        self._on_synced: Callable[[int], None] | None = None
        self._on_failed: Callable[[str], None] | None = None

    def open(self, on_synced: Callable[[int], None], on_failed: Callable[[str], None]) -> None:
        """A new process opens the directory; chunk numbers begin at 1 again."""
        self._life += 1
        self._last_number = 0
        self.scratch = {}
        self._failing = False
        self._on_synced = on_synced
        self._on_failed = on_failed

    def count_start(self, clock: int, unique: str, is_damaged: bool = False) -> Start:
        """The next start, as `fedq.shell.identity` counts it; `clock` stands for the seconds.

        `is_damaged`: the journal does not vouch for those before (`fedq.shell.disk.vouching`).
        """
        self._number = max(self._number + 1, clock)
        past, self.starts = self.starts, (*self.starts, (self._number, unique))
        if is_damaged:
            self._vouched_since = self._number
        return Start(self._number, unique, past, self._vouched_since)

    def raise_number(self, number: int) -> None:
        """The next start gets a higher one."""
        self._number = number

    def copy(self) -> DirectoryCopy:
        """The directory as it is, for `restore`."""
        segments = {number: bytes(data) for number, data in self.segments.items()}
        return DirectoryCopy(segments, self.starts)

    def restore(self, copy: DirectoryCopy) -> None:
        """Puts an older copy in place of all that is there."""
        self.segments = {number: bytearray(data) for number, data in copy.segments.items()}
        self.bad = {}
        self.starts = copy.starts
        self._number = copy.starts[-1][0] if copy.starts else 0

    def rot(self, generator: Rng) -> None:
        """A bit of what was written is another one from now on: mostly of the newest."""
        filled = [number for number in sorted(self.segments) if self.segments[number]]
        if not filled:
            return
        number = filled[-1] if generator.random() < 0.8 else generator.choice(filled)
        data = self.segments[number]
        least = generator.choice((0, max(0, len(data) - 400)))
        data[generator.randint(least, len(data) - 1)] ^= 1 << generator.randint(0, 7)

    def spoil(self, segment: int, first: int, stop: int) -> None:
        """The sectors with these bytes cannot be read from now on."""
        begin = first // SECTOR_BYTES * SECTOR_BYTES
        end = (stop + SECTOR_BYTES - 1) // SECTOR_BYTES * SECTOR_BYTES
        self.bad.setdefault(segment, []).append((begin, end))

    def mend_last(self, segment: int) -> None:
        """What was spoilt last can be read."""
        self.bad[segment].pop()

    def piece(self, segment: int, offset: int, length: int) -> bytes:
        """What can be read of a segment, with zeros for what cannot."""
        data = bytearray(self.segments.get(segment, b"")[offset : offset + length])
        for first, stop in self.bad.get(segment, ()):
            begin, end = max(first - offset, 0), min(stop - offset, len(data))
            data[begin:end] = bytes(max(end - begin, 0))
        return bytes(data)

    def _is_bad(self, wanted: ReadWanted) -> bool:
        end = wanted.offset + wanted.length
        bad = self.bad.get(wanted.segment, ())
        return any(first < end and wanted.offset < stop for first, stop in bad)

    def read_segments(self) -> dict[int, bytes]:
        """Every segment in order, as recovery reads them."""
        return {
            number: self.piece(number, 0, len(self.segments[number]))
            for number in sorted(self.segments)
        }

    def cut_tail(self, size: int) -> None:
        """Cuts a torn tail off the last segment, as a start does after recovery found it."""
        self._truncate(max(self.segments), size)

    def mend(self, recovered: Recovered) -> None:
        """Takes what cannot be read out of the segments, as a start does."""
        last = recovered.segments[-1].number
        for segment in recovered.segments:
            damages = [each for each in recovered.damages if each.segment == segment.number]
            torn_bytes = recovered.torn_bytes if segment.number == last else 0
            data = bytes(self.segments.get(segment.number, b""))
            self.segments[segment.number] = bytearray(mended(data, damages, torn_bytes))

    def append(self, chunks: list[Chunk]) -> None:
        """Writes chunks; those with `sync` are reported when they are safe."""
        for chunk in chunks:
            assert chunk.number == self._last_number + 1, (
                f"{self.name}: chunk {chunk.number} follows {self._last_number}"
            )
            self._last_number = chunk.number
            self.segments.setdefault(chunk.segment, bytearray()).extend(chunk.data)
            assert chunk.segment == max(self.segments), f"{self.name}: a write to an old segment"
            self._unsynced.append((chunk.segment, len(chunk.data)))
        self._waiting.extend(chunks)
        self._start_sync()

    def drop(self, segments: list[int]) -> None:
        """Deletes segments, soon: what says that they are dead is on disk, or they are missed."""
        for segment in segments:
            assert segment in self.segments, f"{self.name}: no segment {segment} to drop"
            assert segment < max(self.segments), f"{self.name}: the active segment was dropped"
        due_us = self.world.now_us + between(self._random, 0, 20 * MS)
        self._deleted_us = max(self._deleted_us, due_us)
        life = self._life
        self.world.at(self._deleted_us, lambda: self._delete(segments, life))

    def read(self, wanted: ReadWanted, answer: Callable[[bytes | None], None]) -> None:
        """Reads a piece of a segment, some time later; None if it is not all there, or fails."""
        options, generator, life = self.options, self._reads, self._life
        delay_us = between(generator, 20, 2 * MS)
        if options.slow and generator.random() < options.slow:
            delay_us = options.slow_us

        def tell() -> None:
            if life != self._life:
                return
            files = self.segments if wanted.segment > 0 else self.scratch
            segment = files.get(wanted.segment, bytearray())
            data = bytes(segment[wanted.offset : wanted.offset + wanted.length])
            is_there = len(data) == wanted.length and not self._is_bad(wanted)
            answer(data if is_there and not self._failing else None)

        self.world.after(delay_us, tell)

    def write_scratch(self, piece: ScratchPiece, answer: Callable[[str], None]) -> None:
        """Writes a piece of a scratch file, some time later; answers with why not, or nothing.

        What finds no room may be there in part.
        """
        options, generator, life = self.options, self._writes, self._life
        delay_us = between(generator, 20, 2 * MS)
        if options.slow and generator.random() < options.slow:
            delay_us = options.slow_us
        is_full = generator.random() < options.full
        size = between(generator, 0, len(piece.data)) if is_full else len(piece.data)

        def tell() -> None:
            if life != self._life:
                return
            file = self.scratch.setdefault(piece.segment, bytearray())
            file.extend(bytes(max(0, piece.offset - len(file))))
            file[piece.offset : piece.offset + size] = piece.data[:size]
            answer("simulated ENOSPC" if is_full else "simulated EIO" if self._failing else "")

        self.world.after(delay_us, tell)

    def use_scratch(self, out: NodeOut, give_input: GiveInput) -> None:
        """Writes and deletes what a turn wants; the process hears of each piece."""
        for piece in out.scratch:
            self.write_scratch(piece, partial(_tell, piece.number, give_input))
        self.drop_scratch(out.scratch_drops)

    def drop_scratch(self, segments: list[int]) -> None:
        """Deletes scratch files: some were never written to."""
        for segment in segments:
            assert segment < 0
            self.scratch.pop(segment, None)

    def stall(self, duration_us: int) -> None:
        """No sync ends before that."""
        self._stalled_until_us = self.world.now_us + duration_us

    def fail(self) -> None:
        """The next sync fails, and with it everything this process still wants from the disk."""
        self._failing = True

    @property
    def failing(self) -> bool:
        """It will not sync any more for this process."""
        return self._failing

    def calm(self) -> None:
        """From now on it is merely as slow as its options say."""
        self.options = replace(self.options, slow=0.0, full=0.0)
        self._stalled_until_us = 0

    def crash(self) -> None:
        """The process ends without a word; sometimes the host loses its power with it."""
        self._life += 1
        if self._failing or self._random.random() < self.options.power_cut:
            self._lose_unsynced()
        elif self._unsynced and self._random.random() < 0.3:
            # The writer thread had not written the last chunk yet, or only a part of it.
            segment, size = self._unsynced[-1]
            self._truncate(segment, between(self._random, 0, size))
        # What a later power cut would find lost was written before this start: the opening of a
        # directory syncs what recovery has read.
        self._unsynced = []
        self._waiting = []
        self._syncing = False
        self._stalled_until_us = 0

    def close(self) -> None:
        """The process ends in order: everything it wrote is on disk."""
        self._life += 1
        self._unsynced = []
        self._waiting = []
        self._syncing = False

    def _lose_unsynced(self) -> None:
        kept = between(self._random, 0, sum(size for _, size in self._unsynced))
        lost = sum(size for _, size in self._unsynced) - kept
        for segment, size in reversed(self._unsynced):
            cut = min(size, lost)
            lost -= cut
            self._truncate(segment, cut)
            if lost and segment in self.segments and not self.segments[segment]:
                del self.segments[segment]

    def _truncate(self, segment: int, cut: int) -> None:
        if cut and segment in self.segments:
            del self.segments[segment][-cut:]

    def _delete(self, segments: list[int], life: int) -> None:
        if life == self._life:
            for segment in segments:
                del self.segments[segment]
                self.bad.pop(segment, None)
                self.bad.pop(segment, None)

    def _start_sync(self) -> None:
        if self._syncing or not any(chunk.sync for chunk in self._waiting):
            return
        self._syncing = True
        options, generator = self.options, self._random
        delay_us = between(generator, options.sync_us_min, options.sync_us_max)
        if options.slow and generator.random() < options.slow:
            delay_us = options.slow_us
        delay_us = max(delay_us, self._stalled_until_us - self.world.now_us)
        through, count = self._waiting[-1].number, len(self._unsynced)
        self._waiting = []
        life = self._life
        self.world.after(delay_us, lambda: self._end_sync(through, count, life))

    def _end_sync(self, through: int, count: int, life: int) -> None:
        if life != self._life:
            return
        if self.world.now_us < self._stalled_until_us:
            wait_us = self._stalled_until_us - self.world.now_us
            self.world.after(wait_us, lambda: self._end_sync(through, count, life))
            return
        assert self._on_synced is not None
        assert self._on_failed is not None
        if self._failing:
            # `_syncing` stays true: after a failed sync nothing is ever reported.
            self._on_failed(f"{self.name}: the sync failed (simulated EIO)")
            return
        self._syncing = False
        del self._unsynced[:count]
        self._on_synced(through)
        self._start_sync()
