"""Voters that change while the log runs: they join, leave, lose their disks, under faults.

Everything is driven step by step (`tests.contract.raft.steps`), with the real files.
"""

import random
from pathlib import Path
from unittest.mock import patch

import pytest

from fedq.core.ids import NodeId
from fedq.shell.raft import changing
from tests.contract.raft.steps import Group, Server, Violation, group, want


def named(names: str) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, names.split()))


def sets_of(server: Server) -> tuple[str, ...]:
    return server.voter.voters.names


def test_one_becomes_five_and_the_first_may_leave(tmp_path: Path) -> None:
    with group(tmp_path, n1="n1", n2="", n3="", n4="", n5="", n6="") as servers:
        first = servers.elect("n1")
        servers.propose(first, b"\x01before", want(1, ["n1", "n2", "n3", "n4", "n5"]))
        servers.settle()
        for server in servers.servers.values():
            assert sets_of(server) == ("n1", "n2", "n3", "n4", "n5")
        machines = servers.machines
        # One after the other, and all of them know it.
        assert [len(names) for names in machines[NodeId("n6")].voters] == [1, 2, 3, 4, 5]
        servers.propose(first, want(2, ["n2", "n3", "n6"]))
        servers.settle()
        leader = next(server for server in servers.servers.values() if server.leads)
        assert leader.name in ("n2", "n3", "n6")
        assert sets_of(leader) == ("n2", "n3", "n6")
        servers.propose(leader, b"after")
        servers.settle()
        assert all(machine.commands[-1] == b"after" for machine in machines.values())


def test_who_does_not_vote_follows_and_never_stands(tmp_path: Path) -> None:
    with group(tmp_path, n1="n1 n2 n3", n2="n1 n2 n3", n3="n1 n2 n3", n4="") as servers:
        leader = servers.elect("n1")
        servers.propose(leader, b"one", b"two")
        servers.settle()
        observer = servers["n4"]
        assert servers.machines[observer.name].commands == [b"one", b"two"]
        assert not observer.voter.is_learner
        term = observer.voter.term
        servers.split("n1 n2 n3", "n4")
        servers.campaign("n4")
        servers.deliver_all()
        assert observer.voter.term == term
        assert observer.voter.leader is None
        servers.heal()
        leader = servers.elect("n1")
        servers.settle()
        assert servers["n4"].voter.leader == leader.name
        # Nor is it counted: two of three are gone, and it is there.
        servers.split("n1 n4", "n2 n3")
        servers.propose(leader, b"three")
        servers.settle()
        assert b"three" not in servers.machines[leader.name].commands


def test_a_voter_that_is_not_up_to_date_is_not_added(tmp_path: Path) -> None:
    with group(tmp_path, n1="n1", n2="") as servers:
        first = servers.elect("n1")
        servers.cut("n1", "n2")
        servers.propose(first, want(1, ["n1", "n2"]))
        servers.settle()
        assert sets_of(first) == ("n1",)
        servers.propose(first, b"goes on alone")
        servers.settle()
        assert b"goes on alone" in servers.machines[first.name].commands
        servers.heal()
        servers.settle()
        assert sets_of(first) == ("n1", "n2")


def test_nobody_is_removed_whose_loss_would_end_the_majority(tmp_path: Path) -> None:
    voters = "n1 n2 n3"
    with group(tmp_path, n1=voters, n2=voters, n3=voters) as servers:
        leader = servers.elect("n1")
        servers.settle()
        servers.split("n1 n2", "n3")
        servers.propose(leader, want(1, ["n1", "n3"]))
        servers.settle()
        # {n1, n3} would be one of two.
        assert sets_of(leader) == ("n1", "n2", "n3")
        servers.propose(leader, want(2, ["n1", "n2"]))
        servers.settle()
        assert sets_of(leader) == ("n1", "n2")


def test_the_set_survives_restarts_and_compaction(tmp_path: Path) -> None:
    with group(tmp_path, n1="n1", n2="", n3="") as servers:
        first = servers.elect("n1")
        servers.propose(first, want(1, ["n1", "n2", "n3"]))
        servers.settle()
        for name in ("n1", "n2", "n3"):
            servers.restart(name)
            assert sets_of(servers[name]) == ("n1", "n2", "n3")
        servers.elect("n2")
        servers.settle()
        for name in ("n1", "n2", "n3"):
            servers[name].compact()
            servers.restart(name)
            assert sets_of(servers[name]) == ("n1", "n2", "n3")
            assert servers.remembered[NodeId(name)] == servers[name].voter.voters


