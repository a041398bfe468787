"""What a fragment has taken of publishers with names, so that it takes nothing twice (ADR 0078).

Inputs: sequences that are about to be taken, or were refused; records; the time. Outputs: which of
them are new, what a record is to say, and which names are forgotten. A publisher's sequences grow;
gaps are no matter: what is not above the highest one that was taken counts as taken, but for what
was refused. (Of very many ranges that were refused the first become one, with what was taken
between them.)

Invariants: the publishers are in the order in which something was taken of them last, and no more
than `PUBLISHERS_KNOWN_MAX`: the first one is forgotten first. What is here follows from the records
alone, so that all copies know the same; but for what was refused since the last one of them, and
for the times: a reign begins as if something had been taken of everybody just then. What is
forgotten is in `begun_with` no more, either: it may be taken anew, from the first sequence on.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from fedq.core.limits import (
    PUBLISHER_REFUSED_MAX,
    PUBLISHER_SERIES_END,
    PUBLISHER_SERIES_MAX,
    PUBLISHERS_KNOWN_MAX,
)
from fedq.core.ranges import Range, join_overlapping, minus, pack_ranges, unpack_ranges
from fedq.journal.events import SOME, PublisherMark, Publishers

#: What a publisher takes beside its name and its refused ranges, with what was known of it when the
#: reign began and when something was taken of it; measured on CPython 3.11.
_PUBLISHER_BYTES: Final = 480
#: What names of a series take more.
_SERIES_BYTES: Final = 240
#: Names of a series that one record says are over, at most.
_OVER_MAX: Final = 8
#: What it costs to encode, or to compare, what is known of a publisher, in units of work.
PUBLISHER_WORK: Final = 4

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
    #: Names of its series that are over with it.
    over: tuple[str, ...] = ()


class KnownPublishers:
    """The publishers that a fragment knows. See the module's docstring."""

    __slots__ = (
        "_begun_bytes", "_begun_ms", "_marks", "_marks_bytes", "_refused", "_refused_bytes",
        "_series", "_taken_ms", "begun_with",
    )  # fmt: skip

    def __init__(self, marks: Marks | None = None, now_ms: int = 0) -> None:
        """`now_ms`: when the reign began."""
        #: What was known when this began: the fragment's reign, as its primary has it.
        self.begun_with: dict[str, PublisherMark] = dict(marks or {})
        self._marks: dict[str, PublisherMark] = dict(self.begun_with)
        #: What was refused above the highest one, packed: nothing is to be told of it yet.
        self._refused: dict[str, bytes] = {}
        #: When something was taken, or refused, of those of whom that was in this reign.
        self._taken_ms: dict[str, int] = {}
        self._begun_ms = now_ms
        #: The names of each series, the last one that published last; None: nobody has asked yet.
        self._series: dict[str, list[str]] | None = None
        self._begun_bytes = self._marks_bytes = 0
        self._refused_bytes = 0
        for name, mark in self._marks.items():
            self._marks_bytes += _size_of(name, mark)
            self._begun_bytes += len(mark.refused)

    def __len__(self) -> int:
        return len(self._marks)

    @property
    def bytes_held(self) -> int:
        """What is kept here, roughly."""
        series = len(self._series) * _SERIES_BYTES if self._series else 0
        return self._marks_bytes + self._begun_bytes + self._refused_bytes + series

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
        for start, stop in [*unpack_ranges(mark.refused), (mark.highest + 1, last)]:
            start, stop = max(start, at), min(stop, last)
            if start > stop:
                continue
            if start > at:
                yield Part(start - at, False)
            yield Part(stop - start + 1, True)
            at = stop + 1
        if at <= last:
            yield Part(last - at + 1, False)

    def take(self, name: str, first: int, last: int, now_ms: int = 0) -> News:
        """Takes sequences that are new; returns what is to be recorded with the messages."""
        mark = self._marks.get(name, _NOTHING)
        highest, refused = max(mark.highest, last), unpack_ranges(mark.refused)
        above = self._take_refused(name) if self._refused else []
        if above:
            refused += [(start, min(stop, highest)) for start, stop in above if start <= highest]
            if above[-1][1] > highest:
                self._put_refused(name, minus(above, [(0, highest)]))
        if refused:
            refused = _bounded(minus(join_overlapping(refused), [(first, last)]))
        news = PublisherMark(highest, pack_ranges(refused))
        self._put(name, news)
        self._taken_ms[name] = now_ms
        over = self._over_with(name) if PUBLISHER_SERIES_END in name else ()
        self._forget_first()
        return News(name, news, last, over)

    def refuse(self, name: str, first: int, last: int, now_ms: int = 0) -> None:
        """Notes sequences that are turned away: a repeat of them is new."""
        mark = self._marks.get(name, _NOTHING)
        first = max(first, mark.highest + 1)
        if first > last:
            # What was refused before, and is again, is noted already.
            return
        ranges = self._take_refused(name)
        self._put_refused(name, _bounded(join_overlapping([*ranges, (first, last)])))
        if not mark.highest:
            self._taken_ms[name] = now_ms
        if len(self._refused) > PUBLISHERS_KNOWN_MAX:
            self._forget_refused(next(iter(self._refused)))

    def hear(self, record: Publishers) -> list[str]:
        """Takes what the primary says, as it took it itself; returns which names are forgotten."""
        marks = self._marks
        replaced = (
            marks if record.kind != SOME else {n: marks[n] for n in record.marks if n in marks}
        )
        self._marks_bytes -= _sizes_of(replaced)
        gone = record.take_into(marks)
        if record.kind != SOME:
            self._marks_bytes = _sizes_of(marks)
        else:
            said = {name: mark for name, mark in record.marks.items() if mark.highest}
            lost = {name: mark for name, mark in gone.items() if name not in record.marks}
            self._marks_bytes += _sizes_of(said) - _sizes_of(lost)
        for name in gone:
            begun = self.begun_with.pop(name, None)
            self._begun_bytes -= len(begun.refused) if begun is not None else 0
        return [*gone]

    def old_names(self, before_ms: int, most: int) -> list[str]:
        """The names of which nothing was taken since that time, so many of them at most.

        Forgets at once of whom nothing was ever taken: nobody was told of these.
        """
        times, begun = self._taken_ms, self._begun_ms
        for name in [each for each in self._refused if each not in self._marks]:
            if times.get(name, begun) < before_ms:
                self._forget_refused(name)
        found: list[str] = []
        for name in self._marks:
            if len(found) == most or times.get(name, begun) >= before_ms:
                break
            found.append(name)
        return found

    def first_names(self, most: int) -> list[str]:
        """The names that are forgotten first, so many of them at most.

        Where nothing was taken of anybody, what was refused is forgotten at once.
        """
        if not self._marks:
            for name in [*self._refused][:most]:
                self._forget_refused(name)
        return [name for name, _ in zip(self._marks, range(most), strict=False)]

    def forget(self, names: Iterable[str]) -> None:
        """Forgets publishers: their next ones are taken, whatever their sequences are."""
        for name in names:
            mark, begun = self._marks.pop(name, None), self.begun_with.pop(name, None)
            if mark is not None:
                self._marks_bytes -= _size_of(name, mark)
            if begun is not None:
                self._begun_bytes -= len(begun.refused)
            self._forget_refused(name)
            self._taken_ms.pop(name, None)
            if self._series:
                series = name.rpartition(PUBLISHER_SERIES_END)[0]
                names = self._series.get(series, [])
                if name in names:
                    names.remove(name)
                if not names:
                    self._series.pop(series, None)

    def _put(self, name: str, mark: PublisherMark) -> None:
        before = self._marks.pop(name, None)
        self._marks[name] = mark
        self._marks_bytes += _size_of(name, mark)
        if before is not None:
            self._marks_bytes -= _size_of(name, before)

    def _forget_first(self) -> None:
        while len(self._marks) > PUBLISHERS_KNOWN_MAX:
            self.forget([next(iter(self._marks))])

    def _over_with(self, name: str) -> tuple[str, ...]:
        """Forgets which names of its series are over, as this one has published; returns them."""
        if self._series is None:
            self._series = _series_of(self._marks)
        names = self._series.setdefault(name.rpartition(PUBLISHER_SERIES_END)[0], [])
        if names and names[-1] == name:
            return ()
        if name in names:
            names.remove(name)
        names.append(name)
        over = tuple(names[: min(_OVER_MAX, max(0, len(names) - PUBLISHER_SERIES_MAX))])
        self.forget(over)
        return over

    # --- what was refused and is not told ----------------------------------------------------

    def _take_refused(self, name: str) -> list[Range]:
        data = self._refused.pop(name, None)
        if data is None:
            return []
        self._refused_bytes -= _size_of_refused(name, data)
        return unpack_ranges(data)

    def _put_refused(self, name: str, ranges: list[Range]) -> None:
        data = self._refused[name] = pack_ranges(ranges)
        self._refused_bytes += _size_of_refused(name, data)

    def _forget_refused(self, name: str) -> None:
        self._take_refused(name)
        if name not in self._marks:
            self._taken_ms.pop(name, None)


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
            sure[name] = mark if other == mark else _both(mark, other)
    return sure


def _both(mark: PublisherMark, other: PublisherMark) -> PublisherMark:
    highest = min(mark.highest, other.highest)
    if not (mark.refused or other.refused):
        return PublisherMark(highest)
    ranges = (*unpack_ranges(mark.refused), *unpack_ranges(other.refused))
    refused = join_overlapping([(a, min(b, highest)) for a, b in ranges if a <= highest])
    return PublisherMark(highest, pack_ranges(_bounded(refused)))


def _series_of(marks: Marks) -> dict[str, list[str]]:
    """The names of each series, in their order."""
    found: dict[str, list[str]] = {}
    for name in marks:
        if PUBLISHER_SERIES_END in name:
            found.setdefault(name.rpartition(PUBLISHER_SERIES_END)[0], []).append(name)
    return found


def _size_of(name: str, mark: PublisherMark) -> int:
    return _PUBLISHER_BYTES + len(name) + len(mark.refused)


def _sizes_of(marks: Marks) -> int:
    return sum([_size_of(name, mark) for name, mark in marks.items()])


def _size_of_refused(name: str, data: bytes) -> int:
    return _PUBLISHER_BYTES + len(name) + len(data)


_NOTHING: Final = PublisherMark(0)
