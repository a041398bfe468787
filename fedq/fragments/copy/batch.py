"""Messages of one record that are not taken apart: what live records and copies of them bring."""

from typing import Final

from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import Range, to_ranges
from fedq.fragments.runs.beginnings import SINGLE
from fedq.journal.payloads import Outline

#: A batch of which less than one part in so many is left is read, so that its bytes can go.
KEPT_MIN: Final = 8


class Batch:
    """The messages of one record, but for the `gone` first ones."""

    __slots__ = ("gone", "outline", "persistent")

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.gone = 0
        self.persistent = _holds_persistent(outline)

    @property
    def first(self) -> int:
        """The position of the first message that is left."""
        return self.outline.first_position + self.gone

    @property
    def left(self) -> int:
        """How many messages are left."""
        return len(self.outline.lengths) - self.gone

    def persistent_ranges(self) -> list[Range]:
        """The positions of the persistent messages that are left, as ranges."""
        if not self.persistent:
            return []
        flags = self.outline.flags()
        return to_ranges(
            self.outline.first_position + index
            for index in range(self.gone, len(flags))
            if flags[index] & FLAG_PERSISTENT
        )

    def may_be_stowed(self) -> bool:
        """Whether all of its messages are persistent, and none has a time or a past."""
        if not self.persistent:
            return False
        wanted = SINGLE | FLAG_PERSISTENT
        return all(
            flags & wanted == FLAG_PERSISTENT for flags in dict.fromkeys(self.outline.flags())
        )

    def has_no_past(self) -> bool:
        """Whether none of its messages has a time or a past."""
        return not any(flags & SINGLE for flags in dict.fromkeys(self.outline.flags()))

    def size(self) -> int:
        """The bytes of the messages that are left."""
        return sum(self.outline.lengths[self.gone :])

    def read(self) -> dict[int, bytes]:
        """The messages that are left, by position."""
        outline = self.outline
        positions = range(self.first, outline.last_position + 1)
        return dict(zip(positions, outline.messages(self.gone), strict=True))


def _holds_persistent(outline: Outline) -> bool:
    if outline.data[outline.at] & FLAG_PERSISTENT:
        return True
    return any(flags & FLAG_PERSISTENT for flags in dict.fromkeys(outline.flags()))
