"""What a node cannot read from its disk it gets from another copy, and writes anew."""

from collections.abc import Callable
from typing import Any

import pytest

from fedq.amqp.methods import QueueDeclare, QueueDeclareOk
from fedq.core.ids import FragmentId, NodeId
from fedq.core.peer_messages import Bodies, BodiesWanted
from fedq.fragments.replica import Replica
from fedq.fragments.runs.runs import ON_DISK
from fedq.journal.bodies import messages_in
from fedq.node.copies.mending import POSITIONS_MAX, Mending
from tests.unit.node.copies.test_long_queues import SMALL, body, drained, filled, stowed
from tests.unit.node.harness import Cluster

Answer = Callable[[NodeId, BodiesWanted], None]

#: As many messages as are asked for at once fit into an answer.
LARGER: Any = {**SMALL, "segment_bytes_max": 400_000}


def rot(cluster: Cluster, name: str, *numbers: int) -> None:
    """Bits of these messages are others from now on, wherever the node's disk has them."""
    for number in numbers:
        wanted = body(number).encode()
        for data in cluster.hosts[NodeId(name)].segments.values():
            at = data.find(wanted)
            while at >= 0:
                data[at] ^= 1
                at = data.find(wanted, at + 1)


def backups_of(cluster: Cluster) -> list[str]:
    primary = cluster.primary_of("q")
    return [name for name in cluster.hosts if name != primary and stowed(cluster, name)]


def fragment_of(cluster: Cluster, name: str) -> FragmentId:
    return next(iter(cluster.node(name).state.map.fragments))


def on_disk(cluster: Cluster, name: str) -> list[str]:
    """The bodies of all messages that the node's disk gives for its fragment, in order."""
    state, fragment = cluster.node(name).state, fragment_of(cluster, name)
    held = state.primaries.get(fragment)
    messages = held.fragment.messages if held is not None else None
    copy = state.backups[fragment].replica if held is None else None
    assert messages is not None or copy is not None
    positions = list(messages) if messages is not None else []
    if copy is not None:
        ranges = [*copy.stowed.ranges(), *((p, p) for p in copy.messages)]
        positions = sorted(p for first, last in ranges for p in range(first, last + 1))
    found: list[str] = []
    for position in positions:
        for place in state.plan.locate_all(fragment, position):
            segment = cluster.hosts[NodeId(name)].segments[place.segment]
            data = bytes(segment[place.offset : place.offset + place.length])
            bodies, _ = messages_in(data, fragment, position, position)
            if position in bodies:
                found.append(bodies[position][-len(body(0)) :].decode())
                break
    return found


@pytest.mark.parametrize("copies", [2, 3])
def test_a_primary_gets_what_it_cannot_read_and_stays_the_primary(copies: int) -> None:
    cluster = Cluster(3, **SMALL, scrub_bytes_per_second=0)
    filled(cluster, 300, replicas=copies)
    primary = cluster.primary_of("q")
    rot(cluster, primary, 150, 151, 200)
    got = drained(cluster, cluster.client(primary), 300)
    assert got == [body(number) for number in range(300)]
    assert cluster.primary_of("q") == primary
    state = cluster.node(primary).state
    assert state.scrub.mended >= 3
    assert state.messages_lost == 0
    story = cluster.hosts[NodeId(primary)].story
    assert any("fetched from" in line and "written anew" in line for line in story)


def test_the_disk_is_whole_again_and_a_later_start_finds_the_new_place() -> None:
    cluster = Cluster(3, **SMALL, scrub_bytes_per_second=0)
    client = filled(cluster, 300, replicas=2)
    primary = cluster.primary_of("q")
    rot(cluster, primary, 2, 3)
    # They are at the head, in memory: what is read is the middle.
    rot(cluster, primary, 150)
    fragment = cluster.node(primary).state.primaries[fragment_of(cluster, primary)]
    position = next(p for p, message in fragment.fragment.messages.items() if message == ON_DISK)
    asked: list[list[int]] = []
    mending = cluster.node(primary).copies.mending
    mending.ask(
        fragment_of(cluster, primary), [position, position + 1],
        lambda left, is_silent: asked.append(left), fills=False,
    )  # fmt: skip
    cluster.wait_for(lambda: asked == [[]])
    del client
    for name in cluster.hosts:
        if name != primary:
            cluster.kill(name)
    cluster.kill(primary)
    cluster.start(primary)
    plan = cluster.node(primary).state.plan
    places = plan.locate_all(fragment_of_disk(cluster, primary), position)
    assert len(places) > 1
    newest = places[0]
    data = bytes(cluster.hosts[NodeId(primary)].segments[newest.segment])
    piece = data[newest.offset : newest.offset + newest.length]
    bodies, reasons = messages_in(piece, fragment_of_disk(cluster, primary), position, position + 1)
    assert list(bodies) == [position, position + 1]
    assert not reasons


