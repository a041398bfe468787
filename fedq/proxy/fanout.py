"""Fan-out: a publish crosses once to each node whose private queues want it (design D5).

`Relays` is the publishing side of one link: it numbers relayed publishes and remembers who hears
when they have arrived. `InterestBook` is the subscribing side: it counts what the private queues
of this node want, per exchange and key, and says to the peers only what is new or over; beyond
`INTEREST_KEYS_PER_EXCHANGE_MAX` keys it says "everything" for that exchange.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from fedq.core.batches import cut
from fedq.core.ids import ConnectionId, QueueKey
from fedq.core.limits import (
    INTEREST_KEYS_PER_EXCHANGE_MAX,
    INTEREST_PIECE_BYTES_MAX,
    PEER_WINDOW_BYTES_MAX,
)
from fedq.core.peer_messages import Interest, InterestItem

Waiter = TypeVar("Waiter")


class Relays(Generic[Waiter]):
    """Publishes on their way to one peer's private queues."""

    __slots__ = ("_pending", "_sent", "_waiting", "bytes_sent", "last", "paused")

    def __init__(self) -> None:
        #: The number given last; numbers go on when a link's session ends, so that the peer
        #: recognises what is sent again.
        self.last = 0
        #: What has not been answered.
        self._sent: deque[tuple[int, str, list[bytes]]] = deque()
        self.bytes_sent = 0
        #: Connections whose reading waits for this peer.
        self.paused: dict[ConnectionId, None] = {}
        self._pending: dict[str, list[bytes]] = {}
        self._waiting: deque[tuple[int, Waiter]] = deque()

    @property
    def full(self) -> bool:
        """Whether so much waits for the peer that publishers should pause."""
        return self.bytes_sent >= PEER_WINDOW_BYTES_MAX

    @property
    def relaxed(self) -> bool:
        """Whether there is room again for those that paused."""
        return self.bytes_sent <= PEER_WINDOW_BYTES_MAX // 2

    def add(self, vhost: str, messages: list[bytes], waiter: Waiter | None) -> bool:
        """Numbers messages; the waiter hears when they arrived. False: flush first.

        One turn's messages to one virtual host travel together; another one must wait for `take`.
        """
        if self._pending and vhost not in self._pending:
            return False
        self._pending.setdefault(vhost, []).extend(messages)
        self.last += len(messages)
        if waiter is not None:
            self._waiting.append((self.last, waiter))
        return True

    def take(self) -> list[tuple[int, str, list[bytes]]]:
        """(first number, vhost, messages) since the last take, in pieces that can travel."""
        if not self._pending:
            return []
        vhost, messages = self._pending.popitem()
        first = self.last - len(messages) + 1
        batches = [(first + at, vhost, messages[at:stop]) for at, stop in cut(messages)]
        self._sent += batches
        self.bytes_sent += sum(map(len, messages))
        return batches

    def unanswered(self) -> list[tuple[int, str, list[bytes]]]:
        """All that was taken and not answered, in order."""
        return list(self._sent)

    def on_done(self, through: int) -> list[tuple[int, Waiter]]:
        """Takes note that relays up to `through` arrived; returns waiters that end with them."""
        sent = self._sent
        while sent and sent[0][0] + len(sent[0][2]) - 1 <= through:
            self.bytes_sent -= sum(map(len, sent.popleft()[2]))
        done: list[tuple[int, Waiter]] = []
        while self._waiting and self._waiting[0][0] <= through:
            done.append(self._waiting.popleft())
        return done

    def release(self) -> list[tuple[int, Waiter]]:
        """Releases waiters as the peer counts as down; what it has not answered is kept."""
        done, self._waiting = list(self._waiting), deque()
        return done

    def abandon(self) -> list[tuple[int, Waiter]]:
        """Gives up all relays: the peer is gone, and its private queues with it."""
        self._pending = {}
        return self.on_done(self.last)


def interest_bytes(message: Interest) -> int:
    """The bytes that an item takes on the wire, about."""
    return sum([_entry_bytes(entry) for entries in _entries(message) for entry in entries])


