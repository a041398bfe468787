"""The kept routes of a topic exchange, to which any number of different keys may come."""

from typing import Final, cast

from fedq.core.ids import NodeId, QueueKey
from fedq.wiring.routing.exchanges import ToExchange, TopicTable
from fedq.wiring.routing.route import Route, sorted_out

#: So many destinations in total are kept, in the sets of those that were matched together.
_SETS_WEIGHT_MAX: Final = 100_000


class TopicRoutes:
    """A topic exchange as it is while nothing but bindings that come changes it.

    Kept are the answers for sets of destinations, by the numbers that the table gave them. A new
    binding leaves them true: it does not change which destination a number stands for.
    """

    __slots__ = ("_delays", "_everything", "_has_alternate", "_known", "_match", "_weight",
                 "table", "walked")  # fmt: skip

    def __init__(
        self, table: TopicTable, everything: tuple[NodeId, ...], delays: bool, has_alternate: bool
    ) -> None:
        self.table = table
        #: What its matches had cost when that was charged last, in units of work.
        self.walked = table.walked
        self._match = table.match_numbers
        self._everything = everything
        self._delays = delays
        self._has_alternate = has_alternate
        self._known: dict[tuple[int, ...], Route] = {}
        self._weight = 0

    def route(self, key: bytes) -> Route | None:
        """The answer for a routing key; None if other exchanges have a say in it."""
        numbers = self._match(key)
        known = self._known.get(numbers)
        return known if known is not None else self._find(numbers)

    def _find(self, numbers: tuple[int, ...]) -> Route | None:
        table = self.table
        if numbers and not table.others and not self._everything:
            queues = cast("list[QueueKey]", table.named(numbers))
            answer = Route(tuple(queues), (), (), self._delays, True)
        elif self._has_alternate and not numbers:
            return None
        else:
            found = dict.fromkeys(table.named(numbers), 1)
            if any(isinstance(destination, ToExchange) for destination in found):
                return None
            found.update(dict.fromkeys(self._everything, 1))
            answer = sorted_out(found, self._delays, True)
        self._weight += 1 + len(numbers)
        if self._weight > _SETS_WEIGHT_MAX:
            self._known, self._weight = {}, 1 + len(numbers)
        self._known[numbers] = answer
        return answer
