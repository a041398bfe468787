"""What records of its primary mean for a copy's node, and what the copy holds at some time."""

from typing import NamedTuple

from fedq.journal.events import Copy, Single
from fedq.journal.payloads import Outline


class Applied(NamedTuple):
    """What applying records means for the journal of this node."""

    #: The records concern persistent messages: they belong into the journal.
    journal: bool
    #: New persistent messages, or a whole transaction: acknowledge only when it is on disk.
    sync: bool
    #: Between which positions messages in the records stand; 0 if there are none.
    first: int = 0
    last: int = 0
    #: They are old ones.
    copied: bool = False


class Mark(NamedTuple):
    """What a copy holds at some time: the highest position, how many came that are kept singly.

    And how many chunks of a copy came that are not taken apart.
    """

    top: int
    arrived: int
    copied: int


def is_copy(record: Single | Outline) -> bool:
    """Whether a record brings old messages, for a copy that is made."""
    return isinstance(record, Copy) or (isinstance(record, Outline) and record.origin is None)
