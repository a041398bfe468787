"""A channel's deliveries that wait for an acknowledgement, by delivery tag.

Tags grow by one with each delivery of the channel (AMQP 0-9-1, 1.8.3.13). An acknowledgement
names one tag, or all up to one (`multiple`), or all there are (tag 0 with `multiple`).
"""

from collections import deque
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from fedq.core.ids import FragmentId

Holder = TypeVar("Holder")


class Delivery(NamedTuple, Generic[Holder]):
    """One message that is with a consumer: `holder` is the consumer, or None after `basic.get`."""

    holder: Holder
    fragment: FragmentId
    position: int


class UnackedWindow(Generic[Holder]):
    """Deliveries in tag order. Each operation costs O(1) per delivery it concerns."""

    __slots__ = ("_by_tag", "_order", "last_tag")

    def __init__(self) -> None:
        #: The tag given last on this channel; 0 before the first delivery.
        self.last_tag = 0
        self._by_tag: dict[int, Delivery[Holder]] = {}
        #: The tags in order; those settled out of turn stay until they are at the front.
        self._order: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._by_tag)

    def add(self, holder: Holder, fragment: FragmentId, positions: list[int]) -> int:
        """Gives the next tags to deliveries; returns the first of them."""
        first = self.last_tag + 1
        self.last_tag += len(positions)
        for tag, position in enumerate(positions, first):
            self._by_tag[tag] = Delivery(holder, fragment, position)
        self._order.extend(range(first, self.last_tag + 1))
        return first

    def skip(self, count: int) -> int:
        """Gives tags to deliveries that need no acknowledgement; returns the first."""
        first = self.last_tag + 1
        self.last_tag += count
        return first

    def resolve(self, tag: int, multiple: bool) -> list[Delivery[Holder]] | None:
        """Removes what the acknowledgement names; None if the tag is unknown (406)."""
        order, by_tag = self._order, self._by_tag
        if not multiple:
            delivery = by_tag.pop(tag, None)
            if delivery is None:
                return None
            if order[0] == tag:
                order.popleft()
            elif len(order) > 2 * len(by_tag) + 1_000:
                self._order = deque(by_tag)
            return [delivery]
        if tag > self.last_tag:
            return None
        found: list[Delivery[Holder]] = []
        while order and (tag == 0 or order[0] <= tag):
            delivery = by_tag.pop(order.popleft(), None)
            if delivery is not None:
                found.append(delivery)
        if not found and tag != 0:
            return None
        return found

    def named(self, tag: int, multiple: bool) -> list[int]:
        """The tags that an acknowledgement names, in order; none if it is unknown."""
        if not multiple:
            return [tag] if tag in self._by_tag else []
        if tag > self.last_tag:
            return []
        return [known for known in self._by_tag if tag == 0 or known <= tag]

    def restore(self, deliveries: Iterable[tuple[int, Delivery[Holder]]]) -> None:
        """Deliveries that were resolved wait for an acknowledgement again, under their tags."""
        self._by_tag = dict(sorted({**self._by_tag, **dict(deliveries)}.items()))
        self._order = deque(self._by_tag)

    def take_all(self) -> list[Delivery[Holder]]:
        """Everything, in tag order; the window is empty afterwards (close, recover)."""
        found = list(self._by_tag.values())
        self._by_tag.clear()
        self._order.clear()
        return found

    def deliveries(self) -> list[Delivery[Holder]]:
        """All of them, in tag order."""
        return list(self._by_tag.values())
