"""A record that this release fails at does not keep a node from starting.

It is out of the way, to the byte, and all others are what they would be had it never been written.
"""

import struct

import pytest

from fedq.core.errors import NodeFailure
from fedq.journal import recovery
from fedq.journal.checkpoints import newest_checkpoint
from fedq.journal.events import (
    FORGOTTEN,
    SOME,
    Copy,
    Drop,
    Enqueue,
    Group,
    Keep,
    Note,
    PublisherMark,
    Publishers,
    Record,
    Reset,
    Settle,
)
from fedq.journal.folding import apply_whole
from fedq.journal.marks import Mark, encode_mark
from fedq.journal.reader import read
from fedq.journal.records import NOTE_DEAD, NOTE_EXPIRES
from fedq.journal.recovered import Recovered
from fedq.journal.recovery import CorruptJournal, mended, recover, salvage
from fedq.journal.segments import Segment
from tests.unit.journal.samples import NORTH, ONE, SOUTH, TWO, bodies, encode_all
from tests.unit.journal.test_records import framed
from tests.unit.node.injection import Injected, Injector
from tests.unit.node.uncompiled import only_uncompiled

#: An enqueue of no messages, of position 77 in fragment 1: its checksum holds.
ODD = framed(struct.pack(">BBqQQBQQIB", 1, 1, ONE, 1, 77, 0, 1, 1, 0, 0))

JOURNAL = (recovery.__file__.rsplit("/", 1)[0],)

RECORDS: list[Record] = [
    Enqueue(TWO, 1, 1, NORTH, 1, False, bodies("other")),
    Enqueue(ONE, 1, 1, NORTH, 1, False, bodies("a", "b", "c")),
    Note(ONE, 1, 4, NOTE_EXPIRES, {1: 9, 2: 9}),
    Group(
        ONE, 1,
        [
            Enqueue(ONE, 1, 5, NORTH, 4, False, bodies("d", "e")),
            Settle(ONE, 1, 7, [(1, 1), (5, 5)]),
            Note(ONE, 1, 8, NOTE_DEAD, {2: 1, 6: 1}),
        ],
    ),
    Reset(TWO, 2, 20),
    Copy(TWO, 2, [10, 8], bodies("y", "x"), {SOUTH: 3}),
    Copy(TWO, 2, [], [], {}),
    Settle(ONE, 1, 9, [(2, 2)]),
    Keep(ONE, 2, 30, [(3, 3)]),
    Enqueue(ONE, 2, 31, SOUTH, 1, False, bodies("f")),
    Group(
        ONE, 2,
        [
            Enqueue(ONE, 2, 32, SOUTH, 2, False, bodies("g")),
            Publishers(ONE, 2, 32, SOME, {"p": PublisherMark(9)}),
        ],
    ),
    Drop(TWO, 0),
]  # fmt: skip


def _content(recovered: Recovered) -> object:
    return [
        (
            number,
            each.messages,
            each.last,
            each.reign,
            each.origins,
            each.notes,
            each.publishers,
            each.publishers_ahead,
        )
        for number, each in sorted(recovered.fragments.items())
    ]


def test_a_record_that_contradicts_itself_is_out_of_the_way() -> None:
    """Before, the node did not start with it, however often it was tried."""
    first, second = (
        encode_all([Enqueue(ONE, 1, number, NORTH, number, False, bodies("m"))])
        for number in (1, 2)
    )
    whole = first + ODD + second
    salvaged = salvage({1: whole})
    (damage,) = salvaged.damages
    assert (damage.first, damage.stop) == (len(first), len(first) + len(ODD))
    assert "fragment 1, position 77: its content contradicts itself" in damage.reason
    assert list(salvaged.fragments[ONE].messages) == [1, 2]
    assert not salvaged.fragments[ONE].whole
    assert salvaged.segments[0].size == len(first + second)
    again = recover({1: mended(whole, salvaged.damages)})
    assert _content(again) == _content(salvaged)


def test_who_has_no_other_copy_is_told_which_record_it_is() -> None:
    with pytest.raises(CorruptJournal, match=r"fragment 1, position 77.*accept-loss") as caught:
        recover({3: ODD})
    assert isinstance(caught.value, NodeFailure)


