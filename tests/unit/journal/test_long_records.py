"""Long messages are copied once on their way to the disk and to other nodes."""

import tracemalloc
from collections.abc import Callable

from fedq.core.ids import Incarnation, NodeId, Origin
from fedq.core.limits import MIB
from fedq.fragments.copy.unread import Unread
from fedq.journal.decoding import decode, outlines
from fedq.journal.events import Enqueue
from fedq.journal.marks import MARK_BYTES
from fedq.journal.payloads import Outline
from fedq.journal.records import encode_copy, encode_enqueue, encode_with_notes
from fedq.journal.segments import SegmentPlan
from tests.unit.journal.samples import ONE

ORIGIN = Origin(NodeId("n1"), Incarnation(1))
BODY = bytes(range(256)) * (8 * MIB // 256)


def most(work: Callable[[], object]) -> float:
    """How much memory it takes at its height, in messages of 8 MiB."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / len(BODY)
    finally:
        tracemalloc.stop()


def test_a_record_is_a_copy_of_its_messages_and_no_more() -> None:
    """Before: twice as much."""
    assert most(lambda: encode_enqueue(ONE, 1, 1, ORIGIN, 1, [BODY])) < 1.1
    assert most(lambda: encode_copy(ONE, 1, [1], [BODY], {})) < 1.1
    record = encode_enqueue(ONE, 1, 1, ORIGIN, 1, [BODY, b"\0" * 9])
    assert most(lambda: encode_with_notes(ONE, 1, record, 2, {1: {1: 5}})) < 2.1
    [decoded] = decode(record)
    assert isinstance(decoded, Enqueue)
    assert decoded.messages == [BODY, b"\0" * 9]


def test_a_long_record_is_written_as_it_is() -> None:
    """Before, it was copied to the mark that goes before it, and to what else a turn wrote."""
    plan = SegmentPlan(nonce=7)
    assert plan.append(ONE, b"before", True, 1, 1) == 1
    assert plan.append(ONE, BODY, True, 2, 2) == 2
    assert plan.append(ONE, b"behind", False, 3, 3) == 3
    first, long, last = plan.take()
    assert long.data is BODY
    assert first.data.endswith(b"before")
    assert last.data == b"behind"
    assert (first.sync, long.sync, last.sync) == (True, True, False)
    plan.on_synced(2)
    assert plan.append(ONE, BODY, True, 4, 4) == 5
    mark, again = plan.take()
    assert (mark.number, len(mark.data), mark.sync) == (4, MARK_BYTES, False)
    assert again.data is BODY


def test_a_segment_with_a_long_record_is_no_longer_than_it_may_be() -> None:
    plan = SegmentPlan(nonce=7, bytes_max=len(BODY) + MARK_BYTES)
    for number in range(1, 4):
        plan.append(ONE, BODY, True, number, number)
        chunks = plan.take()
        plan.on_synced(chunks[-1].number)
    assert plan.segments == [1, 2, 3]
    assert {chunk.segment for chunk in chunks} == {3}
    assert sum(len(chunk.data) for chunk in chunks) <= len(BODY) + MARK_BYTES


def test_a_copy_that_is_to_lead_takes_its_records_apart_one_by_one() -> None:
    """Before, it held all of its messages twice at that moment."""
    assert most(_eight_read) < 9.5


def _eight_read() -> None:
    unread = Unread()
    for position in range(1, 9):
        for outline in outlines(encode_enqueue(ONE, 1, position, ORIGIN, position, [BODY]), ONE):
            assert isinstance(outline, Outline)
            unread.add(outline)
        del outline
    assert len(unread.read()) == 8
