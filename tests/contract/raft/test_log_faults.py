"""The Raft log when streams break, lose, repeat and spoil frames, and members vanish."""

import asyncio
import random
from pathlib import Path

import pytest

from fedq.core.ids import NodeId
from fedq.shell.raft.wire import Vote, decode
from tests.contract.raft.cluster import Cluster, compacting, make_voter, numbered, run

#: Faults at random are so many ticks apart, of whichever members there are.
TICKS_BETWEEN = 25


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
        # The third one's patience, not the machine's idleness, decides that it hears the leader.
        assert third.name in cluster.patient
        cluster.cut(leader.name, deaf.name)
        term = deaf.log.term
        await cluster.until(lambda: deaf.log.term >= term + 3, "the deaf one tried three times")
        assert third.log.leader == leader.name
        await cluster.propose(leader, [b"second"])
        cluster.heal()
        await cluster.leader()
        await cluster.agreed([b"first", b"second"])

    run(tmp_path, scenario, patient=1)


def test_a_lagging_follower_gets_a_snapshot_and_what_follows(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        late = cluster.followers(leader)[0]
        cluster.isolate(late.name)
        # Larger than what a leader sends ahead (1 MiB), and hard to deflate.
        big = [random.Random(n).randbytes(40_000) for n in range(60)]
        await cluster.propose(leader, big)
        snapshot = tmp_path / leader.name / "raft.snapshot"
        await cluster.until(snapshot.exists, "the leader has compacted")
        cluster.heal()
        await cluster.agreed(big)
        assert late.machine.snapshots_installed >= 1
        await cluster.propose(late, [b"after"])
        await cluster.agreed([*big, b"after"])
        cluster.kill(late.name)
        cluster.start(late.name)
        await cluster.agreed([*big, b"after"])

    run(tmp_path, scenario, timing=compacting(20))


def test_snapshot_chunks_that_get_lost_or_spoilt_are_sent_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        late = cluster.followers(leader)[0]
        cluster.isolate(late.name)
        big = [random.Random(n).randbytes(40_000) for n in range(30)]
        await cluster.propose(leader, big)
        snapshot = tmp_path / leader.name / "raft.snapshot"
        await cluster.until(snapshot.exists, "the leader has compacted")
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

    # A new leader cuts off what the old one had not agreed: on a busy machine there may be one.
    run(tmp_path, scenario, patient=2)


def test_one_repeated_vote_does_not_elect(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        candidate, voter = cluster.members[cluster.names[0]], cluster.names[1]
        cluster.connect(candidate.name, voter)
        votes = 0

        def repeat_votes(sender: NodeId, receiver: NodeId, frame: bytes) -> bytes | None:
            nonlocal votes
            if receiver == candidate.name and isinstance(decode(frame), Vote):
                votes += 1
                for _ in range(5):
                    cluster.members[receiver].log.receive(sender, frame)
            return frame if receiver in (candidate.name, voter) else None

        cluster.meddle = repeat_votes
        await cluster.until(lambda: votes > 0, "a vote")
        await cluster.until(lambda: candidate.log.term > 2, "the next election")
        assert candidate.name not in candidate.machine.leaders

    async def main() -> None:
        cluster = Cluster(tmp_path, 5)
        for name in cluster.names:
            make_voter(tmp_path / name)
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
        await cluster.propose(leader, commands)
        cluster.meddle = lambda _, __, frame: frame
        await cluster.agreed(commands)

    run(tmp_path, scenario)


def compare_with(longest: list[bytes], cluster: Cluster) -> None:
    """Every log is a beginning of the longest one ever seen, which grows."""
    for member in cluster.members.values():
        assert not member.failures
        seen = member.machine.commands
        common = min(len(seen), len(longest))
        assert seen[:common] == longest[:common], "the log forked"
        assert set(member.machine.repeated) <= {b"the end"}
        longest.extend(seen[common:])


@pytest.mark.slow
def test_kills_cuts_and_losses_at_random_never_fork_or_lose_the_log(tmp_path: Path) -> None:
    rounds = 45

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

        for _ in range(rounds):
            disturb()
            for _ in range(dice.randrange(TICKS_BETWEEN)):
                for member in list(cluster.members.values()) * 5:
                    if member.log.propose(b"%d" % number):
                        number += 1
                await cluster.tick()
                compare_with(longest, cluster)
        cluster.meddle = lambda _, __, frame: frame
        missing = [name for name in cluster.names if name not in cluster.members]
        if missing:
            cluster.start(*missing)
        cluster.heal()
        await cluster.propose(await cluster.leader(), [b"the end"])
        compare_with(longest, cluster)

        def all_agree() -> bool:
            # What others had proposed before may still come behind the end.
            compare_with(longest, cluster)
            return all(member.machine.commands == longest for member in cluster.members.values())

        await cluster.until(all_agree, "the same commands on every member")
        assert len(longest) > rounds

    run(tmp_path, scenario, timing=compacting(40))
