"""The contract of the Raft log: what a node may rely on, over real files and ordered streams."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest

from fedq.core import limits
from fedq.core.ids import NodeId
from fedq.shell.raft_journal import RaftStorageError
from fedq.shell.raft_log import RaftLog, RaftTiming
from fedq.shell.raft_storage import RaftStorage
from tests.contract.raft_cluster import FAST, Cluster, Machine


def run(
    directory: Path,
    scenario: Callable[[Cluster], Awaitable[None]],
    size: int = 3,
    timing: RaftTiming = FAST,
) -> None:
    async def main() -> None:
        cluster = Cluster(directory, size, timing)
        cluster.start()
        try:
            await scenario(cluster)
        finally:
            await cluster.stop()

    asyncio.run(main())


def numbered(count: int, name: str = "command") -> list[bytes]:
    return [f"{name} {number}".encode() for number in range(count)]


def compacting(entries: int) -> RaftTiming:
    return RaftTiming(
        election_min_ms=FAST.election_min_ms,
        election_max_ms=FAST.election_max_ms,
        heartbeat_ms=FAST.heartbeat_ms,
        majority_lost_ms=FAST.majority_lost_ms,
        leader_lost_ms=FAST.leader_lost_ms,
        tick_ms=FAST.tick_ms,
        compact_entries=entries,
    )


def test_a_leader_is_elected_and_commits_on_every_member(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        commands = numbered(300)
        await cluster.propose(leader, commands)
        await cluster.agreed(commands)
        for member in cluster.members.values():
            assert member.machine.leaders[-1] == leader.name
            assert member.log.is_leader == (member is leader)
            assert member.log.truncations == 0

    run(tmp_path, scenario)


def test_a_follower_s_proposals_are_committed_in_its_order(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        follower = cluster.followers(leader)[0]
        commands = [random.Random(n).randbytes(1 + n * 97) for n in range(300)]
        await cluster.propose(follower, commands)
        await cluster.agreed(commands)

    run(tmp_path, scenario)


def test_a_commit_reaches_followers_without_waiting_for_a_heartbeat(tmp_path: Path) -> None:
    timing = RaftTiming(
        election_min_ms=700, election_max_ms=900, heartbeat_ms=200, majority_lost_ms=2_000
    )

    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.propose(leader, [b"warm up"])
        loop = asyncio.get_running_loop()
        started = loop.time()
        for number in range(20):
            command = b"%d" % number
            assert leader.log.propose(command)
            await cluster.until(
                lambda c=command: all(  # type: ignore[misc]
                    m.machine.commands[-1] == c for m in cluster.members.values()
                ),
                "the command on all members",
            )
        # Waiting for heartbeats would take 20 times 0.1 s on average.
        assert loop.time() - started < 1.0

    run(tmp_path, scenario, timing=timing)


def test_one_voter_leads_at_once(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        started = asyncio.get_running_loop().time()
        member = await cluster.leader()
        assert asyncio.get_running_loop().time() - started < 0.1
        commands = numbered(500)
        await cluster.propose(member, commands)
        assert member.machine.commands == commands

    run(tmp_path, scenario, size=1)


def test_an_isolated_leader_is_replaced_and_comes_back_as_a_follower(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        old = await cluster.leader()
        await cluster.propose(old, [b"before"])
        cluster.isolate(old.name)
        lost = numbered(50, "lost")
        for command in lost:
            assert old.log.propose(command)
        others = [member.name for member in cluster.followers(old)]
        new = await cluster.leader(*others)
        assert new.log.term > 0
        await cluster.propose(new, [b"meanwhile"])
        await cluster.until(lambda: old.log.leader is None, "the old leader stepped down")
        assert not old.log.propose(b"nobody to take this")
        cluster.heal()
        await cluster.leader()
        await cluster.propose(new, [b"after"])
        await cluster.agreed([b"before", b"meanwhile", b"after"])
        assert old.log.truncations == 1

    run(tmp_path, scenario)


def test_a_bad_link_between_two_does_not_depose_a_leader_the_third_hears(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.propose(leader, [b"first"])
        deaf, third = cluster.followers(leader)
        cluster.cut(leader.name, deaf.name)
        term = deaf.log.term
        await cluster.until(lambda: deaf.log.term >= term + 3, "the deaf one tried three times")
        assert third.log.leader == leader.name
        await cluster.propose(leader, [b"second"])
        cluster.heal()
        await cluster.leader()
        await cluster.agreed([b"first", b"second"])

    run(tmp_path, scenario)


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


def test_a_killed_leader_is_replaced_and_rejoins(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        old = await cluster.leader()
        await cluster.propose(old, [b"first"])
        cluster.kill(old.name)
        await cluster.propose(await cluster.leader(), [b"second"])
        cluster.start(old.name)
        await cluster.leader()
        await cluster.agreed([b"first", b"second"])

    run(tmp_path, scenario)


def test_a_stopping_leader_hands_over(tmp_path: Path) -> None:
    timing = RaftTiming(election_min_ms=1_000, election_max_ms=1_200, leader_lost_ms=1_000)

    async def scenario(cluster: Cluster) -> None:
        # Nobody would be elected in time but for the forced election.
        first = cluster.members[cluster.names[0]]
        await cluster.until(lambda: first.log.leader is not None, "a leader")
        leader = await cluster.leader()
        await cluster.propose(leader, [b"first"])
        await cluster.agreed([b"first"])
        loop = asyncio.get_running_loop()
        started = loop.time()
        await leader.log.stop()
        cluster.kill(leader.name)
        await cluster.propose(await cluster.leader(), [b"second"])
        assert loop.time() - started < 0.7

    run(tmp_path, scenario, timing=timing)


def test_a_lagging_follower_gets_a_snapshot_and_what_follows(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        late = cluster.followers(leader)[0]
        cluster.isolate(late.name)
        # Larger than what a leader sends ahead (1 MiB), and hard to deflate.
        big = [random.Random(n).randbytes(40_000) for n in range(60)]
        await cluster.propose(leader, big)
        assert leader.machine.snapshots_taken
        cluster.heal()
        await cluster.agreed(big)
        assert late.machine.snapshots_installed == 1
        await cluster.propose(late, [b"after"])
        await cluster.agreed([*big, b"after"])
        cluster.kill(late.name)
        cluster.start(late.name)
        await cluster.agreed([*big, b"after"])

    run(tmp_path, scenario, timing=compacting(20))


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


def test_snapshot_chunks_that_get_lost_or_spoilt_are_sent_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        late = cluster.followers(leader)[0]
        cluster.isolate(late.name)
        big = [random.Random(n).randbytes(40_000) for n in range(30)]
        await cluster.propose(leader, big)
        spoilt = 0

        def spoil(_: NodeId, receiver: NodeId, frame: bytes) -> bytes | None:
            nonlocal spoilt
            if receiver == late.name and len(frame) > 60_000 and spoilt < 6:
                spoilt += 1
                return None if spoilt % 2 else frame[:-1] + bytes([frame[-1] ^ 1])
            return frame

        cluster.meddle = spoil
        cluster.heal()
        await cluster.agreed(big)
        assert spoilt == 6

    run(tmp_path, scenario, timing=compacting(20))


def test_thousands_of_commands_without_a_fault_truncate_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        follower = cluster.followers(leader)[0]
        await asyncio.gather(
            cluster.propose(leader, numbered(3_000, "leader")),
            cluster.propose(follower, numbered(3_000, "follower")),
        )
        await cluster.agreed(leader.machine.commands)
        assert len(leader.machine.commands) == len(set(leader.machine.commands)) == 6_000
        assert [m.log.truncations for m in cluster.members.values()] == [0, 0, 0]

    run(tmp_path, scenario, timing=compacting(1_000))


def test_an_oversized_or_empty_command_is_refused_with_the_limit(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        with pytest.raises(ValueError, match="49152 bytes, this one 49153: split it"):
            leader.log.propose(bytes(limits.command_bytes_max + 1))
        with pytest.raises(ValueError, match="this one 0"):
            leader.log.propose(b"")
        largest = bytes(limits.command_bytes_max)
        await cluster.propose(cluster.followers(leader)[0], [largest])
        await cluster.agreed([largest])

    run(tmp_path, scenario)


def test_too_many_proposals_are_refused_until_some_are_committed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        accepted = sum(leader.log.propose(command) for command in numbered(2_000))
        assert accepted == limits.commands_in_flight_max
        await cluster.agreed(numbered(accepted))
        assert leader.log.propose(b"room again")

    run(tmp_path, scenario)


def test_without_a_majority_nothing_is_taken_or_committed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.propose(leader, [b"first"])
        for name in [member.name for member in cluster.followers(leader)]:
            cluster.kill(name)
        leader.log.propose(b"in doubt")
        await cluster.until(lambda: leader.log.leader is None, "the leader stepped down")
        assert leader.machine.leaders[-1] is None
        assert not leader.log.propose(b"refused")
        assert leader.machine.commands == [b"first"]

    run(tmp_path, scenario)


def test_garbage_from_a_peer_is_dropped_and_counted(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        follower = cluster.followers(leader)[0]
        noise = random.Random(7)
        for size in range(200):
            leader.log.receive(follower.name, noise.randbytes(size))
            follower.log.receive(NodeId("stranger"), b"\x01\x02" + bytes(8))
        await cluster.propose(leader, [b"still working"])
        await cluster.agreed([b"still working"])
        assert leader.log.garbage_frames == 200
        assert follower.log.garbage_frames == 200
        assert cluster.members[leader.name].log.leader == leader.name

    run(tmp_path, scenario)


def test_repeated_frames_change_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        def twice(sender: NodeId, receiver: NodeId, frame: bytes) -> bytes:
            if receiver in cluster.members:
                cluster.members[receiver].log.receive(sender, frame)
            return frame

        cluster.meddle = twice
        leader = await cluster.leader()
        commands = numbered(500)
        await cluster.propose(leader, commands)
        await cluster.agreed(commands)
        assert [m.log.truncations for m in cluster.members.values()] == [0, 0, 0]

    run(tmp_path, scenario)


def test_one_repeated_vote_does_not_elect(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        candidate, voter = cluster.members[cluster.names[0]], cluster.names[1]
        cluster.connect(candidate.name, voter)
        votes = 0

        def repeat_votes(sender: NodeId, receiver: NodeId, frame: bytes) -> bytes | None:
            nonlocal votes
            if receiver == candidate.name and frame[:2] == b"\x01\x02":
                votes += 1
                for _ in range(5):
                    cluster.members[receiver].log.receive(sender, frame)
            return frame if receiver in (candidate.name, voter) else None

        cluster.meddle = repeat_votes
        await cluster.until(lambda: votes > 0, "a vote")
        await cluster.until(lambda: candidate.log.term > 2, "the next election")
        assert not candidate.log.is_leader

    async def main() -> None:
        cluster = Cluster(tmp_path, 5)
        cluster.start(*cluster.names[:2])
        try:
            await scenario(cluster)
        finally:
            await cluster.stop()

    asyncio.run(main())


def test_lost_frames_are_made_up_for(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        dice = random.Random(5)
        leader = await cluster.leader()
        cluster.meddle = lambda _, __, frame: None if dice.random() < 0.1 else frame
        commands = numbered(300)
        for command in commands:
            await cluster.until(
                lambda c=command: any(m.log.propose(c) for m in [leader]),  # type: ignore[misc]
                "room",
            )
        cluster.meddle = lambda _, __, frame: frame
        await cluster.until(
            lambda: (
                all(m.machine.commands == leader.machine.commands for m in cluster.members.values())
                and set(leader.machine.commands) == set(commands)
            ),
            "the same commands everywhere",
        )

    run(tmp_path, scenario)


def test_a_command_that_raises_stops_the_log_and_is_not_tried_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        victim = cluster.followers(leader)[0]
        victim.machine.poison = b"poison"
        assert leader.log.propose(b"poison")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + 5
        while not victim.failures:
            assert loop.time() < deadline
            await asyncio.sleep(0.002)
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
        await cluster.stop()
        journal = tmp_path / member.name / "raft.journal"
        snapshot = tmp_path / member.name / "raft.snapshot"
        for file, at in ((journal, 40), (snapshot, 60)):
            intact = file.read_bytes()
            file.write_bytes(intact[:at] + b"\xff\xff" + intact[at + 2 :])
            with pytest.raises(RaftStorageError, match="rejoin as a new member"):
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


def test_impossible_voters_are_refused(tmp_path: Path) -> None:
    def build(*voters: str) -> RaftLog:
        return RaftLog(
            NodeId("a"),
            [NodeId(name) for name in voters],
            tmp_path / "raft",
            send=lambda _, __: False,
            machine=Machine(),
            failed=lambda _: None,
        )

    for voters in ((), ("b", "c"), ("a", "a"), ("a", "b", "c", "d", "e", "f")):
        with pytest.raises(ValueError, match="1 to 5 different voters"):
            build(*voters)
    assert not build("a").propose(b"before the start")


@pytest.mark.slow
def test_kill_9_during_compactions_loses_nothing_that_was_reported(tmp_path: Path) -> None:
    """The victim compacts after every few entries, so most kills hit a compaction."""
    dice = random.Random(11)
    directory = tmp_path / "victim"
    reported = 0
    for _ in range(6):
        command = [sys.executable, "-m", "tests.contract.raft_victim", str(directory)]
        victim = subprocess.Popen([*command, str(reported)], stdout=subprocess.PIPE)
        assert victim.stdout is not None
        for _ in range(dice.randrange(50, 400)):
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
    assert reported > 300


def compare_with(longest: list[bytes], cluster: Cluster) -> None:
    """Every log is a beginning of the longest one ever seen, which grows."""
    for member in cluster.members.values():
        assert not member.failures
        seen = member.machine.commands
        common = min(len(seen), len(longest))
        assert seen[:common] == longest[:common], "the log forked"
        longest.extend(seen[common:])


@pytest.mark.slow
def test_kills_cuts_and_losses_at_random_never_fork_or_lose_the_log(tmp_path: Path) -> None:
    rounds = 60

    async def scenario(cluster: Cluster) -> None:
        dice = random.Random(3)
        longest: list[bytes] = []
        number = 0

        def disturb() -> None:
            match dice.randrange(6):
                case 0 if len(cluster.members) > 1:
                    cluster.kill(dice.choice(list(cluster.members)))
                case 1 | 2:
                    missing = [name for name in cluster.names if name not in cluster.members]
                    if missing:
                        cluster.start(*missing)
                    cluster.heal()
                case 3:
                    cluster.isolate(dice.choice(list(cluster.members)))
                case 4:
                    cluster.meddle = lambda _, __, frame: None if dice.random() < 0.2 else frame
                case _:
                    cluster.meddle = lambda _, __, frame: frame

        loop = asyncio.get_running_loop()
        for _ in range(rounds):
            disturb()
            pause = loop.time() + dice.uniform(0.0, 0.12)
            while loop.time() < pause:
                for member in cluster.members.values():
                    if member.log.propose(b"%d" % number):
                        number += 1
                await asyncio.sleep(0.001)
                compare_with(longest, cluster)
        cluster.meddle = lambda _, __, frame: frame
        missing = [name for name in cluster.names if name not in cluster.members]
        if missing:
            cluster.start(*missing)
        cluster.heal()
        await cluster.propose(await cluster.leader(), [b"the end"])
        compare_with(longest, cluster)
        await cluster.agreed(longest)
        assert len(longest) == len(set(longest)) > rounds

    run(tmp_path, scenario, timing=compacting(40))
