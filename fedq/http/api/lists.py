"""Lists as RabbitMQ gives them: sorted, a page of them, some columns, as JSON 500 rows at a time.

Inputs: what there is, cheaply (`Listing`), and the words of a query: `sort`, `sort_reverse`,
`page`, `page_size`, `name`, `use_regex`, `columns`. Output: an answer. A page is chosen first, and
then rows are gathered for what is on it alone; only who sorts by a figure has all gathered. A
regular expression goes through the automata of permissions (`fedq.wiring.cluster_map.patterns`):
the standard library's would hold the interpreter for as long as whoever asks likes.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import orjson

from fedq.http.api.slices import in_order, matching, slices
from fedq.http.bounds import HTTP_ROWS_AT_ONCE, HTTP_ROWS_MAX, HTTP_ROWS_SORTED_MAX
from fedq.http.refusal import HttpRefusal, bad_request, unavailable
from fedq.http.serving.exchange import Answer, Row
from fedq.wiring.cluster_map.patterns import Pattern, PatternError

_PAGE_SIZE: Final = 100
_PAGE_SIZE_MAX: Final = 500
_INVALID: Final = "Pagination parameters are invalid"

Thing = TypeVar("Thing")


@dataclass(frozen=True, slots=True)
class Listing(Generic[Thing]):
    """What a list is of."""

    things: Sequence[Thing]
    #: The rows of some of them; those that are gone meanwhile are left out.
    rows: Callable[[Sequence[Thing]], Awaitable[list[Row]]]
    name: Callable[[Thing], str]
    #: Where a thing stands when no order is asked for; None: as they came.
    rank: Callable[[Thing], tuple[Any, ...]] | None = None
    #: Columns that are known without gathering rows.
    columns: Mapping[str, Callable[[Thing], Any]] = field(default_factory=dict)


def of_rows(rows: list[Row]) -> Listing[Row]:
    """The list of rows that were gathered already."""

    async def same(found: Sequence[Row]) -> list[Row]:
        return list(found)

    return Listing(rows, same, lambda row: str(row.get("name", "")))


async def list_answer(listing: Listing[Thing], query: Mapping[str, str]) -> Answer:
    """The rows that the query wants, as it wants them."""
    page, columns = _page_of(query), _columns(query)
    things, total = listing.things, len(listing.things)
    if page is not None and query.get("name"):
        matches = _matcher(query)
        things = await matching(things, lambda each: matches(listing.name(each)))
    elif page is None and total > HTTP_ROWS_MAX:
        raise unavailable(
            f"there are more than {HTTP_ROWS_MAX} of them; ask for pages, or for those of one "
            "virtual host"
        )
    sort = query.get("sort")
    known = listing.columns.get(sort) if sort else None
    if sort and known is None:
        gathered = of_rows(await _gathered(listing, things))
        ordered = await _sorted(gathered.things, _rank_at(sort), query)
        return await _shown(gathered, ordered, page, total, columns)
    if known is not None:
        column = known
        things = await _sorted(things, lambda each: _rank(column(each)), query)
    elif listing.rank is not None:
        things = await in_order(things, listing.rank)
    return await _shown(listing, things, page, total, columns)


async def _sorted(
    things: Sequence[Thing], rank: Callable[[Thing], tuple[Any, ...]], query: Mapping[str, str]
) -> Sequence[Thing]:
    found = await in_order(things, rank)
    if query.get("sort_reverse") == "true":
        found.reverse()
    return found


async def _gathered(listing: Listing[Thing], things: Sequence[Thing]) -> list[Row]:
    """The rows of all things, to be sorted by what only they say."""
    if len(things) > HTTP_ROWS_SORTED_MAX:
        cheap = f", or sort by {', '.join(listing.columns)}" if listing.columns else ""
        raise bad_request(
            f"at most {HTTP_ROWS_SORTED_MAX} are sorted by this column, and there are "
            f"{len(things)}: ask for fewer by name or virtual host{cheap}"
        )
    found: list[Row] = []
    async for part in slices(things, HTTP_ROWS_AT_ONCE):
        found += await listing.rows(part)
    return found


async def _shown(
    listing: Listing[Thing], things: Sequence[Thing], page: tuple[int, int] | None, total: int,
    columns: list[list[str]] | None,
) -> Answer:  # fmt: skip
    """The answer with a page of the things, or all of them."""
    if page is None:
        if len(things) <= HTTP_ROWS_AT_ONCE:
            return Answer(body=orjson.dumps(_wanted(await listing.rows(things), columns)))
        # What is wrong with the first ones has a status yet.
        first = await listing.rows(things[:HTTP_ROWS_AT_ONCE])
        return Answer(parts=_encoded(listing, first, things[HTTP_ROWS_AT_ONCE:], columns))
    number, size = page
    filtered = len(things)
    count = max(1, -(-filtered // size))
    if number > count:
        text = f"Page out of range, page: {number} page size: {size}, len: {filtered}"
        raise HttpRefusal(400, "page_out_of_range", text)
    shown = await listing.rows(things[(number - 1) * size : number * size])
    counts = {
        "page": number, "page_count": count, "page_size": size, "total_count": total,
        "filtered_count": filtered, "item_count": len(shown),
    }  # fmt: skip
    return Answer(body=orjson.dumps({**counts, "items": _wanted(shown, columns)}))


def one_answer(row: Row, query: Mapping[str, str]) -> Answer:
    """One row, with the columns that the query wants."""
    columns = _columns(query)
    return Answer(body=orjson.dumps(row if columns is None else _cut(row, columns)))


async def _encoded(
    listing: Listing[Thing], first: list[Row], others: Sequence[Thing],
    columns: list[list[str]] | None,
) -> AsyncIterator[bytes]:  # fmt: skip
    """A JSON list in parts, each gathered when the one before has been taken."""
    yield b"[" + orjson.dumps(_wanted(first, columns))[1:-1]
    comma = b"," if first else b""
    async for part in slices(others, HTTP_ROWS_AT_ONCE):
        rows = await listing.rows(part)
        if rows:
            yield comma + orjson.dumps(_wanted(rows, columns))[1:-1]
            comma = b","
    yield b"]"


def _wanted(rows: list[Row], columns: list[list[str]] | None) -> list[Any]:
    """What the rows have of the columns."""
    return list(rows) if columns is None else [_cut(row, columns) for row in rows]


def _page_of(query: Mapping[str, str]) -> tuple[int, int] | None:
    """The number and the size of a page; None: no page is wanted."""
    if "page" not in query:
        return None
    said = (query["page"], query.get("page_size", str(_PAGE_SIZE)))
    if not all(text.isascii() and text.isdecimal() and len(text) < 10 for text in said):
        raise bad_request(_INVALID)
    number, size = int(said[0]), int(said[1])
    if number < 1 or not 1 <= size <= _PAGE_SIZE_MAX:
        text = f"Invalid pagination parameters: page number {number}, page size {size}"
        raise HttpRefusal(400, "invalid_pagination_parameters", text)
    return number, size


def _matcher(query: Mapping[str, str]) -> Callable[[str], bool]:
    """Whether a name is wanted; letters of both cases are the same."""
    text = query["name"]
    lower = text.lower()
    if query.get("use_regex") != "true":
        return lambda name: lower in name.lower()
    try:
        pattern, lowered = Pattern(text), Pattern(lower)
    except PatternError:
        raise bad_request(_INVALID) from None

    def matches(name: str) -> bool:
        small = name.lower()
        # Most patterns and names are in small letters: that is one walk.
        return lowered.matches(small) or (
            (small != name or lower != text) and pattern.matches(name)
        )

    return matches


def _columns(query: Mapping[str, str]) -> list[list[str]] | None:
    said = query.get("columns")
    return [each.split(".") for each in said.split(",")] if said else None


def _cut(row: Row, columns: list[list[str]]) -> Row | list[Any]:
    """What a row has of the columns; nothing at all is an empty list, as it is in RabbitMQ."""
    found: Row = {}
    for path in columns:
        value = _at(row, path)
        if value is _ABSENT:
            continue
        place = found
        for step in path[:-1]:
            inner = place.setdefault(step, {})
            if not isinstance(inner, dict):
                break
            place = inner
        else:
            place[path[-1]] = value
    return found or []


def _at(row: Row, path: list[str]) -> Any:
    value: Any = row
    for step in path:
        if not isinstance(value, dict) or step not in value:
            return _ABSENT
        value = value[step]
    return value


def _rank_at(column: str) -> Callable[[Row], tuple[int, Any]]:
    path = column.split(".")
    return lambda row: _rank(_at(row, path))


def _rank(value: Any) -> tuple[int, Any]:
    """Where a value stands among others of whatever type: numbers before words before the rest."""
    if isinstance(value, bool):
        return (1, str(value))
    if isinstance(value, int | float):
        return (0, value)
    if isinstance(value, str):
        return (2, value)
    return (3, "")


#: What a row does not have.
_ABSENT: Final = object()
