"""Since when messages are here: marks of how far each fragment of this node was, and when.

Inputs: fragments whose reign begins, and how far each is, every now and then. Output: how old a
message is, at least and at most. Messages do not carry the time of their arrival, so it is known as
closely as marks lie: `MARK_EVERY_MS`, or a few hundredths of the age of the oldest. What an earlier
reign has left is as old as this one at least; how old it is nobody knows.

Invariants: the marks of a fragment ascend, in positions and times; there are `MARKS_MAX` at most.
"""

from bisect import bisect_left
from typing import Final, NamedTuple

from fedq.core.ids import FragmentId
from fedq.fragments.fragment import Fragment
from fedq.fragments.runs.ranked import RankedFresh

#: How often it is marked how far a fragment is.
MARK_EVERY_MS: Final = 10_000
#: Beyond that, those go that lie closer than the older ones of a long time do.
MARKS_MAX: Final = 64


class Age(NamedTuple):
    """How old a message is, in milliseconds; None: nobody knows an upper bound."""

    at_least: int
    at_most: int | None


class Mark:
    """Up to a position all had come at a time; whatever is behind it came later than another."""

    __slots__ = ("ms", "position", "until_ms")

    def __init__(self, position: int, ms: int) -> None:
        self.position = position
        self.ms = self.until_ms = ms


class Ages:
    """The marks of all fragments that this node serves."""

    __slots__ = ("_marks",)

    def __init__(self) -> None:
        self._marks: dict[FragmentId, list[Mark]] = {}

    @property
    def fragments(self) -> list[FragmentId]:
        """The fragments with marks."""
        return list(self._marks)

    def begin(self, fragment: FragmentId, last: int, now_ms: int) -> None:
        """Begins with what a reign begins with."""
        self._marks[fragment] = [Mark(last, now_ms)]

    def forget(self, fragment: FragmentId) -> None:
        """Forgets a fragment that is served here no more."""
        self._marks.pop(fragment, None)

    def mark(self, fragment: FragmentId, first: int | None, last: int, now_ms: int) -> None:
        """Marks how far it is; `first`: the oldest message that anybody asks about, if any."""
        marks = self._marks.setdefault(fragment, [])
        if not marks or marks[-1].position < last:
            if not marks or now_ms - marks[-1].ms >= _gap_ms(marks, now_ms):
                marks.append(Mark(last, now_ms))
        else:
            marks[-1].until_ms = now_ms
        # Of those before the first message the last one says the most.
        useless = (len(marks) if first is None else bisect_left(marks, first, key=_position)) - 1
        if useless > 0:
            del marks[:useless]
        if len(marks) > MARKS_MAX:
            self._marks[fragment] = _thinned(marks, _gap_ms(marks, now_ms))

    def of(self, fragment: FragmentId, position: int, now_ms: int) -> Age:
        """How old a message is that is here."""
        marks = self._marks.get(fragment, [])
        at = bisect_left(marks, position, key=_position)
        least = now_ms - marks[at].ms if at < len(marks) else 0
        return Age(least, now_ms - marks[at - 1].until_ms if at else None)


def first_in_line(fragment: Fragment) -> int | None:
    """The position of the message that is taken next; None: none waits."""
    fresh, tracked = fragment.fresh, fragment.tracked
    single = tracked.next() if tracked is not None and tracked.ready_count else None
    if isinstance(fresh, RankedFresh):
        return fresh.next_wanted() if single is None and fresh.count else single
    if fresh.count and (single is None or fresh.first < single):
        return fresh.first
    return single


def _gap_ms(marks: list[Mark], now_ms: int) -> int:
    """How far marks lie apart, as the oldest one is so old."""
    return (now_ms - marks[0].ms) * 2 // MARKS_MAX


def _thinned(marks: list[Mark], gap_ms: int) -> list[Mark]:
    """The marks without those that lie too close; the first two stay, and the last one.

    Between the first two the first message came.
    """
    kept = marks[:2]
    for mark in marks[2:-1]:
        if mark.ms - kept[-1].ms >= gap_ms:
            kept.append(mark)
    return [*kept, marks[-1]]


def _position(mark: Mark) -> int:
    return mark.position
