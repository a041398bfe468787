"""A place that is read in pieces, with any bad sectors, against the bytes that a disk can read."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import Incarnation, NodeId
from fedq.journal.places import Place
from fedq.journal.recovered import Recovered
from fedq.node.node import Node
from fedq.node.records.pieces import FAILURES_MAX, ask_in_pieces
from fedq.node.settings import NodeSettings

SECTOR = 16
NAME = NodeId("n1")


class Waiting:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes]] = []

    def on_read(self, data: bytes) -> None:
        self.heard.append(("whole", data))

    def on_read_in_part(self, data: bytes, reason: str) -> None:
        assert reason == "input/output error"
        self.heard.append(("part", data))

    def on_read_failed(self, reason: str) -> None:
        assert reason == "input/output error"
        self.heard.append(("nothing", b""))


def node() -> Node:
    settings = NodeSettings(
        NAME, Incarnation(1), {NAME: "n1:1"}, "n1:2", sector_bytes=SECTOR, scrub_bytes_per_second=0
    )
    return Node(settings, Recovered.empty())


def read(offset: int, length: int, bad: set[int]) -> tuple[str, bytes, list[int]]:
    """What is heard of a place on a disk with these bad sectors, and the bytes of each read."""
    machine, waiting, sizes = node(), Waiting(), []
    disk = (bytes(range(1, 256)) * (1 + (offset + length) // 255))[: offset + length]
    machine.begin_turn(1)
    ask_in_pieces(machine.state, Place(3, offset, length, 1, 9), waiting)
    out = machine.state.out
    while out.reads:
        # One piece is under way at a time.
        [wanted] = out.reads
        out.reads = []
        sizes.append(wanted.length)
        assert machine.state.reads.bytes_kept == (length if len(sizes) > 1 else 0)
        end = wanted.offset + wanted.length
        if bad & set(range(wanted.offset // SECTOR, (end - 1) // SECTOR + 1)):
            machine.on_read_failed(wanted.number, "input/output error")
        else:
            machine.on_read(wanted.number, disk[wanted.offset : end])
    assert machine.state.reads.bytes_kept == machine.state.reads.bytes_asked == 0
    [(kind, data)] = waiting.heard
    for at, byte in enumerate(data, offset):
        assert byte in (0, disk[at])
    return kind, data, sizes


@given(st.integers(0, 100), st.integers(1, 256), st.sets(st.integers(0, 22)))
def test_all_is_read_but_bad_sectors(offset: int, length: int, bad: set[int]) -> None:
    kind, data, sizes = read(offset, length, bad)
    sectors = [(offset + at) // SECTOR for at in range(length)]
    good = [sector not in bad for sector in sectors]
    if all(good):
        assert kind == "whole"
    elif any(good):
        assert kind == "part"
    else:
        assert kind == "nothing"
    if any(good):
        assert [byte > 0 for byte in data] == good
    # A sector costs two reads for each halving; these are not exact, since sectors are whole.
    halvings = len(set(sectors)).bit_length() + 1
    assert len(sizes) <= 1 + 2 * len(bad) * halvings


@given(st.integers(0, SECTOR << 8), st.sets(st.integers(0, 1 << 9), min_size=1, max_size=2))
def test_few_bad_sectors_of_many_cost_few_reads(offset: int, bad: set[int]) -> None:
    length = SECTOR << 8
    kind, data, sizes = read(offset, length, bad)
    assert kind == ("part" if 0 in data else "whole")
    assert data.count(0) <= SECTOR * len(bad)
    assert len(sizes) <= 1 + 2 * 10 * len(bad)


def test_a_disk_that_is_gone_costs_a_bounded_number_of_reads() -> None:
    kind, _, sizes = read(0, SECTOR << 8, set(range(1 << 8)))
    assert kind == "nothing"
    assert len(sizes) <= 2 * FAILURES_MAX
