"""Events that backups are spared: what is committed without them, and who may join all the same."""

from typing import NamedTuple

from fedq.core.ids import FragmentId, NodeId
from fedq.core.peer_messages import Replicate
from fedq.core.work import Work
from fedq.replication.primary import PrimaryReplication
from tests.unit.replication.held import Held

ONE = FragmentId(1)
BEN, CAT = NodeId("ben"), NodeId("cat")


class Record(NamedTuple):
    """What a primary has done; without data, nobody else is told."""

    last: int
    data: bytes


class Primary:
    """A primary whose own disk has everything at once, and its backups."""

    def __init__(self, *backups: NodeId, in_sync: tuple[NodeId, ...] | None = None) -> None:
        self.replication = PrimaryReplication(ONE, 1, 100, sparing=True)
        counted = backups if in_sync is None else in_sync
        self.replication.set_copies(backups, counted, 1, 100, True, 0)
        self.replication.on_local(100)
        self.last = 100

    def does(self, told: str) -> int:
        """One event for each letter: "P" is told to backups, "t" is not; what is committed then."""
        records = []
        for letter in told:
            self.last += 1
            records.append(Record(self.last, b"P" if letter == "P" else b""))
        self.replication.on_records(records, 0)
        self.replication.on_local(self.last)
        return self.commit

    def hears(self, event: int, node: NodeId = BEN) -> int:
        """A backup acknowledges; what is committed then."""
        self.replication.on_ack(node, event, 0, 0)
        return self.commit

    def joins(self, node: NodeId) -> None:
        """A backup begins, and has everything."""
        self.replication.on_offer(node, 1, [], [], {}, {}, self.last, 0)
        self.replication.pump_copies(Held(), {}, 0, Work(1_000))
        self.replication.on_ack(node, self.last, 1, 0)

    @property
    def commit(self) -> int:
        """What is committed."""
        return self.replication.commit

    def sent(self, node: NodeId = BEN) -> list[tuple[int, int, bytes]]:
        """(previous, last, data) of what a backup was sent since the last look."""
        sends = self.replication.sends.pop(node, [])
        return [(m.previous, m.last, m.records) for m in sends if isinstance(m, Replicate)]


def test_what_backups_are_spared_waits_for_none_of_them() -> None:
    made = Primary(BEN, CAT)
    assert made.does("ttt") == 103
    assert made.sent() == []
    assert made.replication.settled, "they owe nothing"
    assert made.replication.stalled(1_000_000, 1) == []


def test_it_waits_for_what_was_told_before_it() -> None:
    made = Primary(BEN, CAT)
    assert made.does("tPt") == 101
    assert made.does("t") == 101
    assert made.sent() == [(100, 102, b"P")]
    assert made.hears(102) == 101, "the other one has it not"
    assert made.hears(102, CAT) == 104


def test_what_is_sent_joins_on_whatever_lies_between() -> None:
    made = Primary(BEN)
    made.does("PtPt")
    made.does("tt")
    made.does("tP")
    assert made.sent() == [(100, 103, b"PP"), (103, 108, b"P")]
    assert made.hears(103) == 107
    assert made.hears(108) == 108


def test_an_acknowledgement_between_two_reaches_to_the_next_one_told() -> None:
    made = Primary(BEN)
    made.does("P")
    made.does("tt")
    made.does("P")
    made.does("ttt")
    assert made.hears(101) == 103
    assert made.hears(104) == 107


def test_the_own_disk_counts_for_everything() -> None:
    made = Primary(BEN)
    replication = made.replication
    replication.on_records([Record(101, b"P"), Record(102, b""), Record(103, b"")], 0)
    replication.on_local(100)
    assert made.hears(101) == 100
    replication.on_local(102)
    assert made.commit == 102


def test_a_copy_that_is_told_nothing_any_more_may_join() -> None:
    """It has acknowledged less than what is committed, and lacks nothing."""
    made = Primary(BEN, CAT, in_sync=(BEN,))
    made.joins(CAT)
    made.does("t")
    assert made.does("tt") == 103
    assert made.replication.may_join() == [CAT]


def test_a_copy_that_lacks_something_may_not() -> None:
    made = Primary(BEN, CAT, in_sync=(BEN,))
    made.joins(CAT)
    made.replication.awaited.clear()
    made.does("tPt")
    assert made.hears(102) == 103
    assert made.replication.may_join() == []
    made.hears(102, CAT)
    assert made.replication.may_join() == [CAT]


def test_what_nobody_was_told_before_there_were_backups_is_no_silence() -> None:
    made = Primary()
    replication = made.replication
    # Without backups nothing is noted, whatever happens.
    made.last = 110
    replication.on_local(110)
    replication.set_copies([BEN], [], 2, 110, False, 0)
    made.joins(BEN)
    replication.propose_joining(BEN)
    assert made.does("t") == 111
    assert made.does("P") == 111
    assert made.sent() == [(110, 112, b"P")]


def test_what_is_noted_does_not_grow_with_what_is_spared() -> None:
    made = Primary(BEN)
    for number in range(1, 1_001):
        made.does("tP")
        made.hears(100 + 2 * number)
        made.does("")
    assert len(made.replication._silences) <= 2
    assert made.commit == made.last
