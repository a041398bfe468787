"""What is alive and persistent in a fragment, or in a copy, found piece by piece while it changes.

Inputs: a fragment, a backup's copy, or one from a disk; between which positions to look. Outputs:
ascending ranges of positions, with what is known of them. Each was alive when it was found.
Invariant: what is alive from the first piece to the last is found, however it moves between.
Messages go from the line to takers, and from there to those that are kept singly; so those are
looked at in this order, and the records of a copy before what was read of them. Some go back to the
line: these are known as such for good (`returned`), and are looked at again wherever they are.
Those with priorities go everywhere: they are looked at by position, wherever they are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, is_in, join_ranges, overlaps, to_ranges, within
from fedq.fragments.copy.batch import Batch
from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.fragments.runs.ranked import RankedFresh
from fedq.fragments.runs.ranked_pages import PAGE, PAGE_SHIFT
from fedq.fragments.runs.runs import ON_DISK, Run
from fedq.fragments.runs.stowed import StowedRanges, Stretch
from fedq.journal.records import NOTE_CAME, NOTE_EXPIRES, NOTE_RETURNS

#: Messages kept singly that are looked at in one piece.
PIECE: Final = 1_024
Notes: TypeAlias = Mapping[int, Mapping[int, int]]
#: Ascending ranges of positions between which to look.
Spans: TypeAlias = Sequence[Range]
EVERYWHERE: Final[Spans] = ((0, 1 << 64),)
NONE_ABSENT: Final[Mapping[int, bool]] = {}


class Found(NamedTuple):
    """What a piece has found; `looked_at`: how many messages it looked at."""

    ranges: list[Range]
    looked_at: int
    #: The message at a position: no bytes (`ON_DISK`) for one that is on disk alone.
    body: Callable[[int], bytes | None]
    #: By kind, by position.
    notes: dict[int, dict[int, int]]


def in_fragment(fragment: Fragment, spans: Spans = EVERYWHERE) -> Iterator[Found]:
    """What is alive in a fragment that this node serves."""
    if isinstance(fragment.fresh, RankedFresh):
        yield from _by_pages(fragment, fragment.fresh, spans)
        return
    returns = fragment.fresh.returns
    for after in (
        lambda position: fragment.messages.fresh_after(position),
        lambda position: fragment.messages.held_after(position),
    ):
        for first, last in spans:
            yield from _in_runs(after, first, last, fragment)
    tracked = fragment.tracked
    if tracked is not None:
        yield from in_singles(lambda: tracked.messages, tracked.notes, spans, tracked.absent)
    if fragment.fresh.returns != returns:
        for first, last in spans:
            yield from _returned(fragment, first, last)


def _by_pages(fragment: Fragment, fresh: RankedFresh, spans: Spans) -> Iterator[Found]:
    """What is alive of messages with priorities, which move in all directions: page by page.

    All of a page in one piece, wherever it is by then: it stays at its position.
    """
    tracked, held = fragment.make_tracked(), fragment.in_flight
    numbers = dict.fromkeys(fresh.pages.numbers())
    numbers.update(dict.fromkeys([position >> PAGE_SHIFT for position in tracked.messages]))
    for low, high in held.ranges() if held is not None else ():
        numbers.update(dict.fromkeys(range(low >> PAGE_SHIFT, (high >> PAGE_SHIFT) + 1)))
    for number in sorted(numbers):
        first, last = number << PAGE_SHIFT, ((number + 1) << PAGE_SHIFT) - 1
        if not any(low <= last and first <= high for low, high in spans):
            continue
        piece = fresh.pages.persistent_within(number)
        here = tracked.messages.keys() & range(first, last + 1)
        piece += [position for position in here if tracked.is_persistent(position)]
        ranges = join_ranges([*to_ranges(sorted(piece)), *_held_within(fragment, first, last)])
        ranges = overlaps(ranges, spans)
        yield Found(ranges, PAGE, fragment.messages.get, _about_ranges(fragment.notes, ranges))


def _held_within(fragment: Fragment, first: int, last: int) -> list[Range]:
    """The positions between two of persistent messages in runs that takers have."""
    found: list[Range] = []
    position = first - 1
    while (run := fragment.messages.held_after(position)) is not None and run.first <= last:
        found += _within(run.persistent_ranges(), first, last)
        position = run.last
    return found


def _returned(fragment: Fragment, first: int, last: int) -> Iterator[Found]:
    """What has come back to the line, wherever it is by now: each position in its turn."""
    position = first - 1
    while fragment.returned is not None:
        stretch = fragment.returned.after(position)
        if stretch is None or stretch[0] > last:
            break
        position = min(stretch[1], last, stretch[0] + PIECE - 1)
        positions = range(stretch[0], position + 1)
        piece = [each for each in positions if fragment.is_persistent(each)]
        notes = _about(fragment.notes, piece)
        yield Found(to_ranges(piece), len(positions), fragment.messages.get, notes)


def in_replica(replica: Replica, spans: Spans = EVERYWHERE) -> Iterator[Found]:
    """What is alive in a backup's copy."""
    for batch in replica.batches():
        ranges = [
            each
            for first, last in spans
            if first <= batch.outline.last_position and batch.first <= last
            for each in _within(batch.persistent_ranges(), first, last)
        ]
        times = _about_ranges({NOTE_CAME: replica.came}, ranges) if replica.came else {}
        yield Found(ranges, batch.left, _reading(batch), times)
    notes = replica.known_notes
    yield from in_singles(lambda: replica.singles, notes, spans)
    # At last: whatever was in memory may have gone there meanwhile, and none comes back.
    yield from _in_stowed(replica.stowed, replica.known_notes, spans)


