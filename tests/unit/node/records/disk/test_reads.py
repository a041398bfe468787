"""Reads under way: who waits for which."""

import pytest

from fedq.core.ids import Incarnation, NodeId
from fedq.journal.places import STRETCH_BYTES
from fedq.journal.records import encode_enqueue
from fedq.journal.recovered import Recovered
from fedq.journal.segments import SegmentPlan
from fedq.node.node import Node
from fedq.node.outbox import NodeOut, ReadWanted
from fedq.node.records.disk.reads import Reads, extended, messages_of
from fedq.node.settings import NodeSettings
from tests.unit.journal.samples import NORTH, ONE, message


class Waiting:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[bytes | str] = []

    def on_read(self, data: bytes) -> None:
        self.heard.append(data)

    def on_read_failed(self, reason: str) -> None:
        self.heard.append(reason)


def test_each_read_is_answered_once_to_who_asked() -> None:
    out = NodeOut()
    reads = Reads(out)
    ann, ben = Waiting(), Waiting()
    first = reads.ask(3, 10, 4, ann)
    second = reads.ask(3, 14, 6, ben)
    assert out.reads == [ReadWanted(first, 3, 10, 4), ReadWanted(second, 3, 14, 6)]
    assert reads.bytes_asked == 10
    reads.fail(second, "it is gone")
    reads.answer(first, b"body")
    assert (ann.heard, ben.heard) == ([b"body"], ["it is gone"])
    assert reads.bytes_asked == 0
    # Twice, or of another process: nobody waits.
    reads.answer(first, b"body")
    reads.fail(99, "what")
    assert (ann.heard, ben.heard) == ([b"body"], ["it is gone"])


def test_a_node_hears_of_reads_that_it_never_wanted() -> None:
    name = NodeId("n1")
    node = Node(NodeSettings(name, Incarnation(1), {name: "n1:1"}, "n1:2"), Recovered.empty())
    node.begin_turn(1)
    node.on_read(7, b"rubbish")
    node.on_read_failed(8, "no such file")
    node.end_turn()
    assert node.out.fatal is None


@pytest.mark.parametrize("nonce", [None, 77])
@pytest.mark.parametrize("hit", [2, 13, 39])
def test_a_place_that_was_extended_is_taken_apart_part_by_part(hit: int, nonce: int | None) -> None:
    """Where a record's head cannot be read, its part is lost without marks, and no other one."""
    plan = SegmentPlan(nonce=nonce)
    data = b""
    parts: dict[int, int] = {}
    for position in range(1, 41):
        record = encode_enqueue(ONE, 1, position, NORTH, position, [message("x" * 9_000)])
        plan.append(ONE, record, True, position, position)
        for chunk in plan.take():
            data += chunk.data
            plan.on_synced(chunk.number)
    for position in range(1, 41):
        place = plan.locate(ONE, position)
        assert place is not None
        parts[position] = place.first
    first = plan.locate(ONE, 1)
    assert first is not None
    assert first.length <= STRETCH_BYTES
    stretch = extended(plan, ONE, first, 40, 1 << 20)
    assert stretch.last == 40
    spoilt = bytearray(data[stretch.offset : stretch.offset + stretch.length])
    # Each record begins behind the one before, and a mark where there are any.
    at = bytes(spoilt).index(encode_enqueue(ONE, 1, hit, NORTH, hit, [message("x" * 9_000)]))
    spoilt[at : at + 256] = bytes(256)
    found, reasons = messages_of(plan, ONE, stretch, bytes(spoilt), 1)
    assert reasons
    assert list(found) == sorted(found)
    gone = [p for p in parts if p >= hit and parts[p] == parts[hit]] if nonce is None else [hit]
    assert list(found) == [position for position in parts if position not in gone]
    # Those before a position are not wanted.
    assert list(messages_of(plan, ONE, stretch, bytes(spoilt), 30)[0]) == [
        position for position in range(30, 41) if position not in gone
    ]
