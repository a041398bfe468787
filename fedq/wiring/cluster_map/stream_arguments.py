"""The words that only streams know: how old a message may become, and where a reader begins.

Inputs: values of arguments of queue.declare and basic.consume. Outputs: plain values, or what is
wrong with them, in RabbitMQ's words (those of 3.10; where that one fails with 541, in the words
that the neighbouring case gets).
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from fedq.amqp.filtering import StreamFilter, fault_of_values
from fedq.amqp.values import Timestamp
from fedq.core.limits import NAME_BYTES_MAX, STREAM_FILTER_VALUES_MAX
from fedq.wiring.routing.arguments import type_name, value_text

#: The largest segment that may be asked for.
SEGMENT_BYTES_MAX: Final = 3_000_000_000
#: An age is at most this long, whatever was said: longer than any clock.
_AGE_MS_MAX: Final = 1 << 60
#: And so many digits of it are read.
_DIGITS_MAX: Final = 18
_SECOND_MS: Final = 1_000
_UNITS: Final = {
    "s": _SECOND_MS,
    "m": 60 * _SECOND_MS,
    "h": 3_600 * _SECOND_MS,
    "D": 86_400 * _SECOND_MS,
    "M": 30 * 86_400 * _SECOND_MS,
    "Y": 365 * 86_400 * _SECOND_MS,
}

#: Where a reader begins: what kind of word it said.
FIRST: Final = 1
LAST: Final = 2
NEXT: Final = 3
#: An offset, and a time in milliseconds since 1970.
OFFSET: Final = 4
TIME: Final = 5
KINDS: Final = (FIRST, LAST, NEXT, OFFSET, TIME)
#: Offsets that are further than any stream goes.
_OFFSET_MAX: Final = (1 << 62) - 1
_WORDS: Final = {"first": FIRST, "last": LAST, "next": NEXT}


class Beginning(NamedTuple):
    """Where a reader begins: one of the kinds, and its number."""

    kind: int
    value: int = 0


def age_ms(text: str) -> int | None:
    """A duration such as "7D" in milliseconds; None if it is none."""
    digits, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not digits.isascii() or not digits.isdigit():
        return None
    digits = digits.lstrip("0")
    if not digits:
        return None
    if len(digits) > _DIGITS_MAX:
        return _AGE_MS_MAX
    return min(int(digits) * _UNITS[unit], _AGE_MS_MAX)


def refuse_age(value: Any) -> str | None:
    """What is wrong with an `x-max-age`; None: nothing."""
    if not isinstance(value, str):
        return f"{{unacceptable_type,{type_name(value)}}}"
    return None if age_ms(value) is not None else "invalid_max_age"


def beginning_of(value: Any, unix_ms: int) -> Beginning | str:
    """Where a reader with this `x-stream-offset` begins, or what is wrong with it.

    An interval reaches back from now (`unix_ms`).
    """
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if isinstance(value, str):
        if value in _WORDS:
            return Beginning(_WORDS[value])
        age = age_ms(value)
        if age is not None:
            return Beginning(TIME, max(0, unix_ms - age))
    elif isinstance(value, Timestamp):
        return Beginning(TIME, max(0, min(int(value) * _SECOND_MS, _OFFSET_MAX)))
    elif isinstance(value, int) and not isinstance(value, bool | Decimal):
        return Beginning(OFFSET, min(value, _OFFSET_MAX)) if value > 0 else Beginning(FIRST)
    shown = value_text(value)
    said = f'<<"{shown}">>' if isinstance(value, str) else shown
    return f"{{invalid_stream_offset_arg,{{{type_name(value)},{said}}}}}"


#: The arguments of a reader's filter.
FILTER: Final = "x-stream-filter"
UNFILTERED: Final = "x-stream-match-unfiltered"


class Misfit(NamedTuple):
    """An argument that makes no sense, and what is wrong with it."""

    argument: str
    text: str


def filter_of(arguments: Mapping[str, Any]) -> StreamFilter | Misfit | None:
    """The filter of a reader with these arguments; None for one that gets everything.

    Whether messages without a value are wanted means nothing without a filter, as in RabbitMQ.
    """
    unfiltered = arguments.get(UNFILTERED, False)
    if not isinstance(unfiltered, bool):
        return Misfit(UNFILTERED, f"{{unacceptable_type,{type_name(unfiltered)}}}")
    if FILTER not in arguments:
        return None
    wanted = arguments[FILTER]
    values = wanted if isinstance(wanted, list) else [wanted]
    if not values:
        return Misfit(FILTER, "it names no value: leave it out to get everything")
    if len(values) > STREAM_FILTER_VALUES_MAX:
        return Misfit(FILTER, f"{len(values)} values: at most {STREAM_FILTER_VALUES_MAX}")
    found: list[bytes] = []
    for value in values:
        if isinstance(value, str):
            found.append(value.encode("utf-8", "surrogateescape"))
        elif isinstance(value, bytes):
            found.append(value)
        else:
            return Misfit(FILTER, f"{{unacceptable_type,{type_name(value)}}}")
    fault = fault_of_values(found)
    if fault is not None:
        return Misfit(FILTER, fault)
    return StreamFilter(tuple(sorted(dict.fromkeys(found))), unfiltered)


#: The arguments of a reader with a name.
NAME: Final = "x-fedq-consumer-name"
FORGET: Final = "x-fedq-consumer-forget"


class ReaderName(NamedTuple):
    """The name of a reader, and whether it is forgotten with the last one that has it."""

    name: str
    forgets: bool


def name_of_reader(arguments: Mapping[str, Any]) -> ReaderName | Misfit | None:
    """The name of a reader with these arguments; None for one without."""
    forgets = arguments.get(FORGET, False)
    if not isinstance(forgets, bool):
        return Misfit(FORGET, f"{{unacceptable_type,{type_name(forgets)}}}")
    if NAME not in arguments:
        return Misfit(FORGET, f"it has no {NAME}") if forgets else None
    name = arguments[NAME]
    if not isinstance(name, str):
        return Misfit(NAME, f"{{unacceptable_type,{type_name(name)}}}")
    size = len(name.encode("utf-8", "surrogateescape"))
    if not 0 < size <= NAME_BYTES_MAX:
        return Misfit(NAME, f"a name of {size} bytes: from 1 to {NAME_BYTES_MAX}")
    return ReaderName(name, forgets)
