"""A process without descriptors writes on: that is no broken disk."""

import asyncio
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedq.core.limits import SPARE_DESCRIPTORS
from fedq.journal.segments import Chunk
from fedq.shell.disk.descriptors import SPARES, Spares
from fedq.shell.disk.journal_files import JournalFiles
from fedq.shell.raft.snapshot import Snapshot, encode_snapshot
from fedq.shell.raft.storage import RaftStorage
from tests.unit.shell.fakes import give_up_all, until


class Strangers:
    """Take every descriptor that there is, and give them back."""

    def __init__(self) -> None:
        self._taken: list[int] = []

    def take_all(self) -> None:
        while True:
            try:
                self._taken.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                return

    def leave(self, count: int | None = None) -> None:
        for _ in range(len(self._taken) if count is None else count):
            os.close(self._taken.pop())


@pytest.fixture
def strangers() -> Iterator[Strangers]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 64, before[1]))
    found = Strangers()
    try:
        yield found
    finally:
        found.leave()
        give_up_all(SPARES)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_spare_makes_room_once_and_is_taken_back(
    tmp_path: Path, strangers: Strangers, caplog: pytest.LogCaptureFixture
) -> None:
    spares = Spares()
    assert spares.refill()
    strangers.take_all()
    opened = [
        spares.open_file(tmp_path / str(number), os.O_WRONLY | os.O_CREAT)
        for number in range(SPARE_DESCRIPTORS)
    ]
    assert "no descriptors left to open" in caplog.text
    assert "ulimit" in caplog.text
    assert not spares.refill()
    for descriptor in opened:
        os.close(descriptor)
    assert spares.refill()
    strangers.leave()
    give_up_all(spares)


def test_other_errors_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SPARES.open_file(tmp_path / "missing" / "file", os.O_WRONLY | os.O_CREAT)


def test_the_journal_begins_a_segment_while_strangers_hold_all_descriptors(
    tmp_path: Path, strangers: Strangers
) -> None:
    async def scenario() -> None:
        synced: list[int] = []
        failed: list[str] = []
        loop = asyncio.get_running_loop()
        files = JournalFiles(tmp_path, synced.append, failed.append, loop)
        files.recover()
        files.append([Chunk(1, 1, b"first", True)])
        await until(lambda: synced == [1])
        SPARES.refill()
        strangers.take_all()
        files.append([Chunk(2, 2, b"second", True)])
        await until(lambda: bool(synced[1:] or failed))
        strangers.leave()
        files.close()
        assert not failed
        assert synced[-1] == 2
        assert (tmp_path / "000000000002.journal").read_bytes() == b"second"

    asyncio.run(scenario())


def test_the_raft_log_is_compacted_while_strangers_hold_all_descriptors(
    tmp_path: Path, strangers: Strangers
) -> None:
    storage = RaftStorage.open(tmp_path / "raft")
    for _ in range(5):
        storage.journal.append(b"\x00command", 1)
    storage.journal.sync()
    SPARES.refill()
    strangers.take_all()
    storage.stage(3, 1, lambda: [b"map"])
    assert storage.sync(has_written=False, compact_to=3) is None
    storage.journal.use_compacted()
    strangers.leave()
    assert storage.journal.first_index == 3
    assert storage.encoded_snapshot() == encode_snapshot(Snapshot(3, 1, b"map"))
    storage.journal.close()
