"""Named readers of streams: plain records for `fedq.node.streams.naming` (docs/adr/0063)."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from fedq.core.ids import NodeId

#: A reader anywhere: its node, and its number there.
Key: TypeAlias = tuple[NodeId, int]


class Moves(Protocol):
    """A cursor: it can be put elsewhere."""

    next: int


class Member:
    """A named reader of this node in a fragment of its stream, from its basic.consume on."""

    __slots__ = (
        "_order", "_settled", "cursor", "forgets", "is_refused", "is_served", "kind", "name",
        "next", "number", "then", "value", "yields",
    )  # fmt: skip

    def __init__(self, number: int, name: str, kind: int, value: int, forgets: bool) -> None:
        self.number = number
        self.name = name
        #: Where it begins if its name is new.
        self.kind = kind
        self.value = value
        self.forgets = forgets
        #: Hears once where it begins, or that its stream is gone; None: it has.
        self.then: Callable[[int | None], None] | None = None
        self.is_served = self.is_refused = False
        #: Its turn ends once it has acknowledged what it got.
        self.yields = False
        #: Once it has begun.
        self.cursor: Moves | None = None
        #: The position behind what it got.
        self.next = 0
        #: What it has not acknowledged, in order; and of these, what it has, out of order.
        self._order: deque[int] = deque()
        self._settled: dict[int, bool] = {}

    @property
    def is_idle(self) -> bool:
        """Whether it has acknowledged all it got."""
        return not self._order

    @property
    def place(self) -> int:
        """Where somebody has to begin to get what it has not acknowledged."""
        return self._order[0] if self._order else self.next

    def begin(self, position: int) -> None:
        """Begins there, with nothing in hand."""
        self.next = position
        if self.cursor is not None:
            self.cursor.next = position
        self._order.clear()
        self._settled = {}

    def deliver(self, positions: Sequence[int], following: int) -> None:
        """Notes deliveries, and where it goes on behind them."""
        self._order.extend(positions)
        self._settled.update(dict.fromkeys(positions, False))
        self.next = following

    def settle(self, positions: Sequence[int]) -> None:
        """Notes what it acknowledged; what it got before it began anew does not count."""
        order, settled = self._order, self._settled
        for position in positions:
            if position in settled:
                settled[position] = True
        while order and settled[order[0]]:
            del settled[order.popleft()]


class Group:
    """The readers of a name in a fragment, where that is served."""

    __slots__ = ("_order", "forgets", "members", "served", "yields")

    def __init__(self) -> None:
        #: In the order in which they came, and in one that is the same for all fragments.
        self.members: dict[Key, None] = {}
        self._order: list[Key] = []
        self.served: Key | None = None
        #: Who is served was asked to give its turn back.
        self.yields = False
        #: The name goes with the last of them.
        self.forgets = False

    def add(self, key: Key) -> None:
        """Adds one of them, if it is not there."""
        if key not in self.members:
            self.members[key] = None
            insort(self._order, key)

    def remove(self, key: Key) -> None:
        """Removes one of them."""
        del self.members[key]
        del self._order[bisect_left(self._order, key)]

    def serve(self, key: Key | None) -> None:
        """Notes whose turn it is now; None: nobody's."""
        self.served = key
        self.yields = False

    def next(self, share: int | None) -> Key:
        """The one to be served, if there is anybody.

        The first that came, and then it stays so; or, where fragments are shared, whose share this
        one is.
        """
        if share is None:
            return self.served or next(iter(self.members))
        return self._order[share % len(self._order)]
