"""How a process asks to be let in, and when it ends because it must not be."""

import pytest

from fedq.core.errors import Refused
from fedq.core.ids import Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import Heartbeat, PeerFrame
from fedq.core.versions import MINE, NEWEST, OLDEST
from fedq.journal.recovery import recover
from fedq.node.node import Node
from fedq.node.settings import NodeSettings
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import (
    MemberDown,
    MemberUp,
    Operation,
    decode_command,
    encode_command,
)
from fedq.wiring.cluster_map.operations_members import Speaks
from tests.unit.node.harness import Cluster

ME, OTHER = NodeId("n1"), NodeId("n2")


class Lone:
    """One node of three, a log that is written by hand, and nobody else."""

    def __init__(self, number: int, start: str, past: tuple[tuple[int, str], ...] = ()) -> None:
        self.now_ms = 1_000
        self.commands = 0
        #: The commands of the last tick.
        self.asked_in: list[bytes] = []
        self.node = Node(
            NodeSettings(
                node=ME,
                incarnation=Incarnation(number),
                peers={NodeId(f"n{i}"): f"n{i}:7000" for i in range(1, 4)},
                amqp_address="n1:5672",
                start=start,
                past=past,
            ),
            recover({}),
        )

    def commit(self, *operations: Operation) -> None:
        self.commands += 1
        self.commit_command(encode_command(f"r{self.commands}", operations))

    def commit_command(self, command: bytes) -> None:
        self.node.begin_turn(self.now_ms)
        self.node.on_committed(command)
        self.node.end_turn()

    def lead(self, leader: NodeId) -> None:
        self.node.begin_turn(self.now_ms)
        self.node.on_leader(leader)
        self.node.end_turn()

    def pass_ms(self, duration_ms: int) -> list[Operation]:
        """Time goes by; what the node asks of the map meanwhile."""
        asked: list[Operation] = []
        for _ in range(0, duration_ms, 50):
            self.now_ms += 50
            self.node.begin_turn(self.now_ms)
            self.node.on_tick()
            self.node.end_turn()
            self.asked_in = self.node.out.proposals
            for command in self.asked_in:
                asked += decode_command(command).operations
            self.node.out.proposals = []
        return asked

    def hear(self, peer: NodeId, number: int, start: str) -> None:
        """A heartbeat of a peer's process comes in."""
        beat = Heartbeat(1, 0, leads=False, start=start)
        frame = PeerFrame(peer, Incarnation(number), (0, 0), 0, 0, MapVersion(0), [], beat)
        self.node.begin_turn(self.now_ms)
        self.node.on_peer(frame)
        self.node.end_turn()

    @property
    def fatal(self) -> str:
        return self.node.out.fatal or ""


def known(number: int, start: str) -> MemberUp:
    return MemberUp(ME, Incarnation(number), "n1:7000", "n1:5672", "", start, 1, 0, "")


def test_a_directory_that_has_seen_the_last_process_takes_its_place() -> None:
    lone = Lone(8, "mine", past=((6, "x"), (7, "seven")))
    lone.commit(known(7, "seven"))
    lone.lead(OTHER)
    down, up = lone.pass_ms(50)
    assert down == MemberDown(ME, Incarnation(7)), "of one directory there is one process"
    assert isinstance(up, MemberUp)
    assert (up.known, up.known_start, up.behind) == (7, "seven", False)
    lone.commit_command(lone.asked_in[0])
    assert not any(isinstance(each, MemberUp) for each in lone.pass_ms(2_000))
    assert not lone.fatal


def test_an_older_directory_comes_up_behind_when_the_other_process_is_down() -> None:
    lone = Lone(9, "mine", past=((6, "x"),))
    lone.commit(known(7, "seven"))
    lone.commit(MemberDown(ME, Incarnation(7)))
    lone.lead(OTHER)
    (up,) = lone.pass_ms(50)
    assert isinstance(up, MemberUp)
    assert up.behind
    lone.commit_command(lone.asked_in[0])
    assert any("copies count as old" in line for line in lone.node.out.warnings)


