"""A journal's directory as an operator meets it: locks, restarts, damage, kills, lost counters."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fedq.core.errors import NodeFailure
from fedq.journal.events import Enqueue
from fedq.journal.records import encode_enqueue
from fedq.journal.recovered import Recovered
from fedq.journal.recovery import CorruptJournal
from fedq.journal.segments import Chunk, SegmentPlan
from fedq.shell.disk import journal_files
from fedq.shell.disk.durable_files import segment_name
from fedq.shell.disk.journal_files import DirectoryInUse, JournalFiles, count_start
from tests.contract.disk import journal_child
from tests.integration.waiting import patient
from tests.unit.journal.samples import NORTH, ONE, bodies, encode_all, message

WHOLE = encode_all([Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a"))])


class Reports:
    """What a journal reported, and the open journal."""

    def __init__(self, directory: Path) -> None:
        self.synced: list[int] = []
        self.failed: list[str] = []
        self.loop = asyncio.new_event_loop()
        try:
            self.files = JournalFiles(directory, self.synced.append, self.failed.append, self.loop)
        except NodeFailure:
            self.loop.close()
            raise

    def close(self) -> None:
        """Closes the journal and takes the reports that were under way."""
        self.files.close()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


@contextmanager
def journal(directory: Path) -> Iterator[Reports]:
    reports = Reports(directory)
    try:
        yield reports
    finally:
        reports.close()


def recovered_from(directory: Path) -> Recovered:
    with journal(directory) as reports:
        return reports.files.recover()


def test_a_second_process_is_turned_away_with_the_owner_named(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from fedq.shell.disk.journal_files import JournalFiles\n"
        "loop = asyncio.new_event_loop()\n"
        "JournalFiles(sys.argv[1], print, print, loop)\n"
    )
    with journal(tmp_path) as reports:
        child = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=patient(30),
            check=False,
        )
        assert "DirectoryInUse" in child.stderr
        with pytest.raises(DirectoryInUse, match=r"in use by process \d+: stop that node first"):
            Reports(tmp_path)
        assert reports.failed == []
    assert recovered_from(tmp_path) == Recovered.empty(), "free again once it was closed"


def test_closing_flushes_ends_the_thread_and_may_be_repeated(tmp_path: Path) -> None:
    with journal(tmp_path / "deep" / "down") as reports:
        reports.files.append([Chunk(1, 1, WHOLE, False)])
        reports.files.close()
        reports.files.close()
        assert not [t for t in threading.enumerate() if t.name == "journal"]
    assert reports.synced == []
    assert list(recovered_from(tmp_path / "deep" / "down").fragments) == [ONE]


def test_a_torn_tail_is_cut_so_that_the_next_start_finds_it_whole(tmp_path: Path) -> None:
    (tmp_path / segment_name(1)).write_bytes(WHOLE)
    (tmp_path / segment_name(2)).write_bytes(WHOLE + WHOLE[:-1])
    (tmp_path / "notes.txt").write_text("not a segment")
    with journal(tmp_path) as reports:
        recovered = reports.files.recover()
        assert recovered.torn_bytes == len(WHOLE) - 1
        assert (tmp_path / segment_name(2)).read_bytes() == WHOLE
        plan = SegmentPlan(recovered.segments)
        data = encode_enqueue(ONE, 1, 2, NORTH, 2, bodies("b"))
        plan.append(ONE, data, True, 2, 2)
        reports.files.append(plan.take())
    assert reports.synced == [1]
    again = recovered_from(tmp_path)
    assert again.torn_bytes == 0
    assert again.fragments[ONE].messages == {1: message("a"), 2: message("b")}
    assert [segment.number for segment in again.segments] == [1, 2, 3]


def test_damage_before_the_end_refuses_the_start_and_changes_nothing(tmp_path: Path) -> None:
    damaged = bytearray(WHOLE + WHOLE)
    damaged[-1] ^= 1
    (tmp_path / segment_name(1)).write_bytes(damaged)
    (tmp_path / segment_name(2)).write_bytes(WHOLE + b"torn")
    with pytest.raises(CorruptJournal, match=r"segment 1 .* checksum"):
        recovered_from(tmp_path)
    assert (tmp_path / segment_name(1)).read_bytes() == damaged
    assert (tmp_path / segment_name(2)).read_bytes() == WHOLE + b"torn"


def test_a_segment_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / segment_name(1)).write_bytes(WHOLE)
    with journal(tmp_path) as reports:
        reports.files.append([Chunk(1, 1, b"x", True)])
    assert reports.synced == []
    (reason,) = reports.failed
    assert "000000000001.journal: File exists (EEXIST)" in reason
    assert (tmp_path / segment_name(1)).read_bytes() == WHOLE


def test_a_vanished_directory_is_a_failure_that_says_where(tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    with journal(directory) as reports:
        directory.rename(tmp_path / "elsewhere")
        reports.files.append([Chunk(1, 1, b"x", True)])
    (reason,) = reports.failed
    assert reason.startswith(f"cannot write the journal {directory}")
    assert "check the disk, then start the node again" in reason
    assert reports.synced == []


def test_a_bug_in_the_plan_fails_the_journal_and_not_only_its_thread(tmp_path: Path) -> None:
    with journal(tmp_path) as reports:
        reports.files.append([Chunk(1, 2, b"x", False), Chunk(2, 1, b"y", True)])
    (reason,) = reports.failed
    assert "writer stopped: AssertionError" in reason
    assert reports.synced == []


def test_a_disk_that_does_not_keep_up_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_files, "BACKLOG_BYTES_MAX", 1 << 20)
    with journal(tmp_path) as reports:
        reports.files.append([Chunk(1, 1, bytes(2 << 20), True)])
        reports.files.append([Chunk(2, 1, b"too late", True)])
    (reason,) = reports.failed
    assert "does not keep up: more than 1 MiB wait" in reason
    assert reports.synced == []


def test_many_small_chunks_are_written_in_order(tmp_path: Path) -> None:
    chunks = [Chunk(n, 1, f"{n},".encode(), n == 3000) for n in range(1, 3001)]
    with journal(tmp_path) as reports:
        reports.files.append(chunks)
    assert reports.synced == [3000]
    assert reports.files.backlog_bytes == 0
    content = (tmp_path / segment_name(1)).read_text()
    assert content == "".join(f"{n}," for n in range(1, 3001))


def test_starts_are_counted_from_one(tmp_path: Path) -> None:
    directory = tmp_path / "new"
    first = count_start(directory)
    assert [count_start(directory) for _ in range(2)] == [first + 1, first + 2]
    (directory / "incarnation.new").write_text("a crash left this behind")
    assert count_start(directory) == first + 3


@pytest.mark.parametrize("content", ["", "7", "seven\n", "-1\n", "7\n7\n", "\0\0\0"])
def test_an_unreadable_count_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "incarnation").write_text(content)
    with pytest.raises(NodeFailure, match="does not hold a number: write into it"):
        count_start(tmp_path)
    assert (tmp_path / "incarnation").read_text() == content


def test_a_count_lost_beside_a_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / segment_name(1)).write_bytes(WHOLE)
    with pytest.raises(NodeFailure, match="is missing, yet the journal is not empty"):
        count_start(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("reports_before_kill", [1, 40, 400])
def test_a_killed_process_loses_nothing_it_reported(
    tmp_path: Path, reports_before_kill: int
) -> None:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.contract.disk.journal_child", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    try:
        for _ in range(reports_before_kill):
            reported = int(child.stdout.readline())
    finally:
        child.kill()
        rest, _ = child.communicate(timeout=patient(30))
    # A kill may cut the last line short.
    whole_lines = rest[: rest.rfind("\n") + 1].split()
    reported = max(reported, *map(int, whole_lines), 0)
    recovered = recovered_from(tmp_path)
    positions = list(recovered.fragments[ONE].messages)
    assert positions == list(range(positions[0], positions[-1] + 1))
    assert positions[-1] >= reported
    oldest_owed = positions[-1] - journal_child.LIVE + 1
    assert positions[0] <= max(1, oldest_owed)
    assert positions[0] > oldest_owed - journal_child.BATCH, "what was settled stays gone"
    # The child may have come so far after its last report that what this was about is settled.
    assert reported in recovered.fragments[ONE].messages or reported < oldest_owed
    for position, stored in recovered.fragments[ONE].messages.items():
        assert stored == message(f"{position:40}")
    counted = int((tmp_path / "incarnation").read_text())
    assert count_start(tmp_path) > counted
    if reports_before_kill == 400:
        assert recovered.segments[0].number > 1, "dead segments were deleted meanwhile"
