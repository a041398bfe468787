"""Readers of queues take no more of a node than is meant for them, and lose nothing of it."""

import pytest

from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin, QueueKey
from fedq.core.limits import QUEUE_READERS_MAX
from fedq.core.policy import PLAIN, QUARANTINED
from fedq.core.versions import QUEUE_READERS
from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.fragments.upkeep import reserving
from fedq.fragments.upkeep.asides import note_asides, readmit
from fedq.journal.records import NOTE_DEAD, NOTE_RESERVED
from fedq.node.records.streams.reservations import (
    DONE,
    NAMES_FULL,
    NOT_YET,
    RELEASE,
    RESERVE,
    SETTLE,
    TOO_OLD,
    ReaderCall,
    Reserved,
)
from tests.unit.journal.samples import bodies
from tests.unit.node.copies.test_long_queues import SMALL, body
from tests.unit.node.copies.test_long_queues_ranked import declared, fragment_of, plain
from tests.unit.node.copies.test_long_queues_ranked import publish as publish_ranked
from tests.unit.node.harness import Cluster
from tests.unit.node.streams.test_queue_reading import KEY, Reader, begun, fragments, publish


def ask_at_once(cluster: Cluster, names: list[str], kind: int = RESERVE) -> list[Reserved]:
    """What readers have heard at the end of the turn in which all of them ask."""
    heard: list[Reserved] = []
    node = cluster.node("n1")
    for name in names:
        call = ReaderCall(kind, fragments(cluster)[0], name, 0, heard.append, instance="1", most=1)
        node.streams.queue_reading.on_asked(KEY, call)
    return heard


@pytest.mark.parametrize("restarts", [False, True])
def test_what_is_reserved_of_a_queue_with_priorities_stays_in_memory(restarts: bool) -> None:
    cluster = Cluster(1, **SMALL)
    client = declared(cluster)
    publish_ranked(cluster, client, range(40), ranks=1)
    reader = Reader(cluster, queue=QueueKey("/", "q"))
    answer = reader.insist(RESERVE, 0, 40)
    publish_ranked(cluster, client, range(40, 240), ranks=1)
    assert fragment_of(cluster).stowed_count
    if restarts:
        cluster.kill("n1")
        cluster.start("n1")
        cluster.pass_ms(3_000)
    rows = plain(reader.read(0, answer.through))
    assert rows == [body(number) for number in range(answer.messages)]
    assert reader.insist(SETTLE, answer.through).messages == answer.messages
    fragment_of(cluster).check()


def test_names_that_wait_for_an_answer_are_not_forgotten_for_others() -> None:
    cluster, client = begun()
    publish(cluster, client, *map(str, range(QUEUE_READERS_MAX + 6)))
    node = cluster.node("n1")
    # The turn has no work left: none of them has anything reserved before the last one has asked.
    node.state.work.spend(1 << 30)
    names = [f"r{number}" for number in range(QUEUE_READERS_MAX + 6)]
    heard = ask_at_once(cluster, names)
    assert [each.verdict for each in heard] == [NAMES_FULL] * 6
    cluster.pass_ms(1_000)
    fragment = fragment_of(cluster)
    assert len(fragment.notes[NOTE_RESERVED]) == QUEUE_READERS_MAX
    # So all of it can be given back by name.
    for name in names[:QUEUE_READERS_MAX]:
        assert Reader(cluster, name=name).call(RELEASE, (1 << 40) - 1).messages == 1
    assert fragment.ready_count == QUEUE_READERS_MAX + 6


def test_calls_that_cannot_be_answered_yet_do_not_pile_up() -> None:
    cluster, client = begun(3)
    publish(cluster, client, "a")
    home = cluster.primary_of("jobs")
    assert Reader(cluster, name="r").call(RESERVE, 0, 1).messages == 1
    publish(cluster, client, "b")
    reading = cluster.node(home).streams.queue_reading
    heard: list[Reserved] = []
    fragment = fragments(cluster)[0]

    def ask(kind: int, name: str) -> None:
        call = ReaderCall(kind, fragment, name, 0, heard.append, instance="1", most=1)
        reading.on_asked(KEY, call)

    # A reader's next call has to wait for the answer to the one before.
    ask(RESERVE, "s")
    ask(RESERVE, "s")
    ask(SETTLE, "s")
    assert [each.verdict for each in heard] == [NOT_YET, NOT_YET]
    # Of names that nobody has there is nothing to wait for, nor is anything kept.
    for number in range(100):
        ask(SETTLE, f"nobody{number}")
    assert [each.verdict for each in heard[2:]] == [DONE] * 100
    readers = fragment_of(cluster, home).queue_readers
    assert readers is not None
    assert sorted(readers) == ["r", "s"]
    cluster.wait_for(lambda: len(heard) == 103)
    assert (heard[-1].verdict, heard[-1].messages) == (DONE, 1)


