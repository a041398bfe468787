"""Reads under way: who waits for which."""

from fedq.core.ids import Incarnation, NodeId
from fedq.journal.recovered import Recovered
from fedq.node.node import Node
from fedq.node.outbox import NodeOut, ReadWanted
from fedq.node.records.reads import Reads
from fedq.node.settings import NodeSettings


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
