"""Which rows a read has, and in which parts: offsets of fragments, without any I/O.

Inputs: what the nodes say of a stream's fragments, what the options ask for, how far a query is.
Outputs: where reads begin and end, and spans, each of which is one partition of Spark; or an error
that says what is not there. Messages are counted by ranges: offsets jump where another node began
to lead a fragment.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from fedq.pipeline.failure import DataLossError, OptionError
from fedq.pipeline.options import At, Bound, Bounds, Edge, Since


@dataclass(frozen=True, slots=True)
class FragmentState:
    """What is there of a fragment, in offsets."""

    number: int
    #: The node that serves it.
    home: str
    #: The first offset that is there, and the one behind the last.
    first: int
    next: int
    #: From where to where messages go, both inclusive, ascending.
    ranges: tuple[tuple[int, int], ...]
    #: From where on messages came at a time or later, by the times that were asked for.
    since: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Span:
    """Rows of one fragment, from `begin` up to before `end`, and the node that serves them."""

    fragment: int
    begin: int
    end: int
    home: str


#: How far a read has come in each fragment: the offset of the next row.
Offsets: TypeAlias = dict[int, int]


def times_in(*bounds: Bounds) -> list[int]:
    """The times that somebody has to look up, each once."""
    found: dict[int, None] = {}
    for each in bounds:
        for bound in (each.default, *each.fragments.values()):
            if isinstance(bound, Since):
                found[bound.unix_ms] = None
    return list(found)


def starts(states: Sequence[FragmentState], bounds: Bounds, *, fails_on_loss: bool) -> Offsets:
    """Where a read begins; raises OptionError or DataLossError."""
    _check_numbers("startingOffsets", states, bounds)
    return {
        state.number: available(state, _offset(state, bounds.of(state.number)), fails_on_loss)
        for state in states
    }


def ends(states: Sequence[FragmentState], bounds: Bounds) -> Offsets:
    """Where a batch ends; raises OptionError."""
    _check_numbers("endingOffsets", states, bounds)
    found: Offsets = {}
    for state in states:
        end = _offset(state, bounds.of(state.number))
        if end > state.next:
            raise OptionError(
                f"endingOffsets: fragment {state.number} ends at {state.next} by now, not at {end}"
            )
        found[state.number] = end
    return found


def available(state: FragmentState, begin: int, fails_on_loss: bool) -> int:
    """Where a read that wants to begin there does begin; raises DataLossError if rows are gone."""
    if state.first <= begin <= state.next:
        return begin
    if begin < state.first:
        loss = f"offsets {begin} to {state.first - 1} of fragment {state.number} are gone"
        told = (
            "retention has passed them; with failOnDataLoss=false the read goes on from "
            f"{state.first}"
        )
    else:
        loss = f"fragment {state.number} ends at {state.next}, before offset {begin}"
        told = (
            "the stream seems to be another one of that name; with failOnDataLoss=false all of it "
            "is read"
        )
    if fails_on_loss:
        raise DataLossError(f"{loss}: {told}")
    return state.first


def spans(
    states: Sequence[FragmentState], begins: Offsets, through: Offsets, min_partitions: int
) -> list[Span]:
    """The parts of a read: one for each fragment that has rows, or more if that are too few."""
    wanted = [
        (state, begins[state.number], through[state.number])
        for state in states
        if state.number in through and begins[state.number] < through[state.number]
    ]
    counts = [count(state.ranges, begin, end) for state, begin, end in wanted]
    total = sum(counts)
    found: list[Span] = []
    for (state, begin, end), rows in zip(wanted, counts, strict=True):
        parts = 1
        if min_partitions > len(wanted) and total:
            parts = max(1, min(rows, round(min_partitions * rows / total)))
        cuts = [begin]
        cuts += [nth(state.ranges, begin, rows * part // parts) for part in range(1, parts)]
        cuts.append(end)
        found += [
            Span(state.number, low, high, state.home) for low, high in pairwise(cuts) if low < high
        ]
    return found


def limited(
    states: Sequence[FragmentState], begins: Offsets, through: Offsets, rows: int
) -> Offsets:
    """Where a batch of at most so many rows ends: each fragment by what it is behind."""
    counts = {
        state.number: count(state.ranges, begins[state.number], through[state.number])
        for state in states
    }
    total = sum(counts.values())
    if total <= rows:
        return dict(through)
    found: Offsets = {}
    left, behind = rows, total
    waiting = sum(1 for mine in counts.values() if mine)
    for state in states:
        mine = counts[state.number]
        waiting -= mine > 0
        # What rounding leaves goes to those that come later; nobody waits for ever for a first row.
        least = 1 if left > waiting else 0
        share = min(mine, max(least, left * mine // behind)) if behind else 0
        left, behind = left - share, behind - mine
        found[state.number] = nth(state.ranges, begins[state.number], share)
    return found


def count(ranges: Sequence[tuple[int, int]], begin: int, end: int) -> int:
    """How many offsets of the ranges are from `begin` up to before `end`."""
    return sum(max(0, min(last + 1, end) - max(first, begin)) for first, last in ranges)


def nth(ranges: Sequence[tuple[int, int]], begin: int, number: int) -> int:
    """The offset before which so many offsets of the ranges are, counted from `begin`."""
    if not number:
        return begin
    index = max(0, bisect_right(ranges, begin, key=_first) - 1)
    for first, last in ranges[index:]:
        low = max(first, begin)
        size = max(0, last + 1 - low)
        if number <= size:
            return low + number
        number -= size
    raise ValueError("so many offsets are not there")


def _offset(state: FragmentState, bound: Bound) -> int:
    match bound:
        case Edge.EARLIEST:
            return state.first
        case Edge.LATEST:
            return state.next
        case At():
            return bound.offset
        case Since():
            return state.since[bound.unix_ms]


def _check_numbers(option: str, states: Sequence[FragmentState], bounds: Bounds) -> None:
    numbers = {state.number for state in states}
    strange = sorted(number for number in bounds.fragments if number not in numbers)
    if strange:
        raise OptionError(
            f"{option}: there is no fragment {strange[0]}; the stream has {len(numbers)}, from 0 on"
        )


def _first(each: tuple[int, int]) -> int:
    return each[0]