#: What is done once, not for a record.
AROUND = ("salvage", "_fold_segment", "sort_messages", "Recovered.__init__",
          "Segment.__init__", "InMemory.", "Places.", "Entries.", "_places", "_without",
          "find_bodies", "_forget_absent")  # fmt: skip


@only_uncompiled
@pytest.mark.parametrize("records", [RECORDS, RECORDS[:4], RECORDS[:8]])
def test_an_exception_at_any_call_takes_one_record_and_changes_nothing_else(
    records: list[Record],
) -> None:
    data = encode_mark(Mark(7, 1, 0)) + encode_all(records)
    places = {(offset, offset + size) for offset, size, _ in read(data)}
    counted = Injector(places=JOURNAL)
    with counted.watching():
        salvage({1: data})
    # What fails in the search for a checkpoint fails the start, and has changed nothing.
    searching = Injector(places=JOURNAL)
    with searching.watching():
        newest_checkpoint({1: data})
    taken: set[tuple[int, int]] = set()
    for at in range(searching.calls + 2, counted.calls + 1):
        injector = Injector(at, JOURNAL)
        try:
            with injector.watching():
                salvaged = salvage({1: data})
        except Injected:
            assert any(name in injector.place for name in AROUND), injector.place
            continue
        if not salvaged.damages:
            assert injector.place == "", injector.place
            continue
        (damage,) = salvaged.damages
        assert (damage.first, damage.stop) in places, injector.place
        taken.add((damage.first, damage.stop))
        assert "Injected: " in damage.reason
        expected = recover({1: mended(data, [damage])})
        assert _content(salvaged) == _content(expected), injector.place
    assert taken == places


def test_a_record_of_a_newer_release_is_left_to_that_one() -> None:
    """Whether it is known by its kind, by a note, or within a transaction."""
    note = struct.pack(">BBqQQBIQQ", 1, 7, ONE, 1, 9, 7, 1, 1, 1)
    group = struct.pack(">BBqQ", 1, 8, ONE, 1) + framed(note)
    for body in (note, group, struct.pack(">BBqQ", 1, 99, ONE, 0)):
        with pytest.raises(CorruptJournal, match="run a newer version"):
            salvage({1: framed(body)})


def _named(position: int, *records: Record) -> Group:
    """A message of a publisher with a name, and what is said with it."""
    marks = {f"n{position % 900}": PublisherMark(position)}
    said = Publishers(ONE, 1, position, SOME, marks)
    message = Enqueue(ONE, 1, position, NORTH, position, False, bodies("m"))
    return Group(ONE, 1, [message, said, *records])  # type: ignore[list-item]


def test_tables_of_publishers_are_not_copied_for_each_record() -> None:
    """Before, each record copied the table: a journal of a million took a minute longer."""
    recovered, segment = Recovered(), Segment(1)
    for position in range(1, 1_001):
        apply_whole(recovered, segment, _named(position))
    fragment = recovered.fragments[ONE]
    table = fragment.publishers
    apply_whole(recovered, segment, _named(1_001))
    apply_whole(recovered, segment, Publishers(ONE, 1, 1_001, SOME, {"n5": FORGOTTEN}))
    assert fragment.publishers is table
    assert len(table) == 899
    assert next(reversed(table)) == "n101"


@pytest.mark.parametrize("last", [Settle(ONE, 1, 9, [(1, 1)]), Keep(ONE, 1, 9, [(1, 1)])])
def test_a_group_that_fails_leaves_what_was_known_of_publishers(
    last: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovered, segment = Recovered(), Segment(1)
    for position in range(1, 6):
        apply_whole(recovered, segment, _named(position))
    before = [*recovered.fragments[ONE].publishers.items()]

    def fail(*_: object) -> None:
        raise Injected

    monkeypatch.setattr("fedq.journal.folding._remove", fail)
    with pytest.raises(Injected):
        apply_whole(recovered, segment, _named(6, last))
    assert [*recovered.fragments[ONE].publishers.items()] == before
    assert recovered.fragments[ONE].last == 5
    monkeypatch.undo()
    apply_whole(recovered, segment, _named(6, last))
    found = recovered.fragments[ONE]
    # Of a copy that begins with it, what its primary has taken is heard anew.
    assert [*found.publishers] == [*dict(before), "n6"]
    assert found.whole == (not isinstance(last, Keep))
