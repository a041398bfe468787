"""The contract of the Raft log: what a node may rely on while nothing fails."""

import asyncio
import random
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from fedq.core import limits
from fedq.core.ids import NodeId
from fedq.shell.raft.log import RaftLog, RaftTiming
from tests.contract.raft.cluster import FAST, Cluster, Machine, compacting, numbered, run


def test_a_leader_is_elected_and_commits_on_every_member(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        commands = numbered(300)
        await cluster.propose(leader, commands)
        await cluster.agreed(commands)
        assert leader.machine.commands == commands
        for member in cluster.members.values():
            assert member.machine.leaders[-1] == leader.name
            assert member.log.is_leader == (member is leader)
            assert member.log.truncations == 0

    run(tmp_path, scenario, patient=2)


def test_a_follower_s_proposals_are_committed_in_its_order(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        follower = cluster.followers(leader)[0]
        commands = [random.Random(n).randbytes(1 + n * 97) for n in range(300)]
        await cluster.propose(follower, commands)
        await cluster.agreed(commands)
        assert leader.machine.commands == commands

    run(tmp_path, scenario, patient=2)


def all_end_with(cluster: Cluster, command: bytes) -> bool:
    return all(m.machine.commands[-1:] == [command] for m in cluster.members.values())


def test_a_commit_reaches_followers_without_waiting_for_a_heartbeat(tmp_path: Path) -> None:
    timing = RaftTiming(
        election_min_ms=2_000, election_max_ms=2_400, heartbeat_ms=600, majority_lost_ms=6_000
    )

    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.propose(leader, [b"warm up"])
        loop = asyncio.get_running_loop()
        started = loop.time()
        for number in range(20):
            command = b"%d" % number
            assert leader.log.propose(command)
            await cluster.until(partial(all_end_with, cluster, command), "it on all members")
        # Waiting for heartbeats would take 20 times 0.3 s on average.
        assert loop.time() - started < 3.0

    run(tmp_path, scenario, timing=timing, patient=2)


def test_one_voter_leads_at_once(tmp_path: Path) -> None:
    # By its clock it would take that long.
    timing = replace(FAST, election_min_ms=8_000, election_max_ms=9_000, majority_lost_ms=16_000)

    async def scenario(cluster: Cluster) -> None:
        started = asyncio.get_running_loop().time()
        member = await cluster.leader()
        assert asyncio.get_running_loop().time() - started < 4.0
        commands = numbered(500)
        await cluster.propose(member, commands)
        assert member.machine.commands == commands

    run(tmp_path, scenario, size=1, timing=timing)


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
    # By their own clocks the others would take ten seconds or more.
    timing = replace(FAST, leader_lost_ms=12_000)

    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.propose(leader, [b"first"])
        await cluster.agreed([b"first"])
        loop = asyncio.get_running_loop()
        started = loop.time()
        await leader.log.stop()
        cluster.kill(leader.name)
        await cluster.propose(await cluster.leader(), [b"second"])
        assert loop.time() - started < 8.0

    run(tmp_path, scenario, timing=timing, patient=2)


def test_thousands_of_commands_without_a_fault_truncate_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        follower = cluster.followers(leader)[0]
        await asyncio.gather(
            cluster.propose(leader, numbered(3_000, "leader")),
            cluster.propose(follower, numbered(3_000, "follower")),
        )
        await cluster.agreed(leader.machine.commands)
        assert not leader.machine.repeated
        assert len(leader.machine.commands) == len(set(leader.machine.commands)) == 6_000
        assert [m.log.truncations for m in cluster.members.values()] == [0, 0, 0]

    run(tmp_path, scenario, timing=compacting(1_000), patient=2)


def test_what_is_proposed_while_an_election_is_synced_is_sent_once(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        follower = cluster.members[cluster.names[1]]
        while follower.log.leader is None:  # noqa: ASYNC110 - it is known before it is reported
            await asyncio.sleep(0)
        assert follower.log.is_syncing
        while follower.machine.lacks([b"early"]):
            follower.log.propose(b"early")
            await asyncio.sleep(0)
        await cluster.propose(follower, [b"late"])
        await cluster.agreed([b"early", b"late"])
        assert [member.machine.repeated for member in cluster.members.values()] == [[], [], []]

    run(tmp_path, scenario, patient=2)


def test_an_oversized_or_empty_command_is_refused_with_the_limit(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        with pytest.raises(ValueError, match="49152 bytes, this one 49153: split it"):
            leader.log.propose(bytes(limits.COMMAND_BYTES_MAX + 1))
        with pytest.raises(ValueError, match="this one 0"):
            leader.log.propose(b"")
        largest = bytes(limits.COMMAND_BYTES_MAX)
        await cluster.propose(cluster.followers(leader)[0], [largest])
        await cluster.agreed([largest])

    run(tmp_path, scenario, patient=2)


def test_too_many_proposals_are_refused_until_some_are_committed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        accepted = sum(leader.log.propose(command) for command in numbered(2_000))
        assert accepted == limits.COMMANDS_IN_FLIGHT_MAX
        await cluster.agreed(numbered(accepted))
        assert leader.log.propose(b"room again")

    run(tmp_path, scenario, patient=2)


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


def test_a_machine_takes_as_many_commands_at_once_as_it_has_room_for(tmp_path: Path) -> None:
    commands = numbered(200)
    room = 7

    async def fill(cluster: Cluster) -> None:
        await cluster.propose(await cluster.leader(), commands)

    async def catch_up(cluster: Cluster) -> None:
        member = cluster.members[NodeId("n1")]
        taken: list[int] = []

        def look() -> None:
            # Between two turns of the event loop.
            taken.append(len(member.machine.commands))
            member.machine.room = room
            asyncio.get_running_loop().call_soon(look)

        look()
        await cluster.agreed(commands)
        assert member.machine.commands == commands
        assert max(after - before for before, after in pairwise(taken)) <= room
        assert member.machine.snapshots_taken, "the log was to be compacted on the way"

    async def restart(cluster: Cluster) -> None:
        # A snapshot that was made on the way lacks nothing that the log has forgotten for it.
        await cluster.agreed(commands)

    run(tmp_path, fill, size=1)
    run(tmp_path, catch_up, size=1, timing=compacting(50))
    run(tmp_path, restart, size=1)
