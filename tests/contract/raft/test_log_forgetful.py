"""Voters that forgot what they promised: Raft files that are gone, emptied or older than they were.

A voter of three that acknowledged entries, or voted, and knows nothing of it any more must not help
anyone to lead who lacks those entries: it learns first.
"""

import asyncio
import shutil
from pathlib import Path

import pytest

from fedq.core.ids import NodeId
from fedq.shell.raft.electorate import Memory
from fedq.shell.raft.storage import RaftStorage
from tests.contract.raft.cluster import Cluster, Member, make_voter, numbered, run


def wipe(directory: Path, name: NodeId) -> None:
    """The voter's Raft directory is gone."""
    shutil.rmtree(directory / name)


async def elections(cluster: Cluster, candidate: Member, count: int) -> None:
    """Waits until the member has stood so often."""
    term = candidate.log.term
    await cluster.until(lambda: candidate.log.term >= term + count, f"{count} elections")


@pytest.mark.parametrize("is_used", [True, False], ids=["lost", "emptied"])
def test_who_forgot_what_it_acknowledged_elects_nobody_who_never_had_it(
    tmp_path: Path, is_used: bool
) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        forgetful, stale = (member.name for member in cluster.followers(leader))
        await cluster.until(
            lambda: not any(each.log.is_learner for each in cluster.members.values()), "all vote"
        )
        cluster.isolate(stale)
        commands = numbered(50)
        await cluster.propose(leader, commands)
        acknowledged = cluster.members[forgetful]
        await cluster.until(lambda: len(acknowledged.machine.commands) == 50, "acknowledged")
        cluster.kill(leader.name)
        cluster.kill(forgetful)
        wipe(tmp_path, forgetful)
        cluster.memory[forgetful] = Memory(is_used=is_used)
        cluster.start(forgetful)
        # These two are a majority, and none of them has the commands.
        await elections(cluster, cluster.members[stale], 4)
        assert cluster.members[stale].machine.leaders[-1] is None
        assert cluster.members[forgetful].log.is_learner
        cluster.start(leader.name)
        await cluster.agreed(commands)
        await cluster.until(lambda: not cluster.members[forgetful].log.is_learner, "it votes again")

    run(tmp_path, scenario)


def test_who_was_brought_up_to_date_counts_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        forgetful = cluster.followers(leader)[0].name
        await cluster.propose(leader, numbered(20))
        cluster.kill(forgetful)
        wipe(tmp_path, forgetful)
        cluster.memory[forgetful] = Memory(is_used=True)
        cluster.start(forgetful)
        assert cluster.members[forgetful].log.is_learner
        await cluster.until(lambda: not cluster.members[forgetful].log.is_learner, "it votes again")
        assert not (tmp_path / forgetful / "learner").exists()
        cluster.kill(leader.name)
        left = [name for name in cluster.names if name != leader.name]
        successor = await cluster.leader(*left)
        more = numbered(20, "more")
        await cluster.propose(successor, more)
        await cluster.agreed([*numbered(20), *more])

    run(tmp_path, scenario)


def test_two_of_three_may_lose_their_logs_while_all_are_there(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        commands = numbered(30)
        await cluster.propose(leader, commands)
        await cluster.agreed(commands)
        forgetful = [member.name for member in cluster.followers(leader)]
        for name in forgetful:
            cluster.kill(name)
            wipe(tmp_path, name)
            cluster.memory[name] = Memory(is_used=True)
        cluster.start(*forgetful)
        await cluster.agreed(commands)
        await cluster.until(
            lambda: not any(each.log.is_learner for each in cluster.members.values()), "all vote"
        )
        more = numbered(10, "more")
        await cluster.propose(await cluster.leader(), more)
        await cluster.agreed([*commands, *more])

    run(tmp_path, scenario)


def test_a_learner_is_one_after_a_restart_too(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = Cluster(tmp_path, 3)
        first, second = cluster.names[:2]
        make_voter(tmp_path / second)
        for _ in range(2):
            cluster.memory[first] = Memory(is_used=True)
            cluster.start(first, second)
            await elections(cluster, cluster.members[second], 2)
            assert cluster.members[first].log.is_learner
            assert cluster.members[second].log.leader is None
            cluster.kill(first)
            cluster.kill(second)

    asyncio.run(main())


def test_files_that_fell_behind_what_is_known_of_them_are_a_learner_s(tmp_path: Path) -> None:
    directory = tmp_path / "raft"
    make_voter(directory)
    storage = RaftStorage.open(directory, Memory(0, 1, is_used=True))
    assert not storage.is_learner
    storage.journal.append(b"\x00entry", 1)
    storage.journal.set_term(1, "n1")
    storage.journal.close()
    for memory, learns in ((Memory(1, 2), False), (Memory(2, 2), True), (Memory(1, 3), True)):
        storage = RaftStorage.open(directory, memory)
        assert storage.is_learner is learns, memory
        assert not storage.is_new
        storage.become_voter()
        storage.journal.close()


def test_a_voter_that_is_told_of_a_later_self_learns_and_votes_again(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        leader = await cluster.leader()
        await cluster.until(
            lambda: not any(each.log.is_learner for each in cluster.members.values()), "all vote"
        )
        told = cluster.followers(leader)[0]
        told.log.learn_first()
        assert told.log.is_learner
        assert (tmp_path / told.name / "learner").exists()
        await cluster.until(lambda: not told.log.is_learner, "it votes again")
        assert not (tmp_path / told.name / "learner").exists()

    run(tmp_path, scenario)