def test_a_snapshot_tells_a_new_server_who_votes(tmp_path: Path) -> None:
    with group(tmp_path, n1="n1", n2="", n3="") as servers:
        servers.kill("n3")
        first = servers.elect("n1")
        servers.propose(first, want(1, ["n1", "n2"]), *(b"%d" % number for number in range(20)))
        servers.settle()
        first.compact()
        servers.propose(first, b"after")
        servers.start(NodeId("n3"))
        servers.settle()
        assert sets_of(servers["n3"]) == ("n1", "n2")
        assert servers["n3"].storage.restored is None
        assert servers.machines[NodeId("n3")].snapshots_installed == 1
        assert servers.machines[NodeId("n3")].commands[-1] == b"after"


def test_a_set_that_was_never_committed_goes_with_its_entry(tmp_path: Path) -> None:
    with group(tmp_path, n1="n1 n2", n2="n1 n2", n3="", n4="") as servers:
        leader = servers.elect("n1")
        servers.propose(leader, want(1, ["n1", "n2", "n3"]))
        servers.settle()
        assert leader.voter.voters.number
        # Known to the leader alone when it is cut off.
        servers.machines[leader.name].wanted = named("n1 n2 n3 n4")
        leader.turn()
        assert sets_of(leader) == ("n1", "n2", "n3", "n4")
        servers.split("n1", "n2 n3 n4")
        servers.elect("n2")
        servers.machines[leader.name].wanted = None
        servers.heal()
        servers.settle()
        assert sets_of(leader) == ("n1", "n2", "n3")
        assert servers.remembered[leader.name] == leader.voter.voters


def test_who_is_new_helps_a_candidate_that_counts_it(tmp_path: Path) -> None:
    with group(tmp_path, n1="n1 n2", n2="n1 n2", n3="", n4="") as servers:
        leader = servers.elect("n1")
        servers.propose(leader, want(1, ["n1", "n2", "n3"]))
        servers.settle()
        servers.machines[leader.name].wanted = named("n1 n2 n3 n4")
        leader.turn()
        servers.deliver((NodeId("n1"), NodeId("n2")))
        assert sets_of(servers["n2"]) == ("n1", "n2", "n3", "n4")
        servers.kill("n1")
        # n2 needs three of four, and n4 has not heard that it votes.
        assert sets_of(servers["n4"]) == ("n1", "n2", "n3")
        servers.machines[NodeId("n2")].wanted = named("n1 n2 n3 n4")
        servers.elect("n2")
        servers.settle(3)
        assert sets_of(servers["n4"]) == ("n1", "n2", "n3", "n4")


def test_a_voter_that_was_replaced_observes_when_it_comes_back_with_the_log_of_before(
    tmp_path: Path,
) -> None:
    five = "n1 n2 n3 n4 n5"
    configured = dict.fromkeys(five.split(), five) | {"n6": ""}
    with group(tmp_path, configured=configured) as servers:
        leader = servers.elect("n1")
        servers.settle()
        servers.kill("n5")
        servers.propose(leader, want(1, ["n1", "n2", "n3", "n4", "n6"]))
        servers.settle()
        assert sets_of(leader) == ("n1", "n2", "n3", "n4", "n6")
        # Never fewer than a majority of the set before, and never two at a time.
        assert [len(names) for names in servers.machines[leader.name].voters] == [5, 4, 5]
        # By its own log it votes, and stands before it has heard of anything; nobody is with it.
        servers.start(NodeId("n5"))
        servers.campaign("n5")
        servers.deliver_all()
        assert not servers["n5"].leads
        servers.elect("n1")
        servers.settle()
        assert sets_of(servers["n5"]) == ("n1", "n2", "n3", "n4", "n6")
        term = servers["n5"].voter.term
        servers.split("n1 n2 n3 n4 n6", "n5")
        servers.campaign("n5")
        servers.deliver_all()
        assert servers["n5"].voter.term == term
        # Nor does it count: with it, two of five and an observer are no majority.
        servers.heal()
        leader = servers.elect("n1")
        servers.settle()
        servers.split("n1 n2 n5", "n3 n4 n6")
        servers.propose(leader, b"by two voters")
        servers.settle()
        assert b"by two voters" not in servers.machines[leader.name].commands


