"""What copies know of publishers with names, also where one leads before it was complete."""

from fedq.amqp.methods import BasicAck
from fedq.core.ids import FragmentId, NodeId, first_position
from fedq.fragments.replica import Replica
from fedq.journal.events import ALL, FORGOTTEN, SOME, SURE, PublisherMark
from fedq.journal.records import (
    HEAD,
    KIND_PUBLISHERS,
    PUBLISHERS_HEAD,
    VERSION,
    encode_copy,
    encode_enqueue,
    encode_group,
    encode_publishers,
)
from fedq.journal.recovery import recover
from tests.unit.journal.samples import NORTH, ONE, bodies
from tests.unit.node.harness import TICK_MS, Cluster
from tests.unit.node.publishing.named import again, all_of, known_to, queue_on, send

FIRST = first_position(1) + 1
BASE = first_position(2) + 9


def taken(position: int, count: int, highest: int, reign: int = 1) -> bytes:
    """A record of so many messages of "p", up to that sequence."""
    messages = bodies(*[f"p{n}" for n in range(highest - count + 1, highest + 1)])
    data = encode_enqueue(ONE, reign, position, NORTH, highest, messages)
    marks = {"p": PublisherMark(highest)}
    data += encode_publishers(ONE, reign, position + count - 1, SOME, marks)
    return encode_group(ONE, reign, data)


def copy_of(highest: int) -> Replica:
    """A complete copy that has so many of "p"."""
    made = Replica(ONE, durable=True)
    made.publishing.finish_copy(1)
    made.apply(taken(FIRST, highest, highest))
    assert made.count_unread == highest, "names are no reason to read what came"
    return made


def begun(copy: Replica, dropped: list[tuple[int, int]], theirs: int, reign: int = 2) -> None:
    """A primary of this reign, which began with so many of "p", makes it equal."""
    origins = encode_copy(ONE, reign, [], [], {})
    origins += encode_publishers(ONE, reign, BASE, ALL, {"p": PublisherMark(theirs)})
    copy.start_copy(dropped, origins, reign, BASE, True)


def test_until_it_is_complete_a_copy_is_sure_of_what_both_had() -> None:
    copy = copy_of(5)
    begun(copy, [], 7)
    copy.apply(encode_copy(ONE, 2, [FIRST + 6, FIRST + 7], bodies("p6", "p7"), {}))
    copy.apply(encode_publishers(ONE, 2, BASE, ALL, {"p": PublisherMark(7)}))
    copy.apply(taken(BASE + 1, 2, 9, reign=2))
    assert copy.publishing.sure == {"p": PublisherMark(5)}
    [chunks, live] = copy.publishing.to_revert()
    assert chunks == (FIRST + 6, FIRST + 7)
    assert live[0] == BASE + 1
    copy.finish_copy(2)
    assert copy.publishing.sure == {"p": PublisherMark(9)}
    assert copy.publishing.to_revert() == []


def test_what_the_next_primary_has_not_is_not_known() -> None:
    """Its message was dropped; the publisher repeats it, and it is to be taken."""
    copy = copy_of(5)
    begun(copy, [(FIRST + 3, FIRST + 4)], 3)
    assert copy.publishing.sure == {"p": PublisherMark(3)}


def test_what_its_primary_forgets_meanwhile_is_not_sure_any_more() -> None:
    """It may take that publisher anew, from the first sequence on: those are no repeats."""
    copy = copy_of(5)
    begun(copy, [], 7)
    applied = copy.apply(encode_publishers(ONE, 2, BASE, SOME, {"p": FORGOTTEN}))
    assert applied.journal, "the disk is to know it, too"
    assert copy.publishing.sure == {}
    copy.apply(taken(BASE + 1, 2, 2, reign=2))
    copy.finish_copy(2)
    assert copy.publishing.sure == {"p": PublisherMark(2)}


def test_a_link_that_starts_anew_takes_nothing_away() -> None:
    copy = copy_of(5)
    begun(copy, [], 2, reign=1)
    assert copy.publishing.sure == {"p": PublisherMark(5)}


def test_a_copy_out_of_sync_keeps_what_it_gets() -> None:
    copy = copy_of(5)
    begun(copy, [], 7)
    copy.publishing.leave_sync()
    copy.apply(encode_copy(ONE, 2, [FIRST + 6], bodies("p6"), {}))
    assert copy.publishing.to_revert() == []


def test_a_copy_that_leads_before_it_was_complete_reverts() -> None:
    """What had come was never confirmed. Its publisher sends it again, and it is there once."""
    cluster = Cluster(5)
    client = queue_on(cluster, "n1", x_fedq_replicas=3)
    send(client, "q", [1, 2])
    info = cluster.node("n1").state.map.fragments[FragmentId(1)]
    second, third = info.backups
    # One backup does not hear of the next ones, so nothing of them is confirmed.
    cluster.mute["n1", third] = None
    body = "x" * 100_000
    for number in range(3, 83):
        send(client, "q", [number], publisher="p", body=body)
    assert known_to(cluster.node(second)) == {"p": 82}
    cluster.kill("n1")
    for _ in range(1_000):
        if not cluster.turn():
            cluster.now_ms += TICK_MS
            for host in cluster.hosts.values():
                host.inbox.append(lambda node: node.on_tick())
        backup = cluster.node(third).state.backups[FragmentId(1)]
        if backup.replica.publishing.ahead is not None and backup.replica.count > 2:
            break
    assert backup.replication.primary == second
    assert backup.replica.publishing.sure == {"p": PublisherMark(2)}
    assert 2 < backup.replica.count < 82
    cluster.kill(second)
    cluster.wait_for(lambda: FragmentId(1) in cluster.node(third).state.primaries)
    assert known_to(cluster.node(third)) == {"p": 2}
    client = again(cluster, "n5")
    send(client, "q", range(1, 41))
    cluster.wait_for(lambda: client.has(BasicAck))
    found = [each.removeprefix("again: ").rstrip("x") for each in all_of(cluster, third)]
    assert found == [f"p{number}" for number in range(1, 41)]
    journal = {n: bytes(each) for n, each in cluster.hosts[NodeId(third)].segments.items()}
    recovered = recover(journal).fragments[FragmentId(1)]
    assert recovered.publishers == {"p": PublisherMark(40)}
    assert len(recovered.messages) == 40


def test_a_copy_that_is_sure_of_nothing_any_more_says_so_on_its_disk() -> None:
    """Else, started again before it was complete, it would take repeats for taken."""
    cluster = Cluster(5)
    client = queue_on(cluster, "n1", x_fedq_replicas=3)
    second, third = cluster.node("n1").state.map.fragments[FragmentId(1)].backups
    cluster.mute["n1", second] = None
    send(client, "q", [1, 2, 3], publisher="p")
    assert cluster.node(third).state.backups[FragmentId(1)].replica.publishing.sure
    cluster.kill("n1")
    cluster.wait_for(lambda: FragmentId(1) in cluster.node(second).state.primaries)

    def follows() -> bool:
        backup = cluster.node(third).state.backups.get(FragmentId(1))
        return backup is not None and backup.whole and backup.replication.primary == second

    cluster.wait_for(follows)
    reign = cluster.node(second).state.primaries[FragmentId(1)].fragment.reign
    head = HEAD.pack(VERSION, KIND_PUBLISHERS, 1, reign)
    [data] = [bytes(each) for each in cluster.hosts[NodeId(third)].segments.values()]
    at = data.index(head) + len(head)
    event, kind, count = PUBLISHERS_HEAD.unpack_from(data, at)
    assert event >= first_position(reign) - 1
    assert (kind, count) == (SURE, 0)
