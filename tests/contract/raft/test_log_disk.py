"""The Raft log and its files: kills, restarts, damage, full disks, and the order of things."""

import asyncio
import random
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path

import orjson
import pytest

from fedq.core.ids import NodeId
from fedq.shell.raft.journal import RaftJournal, RaftStorageError
from fedq.shell.raft.storage import RaftStorage
from fedq.shell.raft.wire import Ack, Append, Vote, VoteRequest, decode
from tests.contract.raft.cluster import Cluster, compacting, numbered, run
from tests.integration.full_disk import fill, small_disk
from tests.unit.shell.fakes import until


def test_a_restart_of_all_keeps_every_command(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        commands = numbered(200)
        await cluster.propose(await cluster.leader(), commands)
        await cluster.stop()
        cluster.start()
        leader = await cluster.leader()
        await cluster.agreed(commands)
        await cluster.propose(leader, [b"more"])
        await cluster.agreed([*commands, b"more"])

    run(tmp_path, scenario)


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_end_may_come_while_the_disk_is_waited_for(tmp_path: Path, is_killed: bool) -> None:
    async def scenario(cluster: Cluster) -> None:
        expected: list[bytes] = []
        for number in range(20):
            leader = await cluster.leader()
            # When it is committed, nothing else is about to be written.
            expected.append(b"quiet %d" % number)
            await cluster.propose(leader, expected[-1:])
            assert leader.log.propose(b"%d" % number)
            while not leader.log.is_syncing:  # noqa: ASYNC110 - its beginning has no event
                await asyncio.sleep(0)
            assert leader.machine.commands == expected, "nothing counts before it is on disk"
            if is_killed:
                cluster.kill(leader.name)
                assert leader.machine.commands == expected
            else:
                await cluster.stop()
            assert not leader.failures
            # It was handed to the file, and no machine lost its power.
            expected.append(b"%d" % number)
            cluster.start()
            await cluster.leader()
            await cluster.agreed(expected)

    run(tmp_path, scenario, size=1)


def test_killing_all_at_once_keeps_every_committed_command(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        expected: list[bytes] = []
        for name in ("one", "two", "three"):
            commands = numbered(150, name)
            await cluster.propose(await cluster.leader(), commands)
            expected += commands
            for member in list(cluster.members):
                cluster.kill(member)
            cluster.start()
        await cluster.leader()
        await cluster.agreed(expected)

    run(tmp_path, scenario, timing=compacting(70))


def test_a_voter_with_an_empty_disk_is_filled_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        commands = numbered(100)
        await cluster.propose(leader, commands)
        wiped = cluster.followers(leader)[0]
        cluster.kill(wiped.name)
        for file in (tmp_path / wiped.name).iterdir():
            file.unlink()
        cluster.start(wiped.name)
        await cluster.agreed(commands)

    run(tmp_path, scenario, timing=compacting(30))


def test_a_command_that_raises_stops_the_log_and_is_not_tried_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        victim = cluster.followers(leader)[0]
        victim.machine.poison = b"poison"
        assert leader.log.propose(b"poison")
        await until(lambda: victim.failures)
        assert victim.failures == [
            "the Raft log cannot go on: RuntimeError: this command cannot be applied"
        ]
        assert not victim.log.propose(b"no")
        assert victim.log.leader is None
        cluster.kill(victim.name)
        await cluster.propose(leader, [b"next"])
        await cluster.agreed([b"poison", b"next"])

    run(tmp_path, scenario)


def test_a_torn_tail_is_cut_and_filled_up_by_the_leader(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        commands = numbered(50)
        leader = await cluster.leader()
        await cluster.propose(leader, commands)
        await cluster.agreed(commands)
        torn = cluster.followers(leader)[0]
        cluster.kill(torn.name)
        with (tmp_path / torn.name / "raft.journal").open("ab") as file:
            file.write(b"half a record")
        cluster.start(torn.name)
        await cluster.agreed(commands)

    run(tmp_path, scenario)


def test_damaged_files_refuse_to_start_and_say_what_to_do(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        (member,) = cluster.members.values()
        await cluster.propose(member, numbered(100))
        journal = tmp_path / member.name / "raft.journal"
        snapshot = tmp_path / member.name / "raft.snapshot"
        await cluster.until(snapshot.exists, "a compaction")
        await cluster.propose(member, numbered(20, "more"))
        await cluster.stop()
        for file, at in ((journal, 40), (snapshot, 60)):
            intact = file.read_bytes()
            file.write_bytes(intact[:at] + b"\xff\xff" + intact[at + 2 :])
            with pytest.raises(
                RaftStorageError, match=r"rejoin as a new member|delete this Raft directory"
            ):
                cluster.start()
            file.write_bytes(intact)
        intact = snapshot.read_bytes()
        snapshot.unlink()
        with pytest.raises(RaftStorageError, match="missing or from an old backup"):
            cluster.start()
        snapshot.write_bytes(intact)
        journal.unlink()
        with pytest.raises(RaftStorageError, match=r"raft\.journal is missing"):
            cluster.start()

    run(tmp_path, scenario, size=1, timing=compacting(40))


@pytest.mark.slow
def test_kill_9_during_compactions_loses_nothing_that_was_reported(tmp_path: Path) -> None:
    """The victim compacts after every few entries, so most kills hit a compaction."""
    dice = random.Random(11)
    directory = tmp_path / "victim"
    reported = 0
    for _ in range(5):
        command = [sys.executable, "-m", "tests.contract.raft.victim", str(directory)]
        victim = subprocess.Popen([*command, str(reported)], stdout=subprocess.PIPE)
        assert victim.stdout is not None
        for _ in range(dice.randrange(30, 100)):
            assert victim.stdout.readline()
        victim.kill()
        rest = victim.stdout.read().split()
        victim.stdout.close()
        victim.wait()

        storage = RaftStorage.open(directory)
        snapshot = storage.restored
        kept = [] if snapshot is None else [bytes.fromhex(c) for c in orjson.loads(snapshot.data)]
        kept += [entry.command[1:] for entry in storage.journal[1:] if len(entry.command) > 1]
        storage.journal.close()
        assert kept == [b"%d" % number for number in range(len(kept))]
        assert not rest or len(kept) > int(rest[-1])
        reported = len(kept)
    assert reported > 100


def test_a_full_disk_stops_the_log_and_says_so(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        member = await cluster.leader()
        await cluster.propose(member, numbered(20))
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = (tmp_path / member.name / "raft.journal").stat().st_size
        # The next write is cut short in the middle of a record, the one after it fails.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 30, hard))
        try:
            assert member.log.propose(b"does not fit any more")
            await until(lambda: member.failures)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert "the Raft log cannot go on: OSError" in member.failures[0]
        assert "File too large" in member.failures[0]
        assert member.machine.commands == numbered(20)
        cluster.kill(member.name)
        cluster.start()
        await cluster.leader()
        await cluster.agreed(numbered(20))

    run(tmp_path, scenario, size=1)


def test_a_disk_without_room_is_waited_for(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk:

        async def scenario(cluster: Cluster) -> None:
            member = await cluster.leader()
            await cluster.propose(member, numbered(20))
            filler = fill(disk)
            more = [bytes([number]) * 3_000 for number in range(9)]
            assert all(member.log.propose(command) for command in more)
            await until(lambda: member.log.sync_owed_ms > 300)
            assert not member.failures
            assert member.machine.commands == numbered(20)
            filler.unlink()
            await cluster.agreed([*numbered(20), *more])
            cluster.kill(member.name)
            cluster.start()
            await cluster.leader()
            await cluster.agreed([*numbered(20), *more])

        run(disk, scenario, size=1)


def test_a_disk_without_room_keeps_nobody_from_the_end(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk:

        async def scenario(cluster: Cluster) -> None:
            member = await cluster.leader()
            await cluster.propose(member, numbered(20))
            filler = fill(disk)
            assert member.log.propose(bytes(3_000))
            await until(lambda: member.log.sync_owed_ms > 300)
            cluster.kill(member.name)
            filler.unlink()
            cluster.start()
            await cluster.leader()
            await cluster.agreed(numbered(20))

        run(disk, scenario, size=1)


def test_no_frame_leaves_before_what_it_tells_of_is_on_disk(tmp_path: Path) -> None:
    looked_at: Counter[str] = Counter()

    def check(sender: NodeId, receiver: NodeId, frame: bytes) -> None:
        message = decode(frame)
        copy = tmp_path / "copy"
        copy.write_bytes((tmp_path / sender / "raft.journal").read_bytes())
        journal = RaftJournal.open(copy)
        match message:
            case VoteRequest():
                assert (journal.term, journal.vote) == (message.term, sender)
            case Vote():
                assert (journal.term, journal.vote) == (message.term, receiver)
            case Append() if message.entries:
                assert journal.last_index >= message.prev_index + len(message.entries)
            case Ack() if message.success:
                assert journal.last_index >= message.next_index - 1
        journal.abandon()
        looked_at[type(message).__name__] += 1

    async def main() -> None:
        cluster = Cluster(tmp_path, 3)
        cluster.on_send = check
        cluster.start()
        try:
            leader = await cluster.leader()
            await cluster.propose(leader, numbered(40))
            await cluster.propose(cluster.followers(leader)[0], numbered(40, "more"))
        finally:
            await cluster.stop()

    asyncio.run(main())
    assert all(looked_at[kind] for kind in ("VoteRequest", "Vote", "Append", "Ack"))