def test_a_voter_is_not_replaced_while_that_would_leave_no_majority(tmp_path: Path) -> None:
    five = "n1 n2 n3 n4 n5"
    configured = dict.fromkeys(five.split(), five) | {"n6": ""}
    with group(tmp_path, configured=configured) as servers:
        leader = servers.elect("n1")
        servers.settle()
        # The log is wanted to go there at once, by two names; each step has to stand by itself.
        servers.split("n1 n2 n3", "n4 n5 n6")
        servers.propose(leader, want(1, ["n1", "n2", "n3", "n6"]))
        servers.settle()
        # n6, which is not there, is not counted; who is gone is, one after the other.
        assert sets_of(leader) == ("n1", "n2", "n3")
        servers.heal()
        servers.settle()
        assert sets_of(leader) == ("n1", "n2", "n3", "n6")


# --- what the lock is for -------------------------------------------------------------------------


def _any_step(names: tuple[NodeId, ...], wanted: tuple[NodeId, ...], *_: object) -> object:
    """The next set by one name, whoever is there."""
    added = [name for name in wanted if name not in names]
    gone = [name for name in names if name not in wanted]
    if added:
        return tuple(sorted((*names, added[0])))
    return tuple(name for name in names if name != gone[0]) if gone else None


def _published_bug(servers: Group) -> None:
    """The history of July 2015: two leaders each change a set that the other does not know of."""
    old = servers.elect("n1")
    servers.propose(old, want(1, ["n1", "n2", "n3", "n4"]))
    servers.settle()
    servers.split("n1 n5", "n2 n3 n4")
    servers.machines[old.name].wanted = named("n1 n2 n3 n4 n5")
    old.turn()
    servers.deliver_all()
    # n2 leads a later term, and takes n1 away before any entry of that term is anywhere else.
    servers.machines[NodeId("n2")].wanted = named("n2 n3 n4")
    servers.campaign("n2")
    for voter in ("n3", "n4"):
        servers.deliver((NodeId("n2"), NodeId(voter)))
        servers.deliver((NodeId(voter), NodeId("n2")))
    servers.heal()
    servers.split("n1 n4 n5", "n2 n3")
    servers.settle(3)
    servers.machines[old.name].wanted = None
    servers.campaign("n1")
    servers.deliver_all()
    servers.campaign("n1")
    servers.deliver_all()


def _overlapping(servers: Group) -> None:
    """A leader that hears no majority adds two that it does hear."""
    old = servers.elect("n1")
    servers.propose(old, want(1, ["n1", "n2", "n3"]))
    servers.settle()
    servers.split("n1 n4 n5", "n2 n3")
    servers.machines[old.name].wanted = named("n1 n2 n3 n4 n5")
    servers.settle(3)
    servers.propose(old, b"by the one side")
    servers.settle(3)
    servers.elect("n2")
    servers.propose(servers["n2"], b"by the other")
    servers.settle(3)


@pytest.mark.parametrize(
    ("history", "voters", "guard"),
    [
        (_published_bug, "n1 n2 n3", "_has_committed"),
        (_overlapping, "n1 n2", "_may_change"),
    ],
    ids=["of two leaders", "of one leader"],
)
def test_changes_that_overlap_are_what_the_lock_prevents(
    tmp_path: Path, history: object, voters: str, guard: str
) -> None:
    assert callable(history)
    names = [f"n{number}" for number in range(1, 6)]
    configured = {name: voters if name in voters else "" for name in names}
    with patch.object(changing, "next_set", _any_step):
        with group(tmp_path / "locked", configured=configured) as servers:
            history(servers)
        with (
            patch.object(changing.Changing, guard, lambda _: True),
            group(tmp_path / "open", configured=configured) as servers,
            pytest.raises(Violation),
        ):
            history(servers)


