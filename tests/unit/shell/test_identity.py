"""A data directory knows whose it is, for which voters, and which starts it has seen."""

import shutil
import time
from pathlib import Path

import pytest

from fedq.core.errors import NodeFailure
from fedq.core.ids import NodeId
from fedq.core.limits import STARTS_REMEMBERED_MAX
from fedq.shell.identity import (
    ForeignDirectory,
    Identity,
    IdentityFile,
    RaftMark,
    raft_memory,
)
from fedq.shell.raft.voters import VoterSet

VOTERS = [NodeId("n1"), NodeId("n2"), NodeId("n3")]


def begin(data: Path, node: str = "n1", voters: list[NodeId] = VOTERS) -> Identity:
    (data / "journal").mkdir(parents=True, exist_ok=True)
    return IdentityFile(data, NodeId(node), voters).begin()


def test_each_start_is_new_and_knows_those_before_it(tmp_path: Path) -> None:
    first, second, third = (begin(tmp_path) for _ in range(3))
    assert first.incarnation < second.incarnation < third.incarnation
    assert len({first.start, second.start, third.start}) == 3
    assert first.past == ()
    assert third.past == tuple((each.incarnation, each.start) for each in (first, second))
    assert first.directory == second.directory == third.directory
    assert abs(third.started_ms - time.time() * 1_000) < 60_000


