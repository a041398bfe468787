"""What a reign begins with: the messages of the one before it, in runs as far as they have no past.

Inputs: messages by position, ascending, with the notes about them. Outputs: runs for the line, and
those that have to be kept singly. So a failover, or a start, with a long queue costs a look at each
message and no more; and they are handed out as fast as any others.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from fedq.core.message import FLAG_DELAYED, FLAG_EXPIRES, FLAG_PERSISTENT, FLAG_SEEN
from fedq.fragments.runs import RUN_MAX

#: What is known of messages, by kind, by position.
KnownNotes: TypeAlias = Mapping[int, Mapping[int, int]]
#: Flags of messages that have a time, and of those that are kept singly from the first.
TIMED: Final = FLAG_EXPIRES | FLAG_DELAYED
SINGLE: Final = TIMED | FLAG_SEEN


class Stretch(NamedTuple):
    """Messages at consecutive positions, from `first` on; whether persistent ones are among them.

    No more than fit into a run.
    """

    first: int
    messages: list[bytes]
    persistent: bool


def split(
    messages: Mapping[int, bytes], notes: KnownNotes
) -> tuple[list[Stretch], dict[int, bytes]]:
    """The stretches of messages about which nothing is to be said, and the others by position."""
    noted = dict.fromkeys([position for table in notes.values() for position in table])
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
