"""Compacting the log holds nobody up, and harms nothing when it fails."""

import asyncio
import os
import random
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from fedq.core.ids import NodeId
from fedq.shell.raft import snapshot as raft_snapshot
from fedq.shell.raft.electorate import Memory
from fedq.shell.raft.journal import RaftStorageError
from fedq.shell.raft.storage import RaftStorage
from tests.contract.raft.cluster import FAST, Cluster, compacting, numbered, run

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
            patched.setattr(raft_snapshot, "SNAPSHOT_BYTES_MAX", 100)
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


async def without_one(cluster: Cluster, directory: Path) -> tuple[NodeId, list[bytes]]:
    """A voter that was killed, and is to get a snapshot now; and what that contains."""
    leader = await cluster.leader()
    late = cluster.followers(leader)[0].name
    cluster.kill(late)
    commands = [random.Random(n).randbytes(1_000) for n in range(25)]
    await cluster.propose(leader, commands)
    await cluster.until((directory / leader.name / "raft.snapshot").exists, "a compaction")
    return late, commands


def test_turns_go_on_while_a_leader_s_snapshot_is_read(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        name, commands = await without_one(cluster, tmp_path)
        begun, may_end, readers = threading.Event(), threading.Event(), []

        def read() -> None:
            readers.append(threading.get_ident())
            begun.set()
            assert may_end.wait(10)

        cluster.start(name)
        late = cluster.members[name]
        late.machine.on_reading = read
        try:
            await cluster.until(begun.is_set, "it is read")
            applied = late.log.applied_index
            leader = await cluster.leader()
            await cluster.propose(leader, [b"meanwhile"])
            # It hears its leader, and is neither given up nor sent all of it anew.
            for _ in range(100):
                await cluster.tick()
            assert late.log.leader == leader.name
            assert late.log.applied_index == applied
            assert len(readers) == 1
        finally:
            may_end.set()
        await cluster.agreed([*commands, b"meanwhile"])
        assert readers[0] != threading.get_ident()
        assert late.machine.snapshots_installed == 1

    run(tmp_path, scenario, timing=compacting(20))


def test_a_snapshot_that_cannot_be_restored_ends_the_log_and_is_not_kept(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        name, commands = await without_one(cluster, tmp_path)

        def read() -> None:
            raise ValueError("this is no map")

        cluster.start(name)
        late = cluster.members[name]
        late.machine.on_reading = read
        async with asyncio.timeout(10):
            while not late.failures:
                await cluster.tick()
        assert "this is no map" in late.failures[0]
        assert not (tmp_path / name / "raft.snapshot").exists()
        # It begins where it was, and takes what can be restored.
        cluster.kill(name)
        cluster.start(name)
        await cluster.agreed(commands)
        assert cluster.members[name].machine.snapshots_installed == 1

    run(tmp_path, scenario, timing=compacting(20))


def test_a_voter_whose_own_map_cannot_be_restored_gets_it_from_the_others(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        other = cluster.followers(leader)[0].name
        directory = tmp_path / other
        commands = [random.Random(n).randbytes(1_000) for n in range(60)]
        await cluster.propose(leader, commands)
        await cluster.until((directory / "raft.snapshot").exists, "a compaction")
        await cluster.agreed(commands)
        cluster.kill(other)
        cluster.unreadable[other] = "a bug"
        with pytest.raises(RaftStorageError, match=r"cannot be restored: a bug.* move that dir"):
            cluster.start(other)
        # What the sentence says.
        directory.rename(tmp_path / "aside")
        cluster.memory[other] = Memory(1, 1, is_used=True)
        del cluster.unreadable[other]
        cluster.start(other)
        await cluster.agreed(commands)
        assert cluster.members[other].machine.snapshots_installed == 1

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
