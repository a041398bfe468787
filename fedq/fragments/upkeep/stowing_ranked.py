"""Bodies of a queue with priorities that leave memory, and come back: a part of `stowing`.

Inputs: a fragment, up to which position the journal has its messages, what was read. Outputs: bytes
that are free. What is in memory is kept singly; what leaves it stands in an index of two bytes a
message (`fedq.fragments.runs.ranked`), the last ones in line first. What takers have stands among
what they have on disk alone, as of other queues. Of what is read that comes back to memory which
has the priority of the next one in line; of the rest the priority is learned, if it was not known.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from fedq.core.message import FLAG_PERSISTENT, FLAG_SEEN
from fedq.core.ranges import to_ranges
from fedq.fragments.fragment import Fragment
from fedq.fragments.runs.ranked import RankedFresh
from fedq.fragments.runs.ranked_pages import PAGE_SHIFT
from fedq.fragments.runs.runs import stowed_mix
from fedq.fragments.singly.holders import DEAD, DELAYED, RESERVED
from fedq.fragments.singly.tracked import TrackedMessages
from fedq.journal.records import NOTE_RETURNS

#: A page of the index that is not there yet is worth so much more than a run, as a shift.
_PAGE_SHIFT: Final = 2
#: So often it is tried with higher priorities.
_PASSES: Final = 8
#: What is out of the line and is looked at; what a message with a taker takes besides itself; and
#: what those take together at most when more is read while memory is full: fewer than these.
_LOOK_MAX: Final = 2_048
_MESSAGE: Final = 450
_BATCH_BYTES: Final = 2_000 * _MESSAGE
_NOBODY: Final = (DEAD, DELAYED, RESERVED)


def stow(fragment: Fragment, through: int, keep: int, most: int, least: int) -> int:
    """Lets go of bodies that the journal has up to a position; returns how many went.

    What takers have goes first. About `keep` bytes stay of what is next, and what was read ahead.
    `most`: about so many are looked at. `least`: the bytes of a run that goes.
    """
    tracked = fragment.tracked
    if tracked is None:
        return 0
    held = [p for p in _held(tracked, most) if p <= through and _persists(tracked, p)]
    gone = _let_go_held(fragment, tracked, held, least)
    last = _last(
        fragment, tracked, keep, most, least, lambda p: p <= through and _persists(tracked, p)
    )
    return gone + _let_go(fragment, tracked, last)


def for_scratch(
    fragment: Fragment, keep: int, size: int, most: int, any_kind: bool, least: int
) -> tuple[list[int], list[bytes]]:
    """The next messages that only memory has, with their positions: about so many bytes.

    What takers have first. Persistent ones are left out, unless it is `any_kind`.
    """
    tracked = fragment.tracked
    if tracked is None:
        return [], []
    held = [p for p in _held(tracked, most) if any_kind or not _persists(tracked, p)]
    positions = [p for first, last in _runs(tracked, held, least) for p in range(first, last + 1)]
    if not positions:
        positions = _last(
            fragment, tracked, keep, most, least, lambda p: any_kind or not _persists(tracked, p)
        )
    found: list[int] = []
    for position in positions:
        if size <= 0:
            break
        found.append(position)
        size -= len(tracked.messages[position])
    found.sort()
    return found, [tracked.messages[position] for position in found]


def let_go(fragment: Fragment, positions: Sequence[int]) -> None:
    """Lets go of what was written to a scratch file, as far as it is as it was."""
    tracked = fragment.tracked
    if tracked is None:
        return
    messages, unacked = tracked.messages, tracked.unacked
    here = [p for p in positions if messages.get(p)]
    held = [p for p in here if _is_with_a_taker(tracked, p)]
    _let_go_held(fragment, tracked, held, 1)
    _let_go(fragment, tracked, [p for p in here if p not in unacked and p in messages])


def fill(fragment: Fragment, fresh: RankedFresh, bodies: Mapping[int, bytes]) -> int:
    """Takes back what was read and is wanted now; returns its bytes."""
    if not fresh.stowed_count:
        return 0
    tracked = fragment.make_tracked()
    # internal: the queue has priorities.
    assert tracked.ranked is not None
    if fragment.policy.max_bytes is not None:
        fresh.note_heads(bodies.values())
    unknown = [p for p in bodies if fresh.pages.is_unknown(p)]
    fresh.learn({p: tracked.ranked.rank_of(bodies[p]) for p in unknown})
    coming = [p for p in bodies if fresh.comes_now(p)]
    size = 0
    for position in coming:
        message = bodies[position]
        share, persistent = fresh.come_back(position, len(message))
        fragment.bytes_held += len(message) - share
        size += len(message)
        tracked.adopt(position, message, None, persistent)
        returned = fragment.returned is not None and position in fragment.returned
        if returned or message[0] & FLAG_SEEN:
            tracked.redelivered.add(position)
    return size


def may_read(fragment: Fragment, is_memory_full: bool) -> bool:
    """Whether more may be read: not while memory is full, and consumers have much of it there.

    What they have of small messages between those of other priorities takes as much on disk alone.
    Whoever acknowledges in batches gets one, or would wait for it for ever.
    """
    tracked = fragment.tracked
    if not is_memory_full or tracked is None or not isinstance(fragment.fresh, RankedFresh):
        return True
    left, messages = _BATCH_BYTES, tracked.messages
    for position, holder in islice(tracked.unacked.items(), _LOOK_MAX):
        if holder not in _NOBODY:
            left -= len(messages[position]) + _MESSAGE
    return left >= 0


# --- which ones -----------------------------------------------------------------------------------


def _persists(tracked: TrackedMessages, position: int) -> bool:
    return tracked.messages[position][0] & FLAG_PERSISTENT != 0


def _is_with_a_taker(tracked: TrackedMessages, position: int) -> bool:
    """Whether a message is with a node, and not with a taker of the fragment's own."""
    holder = tracked.unacked.get(position)
    return holder is not None and holder not in _NOBODY


