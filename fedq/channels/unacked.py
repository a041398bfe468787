"""A channel's deliveries that wait for an acknowledgement, as an interval list by delivery tag.

Tags grow by one with each delivery of the channel (AMQP 0-9-1, 1.8.3.13). An acknowledgement
names one tag, or all up to one (`multiple`), or all there are (tag 0 with `multiple`).

Inputs: runs of deliveries (to one consumer, from one fragment), the tags that are acknowledged.
Outputs: parts of those runs. A run of deliveries costs one object (a span), and to acknowledge it
in order, singly or together, one look at it; what is acknowledged out of turn leaves a gap in it.

Invariants: spans are in ascending order of tags; one without deliveries is forgotten at once at the
front, and swept in between when those are the most.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Generic, TypeVar

from fedq.core.ids import FragmentId

Holder = TypeVar("Holder")

#: Deliveries in a span at most: settling out of turn costs a bit of each.
SPAN_MAX: Final = 1_024
#: Spans that are left behind from which on they are swept.
_SWEEP_FROM: Final = 32


class Part(Generic[Holder]):
    """Deliveries with consecutive tags, from `first` on, that have all but the position in common.

    `holder` is their consumer, or None after `basic.get`.
    """

    __slots__ = ("first", "fragment", "holder", "positions")

    def __init__(
        self, holder: Holder, fragment: FragmentId, positions: Sequence[int], first: int
    ) -> None:
        self.holder = holder
        self.fragment = fragment
        self.positions = positions
        self.first = first


class _Span(Generic[Holder]):
    """A part with its first tag, and which of its deliveries are settled."""

    __slots__ = ("first", "fragment", "gone", "holder", "left", "positions")

    def __init__(
        self, first: int, holder: Holder, fragment: FragmentId, positions: Sequence[int]
    ) -> None:
        self.first = first
        self.holder = holder
        self.fragment = fragment
        self.positions = positions
        #: How many deliveries are not settled.
        self.left = len(positions)
        #: 1 for each that is; None while none is. The first one is not.
        self.gone: bytearray | None = None

    def continues_with(
        self, tag: int, holder: Holder, fragment: FragmentId, positions: Sequence[int]
    ) -> bool:
        """Whether deliveries from this tag on could have come together with these."""
        mine = self.positions
        return (
            isinstance(mine, range)
            and isinstance(positions, range)
            and mine.step == positions.step == 1
            and mine.stop == positions.start
            and self.first + len(mine) == tag
            and self.fragment == fragment
            and self.holder is holder
            and self.gone is None
            and len(mine) < SPAN_MAX
        )

    def items(self) -> Iterator[tuple[int, int]]:
        """Tags and positions of the deliveries that are not settled."""
        for index, position in enumerate(self.positions):
            if self.gone is None or not self.gone[index]:
                yield self.first + index, position

    def parts(self) -> Iterator[Part[Holder]]:
        """The deliveries that are not settled, in pieces without a gap."""
        start, stop = 0, len(self.positions)
        while start < stop:
            count = self.stretch(start, stop)
            if count:
                yield self.part(start, count)
            start += count + 1

    def part(self, start: int, count: int) -> Part[Holder]:
        """The part of `count` deliveries from this index on, of which none is settled."""
        positions = self.positions[start : start + count]
        return Part(self.holder, self.fragment, positions, self.first + start)

    def stretch(self, start: int, stop: int) -> int:
        """How many deliveries in a row, from this index on, are not settled."""
        if self.gone is None:
            return stop - start
        settled = self.gone.find(1, start, stop)
        return stop - start if settled < 0 else settled - start

    def settle(self, start: int, count: int) -> None:
        """Settles `count` deliveries from this index on, none settled before; some are left."""
        self.left -= count
        if not start:
            self.drop(count)
        elif self.gone is None and start + count == len(self.positions):
            self.positions = self.positions[:start]
        else:
            if self.gone is None:
                self.gone = bytearray(len(self.positions))
            self.gone[start : start + count] = b"\x01" * count

    def drop(self, count: int) -> None:
        """Drops the first `count`, which are settled and not in `left` any more; some are left."""
        if self.gone is not None:
            count = self.gone.find(0, count)
            self.gone = self.gone[count:] if self.left < len(self.positions) - count else None
        self.positions = self.positions[count:]
        self.first += count


class UnackedWindow(Generic[Holder]):
    """The unacknowledged deliveries of a channel in tag order; see the module's docstring."""

    __slots__ = ("_count", "_empty", "_head", "_spans", "last_tag")

    def __init__(self) -> None:
        #: The tag given last on this channel; 0 before the first delivery.
        self.last_tag = 0
        self._count = 0
        self._spans: list[_Span[Holder]] = []
        #: Where in the list the first span with deliveries is, and how many behind it have none.
        self._head = 0
        self._empty = 0

    def __len__(self) -> int:
        return self._count

    def add(self, holder: Holder, fragment: FragmentId, positions: Sequence[int]) -> int:
        """Gives the next tags to deliveries (at least one); returns the first of them."""
        first = self.last_tag + 1
        self.last_tag += len(positions)
        self._append(first, holder, fragment, positions)
        return first

    def _append(
        self, first: int, holder: Holder, fragment: FragmentId, positions: Sequence[int]
    ) -> None:
        self._count += len(positions)
        spans = self._spans
        if self._head < len(spans) and spans[-1].left:
            last = spans[-1]
            if last.continues_with(first, holder, fragment, positions):
                last.left += len(positions)
                last.positions = range(last.positions[0], positions[-1] + 1)
                return
        for start in range(0, len(positions), SPAN_MAX):
            part = positions[start : start + SPAN_MAX]
            spans.append(_Span(first + start, holder, fragment, part))

    def skip(self, count: int) -> int:
        """Gives tags to deliveries that need no acknowledgement; returns the first."""
        first = self.last_tag + 1
        self.last_tag += count
        return first

    # --- acknowledgements --------------------------------------------------------------------

    def settle(self, first: int, last: int) -> tuple[list[Part[Holder]], int | None]:
        """Removes deliveries that are acknowledged one by one, from tag `first` to `last`.

        Stops in front of a tag that is unknown (406), and returns it beside the parts.
        """
        parts: list[Part[Holder]] = []
        tag = first
        while tag <= last:
            index = self._find(tag)
            if index < 0:
                return parts, tag
            span = self._spans[index]
            start = tag - span.first
            count = span.stretch(start, min(last + 1 - span.first, len(span.positions)))
            if not count:
                return parts, tag
            parts.append(self._take(index, start, count))
            tag += count
        self._sweep()
        return parts, None

    def settle_through(self, tag: int, most: int = 1 << 62) -> list[Part[Holder]] | None:
        """Removes all deliveries up to a tag, or all (0); None if the tag is unknown (406).

        `most`: of very many only the first so many; `has_through` says whether there are more.
        """
        if tag > self.last_tag:
            return None
        parts: list[Part[Holder]] = []
        spans = self._spans
        while self._head < len(spans) and most:
            span = spans[self._head]
            size = len(span.positions)
            stop = size if tag == 0 else min(size, tag + 1 - span.first)
            if stop <= 0:
                break
            start = 0
            while start < stop and most:
                row = span.stretch(start, stop)
                count = min(row, most)
                if count:
                    parts.append(span.part(start, count))
                    span.left -= count
                    self._count -= count
                    most -= count
                start += count
                if count == row:
                    start += 1
            if span.left:
                span.drop(min(start, stop))
                break
            self._forget(self._head)
        self._sweep()
        return parts if parts or tag == 0 else None

    def has_through(self, tag: int) -> bool:
        """Whether there is any delivery with this tag or a lower one."""
        return self._head < len(self._spans) and self._spans[self._head].first <= tag

    def _find(self, tag: int) -> int:
        """The span that a tag is in; -1 if there is none."""
        spans, index = self._spans, self._head
        if index == len(spans) or tag < spans[index].first:
            return -1
        if tag >= spans[index].first + len(spans[index].positions):
            index = bisect_right(spans, tag, index, key=_first_of) - 1
        span = spans[index]
        return index if tag < span.first + len(span.positions) else -1

    def _take(self, index: int, start: int, count: int) -> Part[Holder]:
        """Takes deliveries out of a span; none of them is settled yet."""
        span = self._spans[index]
        part = span.part(start, count)
        self._count -= count
        if count < span.left:
            span.settle(start, count)
        else:
            span.left = 0
            self._forget(index)
        return part

    def _forget(self, index: int) -> None:
        """Forgets a span that has nothing left."""
        spans = self._spans
        spans[index].positions = ()
        if index != self._head:
            self._empty += 1
            return
        self._head += 1
        while self._head < len(spans) and not spans[self._head].left:
            self._head += 1
            self._empty -= 1

    def _sweep(self) -> None:
        """Forgets all spans that have nothing left, once they are the most."""
        useless = self._head + self._empty
        if useless == len(self._spans) or (
            useless >= _SWEEP_FROM and 2 * useless >= len(self._spans)
        ):
            self._spans = [span for span in self._spans[self._head :] if span.left]
            self._head = self._empty = 0

    # --- all of it ---------------------------------------------------------------------------

    @property
    def spans(self) -> int:
        """How many spans there are: what `restore` looks at."""
        return len(self._spans) - self._head

    def restore(self, parts: Iterable[Part[Holder]]) -> None:
        """Makes settled deliveries wait for an acknowledgement again, under their tags."""
        merged = self.parts()
        merged += parts
        merged.sort(key=_first_tag_of)
        self._clear()
        for part in merged:
            self._append(part.first, part.holder, part.fragment, part.positions)

    def parts(self) -> list[Part[Holder]]:
        """All unsettled deliveries, in tag order."""
        return [part for span in self._spans[self._head :] if span.left for part in span.parts()]

    def _clear(self) -> None:
        self._spans = []
        self._count = self._head = self._empty = 0


def _first_of(span: _Span[Holder]) -> int:
    return span.first


def _first_tag_of(part: Part[Holder]) -> int:
    return part.first