def test_a_process_whose_name_is_taken_by_one_that_lives_ends_and_says_so() -> None:
    lone = Lone(9_000, "mine")
    lone.commit(known(7, "seven"))
    lone.lead(OTHER)
    (asked,) = lone.pass_ms(50)
    assert isinstance(asked, MemberUp), "it does not call the other one down"
    lone.commit_command(lone.asked_in[0])
    assert any("not let in yet: process 7" in line for line in lone.node.out.warnings)
    lone.pass_ms(6_000)
    assert "another process of node 'n1' is up in this cluster (number 7" in lone.fatal
    assert lone.node.overtaken_by is None


def test_a_process_with_a_number_that_was_given_away_ends_before_it_says_anything() -> None:
    for number in (7, 6):
        lone = Lone(number, "mine", past=((5, "five"),))
        lone.lead(OTHER)
        lone.commit(known(7, "seven"))
        assert "its data directory is from an older copy, or its clock is behind" in lone.fatal
        assert lone.node.overtaken_by == 7
        assert lone.node.out.peers == {}


def asked_while_heard(start: str) -> list[Operation]:
    """What a leader asks of the map, which has process 7 as "seven".

    One of that number beats that began as `start`.
    """
    lone = Lone(1, "mine")
    lone.commit(known(1, "mine"))
    lone.commit(MemberUp(OTHER, Incarnation(7), "n2:7000", "n2:5672", "", "seven", 1, 0, ""))
    lone.lead(ME)
    asked: list[Operation] = []
    for _ in range(60):
        lone.hear(OTHER, 7, start)
        asked += lone.pass_ms(50)
    return asked


def test_a_process_with_the_number_of_another_one_is_not_heard_as_that_one() -> None:
    """A directory that was emptied, or put back, and a clock behind give a number once more."""
    asked = asked_while_heard("another seven")
    assert MemberDown(OTHER, Incarnation(7)) in asked, "the one that the map names is silent"


def test_a_process_that_is_heard_stays_up() -> None:
    assert not any(isinstance(each, MemberDown) for each in asked_while_heard("seven"))


def test_the_answer_to_a_process_with_the_same_number_is_not_taken_for_an_own_one() -> None:
    """The map answers a request that it knows with the old result, and changes nothing."""
    earlier, lone = Lone(1, "earlier"), Lone(1, "mine")
    for each in (earlier, lone):
        each.lead(OTHER)
        each.pass_ms(50)
        assert each.asked_in
    cluster = ClusterMap()
    cluster.apply(earlier.asked_in[0])
    (result,) = cluster.apply(lone.asked_in[0]).results
    assert isinstance(result, Refused), "not the Ok that the earlier one was given"
    assert cluster.members[ME].start == "earlier"


def test_a_process_that_was_replaced_ends() -> None:
    lone = Lone(7, "seven")
    lone.commit(known(7, "seven"))
    lone.lead(OTHER)
    lone.pass_ms(100)
    lone.commit(
        MemberDown(ME, Incarnation(7)),
        MemberUp(ME, Incarnation(9), "elsewhere:1", "", "", "nine", 1, 7, "seven", True),
    )
    assert "process 9 of node 'n1', reached at elsewhere:1, has taken this one's place" in (
        lone.fatal
    )


def test_a_number_that_came_twice_repeats_no_request() -> None:
    """The map remembers requests, and would answer with what came of the earlier one."""
    asked = []
    for start in ("first", "second"):
        node = Lone(2, start)
        node.lead(OTHER)
        node.pass_ms(50)
        asked += [decode_command(command).request for command in node.asked_in]
    assert len(asked) == len(dict.fromkeys(asked)) == 2


# --- releases -------------------------------------------------------------------------------------


def test_the_cluster_speaks_what_all_of_its_members_do() -> None:
    cluster = Cluster(3)
    for name in ("n1", "n2", "n3"):
        known = cluster.node(name).state.map
        assert known.speaks == dict.fromkeys(("n1", "n2", "n3"), MINE)
        assert known.cluster_version == NEWEST


def test_a_release_that_the_cluster_has_outgrown_stops_and_says_so() -> None:
    cluster = Cluster(3)
    node = cluster.node("n1")
    for number, name in enumerate(("n1", "n2", "n3")):
        said = Speaks(NodeId(name), Incarnation(1), OLDEST, NEWEST + 1)
        cluster.log.append(encode_command(f"newer {number}", [said]))
    with pytest.raises(AssertionError, match=f"the cluster speaks version {NEWEST + 1}"):
        cluster.pass_ms(1_000)
    assert node.out.fatal is not None
    assert "update this node" in node.out.fatal
