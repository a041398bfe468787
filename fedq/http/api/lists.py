"""Lists as RabbitMQ gives them: sorted, a page of them, some columns, as JSON 500 rows at a time.

Inputs: rows, and the words of a query: `sort`, `sort_reverse`, `page`, `page_size`, `name`,
`use_regex`, `columns`. Output: an answer. A regular expression goes through the automata of
permissions (`fedq.wiring.cluster_map.patterns`): the standard library's would hold the interpreter
for as long as whoever asks likes.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

import orjson

from fedq.http.bounds import HTTP_ROWS_AT_ONCE
from fedq.http.refusal import HttpRefusal, bad_request
from fedq.http.serving.exchange import Answer, Row
from fedq.wiring.cluster_map.patterns import Pattern, PatternError

_PAGE_SIZE: Final = 100
_PAGE_SIZE_MAX: Final = 500
_INVALID: Final = "Pagination parameters are invalid"


def list_answer(rows: list[Row], query: Mapping[str, str]) -> Answer:
    """The rows that the query wants, as it wants them."""
    total = len(rows)
    page = _page_of(query)
    if page is not None:
        matches = _matcher(query)
        rows = [row for row in rows if matches(str(row.get("name", "")))]
    sort = query.get("sort")
    if sort:
        path = sort.split(".")
        rows.sort(key=lambda row: _rank(_at(row, path)))
        if query.get("sort_reverse") == "true":
            rows.reverse()
    columns = _columns(query)
    if page is None:
        if len(rows) <= HTTP_ROWS_AT_ONCE:
            return Answer(body=orjson.dumps(_wanted(rows, columns)))
        return Answer(parts=_encoded(rows, columns))
    number, size = page
    filtered = len(rows)
    count = max(1, -(-filtered // size))
    if number > count:
        text = f"Page out of range, page: {number} page size: {size}, len: {filtered}"
        raise HttpRefusal(400, "page_out_of_range", text)
    shown = rows[(number - 1) * size : number * size]
    counts = {
        "page": number, "page_count": count, "page_size": size, "total_count": total,
        "filtered_count": filtered, "item_count": len(shown),
    }  # fmt: skip
    return Answer(body=orjson.dumps({**counts, "items": _wanted(shown, columns)}))


def one_answer(row: Row, query: Mapping[str, str]) -> Answer:
    """One row, with the columns that the query wants."""
    columns = _columns(query)
    return Answer(body=orjson.dumps(row if columns is None else _cut(row, columns)))


async def _encoded(rows: list[Row], columns: list[list[str]] | None) -> AsyncIterator[bytes]:
    """A JSON list in parts, with room for the thread's other work in between."""
    before = b"["
    for start in range(0, len(rows), HTTP_ROWS_AT_ONCE):
        part = _wanted(rows[start : start + HTTP_ROWS_AT_ONCE], columns)
        yield before + orjson.dumps(part)[1:-1]
        before = b","
        await asyncio.sleep(0)
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
    wanted = query.get("name", "")
    if not wanted:
        return lambda _: True
    if query.get("use_regex") != "true":
        return lambda name: wanted.lower() in name.lower()
    try:
        patterns = [Pattern(wanted), Pattern(wanted.lower())]
    except PatternError:
        raise bad_request(_INVALID) from None

    def matches(name: str) -> bool:
        return patterns[0].matches(name) or patterns[1].matches(name.lower())

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
