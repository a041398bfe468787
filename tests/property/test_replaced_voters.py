"""Voters that come, go and are replaced, while the log follows: who should vote, and who does."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import Incarnation, NodeId
from fedq.core.versions import NEWEST
from fedq.shell.raft.voters import next_set
from fedq.wiring.cluster_map.operations_members import (
    AdmitNode,
    NameVoters,
    ReplaceVoter,
    Speaks,
)
from fedq.wiring.cluster_map.state import Ok
from tests.unit.wiring.cluster_map.test_roster import up
from tests.unit.wiring.maps import Wired, down

FOUNDERS, JOINED = "abcde", "fgh"
NODES = FOUNDERS + JOINED

#: What happens: a node goes or comes, the log takes a step, a voter is to be replaced.
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["down", "down", "up"]), st.integers(0, 7)),
        st.tuples(st.sampled_from(["log", "replace", "replace", "any"]), st.integers(0, 63)),
    ),
    min_size=20,
    max_size=60,
)


class World:
    """A map, and the set of voters that the log has come to."""

    def __init__(self, voters: str) -> None:
        self.wired = Wired(*voters)
        for node in voters:
            self.wired.ok(Speaks(NodeId(node), Incarnation(1), 5, NEWEST))
        self.wired.ok(NameVoters(tuple((NodeId(node), f"{node}:1") for node in voters)))
        for node in FOUNDERS + JOINED:
            if node not in voters:
                self.wired.ok(AdmitNode(NodeId(node), f"{node}:1", f"disk of {node}"))
                self.wired.ok(up(node))
                self.wired.ok(Speaks(NodeId(node), Incarnation(1), 5, NEWEST))
        self.lives = dict.fromkeys(NODES, 1)
        self.voters = self.wanted

    @property
    def wanted(self) -> tuple[NodeId, ...]:
        return self.wired.map.wanted_voters or ()

    def is_up(self, node: str) -> bool:
        return self.wired.map.members[NodeId(node)].up

    def has_majority(self, voters: tuple[NodeId, ...]) -> bool:
        return 2 * sum(self.is_up(node) for node in voters) > len(voters)

    def log_step(self) -> bool:
        """One entry with another set, as a leader of the log makes it; whether there was one."""
        alive = [NodeId(node) for node in NODES if self.is_up(node)]
        leaders = [node for node in self.voters if node in alive]
        if not self.has_majority(self.voters):
            return False
        # Whoever is to stay leads, if anybody is: leadership is handed over first.
        leaders.sort(key=lambda node: node not in self.wanted)
        names = next_set(self.voters, self.wanted, alive, alive, leaders[0])
        if names is None:
            return False
        before, self.voters = self.voters, names
        assert len({*before} ^ {*names}) == 1
        assert self.has_majority(names)
        self.wired.map.take_voters(names)
        return True

    def happen(self, what: str, number: int) -> None:
        node = NODES[number % 8]
        if what == "down" and self.is_up(node):
            self.wired.ok(down(node, self.lives[node]))
        elif what == "up" and not self.is_up(node):
            self.lives[node] += 1
            self.wired.ok(up(node, self.lives[node]))
        elif what == "log":
            self.log_step()
        elif what == "any":
            self.replace(node, NODES[number // 8])
        elif what == "replace":
            gone = [each for each in self.wanted if not self.is_up(each)]
            fit = [each for each in NODES if each not in self.wanted and self.is_up(each)]
            if gone and fit:
                self.replace(gone[number % len(gone)], fit[number // 8 % len(fit)])

    def replace(self, node: str, by: str) -> None:
        before = self.wanted
        operation = ReplaceVoter(NodeId(node), self.lives[node], NodeId(by), self.lives[by])
        result = self.wired.do(operation)
        if not isinstance(result, Ok):
            assert self.wanted == before
            return
        assert not self.is_up(node)
        assert self.is_up(by)
        assert {*before} ^ {*self.wanted} == {node, by}
        assert self.has_majority(self.wanted)
        # One at a time: of what was wanted before nothing is left to be done but for these two.
        assert {*self.voters} ^ {*self.wanted} <= {node, by}


@given(st.sampled_from(["abcde", "abc"]), steps)
def test_replacing_never_takes_a_majority_and_the_log_comes_to_what_is_wanted(
    voters: str, history: list[tuple[str, int]]
) -> None:
    world = World(voters)
    while world.log_step():
        pass  # The log takes in those who joined.
    for what, number in history:
        size = len(world.wanted)
        world.happen(what, number)
        assert len(world.wanted) == size
    for number in range(len(NODES)):
        world.happen("up", number)
    while world.log_step():
        pass  # The log goes where the map wants it.
    assert world.voters == world.wanted
