"""Filters of streams: the values that messages have, and those that a reader asks for.

A publisher says a message's value in the header `x-stream-filter-value`, as a string; whoever says
none, or something else, has none. Inputs: encoded messages (`fedq.core.message`), whose property
lists were checked; values that others name. Outputs: which messages are asked for, and what it cost
to find out; what is wrong with such values.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fedq.amqp.values import skip_value
from fedq.core.limits import NAME_BYTES_MAX, STREAM_FILTER_BYTES_MAX, STREAM_FILTER_VALUES_MAX
from fedq.core.message import HEAD_SIZE

_NAME: Final = b"x-stream-filter-value"
#: As it stands in a table: behind its length.
_KEY: Final = b"\x15" + _NAME
_STRING: Final = 0x53
#: Property flags: content type and encoding stand before the headers.
_CONTENT_TYPE: Final = 0x80
_CONTENT_ENCODING: Final = 0x40
#: What a message costs, in units of work; the bytes of a property list that is searched, and of one
#: that is walked: as shifts.
_MESSAGE_SHIFT: Final = 1
_SEARCH_SHIFT: Final = 12
_WALK_SHIFT: Final = 4


class StreamFilter(NamedTuple):
    """What a reader asks for: messages with one of the values; and, perhaps, those without one."""

    values: tuple[bytes, ...]
    unfiltered: bool = False


class Sieve:
    """Finds what a filter asks for, and counts what that costs."""

    __slots__ = ("_is_wanted", "_properties", "_unfiltered", "_values", "work")

    def __init__(self, wanted: StreamFilter) -> None:
        self._values = dict.fromkeys(wanted.values)
        self._unfiltered = wanted.unfiltered
        #: The property list that was judged last, and how; it is never empty.
        self._properties = b""
        self._is_wanted = False
        #: In units of work.
        self.work = 0

    def pick(self, messages: Sequence[bytes], most: int, size: int) -> tuple[int, list[int]]:
        """How many messages were looked at, and which of them are wanted.

        Ends behind the last one when so many are found, or so many bytes of them.
        """
        found: list[int] = []
        count = 0
        for index, message in enumerate(messages):
            count += 1
            if self._takes(message):
                found.append(index)
                size -= len(message)
                if len(found) >= most or size <= 0:
                    break
        self.work += 1 + (count >> _MESSAGE_SHIFT)
        return count, found

    def _takes(self, message: bytes) -> bool:
        properties_at = HEAD_SIZE + (message[1] << 8 | message[2])
        body_at = properties_at + int.from_bytes(message[3:HEAD_SIZE], "big")
        properties = message[properties_at:body_at]
        if properties != self._properties:
            self._properties = properties
            value: bytes | None = None
            self.work += len(properties) >> _SEARCH_SHIFT
            if _KEY in properties:
                self.work += len(properties) >> _WALK_SHIFT
                value = _value_in(properties)
            self._is_wanted = self._unfiltered if value is None else value in self._values
        return self._is_wanted


def filter_value(message: bytes) -> bytes | None:
    """The value of a message; None if it has none."""
    properties_at = HEAD_SIZE + (message[1] << 8 | message[2])
    body_at = properties_at + int.from_bytes(message[3:HEAD_SIZE], "big")
    properties = message[properties_at:body_at]
    return _value_in(properties) if _KEY in properties else None


def _value_in(properties: bytes) -> bytes | None:
    """The value in a property list. Of repeated headers the last one counts."""
    flags = properties[0]
    if not flags & 0x20:
        return None
    at = 2
    for bit in (_CONTENT_TYPE, _CONTENT_ENCODING):
        if flags & bit:
            at += 1 + properties[at]
    end = at + 4 + int.from_bytes(properties[at : at + 4], "big")
    at += 4
    value: bytes | None = None
    while at < end:
        value_at = at + 1 + properties[at]
        is_it = properties[at] == len(_NAME) and properties[at + 1 : value_at] == _NAME
        at = skip_value(properties, value_at)
        if is_it:
            value = properties[value_at + 5 : at] if properties[value_at] == _STRING else None
    return value


def fault_of_values(values: Sequence[bytes]) -> str | None:
    """What is wrong with the values of a filter; None: nothing."""
    if len(values) > STREAM_FILTER_VALUES_MAX:
        return f"{len(values)} values: at most {STREAM_FILTER_VALUES_MAX}"
    longest = max(map(len, values), default=0)
    if longest > NAME_BYTES_MAX:
        return f"a value of {longest} bytes: at most {NAME_BYTES_MAX}"
    size = sum(map(len, values))
    if size > STREAM_FILTER_BYTES_MAX:
        return f"values of {size} bytes together: at most {STREAM_FILTER_BYTES_MAX}"
    return None