def in_recovered(
    messages: Mapping[int, bytes], stowed: Iterable[Stretch], notes: Notes,
    spans: Spans = EVERYWHERE,
) -> Iterator[Found]:  # fmt: skip
    """What is alive in a copy that was read from the disk, which does not change."""
    yield from in_singles(lambda: messages, notes, spans)
    yield from _in_stowed(StowedRanges(stowed), notes, spans)


def _in_stowed(stowed: StowedRanges, notes: Notes, spans: Spans) -> Iterator[Found]:
    """What is on disk alone, as it is by then."""
    most = PIECE if NOTE_EXPIRES in notes else 1 << 64
    for first, last in spans:
        position = first - 1
        while (found := stowed.after(position, PIECE)) is not None and found[0][0] <= last:
            (start, stop), looked_at = found
            position = min(stop, last, start + most - 1)
            ranges = [(start, position)]
            noted = _about_ranges(notes, ranges)
            yield Found(ranges, looked_at + sum(map(len, noted.values())), _on_disk, noted)


def _on_disk(position: int) -> bytes | None:
    return ON_DISK


def _about_ranges(notes: Notes, ranges: list[Range]) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for what, table in notes.items():
        values = {position: table[position] for position in within(ranges, table)}
        if values:
            found[what] = values
    return found


def _reading(batch: Batch) -> Callable[[int], bytes | None]:
    """The messages of a batch, which is taken apart if one of them is asked for."""
    messages: dict[int, bytes] = {}

    def body(position: int) -> bytes | None:
        if not messages:
            messages.update(batch.read())
        return messages.get(position)

    return body


def in_singles(
    singles: Callable[[], Mapping[int, bytes]], notes: Notes, spans: Spans = EVERYWHERE,
    absent: Mapping[int, bool] = NONE_ABSENT,
) -> Iterator[Found]:  # fmt: skip
    """What is alive among messages by position; `singles` gives them as they are by then.

    `absent`: whether those are persistent that are on disk alone.
    """
    positions = list(singles())
    for start in range(0, len(positions), PIECE):
        messages = singles()
        looked_at = positions[start : start + PIECE]
        piece = sorted(
            position
            for position in looked_at
            if (message := messages.get(position)) is not None
            and (message[0] & FLAG_PERSISTENT if message else absent.get(position, True))
            and (spans is EVERYWHERE or is_in(spans, position))
        )
        yield Found(to_ranges(piece), len(looked_at), messages.get, _about(notes, piece))


def _about(notes: Notes, positions: Iterable[int]) -> dict[int, dict[int, int]]:
    found: dict[int, dict[int, int]] = {}
    for what, table in notes.items():
        values = {position: table[position] for position in positions if position in table}
        if values:
            found[what] = values
    return found


def _in_runs(
    after: Callable[[int], Run | None], first: int, last: int, fragment: Fragment
) -> Iterator[Found]:
    """What is alive in runs; `after` gives the first one that has messages beyond a position.

    Nothing is noted of these, but when they expire, how often they came back, or when messages of a
    stream came.
    """
    position = first - 1
    while (run := after(position)) is not None and run.first <= last:
        notes = _notes_of_runs(fragment)
        end, looked_at = run.last, len(run.messages) or 1
        if run.stowed and notes and fragment.log is None:
            end, looked_at = min(end, max(run.first, position + 1) + PIECE - 1), PIECE
        ranges = _within(run.persistent_ranges(), position + 1, min(end, last))
        position = end
        yield Found(ranges, looked_at, run.get, _about_ranges(notes, ranges) if notes else {})


def _notes_of_runs(fragment: Fragment) -> Notes:
    """What may be noted of messages in runs."""
    if fragment.log is not None:
        return fragment.notes
    if fragment.tracked is None:
        return {}
    notes = fragment.tracked.notes
    return {what: notes[what] for what in (NOTE_EXPIRES, NOTE_RETURNS) if notes.get(what)}


def _within(ranges: list[Range], first: int, last: int) -> list[Range]:
    """The part of ascending ranges that is between two positions."""
    if not ranges or (first <= ranges[0][0] and ranges[-1][1] <= last):
        return ranges
    return [(max(a, first), min(b, last)) for a, b in ranges if a <= last and b >= first]
