"""Nodes that join a Raft log while it runs, and leave it: the turns, threads and disks included."""

import asyncio
from pathlib import Path

from fedq.core.ids import NodeId
from fedq.shell.raft.voters import VoterSet
from tests.contract.raft.cluster import Cluster, compacting, numbered

N1, N2, N3, N4 = (NodeId(f"n{number}") for number in range(1, 5))


def growing(directory: Path, size: int) -> Cluster:
    """A cluster of one voter; the others join."""
    cluster = Cluster(directory, size, compacting(30))
    cluster.voters = [N1]
    cluster.joining = frozenset(cluster.names[1:])
    return cluster


async def wanted(cluster: Cluster, *names: NodeId) -> None:
    """Waits until these vote, by every log."""
    for member in cluster.members.values():
        member.machine.wanted = names
    await cluster.until(
        lambda: all(member.log.voters == names for member in cluster.members.values()),
        f"{names} vote",
    )


def test_one_grows_to_three_while_it_serves_and_goes_on_without_the_first(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = growing(tmp_path, 4)
        cluster.start(N1)
        first = await cluster.leader()
        before = numbered(100)
        await cluster.propose(first, before)
        cluster.start(N2, N3, N4)
        await wanted(cluster, N1, N2, N3)
        await cluster.agreed(before)
        steps = first.machine.voters
        await cluster.until(lambda: steps[-1:] == [(N1, N2, N3)], "committed")
        # One by one. Who has all that is committed comes first, and of two that start together
        # that may be either.
        assert steps in ([(N1,), second, (N1, N2, N3)] for second in ((N1, N2), (N1, N3)))
        voters = cluster.members[N4].log.voters
        assert voters == (N1, N2, N3)
        assert N4 not in cluster.remembered or cluster.remembered[N4].names == voters
        cluster.kill(N1)
        others = [N2, N3, N4]
        second = await cluster.leader(*others)
        assert second.name != N4
        after = numbered(20, "after")
        # From a node that has no vote, too.
        await cluster.propose(cluster.members[N4], after)
        await wanted(cluster, N2, N3, N4)
        await cluster.agreed([*before, *after])
        await cluster.stop()

    asyncio.run(main())


def test_who_votes_cannot_be_forgotten_and_who_is_forgotten_is_not_heard(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = growing(tmp_path, 2)
        cluster.start()
        await wanted(cluster, N1, N2)
        first = await cluster.leader()
        assert not first.log.forget(N2)
        first.machine.wanted = (N1,)
        cluster.members[N2].machine.wanted = (N1,)
        await cluster.until(lambda: cluster.members[N1].log.voters == (N1,), "n2 has gone")
        leader = cluster.members[N1]
        assert leader.log.forget(N2)
        garbage = leader.log.garbage_frames
        leader.log.receive(N2, b"whatever")
        assert leader.log.garbage_frames == garbage + 1
        await cluster.propose(leader, [b"alone again"])
        assert b"alone again" not in cluster.members[N2].machine.commands
        await cluster.stop()

    asyncio.run(main())


def test_a_voter_s_last_set_is_remembered_before_it_counts(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = growing(tmp_path, 2)
        cluster.start()
        await wanted(cluster, N1, N2)
        numbers = {name: cluster.remembered[name] for name in (N1, N2)}
        assert {one.names for one in numbers.values()} == {(N1, N2)}
        assert numbers[N1] == numbers[N2]
        assert isinstance(numbers[N1], VoterSet)
        await cluster.stop()

    asyncio.run(main())
