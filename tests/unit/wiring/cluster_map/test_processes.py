"""Who may be a member's process: newer, known, one at a time; what an old directory is worth."""

from dataclasses import replace

from fedq.core.ids import Incarnation, NodeId
from fedq.wiring.cluster_map.map import ClusterMap
from fedq.wiring.cluster_map.operations import MemberUp, decode_command, encode_command
from fedq.wiring.cluster_map.state import FragmentChanged
from tests.unit.wiring.maps import Wired, down, queue

A, B = NodeId("a"), NodeId("b")


def process(
    node: str, number: int, start: str, *, after: MemberUp | None = None, behind: bool = False
) -> MemberUp:
    """A process, as it asks to be let in after another one of its node."""
    known, known_start = (after.incarnation, after.start) if after is not None else (0, "")
    return MemberUp(
        NodeId(node), Incarnation(number), f"{node}:1", f"{node}:2", "", start, 1_000 * number,
        known, known_start, behind,
    )  # fmt: skip


def pair() -> tuple[Wired, MemberUp, MemberUp]:
    """Node a leads fragment 1 of "work", b backs it up; both in sync."""
    wired = Wired()
    a, b = process("a", 7, "a7"), process("b", 7, "b7")
    wired.ok(a)
    wired.ok(b)
    wired.ok(queue("work", "a"))
    assert wired.fragment().in_sync == {"a": 7, "b": 7}
    return wired, a, b


def test_a_number_alone_does_not_make_a_process_the_one_that_is_known() -> None:
    wired, a, _ = pair()
    wired.ok(down("a", 7))
    assert "older data directory" in wired.refused(process("a", 7, "other", after=a))[1]
    wired.ok(a)
    assert wired.map.is_up(A, Incarnation(7)), "the process itself may come up again"


def test_a_process_that_has_not_heard_of_the_last_one_has_to_ask_again() -> None:
    wired, a, _ = pair()
    later = process("a", 9, "a9", after=a)
    wired.ok(later)
    assert "has not heard of process 9" in wired.refused(process("a", 10, "x", after=a))[1]
    assert wired.map.members[A].start == "a9"


def test_a_restart_takes_its_own_process_s_place_and_stays_in_sync() -> None:
    wired, _, b = pair()
    wired.ok(process("b", 8, "b8", after=b))
    assert wired.fragment().in_sync == {"a": 7, "b": 7}, "cold, and to be asked for"
    assert not wired.map.members[B].behind


def test_a_stranger_cannot_replace_a_process_that_is_up() -> None:
    wired, _, b = pair()
    stranger = process("b", 99, "s", after=b, behind=True)
    assert "process 7 of node 'b' is up" in wired.refused(stranger)[1]
    wired.ok(down("b", 7))
    wired.ok(stranger)


def test_an_older_directory_s_copies_leave_the_sets_that_have_another() -> None:
    wired, a, b = pair()
    wired.ok(queue("single", "b", replicas=1))
    wired.ok(down("b", 7))
    wired.ok(process("b", 9, "b9", after=b, behind=True))
    assert wired.fragment().in_sync == {"a": 7}
    assert wired.fragment().backups == ("b",), "it is brought up to date"
    assert wired.fragment(2).in_sync == {"b": 7}, "nobody else has it"
    assert wired.map.members[B].behind
    assert sum(isinstance(change, FragmentChanged) for change in wired.last.changes) == 1
    # Of the next start on that directory nothing is held against it.
    wired.ok(process("b", 10, "b10", after=process("b", 9, "b9")))
    assert not wired.map.members[B].behind
    wired.ok(down("a", 7))
    wired.ok(process("a", 9, "a9", after=a, behind=True))
    assert wired.fragment().in_sync == {"a": 7}, "the only one in sync stays"


def test_an_earlier_question_of_the_same_process_judges_nothing() -> None:
    """It asked before it had read what the map knows last of its node, and once more after that."""
    wired, a, b = pair()
    last = process("b", 8, "b8", after=b)
    wired.ok(last)
    wired.ok(down("b", 8))
    early = process("b", 9, "b9", after=b, behind=True)
    wired.ok(process("b", 9, "b9", after=last))
    before = wired.fragment()
    wired.ok(early)
    assert wired.fragment() == before, "its copy is as good as it was"
    assert not wired.map.members[B].behind
    # Nor does one that is older come up as one that is not.
    wired.ok(down("a", 7))
    wired.ok(process("a", 9, "a9", after=a, behind=True))
    wired.ok(down("a", 9))
    wired.ok(process("a", 9, "a9"))
    assert wired.map.members[A].behind


def test_the_next_copy_leads_in_place_of_an_older_directory_s() -> None:
    wired, a, _ = pair()
    before = wired.fragment()
    wired.ok(down("a", 7))
    wired.ok(process("a", 9, "a9", after=a, behind=True))
    after = wired.fragment()
    assert (after.primary, after.backups, after.in_sync) == ("b", ("a",), {"b": 7})
    assert after.reign == after.epoch == before.epoch + 1


def test_what_is_known_of_processes_is_in_a_snapshot() -> None:
    wired, _, b = pair()
    wired.ok(down("b", 7))
    wired.ok(process("b", 9, "b9", after=b, behind=True))
    restored = ClusterMap()
    restored.restore(wired.map.snapshot())
    assert restored.members == wired.map.members
    assert restored.members[B].started_ms == 9_000


def test_commands_of_earlier_releases_are_read_for_ever() -> None:
    command = (
        b'{"v":1,"id":"r","ops":[{"op":"member_up","node":"a","incarnation":3,"peer_address":"p",'
        b'"amqp_address":"q","zone":""}]}'
    )
    (found,) = decode_command(command).operations
    assert found == MemberUp(A, Incarnation(3), "p", "q", "")
    wired = Wired()
    assert wired.map.apply(command).results
    # A newer release's process goes on from it.
    new = replace(process("a", 4, "a4"), known=3)
    wired.ok(new)
    assert decode_command(encode_command("r", [new])).operations == (new,)