def test_a_release_says_when_it_has_not_put_back_all() -> None:
    cluster, client = begun()
    publish(cluster, client, "a", "b")
    assert Reader(cluster).call(RESERVE, 0, 1).messages == 1
    heard: list[int | None] = []
    reading = cluster.node("n1").streams.queue_reading
    # Its reader is at it.
    ask_at_once(cluster, ["r"])
    reading.on_release(KEY, "r", heard.append)
    assert heard == [None]
    cluster.pass_ms(100)
    cluster.hosts[NodeId("n1")].inbox.append(
        lambda node: node.streams.queue_reading.on_release(KEY, "r", heard.append)
    )
    cluster.wait_for(lambda: len(heard) == 2)
    assert heard[1] == 1


def test_what_was_reserved_and_set_aside_is_ready_for_good_when_it_is_put_back() -> None:
    one = FragmentId(1)
    copy = Replica(one, durable=True)

    def begun_with(reign: int) -> Fragment:
        made = Fragment(
            one, reign, durable=True, recording=True, policy=PLAIN, messages=copy.in_order(),
            origins=copy.origins, notes=copy.notes,
        )  # fmt: skip
        made.begin_readers(copy.readers)
        return made

    def recorded(fragment: Fragment) -> None:
        fragment.check()
        for record in fragment.out.records:
            copy.apply(record.data)

    first = begun_with(1)
    first.publish(Origin(NodeId("client"), Incarnation(1)), 1, bodies("a", "b"))
    assert reserving.admit(first, "r", 0)
    assert reserving.reserve(first, "r", 1, 1, 1_000)[0] == 1
    recorded(first)
    [position] = first.notes[NOTE_RESERVED]
    # Its next primary could not begin with it; then the operator puts it back.
    copy.notes[NOTE_DEAD] = {position: QUARANTINED}
    second = begun_with(2)
    note_asides(second, [position])
    assert readmit(second, [position]) == [position]
    recorded(second)
    third = begun_with(3)
    assert third.ready_count == 2
    assert reserving.reserved(third, "r") == {}


def test_nothing_is_reserved_before_all_members_know_what_that_is() -> None:
    cluster, client = begun(3)
    publish(cluster, client, "a")
    home = cluster.primary_of("jobs")
    known = cluster.node(home).state.map
    known.cluster_version = QUEUE_READERS - 1
    assert Reader(cluster).call(RESERVE, 0).verdict == TOO_OLD
    fragment = fragment_of(cluster, home)
    assert (fragment.ready_count, fragment.queue_readers) == (1, None)
    known.cluster_version = QUEUE_READERS
    assert Reader(cluster).call(RESERVE, 0).messages == 1


def test_while_memory_is_full_a_fragment_has_one_small_batch_reserved() -> None:
    cluster, client = begun()
    publish(cluster, client, *["x" * 200_000] * 10)
    node = cluster.node("n1")
    heard: list[Reserved] = []

    def ask(name: str, through: int) -> None:
        [fragment] = fragments(cluster)
        call = ReaderCall(
            RESERVE, fragment, name, through, heard.append, instance="1", begins=True, most=100
        )
        # For this turn.
        node.state.memory_full = True
        node.streams.queue_reading.on_asked(KEY, call)
        cluster.pass_ms(1_000)

    ask("r", 0)
    ask("other", 0)
    assert [each.verdict for each in heard] == [DONE, NOT_YET]
    assert 5 <= heard[0].messages <= 6
    # Who has committed goes on.
    ask("r", heard[0].through)
    assert (heard[2].verdict, heard[2].messages) == (DONE, 10 - heard[0].messages)
