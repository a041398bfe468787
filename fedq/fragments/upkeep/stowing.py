"""Bodies of a long line that leave memory, and come back: what is *stowed* is on disk alone.

Inputs: a fragment, up to which position the journal has its messages, what was read from there or
from scratch files. Outputs: bytes that are free, positions that are wanted next. Persistent
messages of a durable queue stand in the journal anyhow; all others are written to scratch files
first (`fedq.node.copies.scratching`). What a policy asks of each is kept beside its place; where
messages have priorities, these are (`fedq.fragments.upkeep.stowing_ranked`), unless the queue's
length is limited in bytes: then all stay. The beginning of the line stays in memory, so that who
takes does not wait; of a stream, its end. What takers have is wanted again only if it comes back.
"""

from collections.abc import Mapping, Sequence

from fedq.core.message import FLAG_SEEN
from fedq.core.ranges import Range
from fedq.fragments.fragment import Fragment
from fedq.fragments.primary.losses import UNREADABLE
from fedq.fragments.runs.beginnings import SINGLE
from fedq.fragments.runs.in_flight import RUN_BYTES_MIN
from fedq.fragments.runs.moves import Going
from fedq.fragments.runs.ranked import RankedFresh
from fedq.fragments.upkeep import stowing_ranked


def may_stow(fragment: Fragment) -> bool:
    """Whether bodies of its messages may be on disk alone; of a stream, what the journal has."""
    goes = not fragment.singly or _is_ranked(fragment)
    return goes and (fragment.log is None or fragment.recorder.durable)


def may_scratch(fragment: Fragment) -> bool:
    """Whether those bodies may go to scratch files that the journal does not have."""
    return (not fragment.singly and fragment.log is None) or _is_ranked(fragment)


def _is_ranked(fragment: Fragment) -> bool:
    """Whether bodies of messages with priorities go: not where a policy asks for their sizes."""
    return isinstance(fragment.fresh, RankedFresh) and fragment.policy.max_bytes is None


def stow(
    fragment: Fragment, through: int, keep: int, beyond: int, most: int, least: int = RUN_BYTES_MIN
) -> int:
    """Lets go of bodies that the journal has up to a position; returns how many went.

    What takers have goes first, of runs of so many bytes at `least`. Of the line about `keep` bytes
    stay, and all up to `beyond`.
    """
    if isinstance(fragment.fresh, RankedFresh):
        return stowing_ranked.stow(fragment, through, keep, most, least)
    held = fragment.in_flight
    gone = held.stow(through, most, least) if held is not None else 0
    if gone >= most:
        return gone
    before = fragment.fresh.stowed_count
    fragment.fresh.stow(through, keep, beyond, most - gone)
    return gone + fragment.fresh.stowed_count - before


def for_scratch(
    fragment: Fragment, keep: int, after: int, size: int, most: int, any_kind: bool, through: int,
    least: int,
) -> tuple[list[int], list[bytes]]:  # fmt: skip
    """The next messages that only memory has, with their positions: about so many bytes.

    What takers have first; see `InFlight.beyond` and `Fresh.beyond`.
    """
    if isinstance(fragment.fresh, RankedFresh):
        return stowing_ranked.for_scratch(fragment, keep, size, most, any_kind, least)
    held = fragment.in_flight
    found = held.beyond(size, most, any_kind, through, least) if held is not None else ([], [])
    return found if found[0] else fragment.fresh.beyond(keep, after, size, most, any_kind, through)


def let_go(
    fragment: Fragment, positions: Sequence[int], keep: int, beyond: int, through: int
) -> None:
    """Lets go of what was written to a scratch file, as far as it is as it was."""
    if isinstance(fragment.fresh, RankedFresh):
        if _is_ranked(fragment):
            stowing_ranked.let_go(fragment, positions)
        return
    if fragment.in_flight is not None:
        fragment.in_flight.let_go(positions, through)
    fragment.fresh.let_go(positions, keep, beyond, through)


def is_partly_on_disk(fragment: Fragment) -> bool:
    """Whether any message is on disk alone, in the line, with a taker, or kept singly."""
    return fragment.stowed_count > 0 or waits_for_disk(fragment)