def _held(tracked: TrackedMessages, most: int) -> list[int]:
    """What takers have in memory, some of it, ascending."""
    unacked, messages = tracked.unacked, tracked.messages
    found = [p for p, holder in islice(unacked.items(), most) if holder not in _NOBODY]
    return sorted([p for p in found if messages[p]])


def _last(
    fragment: Fragment, tracked: TrackedMessages, keep: int, most: int, least: int,
    may_go: Callable[[int], bool],
) -> list[int]:  # fmt: skip
    """The last ones in line in memory that may go and are worth it, but for the first ones.

    About `keep` bytes of those stay. Where none of the lowest priorities is, as they stand far
    apart, higher ones are looked at: else these would stay in memory for those.
    """
    ranked, count = tracked.ranked, len(tracked.messages) - len(tracked.absent)
    if ranked is None or not count:
        return []
    each = max(fragment.bytes_in_memory // count, 1)
    stay = (keep + fragment.bytes_at_hand + each - 1) // each
    spare, above = tracked.ready_count - len(tracked.absent) - stay, -1
    for _ in range(_PASSES):
        amount = min(spare - ranked.count_through(above), most)
        if amount <= 0:
            return []
        last = ranked.last(amount, tracked.messages, tracked.unacked, above)
        last = [position for position in last if tracked.messages[position]]
        if not last:
            return []
        found = _worth_it(fragment, tracked, [p for p in last if may_go(p)], least)
        if found:
            return found
        above = ranked.rank_of(tracked.messages[last[-1]])
    return []


def _worth_it(
    fragment: Fragment, tracked: TrackedMessages, positions: Sequence[int], least: int
) -> list[int]:
    """The positions that have a page in the index, or enough bytes there to be worth one."""
    fresh, sizes = fragment.fresh, dict[int, int]()
    # internal: who calls has looked.
    assert isinstance(fresh, RankedFresh)
    for position in positions:
        number = position >> PAGE_SHIFT
        sizes[number] = sizes.get(number, 0) + len(tracked.messages[position])
    return [
        position
        for position in positions
        if sizes[position >> PAGE_SHIFT] >= least << _PAGE_SHIFT or fresh.pages.has_page(position)
    ]


def _runs(tracked: TrackedMessages, positions: Iterable[int], least: int) -> list[tuple[int, int]]:
    """Positions (ascending) side by side with one taker, if these messages have enough bytes."""
    found: list[tuple[int, int]] = []
    unacked, messages = tracked.unacked, tracked.messages
    for first, last in to_ranges(positions):
        begin = first
        for position in range(first, last + 1):
            if position < last and unacked[position + 1] == unacked[begin]:
                continue
            if sum([len(messages[each]) for each in range(begin, position + 1)]) >= least:
                found.append((begin, position))
            begin = position + 1
    return found


def _note_returned(fragment: Fragment, tracked: TrackedMessages, position: int) -> None:
    """Takes note beside the place of a message that it came back, if it did."""
    if position in tracked.redelivered or position in tracked.notes.get(NOTE_RETURNS, ()):
        fragment.note_returned(position, position)


# --- they go --------------------------------------------------------------------------------------


def _let_go(fragment: Fragment, tracked: TrackedMessages, positions: Iterable[int]) -> int:
    """Lets go of ready ones; returns how many."""
    fresh, ranked, gone = fragment.fresh, tracked.ranked, 0
    # internal: who calls has looked.
    assert isinstance(fresh, RankedFresh)
    assert ranked is not None
    for position in positions:
        _note_returned(fragment, tracked, position)
        message = tracked.leave_memory(position)
        persistent = message[0] & FLAG_PERSISTENT != 0
        fresh.leave_memory(position, persistent, ranked.rank_of(message), len(message))
        gone += 1
    return gone


def _let_go_held(
    fragment: Fragment, tracked: TrackedMessages, positions: Sequence[int], least: int
) -> int:
    """Lets go of what takers have, as far as it is worth a run; returns how many."""
    gone = 0
    for first, last in _runs(tracked, positions, least):
        holder, size = tracked.unacked[first], 0
        kinds = bytearray()
        for position in range(first, last + 1):
            _note_returned(fragment, tracked, position)
            message = tracked.leave_memory(position)
            kinds.append(1 if message[0] & FLAG_PERSISTENT else 0)
            size += len(message)
        fragment.hold_unread(stowed_mix(first, bytes(kinds), size), holder)
        gone += last - first + 1
    return gone