# --- disks that are lost --------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False], ids=["all of it", "the log's"])
def test_who_lost_its_disk_does_not_vote_with_a_set_of_the_past(
    tmp_path: Path, whole: bool
) -> None:
    with group(tmp_path, n1="n1 n3", n3="n1 n3", n4="") as servers:
        leader = servers.elect("n3")
        servers.settle()
        servers.propose(leader, want(1, ["n1", "n3", "n4"]))
        servers.settle(2)
        # n1 has heard of a set of the log's, and not of the next one.
        servers.cut("n1", "n3")
        servers.cut("n1", "n4")
        servers.settle()
        servers.propose(leader, b"of n3 and n4")
        servers.settle()
        assert sets_of(leader) == ("n1", "n3", "n4")
        servers.kill("n3")
        servers.kill("n4")
        servers.lose_disk("n3", whole=whole)
        servers.start(NodeId("n3"))
        for _ in range(5):
            servers.campaign("n1")
            servers.deliver_all()
            servers.campaign("n3")
            servers.deliver_all()
        assert not servers["n1"].leads
        assert not servers["n3"].leads
        servers.start(NodeId("n4"))
        servers.elect("n4")
        servers.settle()
        assert not servers["n3"].voter.is_learner
        assert b"of n3 and n4" in servers.machines[NodeId("n1")].commands


def test_an_only_voter_that_lost_its_log_remembers_that_it_is_not_the_only_one(
    tmp_path: Path,
) -> None:
    with group(tmp_path, n1="n1", n2="") as servers:
        leader = servers.elect("n1")
        servers.propose(leader, want(1, ["n1", "n2"]))
        servers.settle()
        servers.kill("n2")
        servers.kill("n1")
        servers.lose_disk("n1", whole=False)
        servers.start(NodeId("n1"))
        for _ in range(3):
            servers.campaign("n1")
            servers.deliver_all()
            assert not servers["n1"].leads
        servers.start(NodeId("n2"))
        servers.elect("n2")
        servers.settle()
        assert not servers["n1"].voter.is_learner


# --- whatever comes -------------------------------------------------------------------------------


class _Chance:
    """Faults, changes and commands, by a seed."""

    def __init__(self, servers: Group, seed: int) -> None:
        self.servers = servers
        self.random = random.Random(seed)
        self.proposed = 0

    def step(self) -> None:
        chance, servers = self.random, self.servers
        dice = chance.random()
        waiting = [link for link, frames in sorted(servers.links.items()) if frames]
        if dice < 0.72 and waiting:
            link = chance.choice(waiting)
            count = len(servers.links[link])
            servers.deliver(link, chance.randrange(count) if chance.random() < 0.03 else 0)
        elif dice < 0.76 and waiting:
            frames = servers.links[chance.choice(waiting)]
            del frames[chance.randrange(len(frames))]
        elif dice < 0.88:
            servers.pass_time(chance.choice((0.01, 0.11)))
        elif dice < 0.92:
            servers.campaign(chance.choice(sorted(servers.servers)))
        elif dice < 0.97:
            self._propose()
        else:
            self._fault()

    def _propose(self) -> None:
        chance, servers = self.random, self.servers
        leaders = [server for server in servers.servers.values() if server.leads]
        if leaders:
            self.proposed += 1
            command = b"%d" % self.proposed
            if chance.random() < 0.4:
                names = sorted(servers.configured)
                command = want(self.proposed, chance.sample(names, chance.randint(1, 5)))
            servers.propose(chance.choice(leaders), command)

    def _fault(self) -> None:
        chance, servers = self.random, self.servers
        left, right = chance.sample(sorted(servers.servers), 2)
        match chance.randrange(4):
            case 0:
                servers.cut(left, right)
            case 1:
                servers.heal()
            case 2:
                servers.restart(left)
            case 3:
                servers[left].compact()


@pytest.mark.parametrize("seed", range(30))
def test_whatever_comes_there_is_one_log(tmp_path: Path, seed: int) -> None:
    with group(tmp_path, seed, n1="n1", n2="", n3="", n4="", n5="", n6="") as servers:
        servers.elect("n1")
        chance = _Chance(servers, seed)
        for _ in range(1_500):
            chance.step()
        servers.heal()
        end = [want(0, ["n2", "n3", "n4"]), b"the end"]
        for _ in range(60):
            servers.settle(3)
            leaders = [server for server in servers.servers.values() if server.leads]
            if not leaders:
                servers.campaign(chance.random.choice(sorted(servers.servers)))
                servers.deliver_all()
                continue
            if all(_has_come_to(server, end) for server in servers.servers.values()):
                return
            servers.propose(leaders[0], *leaders[0].lacks(end))
        raise AssertionError(f"they never agree: {servers.describe()}")


def _has_come_to(server: Server, end: list[bytes]) -> bool:
    return not server.lacks(end) and sets_of(server) == ("n2", "n3", "n4")