def is_over(fragment: Fragment, position: int, unix_ms: int) -> bool:
    """Whether a message's time is over."""
    tracked = fragment.tracked
    when = tracked.expiring.times.get(position) if tracked is not None else None
    return when is not None and when <= unix_ms


def waits_for_disk(fragment: Fragment) -> bool:
    """Whether messages of it are on disk alone, and have to come back; those of a stream stay."""
    if fragment.fresh.stowed_count and fragment.log is None:
        return True
    return fragment.tracked is not None and len(fragment.tracked.absent) > 0


def is_in_journal(fragment: Fragment, position: int) -> bool:
    """Whether a message that is on disk alone is in the journal, and not in a scratch file."""
    if not fragment.recorder.durable:
        return False
    tracked = fragment.tracked
    if tracked is not None and position in tracked.absent:
        return tracked.absent[position]
    held = fragment.in_flight
    is_held = held is not None and held.is_persistent(position)
    return is_held or fragment.fresh.is_persistent(position)


def fill(fragment: Fragment, bodies: Mapping[int, bytes]) -> int:
    """Takes back what was read, by ascending position; returns how many bytes were waited for."""
    if isinstance(fragment.fresh, RankedFresh):
        size, flags = stowing_ranked.fill(fragment, fragment.fresh, bodies), 0
    else:
        filled = fragment.fresh.fill(bodies)
        fragment.bytes_held += filled.misjudged
        size, flags = filled.bytes_read, filled.flags
    if flags & SINGLE:
        # Left by an earlier reign, with the past of which their flags tell.
        tracked = fragment.single_out([p for p, message in bodies.items() if message[0] & SINGLE])
        seen = [p for p, message in bodies.items() if message[0] & FLAG_SEEN]
        if tracked is not None:
            tracked.redelivered.update([p for p in seen if p in tracked.messages])
    tracked = fragment.tracked
    if tracked is not None and tracked.expiring.times and bodies:
        # Some may be over since, and wait for their bodies to die.
        tracked.expiring.again(min(bodies), max(bodies))
    if tracked is not None and tracked.absent:
        for position, message in bodies.items():
            if tracked.fill(position, message):
                fragment.shut -= 1
                fragment.bytes_held += len(message)
                size += len(message)
    return size


def missing(fragment: Fragment, first: int, last: int) -> Range | None:
    """The first stretch between two positions that is still on disk alone."""
    held, absent = fragment.in_flight, next_absent(fragment, first - 1)
    found = [
        fragment.fresh.stowed_after(first - 1),
        held.stowed_after(first - 1) if held is not None else None,
        (absent, absent) if absent is not None else None,
    ]
    stretch = min([each for each in found if each is not None], default=None)
    # None of another place stands within it: each is taken out of its run.
    return (stretch[0], min(stretch[1], last)) if stretch and stretch[0] <= last else None


def next_stowed(fragment: Fragment) -> int | None:
    """The first message of the line that is on disk alone, in the order of handing out."""
    fresh = fragment.fresh
    if not fresh.stowed_count:
        return None
    return fresh.next_wanted() if isinstance(fresh, RankedFresh) else fresh.first_stowed


def next_absent(fragment: Fragment, position: int) -> int | None:
    """The first message beyond a position that is kept singly and on disk alone."""
    tracked = fragment.tracked
    return tracked.absent.after(position) if tracked is not None else None


def lose(fragment: Fragment, first: int, last: int) -> list[Range]:
    """Gives up what is on disk alone between two positions and cannot be read any more.

    It is settled, so that neither the next start nor a copy misses it. Returns where it was.
    """
    going = Going()
    going.add_stowed(fragment.fresh, [(first, last)])
    if fragment.in_flight is not None:
        going.add_held(fragment.in_flight, None, [(first, last)])
    tracked = fragment.tracked
    if tracked is not None:
        absent = tracked.absent.within(first, last)
        for position in absent:
            tracked.unacked.pop(position, None)
        fragment.forget_singles(tracked, absent, going)
    if going.ranges:
        fragment.lost(going, UNREADABLE)
        if fragment.log is not None:
            fragment.keep_times(fragment.log, going.ranges)
    return going.ranges
