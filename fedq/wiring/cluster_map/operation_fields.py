"""Checks of single fields of the cluster map's operations.

Each takes what JSON gave and returns the value as operations hold it, or raises ValueError with
what is wrong with it. What they let through is within its limit.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import orjson

from fedq.core import limits

Check: TypeAlias = Callable[[object], object]

_NUMBER_MAX: Final = 1 << 60


def bounded(most: int) -> Callable[[object], str]:
    """Checks a text of at most so many bytes."""

    def check(value: object) -> str:
        if not isinstance(value, str):
            raise ValueError("is not a string")
        if len(value.encode()) > most:
            raise ValueError(f"is longer than {most} bytes")
        return value

    return check


#: A name or the like, up to the length of a short string.
text: Final = bounded(limits.NAME_BYTES_MAX)


def name(value: object) -> str:
    """Checks a text that is not empty."""
    found = text(value)
    if not found:
        raise ValueError("is empty")
    return found


def flag(value: object) -> bool:
    """Checks a value that is true or false."""
    if not isinstance(value, bool):
        raise ValueError("is neither true nor false")
    return value


def number(value: object) -> int:
    """Checks a number from 1."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < _NUMBER_MAX:
        raise ValueError("is not a number from 1")
    return value


def count(value: object) -> int:
    """Checks a number from 0."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _NUMBER_MAX:
        raise ValueError("is not a number from 0")
    return value


def integer(value: object) -> int:
    """Checks a number, which may be below 0."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _NUMBER_MAX:
        raise ValueError("is not a whole number")
    return value


def up_to(most: int) -> Callable[[object], int]:
    """Checks a number from 1 to `most`."""

    def check(value: object) -> int:
        found = number(value)
        if found > most:
            raise ValueError(f"is more than {most}")
        return found

    return check


def one_of(words: tuple[str, ...]) -> Callable[[object], str]:
    """Checks a text that is one of these words."""

    def check(value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise ValueError(f"is none of {', '.join(words)}")
        return value

    return check


def canonical_arguments(value: object) -> str:
    """The one text for a table of arguments: keys sorted, no spaces, "" for an empty one.

    Raises ValueError if it is no JSON object, or nested too deeply.
    """
    if not isinstance(value, str):
        raise ValueError("is not a string")
    if not value:
        return ""
    table = orjson.loads(value)
    if not isinstance(table, dict):
        raise ValueError("is not a JSON object")
    if not table:
        return ""
    try:
        return orjson.dumps(table, option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONEncodeError as error:  # a TypeError: nested beyond what can be written
        raise ValueError(str(error)) from error


def arguments_of(canonical: str) -> dict[str, Any]:
    """The table that a canonical text stands for."""
    return dict(orjson.loads(canonical)) if canonical else {}


def nodes(value: object) -> tuple[str, ...]:
    """The nodes of a fragment's copies, less the primary."""
    if not isinstance(value, list) or len(value) > limits.REPLICAS_MAX:
        raise ValueError(f"is not a list of at most {limits.REPLICAS_MAX} nodes")
    return tuple(name(item) for item in value)


def copies(value: object) -> tuple[tuple[str, int], ...]:
    """Pairs of node and incarnation."""
    if not isinstance(value, list) or len(value) > limits.REPLICAS_MAX + 1:
        raise ValueError(f"is not a list of at most {limits.REPLICAS_MAX + 1} copies")
    found = []
    for item in value:
        if not isinstance(item, list) or len(item) != 2:
            raise ValueError("has an entry that is no pair of node and incarnation")
        found.append((name(item[0]), number(item[1])))
    return tuple(found)
