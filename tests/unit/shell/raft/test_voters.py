"""The set of voters in a Raft log: its form, and which step leads nearer to the wanted one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import NodeId
from fedq.core.limits import VOTERS_MAX
from fedq.shell.raft.voters import VoterSet, decode_voters, encode_voters, is_voters, next_set
from fedq.shell.raft.wire import NO_OP, LogEntry, is_entry

NAMES = st.sets(st.sampled_from([NodeId(f"n{number}") for number in range(1, 9)]), max_size=5)


def set_of(names: str) -> tuple[NodeId, ...]:
    return tuple(map(NodeId, names.split()))


@given(st.sets(st.text(min_size=1, max_size=60), min_size=1, max_size=VOTERS_MAX))
def test_a_set_survives_its_encoding(names: set[str]) -> None:
    ordered = tuple(NodeId(name) for name in sorted(names))
    entry = encode_voters(ordered)
    assert decode_voters(entry) == ordered
    assert is_voters(entry)
    assert is_entry(entry)


@given(st.binary(max_size=40))
def test_whatever_is_read_as_a_set_is_written_as_it_was(body: bytes) -> None:
    entry = b"\x02" + body
    if is_voters(entry):
        assert encode_voters(decode_voters(entry)) == entry
    else:
        with pytest.raises(ValueError, match=r"voters|decode"):
            decode_voters(entry)


@pytest.mark.parametrize(
    "entry",
    [
        b"", b"\x02", b"\x00\x01\x01a", b"\x02\x00", b"\x02\x01\x00", b"\x02\x01\x02a",
        b"\x02\x01\x01a\x00", b"\x02\x02\x01b\x01a", b"\x02\x02\x01a\x01a", b"\x02\x01\x01\xff",
        b"\x02\x06" + b"".join(b"\x01%c" % letter for letter in b"abcdef"),
    ],
)  # fmt: skip
def test_what_is_no_set_is_refused(entry: bytes) -> None:
    assert not is_voters(entry)
    with pytest.raises(ValueError, match=r"voters|decode"):
        decode_voters(entry)


def test_every_kind_of_entry_is_known() -> None:
    assert is_entry(NO_OP)
    assert is_entry(b"\x00command")
    assert not is_entry(b"\x00")
    assert not is_entry(b"\x03")
    assert LogEntry(1, encode_voters(set_of("a b"))).command == b"\x02\x02\x01a\x01b"


def test_who_is_alone() -> None:
    assert VoterSet(0, set_of("n1")).is_alone(NodeId("n1"))
    assert not VoterSet(0, set_of("n1 n2")).is_alone(NodeId("n1"))
    assert not VoterSet(0, ()).is_alone(NodeId("n1"))


@pytest.mark.parametrize(
    ("names", "wanted", "joining", "alive", "step"),
    [
        ("n1", "n1 n2", "n2", "n1 n2", "n1 n2"),
        ("n1", "n1 n2", "", "n1 n2", None),
        # The new majority would not be there.
        ("n1 n2 n3", "n1 n2 n3 n4", "n4", "n1 n4", None),
        ("n1 n2 n3", "n1 n2 n3 n4", "n4", "n1 n2 n4", "n1 n2 n3 n4"),
        # One more first, then one less; whoever is dead is the first to go.
        ("n1 n2 n3", "n1 n2 n4", "n4", "n1 n2 n4", "n1 n2 n3 n4"),
        ("n1 n2 n3", "n1 n2 n4", "", "n1 n2 n4", "n1 n2"),
        ("n1 n2 n3 n4 n5", "n1 n4 n6", "n6", "n1 n2 n4 n5 n6", "n1 n2 n4 n5"),
        ("n1 n2 n3", "n1 n3", "", "n1 n2", None),
        # Not the leader.
        ("n1 n2 n3", "n2 n3", "", "n1 n2 n3", None),
    ],
)
def test_the_next_step(names: str, wanted: str, joining: str, alive: str, step: str | None) -> None:
    found = next_set(
        set_of(names), set_of(wanted), set_of(joining), set_of(alive), leader=NodeId("n1")
    )
    assert found == (None if step is None else set_of(step))


@given(NAMES, NAMES, NAMES, NAMES)
def test_a_step_is_one_name_nearer(
    names: set[NodeId], wanted: set[NodeId], joining: set[NodeId], alive: set[NodeId]
) -> None:
    leader = NodeId("n1")
    before = tuple(sorted({leader, *names} if len(names) < VOTERS_MAX else {leader}))
    there = sorted({leader, *alive})
    step = next_set(before, sorted(wanted), sorted(joining), there, leader)
    if step is None:
        return
    assert len({*step} ^ {*before}) == 1
    assert len({*step} ^ wanted) == len({*before} ^ wanted) - 1
    assert leader in step
    assert 1 <= len(step) <= VOTERS_MAX
    assert 2 * len({*step} & {*there}) > len(step)
