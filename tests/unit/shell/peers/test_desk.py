"""Who is let in at the desk: nodes of this cluster, and of no other one."""

from functools import partial

from fedq.core.ids import Incarnation, NodeId
from fedq.shell.peers.desk import PeerDesk, agreed_settings
from fedq.shell.peers.hello import Hello, Process

VOTERS = {NodeId(name): "" for name in ("n1", "n2", "n3")}
AGREED = agreed_settings(VOTERS, 1_000, 3_000)


def hello(name: str, belongs_to: str) -> Hello:
    process = Process(Incarnation(1), f"start of {name}", 0)
    return Hello(NodeId(name), process, AGREED, belongs_to=belongs_to)


class Desk:
    """The desk of n1, whose data directory belongs to a cluster, and what it said."""

    def __init__(self, belongs_to: str) -> None:
        self.told: dict[str, str] = {}
        self.ends: list[str] = []
        self.now_s = 0.0
        self.desk = PeerDesk(hello("n1", ""), 3.0, lambda: self.now_s, self.told.__setitem__)
        self.desk.belongs_to = lambda: belongs_to
        self.desk.on_foreign = self.ends.append
        self.desk.neighbours = [*VOTERS][1:]


def test_a_node_says_what_its_directory_belongs_to() -> None:
    made = Desk("c1")
    assert made.desk.asking().belongs_to == "c1"
    assert made.desk.answer_to(hello("n2", "c1")).belongs_to == "c1"


def test_nodes_of_one_cluster_and_those_that_do_not_know_are_let_in() -> None:
    for mine, theirs in (("c1", "c1"), ("", "c1"), ("c1", ""), ("", "")):
        assert Desk(mine).desk.judge(hello("n2", theirs)) is None


def test_a_node_of_another_cluster_is_refused_with_what_to_do() -> None:
    made = Desk("c1")
    refusal = made.desk.judge(hello("n2", "c2"))
    assert refusal is not None
    assert refusal.is_lasting
    assert not refusal.is_final
    assert "the data directory of n2 belongs to cluster c2" in refusal.sentence
    assert made.told["cluster n2"] == refusal.sentence
    # One of three says nothing about who is wrong.
    assert made.ends == []
    assert made.desk.judge(hello("n3", "c1")) is None


def test_a_node_whose_directory_is_not_that_of_most_others_ends() -> None:
    made = Desk("c1")
    made.desk.judge(hello("n2", "c2"))
    made.desk.judge(hello("n2", "c2"))
    assert made.ends == []
    made.desk.judge(hello("n3", "c2"))
    [sentence] = made.ends
    assert "this data directory belongs to cluster c1" in sentence
    assert "No message in it was touched" in sentence


def test_foreigners_end_nobody_whose_own_nodes_are_there() -> None:
    """A cluster that was given another one's addresses calls all of its nodes."""
    made = Desk("c1")
    for name in ("n2", "n3"):
        assert made.desk.judge(hello(name, "c1")) is None
    for name in ("n2", "n3"):
        assert made.desk.judge(hello(name, "c2")) is not None
    assert made.ends == []


def test_a_node_with_the_right_directory_counts_no_more_as_a_foreigner() -> None:
    made = Desk("c1")
    made.desk.judge(hello("n2", "c2"))
    made.desk.judge(hello("n2", "c1"))
    made.desk.judge(hello("n3", "c2"))
    assert made.ends == []


def test_files_of_one_cluster_need_not_name_the_same_nodes() -> None:
    other = hello("n2", "c1")._replace(agreed=agreed_settings({}, 1_000, 3_000))
    assert Desk("c1").desk.judge(other) is None
    # As long as one of them is of no cluster, two files that differ would found two.
    for mine, theirs in (("", "c1"), ("c1", ""), ("", "")):
        refusal = Desk(mine).desk.judge(other._replace(belongs_to=theirs))
        assert refusal is not None
        assert "peers is 'n1, n2, n3' at n1" in refusal.sentence
    slow = other._replace(agreed=agreed_settings({}, 2_000, 6_000))
    assert Desk("c1").desk.judge(slow) is not None


