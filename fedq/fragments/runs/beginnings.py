"""What a reign begins with: the messages of the one before it, in runs as far as they have no past.

Inputs: messages by position, ascending, with the notes about them. Outputs: runs for the line, and
those that have to be kept singly. So a failover, or a start, with a long queue costs a look at each
message and no more; and they are handed out as fast as any others.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from fedq.core.message import FLAG_DELAYED, FLAG_PERSISTENT, FLAG_SEEN
from fedq.core.ranges import from_ranges, minus, overlaps, to_ranges
from fedq.fragments.runs.runs import ON_DISK, RUN_MAX
from fedq.journal.records import NOTE_EXPIRES, NOTE_RETURNS

#: What is known of messages, by kind, by position.
KnownNotes: TypeAlias = Mapping[int, Mapping[int, int]]
#: Flags of messages that are kept singly from the first. A time to expire is told apart.
SINGLE: Final = FLAG_DELAYED | FLAG_SEEN
#: Where messages are to be kept singly, whatever is known of them.
NOWHERE: Final = 0
IN_MEMORY: Final = 1
EVERYWHERE: Final = 2


class Stretch(NamedTuple):
    """Messages at consecutive positions, from `first` on; whether persistent ones are among them.

    No more than fit into a run. Without messages it stands for some that are on disk alone, up to
    `last`, of so many bytes.
    """

    first: int
    messages: list[bytes]
    persistent: bool
    last: int = 0
    stowed: int = 0


def split(
    messages: Mapping[int, bytes], notes: KnownNotes, stowed: Sequence[tuple[int, int, int]] = (),
    singly: int = NOWHERE, scratched: Sequence[tuple[int, int, int]] = (),
) -> tuple[list[Stretch], dict[int, bytes]]:  # fmt: skip
    """The stretches of messages about which nothing is to be said, and the others by position.

    When they expire is told apart, wherever they are.

    `stowed`, `scratched`: first and last positions, and bytes, of others that are on disk alone,
    where persistent ones are and where others are; `singly`: where all are to be kept singly.
    Those on disk alone that are kept so stand for `ON_DISK`.
    """
    about = [table for what, table in notes.items() if what not in (NOTE_EXPIRES, NOTE_RETURNS)]
    noted = dict.fromkeys([position for table in about for position in table])
    on_disk = [(*each, True) for each in stowed] + [(*each, False) for each in scratched]
    if singly == EVERYWHERE:
        noted = dict.fromkeys(from_ranges([(each[0], each[1]) for each in on_disk]))
    stretches: list[Stretch] = []
    singles = dict(messages)
    if singly == NOWHERE:
        # How often something came back is noted beside what is on disk alone.
        counted = notes.get(NOTE_RETURNS)
        stretches, singles = _split_in_memory(messages, {**noted, **counted} if counted else noted)
    if not on_disk:
        return stretches, singles
    apart = to_ranges(sorted(noted))
    for first, last, size, persistent in on_disk:
        each = size / (last - first + 1)
        for low, high in minus([(first, last)], apart):
            share = max(int(each * (high - low + 1)), high - low + 1)
            stretches.append(Stretch(low, [], persistent, high, share))
        for position in from_ranges(overlaps([(first, last)], apart)):
            singles[position] = ON_DISK
    stretches.sort(key=lambda stretch: stretch.first)
    return stretches, dict(sorted(singles.items()))


def _split_in_memory(
    messages: Mapping[int, bytes], noted: Mapping[int, object]
) -> tuple[list[Stretch], dict[int, bytes]]:
    stretches: list[Stretch] = []
    singles: dict[int, bytes] = {}
    part: list[bytes] = []
    first = expected = flags = 0
    for position, message in messages.items():
        own = message[0]
        if own & SINGLE or position in noted:
            singles[position] = message
            continue
        if position != expected or len(part) == RUN_MAX:
            if part:
                stretches.append(Stretch(first, part, flags & FLAG_PERSISTENT != 0))
            first, part, flags = position, [], 0
        part.append(message)
        flags |= own
        expected = position + 1
    if part:
        stretches.append(Stretch(first, part, flags & FLAG_PERSISTENT != 0))
    return stretches, singles
