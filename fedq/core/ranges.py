"""Sorted sets of positions as interval lists of inclusive ranges: compact, easy to compare."""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

Range = tuple[int, int]


def to_ranges(positions: Iterable[int]) -> list[Range]:
    """Inclusive ranges that cover exactly the given ascending positions."""
    ranges: list[Range] = []
    first = last = -1
    for position in positions:
        if position == last + 1 and first >= 0:
            last = position
            continue
        if first >= 0:
            ranges.append((first, last))
        first = last = position
    if first >= 0:
        ranges.append((first, last))
    return ranges


def ranges_of(positions: Sequence[int]) -> list[Range]:
    """As `to_ranges`, for ascending positions that may be a range already."""
    if isinstance(positions, range) and positions.step == 1:
        return [(positions[0], positions[-1])] if positions else []
    return to_ranges(positions)


def join_ranges(ranges: list[Range]) -> list[Range]:
    """Joins disjoint ranges into ascending ones that do not touch."""
    if len(ranges) < 2:
        return ranges
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if joined and joined[-1][1] == first - 1:
            joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return joined


def join_overlapping(ranges: Iterable[Range]) -> list[Range]:
    """Joins ranges, some of which may overlap, into ascending ones that do not touch."""
    joined: list[Range] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined


def from_ranges(ranges: Iterable[Range]) -> Iterator[int]:
    """The positions in the given ranges, ascending if the ranges are."""
    for first, last in ranges:
        yield from range(first, last + 1)


def within(ranges: Iterable[Range], held: Mapping[int, object]) -> list[int]:
    """The held positions that are in the ranges; one that is in two of them comes twice.

    A range may span reigns, that is, more numbers than anyone could count through.
    """
    found: list[int] = []
    for first, last in ranges:
        if last - first < len(held):
            found += [position for position in range(first, last + 1) if position in held]
        else:
            found += [position for position in held if first <= position <= last]
    return found


def minus(ranges: Iterable[Range], gone: Iterable[Range]) -> list[Range]:
    """The positions of the ranges that are not in the others, ascending; neither need be so."""
    left: list[Range] = []
    others = sorted(gone)
    place = 0
    for first, last in sorted(ranges):
        while place < len(others) and others[place][1] < first:
            place += 1
        at = place
        while at < len(others) and others[at][0] <= last and first <= last:
            if others[at][0] > first:
                left.append((first, others[at][0] - 1))
            first = max(first, others[at][1] + 1)
            at += 1
        if first <= last:
            left.append((first, last))
    return left


def overlaps(ranges: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """The positions of the ranges that are in the others, too, ascending."""
    return minus(ranges, minus(ranges, others))


def is_in(ranges: Sequence[Range], position: int) -> bool:
    """Whether the position is in one of the ascending ranges."""
    at = bisect_right(ranges, (position, 1 << 64)) - 1
    return at >= 0 and position <= ranges[at][1]


def count(ranges: Sequence[Range]) -> int:
    """How many positions the ranges hold."""
    return sum(last - first + 1 for first, last in ranges)


def count_within(ranges: Sequence[Range], first: int, last: int) -> int:
    """How many positions of the ascending ranges are from `first` to `last`."""
    at = max(0, bisect_right(ranges, (first, 1 << 64)) - 1)
    found = 0
    while at < len(ranges) and ranges[at][0] <= last:
        found += max(0, min(ranges[at][1], last) - max(ranges[at][0], first) + 1)
        at += 1
    return found


def split_ranges(ranges: Sequence[Range], most: int) -> list[list[Range]]:
    """The ranges in lists of at most so many positions each."""
    parts: list[list[Range]] = [[]]
    room = most
    for first, last in ranges:
        while last - first >= room:
            if room:
                parts[-1].append((first, first + room - 1))
            first, room = first + room, most
            parts.append([])
        parts[-1].append((first, last))
        room -= last - first + 1
    return parts


def pack_ranges(ranges: Sequence[Range]) -> bytes:
    """Ranges as numbers of 64 bits, big-endian, first and last of each in turn."""
    return struct.pack(f">{2 * len(ranges)}Q", *chain.from_iterable(ranges)) if ranges else b""


def unpack_ranges(data: bytes) -> list[Range]:
    """The ranges that were packed (`pack_ranges`)."""
    if not data:
        return []
    flat = struct.unpack(f">{len(data) >> 3}Q", data)
    return list(zip(flat[::2], flat[1::2], strict=True))