def fragment_of_disk(cluster: Cluster, name: str) -> FragmentId:
    return next(iter(cluster.node(name).state.recovered))


def test_what_nobody_has_is_lost_by_name_and_the_rest_goes_on() -> None:
    cluster = Cluster(3, **SMALL, scrub_bytes_per_second=0)
    client = filled(cluster, 300, replicas=2)
    primary = cluster.primary_of("q")
    for name in (primary, *backups_of(cluster)):
        rot(cluster, name, 150)
    got = drained(cluster, client, 270)
    lost = [number for number in range(300) if body(number) not in got]
    assert 150 in lost
    assert len(lost) <= 20
    assert got == [body(number) for number in range(300) if number not in lost]
    state = cluster.node(primary).state
    assert state.messages_lost == len(lost)
    story = cluster.hosts[NodeId(primary)].story
    assert any("of queue 'q'" in line and "no other copy has them" in line for line in story)
    assert client.ask(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 0


def test_a_copy_being_made_gets_what_its_primary_cannot_read_from_a_third_node() -> None:
    cluster = Cluster(3, **SMALL, scrub_bytes_per_second=0)
    filled(cluster, 300, replicas=3)
    primary = cluster.primary_of("q")
    joining = next(name for name in cluster.hosts if name != primary)
    cluster.kill(joining)
    cluster.hosts[joining].segments.clear()
    rot(cluster, primary, 150)
    cluster.pass_ms(3_000)
    cluster.start(joining)

    def is_whole() -> bool:
        backups = cluster.node(joining).state.backups.values()
        return any(backup.whole and backup.replica.count == 300 for backup in backups)

    cluster.wait_for(is_whole, 30_000)
    assert cluster.primary_of("q") == primary
    assert cluster.node(primary).state.scrub.mended > 0


def test_more_than_one_question_is_asked_where_much_cannot_be_read() -> None:
    cluster = Cluster(3, **LARGER, scrub_bytes_per_second=0)
    filled(cluster, 400, replicas=2)
    primary = cluster.primary_of("q")
    fragment = fragment_of(cluster, primary)
    mending = cluster.node(primary).copies.mending
    positions = list(cluster.node(primary).state.primaries[fragment].fragment.messages)
    done: list[tuple[list[int], bool]] = []
    cluster.overheard.clear()
    mending.ask(fragment, positions, lambda left, silent: done.append((left, silent)), fills=False)
    cluster.wait_for(lambda: len(done) == 1)
    assert done == [([], False)]
    asked = [each for _, _, each in cluster.overheard if isinstance(each, BodiesWanted)]
    assert [len(each.positions) for each in asked] == [POSITIONS_MAX, 400 - POSITIONS_MAX]
    assert on_disk(cluster, primary) == [body(number) for number in range(400)]


def asking(cluster: Cluster, wanted: list[int]) -> tuple[Mending, list[tuple[list[int], bool]]]:
    """The primary asks; nobody that runs answers."""
    primary = cluster.primary_of("q")
    for host in cluster.hosts.values():
        if host.node is not None:
            host.node.inbox._handlers[BodiesWanted] = lambda _sender, _message: None
    done: list[tuple[list[int], bool]] = []
    mending = cluster.node(primary).copies.mending
    fragment = fragment_of(cluster, primary)
    mending.ask(fragment, wanted, lambda left, silent: done.append((left, silent)), fills=True)
    cluster.settle()
    return mending, done


def test_answers_that_fit_no_question_change_nothing() -> None:
    cluster = Cluster(3, **SMALL, scrub_bytes_per_second=0)
    filled(cluster, 200, replicas=2)
    primary = cluster.primary_of("q")
    state = cluster.node(primary).state
    served = state.primaries[fragment_of(cluster, primary)].fragment
    positions = [p for p, message in served.messages.items() if message == ON_DISK][:3]
    other = served.messages[next(p for p, message in served.messages.items() if message)]
    mending, done = asking(cluster, positions)
    backup = NodeId(backups_of(cluster)[0])
    third = next(name for name in cluster.hosts if name not in (primary, backup))
    stowed_before = served.fresh.stowed_count
    said = Bodies(served.fragment_id, served.reign, 1, positions[-1], [], [], b"")
    for sender, answer in (
        (third, said),
        (backup, said._replace(request=2)),
        (backup, said._replace(reign=served.reign - 1)),
        (backup, said._replace(fragment=FragmentId(99))),
    ):
        mending.on_bodies(sender, answer)
        assert not done
    # Neither what was not asked for, nor a transient one, is taken in.
    transient = bytes([other[0] & ~1]) + other[1:]
    assert transient[0] != other[0]
    odd = said._replace(
        positions=[positions[0], positions[-1] + 1], messages=[transient, other],
        flags=bytes([transient[0], other[0]]),
    )  # fmt: skip
    mending.on_bodies(backup, odd)
    cluster.settle()
    assert served.fresh.stowed_count == stowed_before
    assert done == [(positions, False)]


def test_who_does_not_answer_in_time_may_have_it_all_the_same() -> None:
    cluster = Cluster(3, **SMALL, scrub_bytes_per_second=0)
    filled(cluster, 200, replicas=2)
    primary = cluster.primary_of("q")
    served = cluster.node(primary).state.primaries[fragment_of(cluster, primary)].fragment
    positions = [p for p, message in served.messages.items() if message == ON_DISK][:3]
    mending, done = asking(cluster, positions)
    assert mending.is_under_way(served.fragment_id)
    cluster.pass_ms(6_000)
    assert done == [(positions, True)]
    assert not mending.is_under_way(served.fragment_id)


def test_nobody_without_a_copy_is_answered_and_questions_have_a_bound() -> None:
    cluster = Cluster(3, **LARGER, scrub_bytes_per_second=0)
    filled(cluster, 300, replicas=2)
    primary = cluster.primary_of("q")
    node = cluster.node(primary)
    served = node.state.primaries[fragment_of(cluster, primary)].fragment
    backup = NodeId(backups_of(cluster)[0])
    third = next(name for name in cluster.hosts if name not in (primary, backup))
    every = list(served.messages)
    cluster.overheard.clear()
    question = BodiesWanted(served.fragment_id, served.reign, 7, every)
    node.copies.lending.on_wanted(third, question)
    node.copies.lending.on_wanted(backup, question._replace(positions=[]))
    node.copies.lending.on_wanted(backup, question._replace(reign=served.reign + 1))
    node.copies.lending.on_wanted(backup, question._replace(fragment=FragmentId(99)))
    cluster.pass_ms(200)
    assert not [each for _, _, each in cluster.overheard if isinstance(each, Bodies)]
    node.copies.lending.on_wanted(backup, question)
    cluster.pass_ms(200)
    (answer,) = [each for _, _, each in cluster.overheard if isinstance(each, Bodies)]
    assert answer.positions == every[:POSITIONS_MAX]
    assert answer.through == every[POSITIONS_MAX - 1]
    # Positions where nothing is are answered with nothing.
    node.copies.lending.on_wanted(backup, question._replace(positions=[1, 2, 1 << 60]))
    cluster.pass_ms(200)
    answer = [each for _, _, each in cluster.overheard if isinstance(each, Bodies)][-1]
    assert (answer.positions, answer.through) == ([], 1 << 60)


def test_what_comes_once_the_copy_is_held_otherwise_is_not_taken_for_mended() -> None:
    """Before, a segment on the move went as if that had been written anew, and was the only place.

    A copy that a start has read from the disk becomes a backup's in the same reign.
    """
    cluster = Cluster(3, **SMALL, scrub_bytes_per_second=0)
    filled(cluster, 200, replicas=2)
    backup, primary = NodeId(backups_of(cluster)[0]), NodeId(cluster.primary_of("q"))
    fragment = fragment_of(cluster, backup)
    copy = cluster.node(backup).state.backups[fragment]
    served = cluster.node(primary).state.primaries[fragment].fragment
    positions = [p for first, last, _ in copy.replica.stowed for p in range(first, last + 1)][:3]
    cluster.node(primary).inbox._handlers[BodiesWanted] = lambda _sender, _message: None
    done: list[tuple[list[int], bool]] = []
    mending = cluster.node(backup).copies.mending
    mending.ask(fragment, positions, lambda left, silent: done.append((left, silent)), fills=False)
    cluster.settle()
    copy.replica = Replica(
        fragment, durable=True, messages=copy.replica.messages, stowed=list(copy.replica.stowed)
    )
    message = next(message for message in served.messages.values() if message)
    answer = Bodies(fragment, served.reign, 1, positions[-1], positions, [message] * 3, b"\1\1\1")
    mending.on_bodies(primary, answer)
    assert done == [(positions, True)]
    assert cluster.node(backup).state.scrub.mended == 0
