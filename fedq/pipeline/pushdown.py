"""Conditions of a query that nodes can look at: ranges of offsets and times, fragments, routes.

Input: conditions on columns, all of which hold for a row that is wanted. Output: what a read may
leave out. It never leaves out more than the conditions do, and may leave out less: whoever asked
looks at every row again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, NamedTuple

from fedq.core.limits import NAME_BYTES_MAX, STREAM_FILTER_VALUES_MAX
from fedq.pipeline.given import NUMBER_MAX
from fedq.pipeline.planning import FragmentState, Offsets

#: Stands in columns for bytes that are no UTF-8.
_REPLACED: Final = "\ufffd"
_US_PER_MS: Final = 1_000
_COMPARED: Final = ("=", "<", "<=", ">", ">=")


class Condition(NamedTuple):
    """A column, compared with something: =, <, <=, >, >=, in, starts."""

    column: str
    kind: str
    value: object


class Routes(NamedTuple):
    """Routes that are wanted; None: all exchanges, all keys."""

    exchanges: tuple[str, ...] | None = None
    keys: tuple[str, ...] | None = None
    #: How a key begins.
    prefix: str = ""

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.exchanges is None and self.keys is None and not self.prefix

    @property
    def is_nothing(self) -> bool:
        """Whether no message has such a route."""
        return self.exchanges == () or self.keys == ()


ALL_ROUTES: Final = Routes()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a read has to bring."""

    #: None: all fragments.
    fragments: frozenset[int] | None = None
    #: Offsets, from `begin` up to before `end`, of all fragments.
    begin: int = 0
    end: int = NUMBER_MAX
    #: Times in milliseconds since 1970, from `since_ms` up to before `before_ms`; None: no bound.
    since_ms: int | None = None
    before_ms: int | None = None
    routes: Routes = field(default_factory=Routes)

    @property
    def times(self) -> list[int]:
        """The times that somebody has to look up."""
        return [each for each in (self.since_ms, self.before_ms) if each is not None]


def wanted_of(conditions: Iterable[Condition]) -> Wanted:
    """What all of the conditions together want, as far as nodes can look at it."""
    wanted = Wanted()
    for condition in conditions:
        match condition.column:
            case "offset":
                wanted = _with_offset(wanted, condition)
            case "fragment":
                wanted = _with_fragment(wanted, condition)
            case "timestamp":
                wanted = _with_time(wanted, condition)
            case "exchange" | "routing_key":
                wanted = replace(wanted, routes=_with_route(wanted.routes, condition))
    return wanted


def narrowed(
    states: Sequence[FragmentState], begins: Offsets, through: Offsets, wanted: Wanted
) -> tuple[Offsets, Offsets]:
    """Where reads begin and end that bring what is wanted; of no more than was planned."""
    first: Offsets = {}
    last: Offsets = {}
    for state in states:
        number = state.number
        is_left_out = wanted.fragments is not None and number not in wanted.fragments
        if number not in through or is_left_out or wanted.routes.is_nothing:
            continue
        begin, end = max(begins[number], wanted.begin), min(through[number], wanted.end)
        if wanted.since_ms is not None:
            begin = max(begin, state.since[wanted.since_ms])
        if wanted.before_ms is not None:
            end = min(end, state.since[wanted.before_ms])
        if begin < end:
            first[number], last[number] = begin, end
    return first, last


def _with_offset(wanted: Wanted, condition: Condition) -> Wanted:
    found = _interval(condition)
    if found is None:
        return wanted
    begin, end = found
    return replace(wanted, begin=max(wanted.begin, begin), end=max(0, min(wanted.end, end)))


def _with_fragment(wanted: Wanted, condition: Condition) -> Wanted:
    values = _values(condition)
    if values is None or not all(map(_is_whole, values)):
        return wanted
    found = frozenset(each for each in values if isinstance(each, int))
    known = wanted.fragments
    return replace(wanted, fragments=found if known is None else known & found)


def _with_time(wanted: Wanted, condition: Condition) -> Wanted:
    at = condition.value
    if not isinstance(at, datetime) or at.tzinfo is None or condition.kind not in _COMPARED:
        return wanted
    microseconds = round(at.timestamp() * 1_000_000)
    found = _interval(condition._replace(value=microseconds))
    assert found is not None, "it is compared with a number"
    # Rows have whole milliseconds: the first one from there on.
    begin, end = (-(-each // _US_PER_MS) for each in found)
    since, before = wanted.since_ms, wanted.before_ms
    if 0 < begin <= NUMBER_MAX:
        since = begin if since is None else max(since, begin)
    if 0 <= end < NUMBER_MAX // _US_PER_MS:
        before = end if before is None else min(before, end)
    return replace(wanted, since_ms=since, before_ms=before)


def _with_route(routes: Routes, condition: Condition) -> Routes:
    if condition.kind == "starts":
        return _with_prefix(routes, condition)
    values = _values(condition)
    if values is None or not all(map(_is_name, values)):
        return routes
    found = tuple(dict.fromkeys(each for each in values if isinstance(each, str)))
    # What no name can be is none of a message.
    found = tuple(each for each in found if len(each.encode()) <= NAME_BYTES_MAX)
    if len(found) > STREAM_FILTER_VALUES_MAX:
        return routes
    if condition.column == "exchange":
        return routes._replace(exchanges=_both(routes.exchanges, found))
    keys = _both(routes.keys, found)
    return _fitting(routes._replace(keys=keys))


def _with_prefix(routes: Routes, condition: Condition) -> Routes:
    prefix = condition.value
    if condition.column != "routing_key" or not _is_name(prefix) or not isinstance(prefix, str):
        return routes
    if len(prefix.encode()) > NAME_BYTES_MAX:
        return routes._replace(keys=())
    if routes.prefix.startswith(prefix):
        return routes
    if not prefix.startswith(routes.prefix):
        return routes._replace(keys=())
    return _fitting(routes._replace(prefix=prefix))


def _fitting(routes: Routes) -> Routes:
    """Keys alone, where there are keys: those that begin as they have to."""
    if routes.keys is None:
        return routes
    keys = tuple(key for key in routes.keys if key.startswith(routes.prefix))
    return routes._replace(keys=keys)


def _both(known: tuple[str, ...] | None, found: tuple[str, ...]) -> tuple[str, ...]:
    return found if known is None else tuple(each for each in known if each in found)


def _values(condition: Condition) -> list[object] | None:
    """The values of which the column has one; None if it is compared otherwise."""
    if condition.kind == "=":
        return [condition.value]
    if condition.kind == "in" and isinstance(condition.value, Sequence):
        # A column is never equal to NULL.
        return [each for each in condition.value if each is not None]
    return None


def _interval(condition: Condition) -> tuple[int, int] | None:
    """From which whole number up to before which one the column is; None: nothing is known."""
    kind, value = condition.kind, condition.value
    if kind == "in":
        values = _values(condition) or []
        numbers = [each for each in values if isinstance(each, int) and _is_whole(each)]
        if not numbers or len(numbers) < len(values):
            return None
        return min(numbers), max(numbers) + 1
    if not isinstance(value, int) or not _is_whole(value):
        return None
    begin, end = 0, NUMBER_MAX
    if kind in ("=", ">="):
        begin = value
    if kind == ">":
        begin = value + 1
    if kind in ("=", "<="):
        end = value + 1
    if kind == "<":
        end = value
    return (begin, end) if kind in _COMPARED else None


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _REPLACED not in value