def test_who_asks_to_join_leaves_no_trace_at_the_desk() -> None:
    made = Desk("c1")
    foreign = made.desk.unfit_to_join(hello("n7", "c2"))
    assert foreign is not None
    assert "needs an empty data directory" in foreign
    for number in range(1_000):
        assert made.desk.unfit_to_join(hello(f"x{number}", "c2")) is not None
    assert made.desk.unfit_to_join(hello("n7", "")) is None
    assert (made.told, made.ends) == ({}, [])


def test_a_node_that_most_say_was_taken_out_ends_if_they_go_on_saying_so() -> None:
    made = Desk("c1")
    made.desk.dismissed_by(NodeId("n2"), "you were taken out")
    made.desk.dismissed_by(NodeId("n3"), "you were taken out")
    made.now_s = 2.9
    made.desk.dismissed_by(NodeId("n2"), "you were taken out")
    # One of them was behind with its map.
    made.desk.answered(hello("n3", "c1"))
    made.now_s = 3.1
    made.desk.dismissed_by(NodeId("n2"), "you were taken out")
    made.desk.dismissed_by(NodeId("n3"), "you were taken out")
    assert made.ends == []
    made.now_s = 6.2
    made.desk.dismissed_by(NodeId("n3"), "you were taken out")
    assert made.ends == ["you were taken out"]


def test_two_words_an_hour_apart_are_not_going_on_saying_it() -> None:
    made = Desk("c1")
    for _ in range(3):
        for name in ("n2", "n3"):
            made.desk.dismissed_by(NodeId(name), "you were taken out")
        made.now_s += 3_600.0
    assert made.ends == []
    # One that goes on, and one that said so a while ago, are not most of three.
    for _ in range(8):
        made.desk.dismissed_by(NodeId("n2"), "you were taken out")
        made.now_s += 2.0
    assert made.ends == []
    for _ in range(3):
        made.desk.dismissed_by(NodeId("n3"), "you were taken out")
        made.now_s += 2.0
    assert made.ends == ["you were taken out"]


def test_a_process_on_another_directory_than_was_let_in_is_told_so() -> None:
    made = Desk("c1")
    made.desk.directory_of = lambda name: "new disk" if name == "n2" else ""
    old = hello("n2", "c1")._replace(directory="old disk")
    sentence = made.desk.misplaced(old)
    assert sentence is not None
    assert "has another data directory than process 1" in sentence
    assert made.told["directory n2"] == sentence
    refusal = made.desk.judge(old)
    assert refusal is not None
    assert refusal.sentence == sentence
    # Who does not say it, is where it should be, or was there from the beginning is let in.
    for fine in (
        hello("n2", "c1"), old._replace(directory="new disk"),
        hello("n3", "c1")._replace(directory="any disk"),
    ):  # fmt: skip
        assert made.desk.judge(fine) is None
    # Nor is anybody judged by a map that may be one of a while ago.
    made.desk.is_current = lambda: False
    assert made.desk.misplaced(old) is None


def test_who_has_an_empty_directory_hears_of_a_cluster_that_is() -> None:
    heard: list[str] = []
    for mine, theirs in (("", ""), ("c1", "c2"), ("", "c2")):
        made = Desk(mine)
        made.desk.on_cluster = partial(heard.append, f"{mine} {theirs}")
        made.desk.note_cluster(hello("n9", theirs))
    assert heard == [" c2"]


def test_who_has_an_older_copy_hears_of_those_whom_it_does_not_know() -> None:
    made, heard = Desk("c1"), list[str]()
    made.desk.on_cluster = partial(heard.append, "heard")
    assert made.desk.note_cluster(hello("n2", "c1")) is None
    assert not heard
    sentence = made.desk.note_cluster(hello("n9", "c1"))
    assert sentence is not None
    assert "does not know it: it may be an older copy" in sentence
    assert (heard, list(made.told.values())) == (["heard"], [sentence])
    made.desk.forgotten = lambda _: "it was taken out"
    assert made.desk.note_cluster(hello("n9", "c1")) is None
    # Whatever an unknown caller says of itself is short, and on one line.
    empty = Desk("")
    sentence = empty.desk.note_cluster(hello("n9", "c\n" * 9_000)) or ""
    assert "and founds none as long as it is called so" in sentence
    assert len(sentence) < 1_000
    assert "\n" not in sentence
