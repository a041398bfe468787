"""Notes in memory: by kind, by position, a number. The one way to take and to forget them.

Inputs: notes as records bring them, positions that are gone. Invariants: notes speak of live
messages only; there is no note of 0 and no kind without notes, so equal notes are equal dicts.
"""

from collections.abc import Container, Iterable, Mapping
from typing import TypeAlias

#: Kind (`fedq.journal.records.NOTES`) -> position -> value.
Notes: TypeAlias = dict[int, dict[int, int]]


def take_notes(
    notes: Notes, what: int, values: Mapping[int, int], live: Container[int]
) -> list[int]:
    """Takes newer notes for older ones; 0 takes one away. Returns the `live` ones concerned."""
    concerned = [position for position in values if position in live]
    if not concerned:
        return concerned
    table = notes.setdefault(what, {})
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
        for position in gone:
            table.pop(position, None)
        if not table:
            del notes[what]
