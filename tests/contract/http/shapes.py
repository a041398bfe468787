"""The shape of a JSON value: keys and types, without values; and where two shapes differ.

A list has the shape of all its items together: what only some of them have is there, too.
"""

from collections.abc import Iterator
from typing import Any, Final

Shape = Any
#: Whose keys are names of things, and not of columns.
_NAMED = ("arguments", "client_properties", "cluster_state", "limits", "value", "headers")
#: How what it lacks is told.
NO_SUCH_KEY: Final = "RabbitMQ has no such key"


def shape_of(value: object) -> Shape:
    """The shape of a value."""
    if isinstance(value, dict):
        return {
            key: "table" if key in _NAMED and isinstance(each, dict) else shape_of(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        merged: Shape = None
        for each in value:
            merged = _merged(merged, shape_of(each))
        return [] if merged is None else [merged]
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int | float):
        return "number"
    return "nothing" if value is None else "text"


def _merged(one: Shape, other: Shape) -> Shape:
    if one is None or one == "nothing":
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: _merged(one.get(key), other.get(key)) for key in {**one, **other}}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])] if one and other else one or other
    return one if other in (None, "nothing") else other


def lacking(ours: Shape, theirs: Shape, at: str = "") -> Iterator[str]:
    """Keys of theirs that ours does not have; not what is within such a key."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, each in theirs.items():
            if key not in ours:
                yield f"{at}.{key}".lstrip(".")
            else:
                yield from lacking(ours[key], each, f"{at}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and ours and theirs:
        yield from lacking(ours[0], theirs[0], at)


def wrong(ours: Shape, theirs: Shape, at: str = "") -> Iterator[str]:
    """What ours has of another type than theirs, or theirs has not at all, unless it is fedq's."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, each in ours.items():
            if key in theirs:
                yield from wrong(each, theirs[key], f"{at}.{key}")
            elif not key.startswith("fedq_"):
                yield f"{at}.{key}: {NO_SUCH_KEY}"
    elif isinstance(ours, list) and isinstance(theirs, list):
        if ours and theirs:
            yield from wrong(ours[0], theirs[0], at)
    elif ours != theirs and "nothing" not in (ours, theirs):
        yield f"{at}: {ours!r}, and in RabbitMQ {theirs!r}"