def test_an_older_copy_of_a_directory_has_not_seen_the_last_start(tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy"
    begin(data)
    shutil.copytree(data, copy)
    last = begin(data)
    restored = begin(copy)
    assert (last.incarnation, last.start) not in restored.past
    assert restored.start != last.start


def test_another_node_s_directory_is_refused(tmp_path: Path) -> None:
    begin(tmp_path, "n1")
    with pytest.raises(ForeignDirectory, match="is the data directory of node 'n1', not of 'n2'"):
        begin(tmp_path, "n2")


def test_voters_of_the_log_are_remembered_and_count_instead_of_the_configured(
    tmp_path: Path,
) -> None:
    begin(tmp_path)
    file = IdentityFile(tmp_path, NodeId("n1"), VOTERS)
    assert file.begin().voters is None
    grown = VoterSet(7, (NodeId("n1"), NodeId("n9")))
    file.remember_voters(grown)
    # Nobody's configuration has to name them, and the log may name others.
    again = IdentityFile(tmp_path, NodeId("n1"), [NodeId("n1"), NodeId("n5")])
    identity = again.begin()
    assert identity.voters == grown
    assert raft_memory(identity).voters == grown
    before = (tmp_path / "identity.json").stat().st_mtime_ns
    again.remember_voters(grown)
    assert (tmp_path / "identity.json").stat().st_mtime_ns == before
    # The entry was removed again for a conflict.
    again.remember_voters(VoterSet(0, tuple(VOTERS)))
    with pytest.raises(ForeignDirectory):
        IdentityFile(tmp_path, NodeId("n1"), [NodeId("n1"), NodeId("n5")])
    assert IdentityFile(tmp_path, NodeId("n1"), VOTERS).begin().voters is None


def test_a_directory_that_joined_founds_nothing_and_knows_the_others(tmp_path: Path) -> None:
    node, roster = NodeId("n7"), {NodeId("n1"): "h:1", NodeId("n7"): "h:7"}
    file = IdentityFile(tmp_path, node, [node], joins=True)
    first = file.begin()
    assert (first.joined, first.roster) == (False, ())
    file.mark_joined("c1", roster)
    assert not (tmp_path / "voters").exists()
    # Whatever its configuration says by then.
    for voters, joins in (([node], True), ([node], False), (VOTERS, False)):
        again = IdentityFile(tmp_path, node, voters, joins=joins)
        identity = again.begin()
        assert identity.joined
        assert (identity.cluster, dict(identity.roster)) == ("c1", roster)
        assert identity.directory == first.directory
    again.remember_roster({**roster, NodeId("n2"): "h:2"})
    assert len(IdentityFile(tmp_path, node, [node]).begin().roster) == 3
    with pytest.raises(NodeFailure, match="belongs to cluster c1"):
        again.mark_joined("c2", roster)


def test_a_directory_that_began_a_cluster_joins_no_other_one(tmp_path: Path) -> None:
    begin(tmp_path, "n1")
    with pytest.raises(ForeignDirectory, match=r"is not new.*empty data directory") as refused:
        IdentityFile(tmp_path, NodeId("n1"), [NodeId("n1")], joins=True)
    assert refused.value.key == "join"
    # Once it has one, `join` may stay in the file: if the directory is lost, the node asks.
    alone = tmp_path / "alone"
    (alone / "journal").mkdir(parents=True)
    file = IdentityFile(alone, NodeId("n1"), [NodeId("n1")])
    directory = file.begin().directory
    file.mark_cluster("c1")
    again = IdentityFile(alone, NodeId("n1"), [NodeId("n1")], joins=True).begin()
    assert (again.directory, again.cluster, again.joined) == (directory, "c1", False)


@pytest.mark.parametrize("more", [b'"joined":1', b'"roster":[]', b'"roster":{"n1":7}'])
def test_a_file_that_says_nonsense_of_the_cluster_is_refused(tmp_path: Path, more: bytes) -> None:
    begin(tmp_path, "n1")
    path = tmp_path / "identity.json"
    path.write_bytes(path.read_bytes().strip()[:-1] + b"," + more + b"}")
    with pytest.raises(NodeFailure, match="of another format"):
        IdentityFile(tmp_path, NodeId("n1"), VOTERS)


@pytest.mark.parametrize(
    "voters", [b"7", b"[1]", b'["7",["n1"]]', b"[7,[1]]", b"[0,[]]", b"[7,{}]"]
)
def test_voters_that_make_no_sense_are_refused(tmp_path: Path, voters: bytes) -> None:
    begin(tmp_path)
    path = tmp_path / "identity.json"
    path.write_bytes(path.read_bytes().rstrip()[:-1] + b',"voters":%b}\n' % voters)
    with pytest.raises(NodeFailure, match="another format"):
        begin(tmp_path)


def test_other_voters_than_the_directory_was_made_for_are_refused(tmp_path: Path) -> None:
    begin(tmp_path, voters=VOTERS)
    more = [*VOTERS, NodeId("n4"), NodeId("n5")]
    with pytest.raises(ForeignDirectory, match="nodes of this cluster are n1, n2, n3") as caught:
        begin(tmp_path, voters=more)
    assert caught.value.key == "peers"
    assert "delete the file `voters`" in str(caught.value)
    (tmp_path / "voters").unlink()
    begin(tmp_path, voters=more)
    begin(tmp_path, voters=more[::-1])


def test_a_directory_of_an_earlier_release_goes_on(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.mkdir()
    (journal / "incarnation").write_text("41\n")
    found = begin(tmp_path)
    assert found.past == ((41, ""),)
    assert found.incarnation > 41
    assert found.raft == RaftMark(0, 0)


def test_the_number_is_raised_when_the_cluster_knows_a_higher_one(tmp_path: Path) -> None:
    ahead = int(time.time()) + 1_000_000
    begin(tmp_path)
    IdentityFile(tmp_path, NodeId("n1"), VOTERS).raise_number(ahead)
    found = begin(tmp_path)
    assert found.incarnation == ahead + 1


def test_so_many_starts_are_remembered(tmp_path: Path) -> None:
    for _ in range(STARTS_REMEMBERED_MAX + 3):
        last = begin(tmp_path)
    assert len(last.past) == STARTS_REMEMBERED_MAX


def test_the_raft_mark_is_kept(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    file = IdentityFile(tmp_path, NodeId("n1"), VOTERS)
    file.begin()
    file.mark_raft(RaftMark(3, 17))
    assert begin(tmp_path).raft == RaftMark(3, 17)
    assert begin(tmp_path).raft == RaftMark(3, 17)


def test_the_directory_belongs_to_the_cluster_that_it_was_first_of(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    file = IdentityFile(tmp_path, NodeId("n1"), VOTERS)
    assert file.cluster == ""
    assert file.begin().cluster == ""
    file.mark_cluster("c1")
    file.mark_cluster("c1")
    assert file.cluster == begin(tmp_path).cluster == "c1"
    with pytest.raises(NodeFailure, match=r"belongs to cluster c1, .* is of cluster c2: give"):
        file.mark_cluster("c2")
    assert begin(tmp_path).cluster == "c1"


@pytest.mark.parametrize(
    "content",
    [
        b"", b"[]", b"{}", b'{"format":0}', b'{"format":"2"}',
        b'{"format":1,"node":"n1","directory":"d"}',
        b'{"format":1,"node":"n1","directory":"d","raft":[0,0],"starts":[],"cluster":7}',
    ],
)  # fmt: skip
def test_a_damaged_file_says_what_to_do(tmp_path: Path, content: bytes) -> None:
    begin(tmp_path)
    (tmp_path / "identity.json").write_bytes(content)
    with pytest.raises(NodeFailure, match=r"identity\.json cannot be used: .* Restore the file"):
        begin(tmp_path)


def test_a_file_of_a_newer_release_is_not_to_be_deleted(tmp_path: Path) -> None:
    begin(tmp_path)
    written = b'{"format":2,"node":"n1","anything":"else"}'
    (tmp_path / "identity.json").write_bytes(written)
    with pytest.raises(NodeFailure, match="run a newer version of fedq") as caught:
        begin(tmp_path)
    assert "delete" not in str(caught.value)
    assert (tmp_path / "identity.json").read_bytes() == written
