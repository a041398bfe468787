"""Compacting the log holds nobody up, and harms nothing when it fails."""

import os
import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fedq.shell import raft_snapshot
from fedq.shell.raft_storage import RaftStorage
from tests.contract.raft_cluster import FAST, Cluster, compacting, numbered, run

#: A compaction that failed is tried again at once.
IMPATIENT = replace(FAST, compact_entries=20, compact_retry_ms=1, compact_retry_max_ms=1)


def test_while_a_snapshot_is_made_the_log_goes_on(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        term = leader.log.term
        makers: list[int] = []
        may_go_on = threading.Event()

        def wait() -> None:
            makers.append(threading.get_ident())
            assert may_go_on.wait(10)

        leader.machine.on_pieces = wait
        try:
            await cluster.propose(leader, numbered(30))
            await cluster.until(lambda: bool(makers), "a snapshot is being made")
            await cluster.propose(leader, numbered(200, "meanwhile"))
            assert leader.log.term == term
        finally:
            may_go_on.set()
        assert makers[0] != threading.get_ident()
        snapshot = tmp_path / leader.name / "raft.snapshot"
        await cluster.until(snapshot.exists, "the snapshot is in place")
        everything = [*numbered(30), *numbered(200, "meanwhile")]
        await cluster.agreed(everything)
        cluster.kill(leader.name)
        cluster.start(leader.name)
        await cluster.leader()
        await cluster.agreed(everything)

    run(tmp_path, scenario, timing=compacting(20))


def test_a_map_too_large_for_a_snapshot_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: Cluster) -> None:
        member = await cluster.leader()
        with monkeypatch.context() as patched:
            patched.setattr(raft_snapshot, "snapshot_bytes_max", 100)
            await cluster.propose(member, numbered(60))
            await cluster.until(lambda: "could not be compacted" in caplog.text, "a warning")
            await cluster.propose(member, numbered(60, "more"))
        assert "delete unused exchanges" in caplog.text
        everything = [*numbered(60), *numbered(60, "more")]
        cluster.kill(member.name)
        cluster.start()
        member = await cluster.leader()
        await cluster.agreed(everything)
        snapshot = tmp_path / member.name / "raft.snapshot"
        await cluster.until(snapshot.exists, "it is compacted when it fits again")

    run(tmp_path, scenario, size=1, timing=IMPATIENT)


def test_a_snapshot_that_cannot_be_written_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: Cluster) -> None:
        member = await cluster.leader()
        directory = tmp_path / member.name
        obstacle = directory / "raft.snapshot.next"
        obstacle.mkdir()
        await cluster.propose(member, numbered(60))
        await cluster.until(lambda: "could not be compacted" in caplog.text, "a warning")
        await cluster.propose(member, numbered(60, "more"))
        obstacle.rmdir()
        await cluster.until((directory / "raft.snapshot").exists, "the next try")
        await cluster.propose(member, [b"after"])
        await cluster.agreed([*numbered(60), *numbered(60, "more"), b"after"])

    run(tmp_path, scenario, size=1, timing=IMPATIENT)


def test_a_journal_that_cannot_be_rewritten_keeps_its_entries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(cluster: Cluster) -> None:
        member = await cluster.leader()
        directory = tmp_path / member.name
        obstacle = directory / "raft.journal.new"
        obstacle.mkdir()
        await cluster.propose(member, numbered(60))
        await cluster.until(lambda: "could not be compacted" in caplog.text, "a warning")
        await cluster.propose(member, numbered(60, "more"))
        # The snapshot is further on than the journal: whoever opens them finishes the job.
        cluster.kill(member.name)
        obstacle.rmdir()
        cluster.start()
        await cluster.leader()
        await cluster.agreed([*numbered(60), *numbered(60, "more")])

    run(tmp_path, scenario, size=1, timing=IMPATIENT)


def test_a_follower_that_lags_gets_what_is_on_disk_and_nothing_is_made_for_it(
    tmp_path: Path,
) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        late = cluster.followers(leader)[0]
        cluster.isolate(late.name)
        commands = [random.Random(n).randbytes(1_000) for n in range(25)]
        await cluster.propose(leader, commands)
        snapshot = tmp_path / leader.name / "raft.snapshot"
        await cluster.until(snapshot.exists, "the leader has compacted")
        made = leader.machine.snapshots_taken
        cluster.heal()
        await cluster.agreed(commands)
        assert late.machine.snapshots_installed >= 1
        assert leader.machine.snapshots_taken == made

    run(tmp_path, scenario, timing=compacting(20))


def test_what_a_killed_process_staged_is_forgotten(tmp_path: Path) -> None:
    storage = RaftStorage.open(tmp_path / "raft")
    storage.journal.append(b"\x00command", 1)
    storage.journal.sync()
    storage.stage(2, 1, lambda: [b"map"])
    storage.journal.abandon()
    assert "raft.snapshot.next" in os.listdir(tmp_path / "raft")
    storage = RaftStorage.open(tmp_path / "raft")
    assert storage.restored is None
    assert storage.journal.last_index == 2
    assert "raft.snapshot.next" not in os.listdir(tmp_path / "raft")
    storage.journal.close()
