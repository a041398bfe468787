"""Hosts with several nodes: copies and votes go to different hosts first (docs/adr/0098)."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import Incarnation, NodeId
from fedq.core.limits import VOTERS_MAX
from fedq.core.versions import HOSTS
from fedq.wiring.cluster_map.operations import MemberUp
from fedq.wiring.cluster_map.operations_members import (
    AdmitNode,
    ForgetNode,
    NameVoters,
    PromoteNode,
    Speaks,
)
from fedq.wiring.cluster_map.placement import Site, choose, spread
from fedq.wiring.cluster_map.roster import MANY_HOSTS
from fedq.wiring.failover.decide import FailoverMemory, decide
from tests.unit.wiring.failover.test_failover import PATIENCE_MS, REVIVE_WAIT_MS, Leader
from tests.unit.wiring.maps import Wired, down, queue


class Housed(Wired):
    """A cluster whose nodes are named HOST.NUMBER; the first ones found it."""

    def __init__(self, *founders: str, version: int = HOSTS) -> None:
        super().__init__()
        self._version = version
        self._ports: dict[str, int] = {}
        for node in founders:
            self.come_up(node)
        self.ok(NameVoters(tuple((NodeId(node), self.address(node)) for node in founders)))

    def address(self, node: str) -> str:
        host, _, number = node.partition(".")
        return f"{host}.example.com:{number}"

    def come_up(self, node: str, incarnation: int = 1) -> None:
        up = MemberUp(NodeId(node), Incarnation(incarnation), self.address(node), "clients:1", "")
        self.ok(replace(up, directory=f"disk of {node}"))
        self.ok(Speaks(NodeId(node), Incarnation(incarnation), 5, self._version))

    def join(self, *nodes: str) -> None:
        for node in nodes:
            self.ok(AdmitNode(NodeId(node), self.address(node), f"disk of {node}"))
            self.come_up(node)

    def voters(self) -> list[str]:
        return list(self.map.wanted_voters or ())

    def hosts_of(self, number: int) -> list[str]:
        return [node.partition(".")[0] for node in self.fragment(number).copies]


def test_workers_of_three_hosts_observe_beside_the_first_of_each() -> None:
    wired = Housed("a.1", "b.1", "c.1")
    wired.join("a.2", "a.3", "b.2", "c.2")
    assert wired.voters() == ["a.1", "b.1", "c.1"]
    wired.join("d.1", "e.1", "e.2", "f.1")
    assert wired.voters() == ["a.1", "b.1", "c.1", "d.1", "e.1"]


def test_a_host_that_is_alone_has_as_many_voters_as_may_be() -> None:
    wired = Housed("a.1")
    wired.join("a.2", "a.3", "a.4", "a.5", "a.6")
    assert wired.voters() == ["a.1", "a.2", "a.3", "a.4", "a.5"]


@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_votes_go_to_hosts_that_come_later_so_that_any_one_of_three_may_be_lost(
    workers: int,
) -> None:
    wired = Housed("a.1")
    wired.join(*(f"a.{number}" for number in range(2, workers + 1)))
    wired.join("b.1", "b.2")
    assert {"a.1", "b.1"} <= {*wired.voters()}
    wired.join("c.1", "c.2")
    assert wired.voters() == ["a.1", "b.1", "c.1"]


def test_before_all_speak_of_hosts_votes_go_by_order_alone() -> None:
    wired = Housed("a.1", "b.1", "c.1", version=HOSTS - 1)
    wired.join("a.2", "a.3", "d.1")
    assert wired.voters() == ["a.1", "a.2", "a.3", "b.1", "c.1"]


def test_whose_configurations_name_two_of_one_host_keep_their_votes() -> None:
    wired = Housed("a.1", "a.2", "b.1", "c.1")
    wired.join("d.1")
    wired.ok(down("d.1"))
    wired.come_up("d.1", 2)
    assert wired.voters() == ["a.1", "a.2", "b.1", "c.1", "d.1"]


JOINING = st.lists(
    st.tuples(st.sampled_from("abcdefg"), st.integers(2, 9)), unique=True, max_size=12
)


@given(JOINING, st.randoms(use_true_random=False))
def test_whatever_joins_in_whatever_order_one_host_of_three_may_be_lost(
    joining: list[tuple[str, int]], random: Random
) -> None:
    wired = Housed("a.1")
    for host, number in joining:
        name = f"{host}.{number}"
        wired.ok(AdmitNode(NodeId(name), wired.address(name), f"disk of {name}"))
    # Those that were let in come up at some time, and some of them twice.
    for host, number in random.sample(joining, len(joining)):
        wired.come_up(f"{host}.{number}")
        if random.random() < 0.3:
            wired.come_up(f"{host}.{number}", 2)
    hosts = {"a", *(host for host, _ in joining)}
    voting = [name.partition(".")[0] for name in wired.voters()]
    if len(hosts) >= MANY_HOSTS:
        assert len({*voting}) == len(voting) == min(len(hosts), VOTERS_MAX)
    else:
        assert len(voting) == min(len(joining) + 1, VOTERS_MAX)
        assert {*voting} == hosts


def test_of_several_voters_of_a_host_one_that_is_up_keeps_its_vote() -> None:
    wired = Housed("b.1")
    wired.join("a.1", "a.2", "a.3")
    wired.ok(down("a.1"))
    wired.join("c.1")
    # One more that is down, of three, and nothing could be decided.
    assert wired.voters() == ["a.2", "b.1", "c.1"]


def test_an_operator_may_still_have_a_second_node_of_a_host_vote() -> None:
    wired = Housed("a.1", "b.1", "c.1")
    wired.join("a.2")
    assert wired.ok(PromoteNode(NodeId("a.2"))) == 1
    assert wired.voters() == ["a.1", "a.2", "b.1", "c.1"]


def test_who_takes_the_vote_of_a_forgotten_node_is_of_a_host_without_one() -> None:
    wired = Housed("a.1", "b.1", "c.1")
    wired.join("b.2", "a.2")
    wired.map.take_voters(wired.map.wanted_voters or ())
    wired.ok(down("a.1"))
    wired.ok(ForgetNode(NodeId("a.1"), 1))
    assert wired.voters() == ["a.2", "b.1", "c.1"]
    # Of two hosts more voters outlive more processes.
    for node in ("a.2", "c.1"):
        wired.map.take_voters(wired.map.wanted_voters or ())
        wired.ok(down(node))
        wired.ok(ForgetNode(NodeId(node), 1))
    assert wired.voters() == ["b.1", "b.2"]


def test_new_copies_lie_on_different_hosts() -> None:
    wired = Housed("a.1", "b.1")
    wired.join("a.2", "a.3", "b.2", "b.3")
    for number in range(30):
        wired.ok(queue(f"q{number}", ("a.1", "a.2", "b.3")[number % 3]))
        assert len({*wired.hosts_of(number + 1)}) == 2
    assert max(wired.map.copies_of.values()) - min(wired.map.copies_of.values()) <= 8


def test_a_host_that_comes_back_gets_a_copy_of_what_lay_on_one_host_alone() -> None:
    wired = Housed("a.1", "b.1")
    wired.join("a.2", "a.3")
    leader = Leader(wired)
    for number in range(6):
        wired.ok(queue(f"q{number}", "a.1"))
    wired.ok(down("b.1"))
    leader.now_ms += 2 * PATIENCE_MS
    leader.settle()
    leader.now_ms += 2 * PATIENCE_MS
    leader.settle()
    assert {*wired.hosts_of(1)} == {"a"}
    assert len(wired.hosts_of(1)) == 2
    wired.come_up("b.1", 2)
    leader.settle()
    for number in range(1, 7):
        assert sorted(wired.hosts_of(number)) == ["a", "b"]
    # That is the end of it.
    memory = FailoverMemory(PATIENCE_MS, REVIVE_WAIT_MS)
    assert decide(wired.map, (), leader.now_ms, memory) == []


SITES = st.dictionaries(
    st.integers(1, 20).map(lambda number: NodeId(f"n{number}")),
    st.builds(Site, st.sampled_from("xyz"), st.sampled_from("abc")),
    min_size=1,
)


@given(SITES, st.integers(0, 3), st.integers(1, 5), st.text(max_size=5))
def test_no_host_gets_a_second_copy_while_another_has_room(
    sites: dict[NodeId, Site], before: int, count: int, subject: str
) -> None:
    taken = list(sites)[:before]
    chosen = choose(subject, sites, taken, count)
    assert len(chosen) == min(count, len(sites) - len(taken))
    assert not {*chosen} & {*taken}
    held = list(taken)
    for node in chosen:
        here = [sites[each] for each in held]
        rooms = [sites[each] for each in sites if each not in held]
        fewest = min(here.count(site) for site in rooms)
        assert here.count(sites[node]) == fewest
        zones = [site.zone for site in here]
        fair = [site for site in rooms if here.count(site) == fewest]
        assert zones.count(sites[node].zone) == min(zones.count(site.zone) for site in fair)
        held.append(node)


@given(SITES, st.integers(1, VOTERS_MAX), st.text(max_size=5))
def test_hosts_come_first_without_any_zone_that_is_left_out_for_it(
    sites: dict[NodeId, Site], count: int, subject: str
) -> None:
    chosen = choose(subject, sites, [], count)
    everywhere = spread(sites, sites)
    assert spread(chosen, sites).hosts == min(count, everywhere.hosts)
    assert spread(chosen, sites).zones == min(count, everywhere.zones)
