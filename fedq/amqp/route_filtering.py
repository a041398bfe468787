"""Filters of routes: which messages of a stream a scan wants.

Input: encoded messages (`fedq.core.message`); a filter of routes. Output: which messages are
wanted, and what it cost to find out. Neighbours have the same route more often than not, and it is
judged once for all of them; what was judged before is remembered, up to a bound.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from fedq.core.limits import NAME_BYTES_MAX, STREAM_FILTER_VALUES_MAX
from fedq.core.message import HEAD_SIZE

#: Routes that are remembered.
_KNOWN_MAX: Final = 1_024
#: What a message costs, in units of work, as a shift; and names that a route is compared with.
_MESSAGE_SHIFT: Final = 3
_NAMES_SHIFT: Final = 2


class RouteFilter(NamedTuple):
    """Routes that are wanted: of one of the exchanges, and with one of the keys or prefixes.

    Without any exchange all of them are wanted; without any key or prefix all keys are.
    """

    exchanges: tuple[bytes, ...] = ()
    keys: tuple[bytes, ...] = ()
    prefixes: tuple[bytes, ...] = ()


class RouteSieve:
    """Finds what a filter of routes asks for, and counts what that costs."""

    __slots__ = ("_exchanges", "_keys", "_known", "_names", "_prefixes", "work")

    def __init__(self, wanted: RouteFilter) -> None:
        self._exchanges = dict.fromkeys(wanted.exchanges)
        self._keys = dict.fromkeys(wanted.keys)
        self._prefixes = wanted.prefixes
        self._names = len(wanted.prefixes)
        self._known: dict[bytes, bool] = {}
        #: In units of work.
        self.work = 0

    def pick(self, messages: Sequence[bytes], most: int, size: int) -> tuple[int, list[int]]:
        """How many messages were looked at, and which of them are wanted.

        Ends behind the last one when so many are found, or so many bytes of them.
        """
        found: list[int] = []
        count = 0
        route, is_wanted = b"", False
        for message in messages:
            if not route or not message.startswith(route, HEAD_SIZE):
                route = message[HEAD_SIZE : HEAD_SIZE + (message[1] << 8 | message[2])]
                is_wanted = self._is_wanted(route)
            if is_wanted:
                found.append(count)
                size -= len(message)
            count += 1
            if size <= 0 or len(found) >= most:
                break
        self.work += 1 + (count >> _MESSAGE_SHIFT)
        return count, found

    def _is_wanted(self, route: bytes) -> bool:
        known = self._known.get(route)
        if known is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self.work += 1 + (self._names >> _NAMES_SHIFT)
            known = self._known[route] = self._judge(route)
        return known

    def _judge(self, route: bytes) -> bool:
        key_at = 1 + route[0]
        if self._exchanges and route[1:key_at] not in self._exchanges:
            return False
        if not self._keys and not self._prefixes:
            return True
        key = route[key_at + 1 :]
        return key in self._keys or key.startswith(self._prefixes)


def fault_of_routes(wanted: RouteFilter) -> str | None:
    """What is wrong with a filter that somebody names; None: nothing."""
    for names in wanted:
        if len(names) > STREAM_FILTER_VALUES_MAX:
            return (
                f"{len(names)} names: at most {STREAM_FILTER_VALUES_MAX} exchanges, keys and "
                "prefixes each"
            )
        longest = max(map(len, names), default=0)
        if longest > NAME_BYTES_MAX:
            return f"a name of {longest} bytes: at most {NAME_BYTES_MAX}"
    return None