def in_pieces(message: Interest, bytes_max: int = INTEREST_PIECE_BYTES_MAX) -> list[Interest]:
    """Splits an interest into messages of about so many bytes, to be sent in this order."""
    lists: list[list[Any]] = [[], [], [], []]
    cuts = [lists]
    taken = 0
    for place, entries in enumerate(_entries(message)):
        for entry in entries:
            size = _entry_bytes(entry)
            if taken and taken + size > bytes_max:
                lists, taken = [[], [], [], []], 0
                cuts.append(lists)
            lists[place].append(entry)
            taken += size
    pieces: list[Interest] = []
    for everything, selective, removed, added in cuts:
        is_first, is_last = not pieces, len(pieces) == len(cuts) - 1
        whole = message.whole and is_first
        piece = Interest(message.number, whole, added, removed, everything, selective, not is_last)
        pieces.append(piece)
    return pieces


def _entries(message: Interest) -> tuple[Sequence[Any], ...]:
    """The entries in the order in which a receiver looks at them."""
    return message.everything, message.selective, message.removed, message.added


def _entry_bytes(entry: QueueKey | InterestItem) -> int:
    # A character takes four bytes at most, and a field some for itself.
    if isinstance(entry, QueueKey):
        return 32 + 4 * (len(entry.vhost) + len(entry.name))
    return _entry_bytes(entry.exchange) + 4 * (len(entry.routing_key) + len(entry.arguments))


class InterestBook:
    """Reference counts of what this node's private queues want to hear."""

    __slots__ = ("_added", "_counts", "_everything", "_keys_max", "_now_everything",
                 "_now_selective", "_removed", "number")  # fmt: skip

    def __init__(self, keys_max: int = INTEREST_KEYS_PER_EXCHANGE_MAX) -> None:
        """`keys_max`: beyond so many items of an exchange it wants everything."""
        self._keys_max = keys_max
        #: The number of the last announcement.
        self.number = 0
        self._counts: dict[QueueKey, dict[InterestItem, int]] = {}
        self._everything: dict[QueueKey, None] = {}
        self._added: dict[InterestItem, None] = {}
        self._removed: dict[InterestItem, None] = {}
        self._now_everything: dict[QueueKey, None] = {}
        self._now_selective: dict[QueueKey, None] = {}

    def add(self, item: InterestItem) -> None:
        """Adds one binding."""
        counts = self._counts.setdefault(item.exchange, {})
        counts[item] = counts.get(item, 0) + 1
        if counts[item] > 1 or item.exchange in self._everything:
            return
        if len(counts) > self._keys_max:
            self._everything[item.exchange] = None
            self._now_everything[item.exchange] = None
            self._now_selective.pop(item.exchange, None)
            self._forget_changes(item.exchange)
        elif item in self._removed:
            del self._removed[item]
        else:
            self._added[item] = None

    def remove(self, item: InterestItem) -> None:
        """Takes one binding away."""
        counts = self._counts[item.exchange]
        counts[item] -= 1
        if counts[item]:
            return
        del counts[item]
        if item.exchange in self._everything:
            if len(counts) <= self._keys_max // 2:
                self._become_selective(item.exchange)
        elif item in self._added:
            del self._added[item]
        else:
            self._removed[item] = None
        if not counts:
            del self._counts[item.exchange]

    def _become_selective(self, exchange: QueueKey) -> None:
        """Has the peers hear all items of the exchange anew.

        If they have not heard "everything" yet they still do, just before: it makes them forget the
        items that they had.
        """
        del self._everything[exchange]
        self._now_selective[exchange] = None
        self._added.update(dict.fromkeys(self._counts[exchange]))

    def _forget_changes(self, exchange: QueueKey) -> None:
        """Forgets changes of an exchange's items: "everything" includes them."""
        self._added = {item: None for item in self._added if item.exchange != exchange}
        self._removed = {item: None for item in self._removed if item.exchange != exchange}

    @property
    def changed(self) -> bool:
        """Whether there is something to announce."""
        return bool(self._added or self._removed or self._now_everything or self._now_selective)

    def announce(self) -> Interest:
        """What has changed since the last announcement."""
        self.number += 1
        message = Interest(
            self.number,
            False,
            list(self._added),
            list(self._removed),
            list(self._now_everything),
            list(self._now_selective),
        )
        self._added, self._removed = {}, {}
        self._now_everything, self._now_selective = {}, {}
        return message

    def everything_of(self) -> Interest:
        """All interest, for a peer that knows nothing yet; speaks for every announcement so far."""
        items = [
            item
            for exchange, counts in self._counts.items()
            if exchange not in self._everything
            for item in counts
        ]
        return Interest(self.number, True, items, [], list(self._everything), [])
