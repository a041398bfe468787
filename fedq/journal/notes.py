"""Notes in memory: by kind, by position, a number. The one way to take and to forget them.

Inputs: notes as records bring them, positions that are gone. Invariants: notes speak of live
messages only; there is no note of 0 and no kind without notes, so equal notes are equal mappings.
Times of messages go by steps (`fedq.journal.steps`): there may be one for each of very many.
"""

from collections.abc import Container, Iterable, Mapping, MutableMapping, Sequence
from typing import TypeAlias

from fedq.core.ranges import Range, within
from fedq.journal.records import NOTE_EXPIRES
from fedq.journal.steps import Steps, forget_within

#: Kind (`fedq.journal.records.NOTES`) -> position -> value.
Notes: TypeAlias = dict[int, MutableMapping[int, int]]


def table_of(notes: Notes, what: int) -> MutableMapping[int, int]:
    """The table of one kind, made if there is none."""
    table = notes.get(what)
    if table is None:
        table = notes[what] = Steps() if what == NOTE_EXPIRES else {}
    return table


def copy_of(notes: Mapping[int, Mapping[int, int]]) -> Notes:
    """Copies notes into tables of their own."""
    return {
        what: Steps(values) if what == NOTE_EXPIRES else dict(values)
        for what, values in notes.items()
        if values
    }


def take_notes(
    notes: Notes, what: int, values: Mapping[int, int], live: Container[int]
) -> list[int]:
    """Takes newer notes for older ones; 0 takes one away. Returns the `live` ones concerned."""
    concerned = [position for position in values if position in live]
    if not concerned:
        return concerned
    table = table_of(notes, what)
    for position in concerned:
        if value := values[position]:
            table[position] = value
        else:
            table.pop(position, None)
    if not table:
        del notes[what]
    return concerned


def forget_notes(notes: Notes, positions: Iterable[int]) -> None:
    """Forgets the notes of messages that are gone."""
    if not notes:
        return
    gone = list(positions)
    for what, table in list(notes.items()):
        forget_within(table, gone)
        if not table:
            del notes[what]


def forget_between(notes: Notes, ranges: Sequence[Range]) -> None:
    """Forgets all notes about positions in the ranges, however many these are."""
    for what, table in list(notes.items()):
        if isinstance(table, Steps):
            for first, last in ranges:
                table.forget(first, last)
        else:
            forget_within(table, within(ranges, table))
        if not table:
            del notes[what]
