"""What a fragment has taken of publishers with names, so that it takes nothing twice (ADR 0078).

Inputs: sequences that are about to be taken, or were refused; records. Outputs: which of them are
new, and what a record is to say. A publisher's sequences grow; gaps are no matter: what is not
above the highest one that was taken counts as taken, but for what was refused. (Of very many ranges
that were refused the first become one, with what was taken between them.)

Invariants: the publishers are in the order in which something was taken of them last, and no more
than `PUBLISHERS_KNOWN_MAX`: the first one is forgotten first. What is here follows from the records
alone, so that all copies know the same; but for what was refused since the last one of them.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from fedq.core.limits import PUBLISHER_REFUSED_MAX, PUBLISHERS_KNOWN_MAX
from fedq.core.ranges import Range, join_overlapping, minus
from fedq.journal.events import SOME, PublisherMark, Publishers

#: What a publisher takes beside its name, and a range that was refused; measured on CPython 3.11.
_PUBLISHER_BYTES: Final = 280
_RANGE_BYTES: Final = 136

Marks = Mapping[str, PublisherMark]


class Part(NamedTuple):
    """Consecutive sequences, so many, all of them new or none."""

    size: int
    is_new: bool


class News(NamedTuple):
    """What is to be recorded with messages that a publisher has published."""

    publisher: str
    mark: PublisherMark
    #: The sequence of the last one.
    last: int


class KnownPublishers:
    """The publishers that a fragment knows. See the module's docstring."""

    __slots__ = ("_marks", "_marks_bytes", "_refused", "begun_with")

    def __init__(self, marks: Marks | None = None) -> None:
        #: What was known when this began: the fragment's reign, as its primary has it.
        self.begun_with: Marks = dict(marks or {})
        self._marks: dict[str, PublisherMark] = dict(self.begun_with)
        #: What was refused above the highest one: nothing is to be told of it yet.
        self._refused: dict[str, list[Range]] = {}
        self._marks_bytes = sum([_size_of(name, mark) for name, mark in self._marks.items()])

    def __len__(self) -> int:
        return len(self._marks)

    @property
    def bytes_held(self) -> int:
        """What is kept here, roughly."""
        ranges = sum(map(len, self._refused.values())) if self._refused else 0
        return self._marks_bytes + len(self._refused) * _PUBLISHER_BYTES + ranges * _RANGE_BYTES

    @property
    def marks(self) -> Marks:
        """What was taken of each, the first to be forgotten first; to be read only."""
        return self._marks

    def parts(self, name: str, first: int, count: int) -> Iterator[Part]:
        """Cuts a run of sequences into those that were taken and those that are new."""
        mark = self._marks.get(name)
        last = first + count - 1
        if mark is None or first > mark.highest:
            yield Part(count, True)
            return
        at = first
        for start, stop in [*mark.refused, (mark.highest + 1, last)]:
            start, stop = max(start, at), min(stop, last)
            if start > stop:
                continue
            if start > at:
                yield Part(start - at, False)
            yield Part(stop - start + 1, True)
            at = stop + 1
        if at <= last:
            yield Part(last - at + 1, False)

    def take(self, name: str, first: int, last: int) -> News:
        """Takes sequences that are new; returns what is to be recorded with the messages."""
        mark = self._marks.get(name, _NOTHING)
        highest, refused = max(mark.highest, last), list(mark.refused)
        above = self._refused.pop(name, None)
        if above:
            refused += [(start, min(stop, highest)) for start, stop in above if start <= highest]
            if above[-1][1] > highest:
                self._refused[name] = minus(above, [(0, highest)])
        if refused:
            refused = _bounded(minus(join_overlapping(refused), [(first, last)]))
        news = PublisherMark(highest, tuple(refused))
        self._put({name: news})
        return News(name, news, last)

    def refuse(self, name: str, first: int, last: int) -> None:
        """Notes sequences that are turned away: a repeat of them is new."""
        mark = self._marks.get(name, _NOTHING)
        first = max(first, mark.highest + 1)
        if first > last:
            # What was refused before, and is again, is noted already.
            return
        ranges = self._refused.pop(name, [])
        self._refused[name] = _bounded(join_overlapping([*ranges, (first, last)]))
        if len(self._refused) > PUBLISHERS_KNOWN_MAX:
            del self._refused[next(iter(self._refused))]

    def hear(self, record: Publishers) -> None:
        """Takes what the primary says, as it took it itself."""
        if record.kind != SOME:
            self.begin_with({})
        self._put(record.marks)

    def begin_with(self, marks: Marks) -> None:
        """Knows what is said, and nothing else."""
        self._marks, self._refused, self._marks_bytes = {}, {}, 0
        self._put(marks)

    def _put(self, marks: Marks) -> None:
        known = self._marks
        for name, mark in marks.items():
            before = known.pop(name, None)
            known[name] = mark
            self._marks_bytes += _size_of(name, mark)
            if before is not None:
                self._marks_bytes -= _size_of(name, before)
        while len(known) > PUBLISHERS_KNOWN_MAX:
            first = next(iter(known))
            self._marks_bytes -= _size_of(first, known.pop(first))


def _bounded(refused: list[Range]) -> list[Range]:
    """Refused ranges, no more than are kept: the first ones become one.

    So what was taken between those is taken again, if it is repeated; what was refused is not
    confirmed without being there, which were worse.
    """
    more = len(refused) - PUBLISHER_REFUSED_MAX
    return [(refused[0][0], refused[more][1]), *refused[more + 1 :]] if more > 0 else refused


def marks_of(publishers: KnownPublishers | None) -> dict[str, PublisherMark]:
    """What was taken of each by now; nobody has a name where there are none."""
    return dict(publishers.marks) if publishers is not None else {}


def sure_of_both(mine: Marks, theirs: Marks) -> dict[str, PublisherMark]:
    """What two copies have taken for certain, of which one is made equal to the other."""
    sure: dict[str, PublisherMark] = {}
    for name, mark in mine.items():
        other = theirs.get(name)
        if other is not None:
            highest = min(mark.highest, other.highest)
            refused = join_overlapping(
                [(a, min(b, highest)) for a, b in (*mark.refused, *other.refused) if a <= highest]
            )
            sure[name] = PublisherMark(highest, tuple(_bounded(refused)))
    return sure


def _size_of(name: str, mark: PublisherMark) -> int:
    return _PUBLISHER_BYTES + len(name) + _RANGE_BYTES * len(mark.refused)


_NOTHING: Final = PublisherMark(0)
