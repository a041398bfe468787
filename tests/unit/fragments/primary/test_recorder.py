"""What a fragment records where only persistent messages are copied (docs/adr/0055)."""

import pytest

from fedq.amqp.content import encode_properties
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin, first_position
from fedq.core.message import FLAG_EXPIRES, FLAG_PERSISTENT, encode, make_route
from fedq.core.policy import QueuePolicy
from fedq.fragments.fragment import Fragment
from fedq.fragments.primary.outbox import RecordOut
from fedq.fragments.replica import Replica
from fedq.fragments.upkeep.asides import publish_aside
from fedq.journal.decoding import decode, tracked
from fedq.journal.events import Enqueue, Group, Settle
from fedq.journal.records import NOTE_EXPIRES, NOTE_RETURNS
from tests.unit.journal.samples import message

ONE = FragmentId(1)
CLIENT = Origin(NodeId("client"), Incarnation(1))
ANN = NodeId("ann")
START = first_position(1)


def fragment(durable: bool = True, policy: QueuePolicy | None = None) -> Fragment:
    return Fragment(
        ONE, 1, durable=durable, recording=True, sparing=True, policy=policy or QueuePolicy()
    )


def mixed(kinds: str) -> list[bytes]:
    """Messages by letter: "P" is persistent, "t" is not."""
    return [message(f"{index}", kind == "P") for index, kind in enumerate(kinds)]


def drained(made: Fragment) -> list[RecordOut]:
    records, made.out.records = made.out.records, []
    return records


def copy_of(records: list[RecordOut]) -> Replica:
    replica = Replica(ONE, durable=True)
    for record in records:
        replica.apply(record.data)
    return replica


def test_a_batch_of_both_is_cut() -> None:
    made = fragment()
    made.publish(CLIENT, 7, mixed("ttPPtPt"))
    records = drained(made)
    assert [record.last - START for record in records] == [2, 4, 5, 6, 7]
    assert [bool(record.data) for record in records] == [False, True, False, True, False]
    assert [record.journal for record in records] == [False, True, False, True, False]
    assert [record.sync for record in records] == [False, True, False, True, False]
    assert list(tracked(decode(records[1].data))) == [
        Enqueue(ONE, 1, START + 3, CLIENT, 9, False, mixed("ttPP")[2:])
    ]
    replica = copy_of(records)
    assert list(replica.in_order()) == [START + 3, START + 4, START + 6]
    assert replica.origins == {CLIENT: 12}, "the last one that it has"


def test_without_a_disk_the_delivery_mode_decides_all_the_same() -> None:
    made = fragment(durable=False)
    made.publish(CLIENT, 1, mixed("tP"))
    spared, told = drained(made)
    assert (spared.data, told.journal) == (b"", False)
    assert list(copy_of([told]).in_order()) == [START + 2]


def test_all_messages_are_here_and_the_persistent_ones_are_told_apart() -> None:
    made = fragment()
    made.publish(CLIENT, 1, mixed("tPPtP"))
    made.publish(CLIENT, 6, mixed("tt"))
    made.take(ANN, 2)
    made.requeue(ANN, [START + 2])
    made.check()
    assert len(made.messages) == 7
    assert made.messages.persistent_ranges() == [(START + 2, START + 3), (START + 5, START + 5)]


@pytest.mark.parametrize("kinds", ["t", "P", "tP"])
def test_a_settlement_travels_if_a_persistent_message_is_among_them(kinds: str) -> None:
    made = fragment()
    made.publish(CLIENT, 1, mixed(kinds))
    replica = copy_of(drained(made))
    made.settle(ANN, made.take(ANN, 9).positions)
    (record,) = drained(made)
    assert bool(record.data) == record.journal == ("P" in kinds)
    replica.apply(record.data)
    assert not replica.in_order()


def test_notes_travel_with_persistent_messages_alone() -> None:
    made = fragment(policy=QueuePolicy(message_ttl_ms=50, counts_returns=True))
    made.publish(CLIENT, 1, mixed("tPt"), unix_ms=1_000)
    replica = copy_of(drained(made))
    assert replica.notes == {NOTE_EXPIRES: {START + 2: 1_050}}
    made.take(ANN, 3)
    made.requeue(ANN, [START + 1])
    made.requeue(ANN, [START + 2, START + 3])
    spared, told = drained(made)
    assert (spared.data, bool(told.data), told.journal) == (b"", True, False)
    replica.apply(told.data)
    assert replica.notes[NOTE_RETURNS] == {START + 2: 1}


def test_a_transient_message_that_expires_by_itself_is_left_out_with_its_time() -> None:
    made = fragment()
    route = make_route("", "q")
    properties = encode_properties({"expiration": "10"})
    first = encode(FLAG_EXPIRES, route, properties, b"a")
    second = encode(FLAG_EXPIRES | FLAG_PERSISTENT, route, properties, b"b")
    made.publish(CLIENT, 1, [first, second], unix_ms=1_000)
    replica = copy_of(drained(made))
    assert replica.notes == {NOTE_EXPIRES: {START + 2: 1_010}}


@pytest.mark.parametrize("persistent", [True, False])
def test_what_is_set_aside_is_left_out_if_it_is_transient(persistent: bool) -> None:
    made = fragment()
    publish_aside(made, CLIENT, 1, message("a", persistent), None)
    (record,) = drained(made)
    assert bool(record.data) == persistent


def test_a_transaction_is_what_of_it_concerns_persistent_messages() -> None:
    made = fragment()
    made.publish(CLIENT, 1, mixed("P"))
    drained(made)
    taken = made.take(ANN, 1)
    mark = made.recorder.begin_atomic()
    made.publish(CLIENT, 2, mixed("tPt"))
    made.settle(ANN, taken.positions)
    made.recorder.end_atomic(mark)
    (record,) = drained(made)
    (group,) = decode(record.data)
    assert isinstance(group, Group)
    assert [type(each) for each in group.records] == [Enqueue, Settle]
    assert (record.last, record.journal, record.sync) == (made.last, True, True)
    assert (record.first_position, record.last_position) == (START + 3, START + 3)


def test_a_transaction_about_transient_messages_is_nobodys_business() -> None:
    made = fragment()
    made.publish(CLIENT, 1, mixed("t"))
    drained(made)
    taken = made.take(ANN, 1)
    mark = made.recorder.begin_atomic()
    made.publish(CLIENT, 2, mixed("tt"))
    made.settle(ANN, taken.positions)
    made.recorder.end_atomic(mark)
    (record,) = drained(made)
    assert (record.last, record.data, record.journal) == (made.last, b"", False)
    mark = made.recorder.begin_atomic()
    made.recorder.end_atomic(mark)
    assert drained(made) == []
