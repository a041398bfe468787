"""The publishes of one node to one fragment, wherever its primary is.

Inputs: messages of local channels, `on_done` marks of the primary. Outputs: numbered batches,
finished confirm groups.

The publishes are numbered by this node (their *origin* is the node and its incarnation), and kept
until the primary says that they are committed, or refused by the queue's policy. After a failover
they go to the new primary again; it knows the numbers of the old one's records and takes each
publish once. A fragment whose primary is this very node is served the same way: if the node is
deposed while it lives, its own publishers lose nothing either.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from typing import Generic, NamedTuple, TypeVar

from fedq.amqp.named_publishes import NamedReader
from fedq.channels.confirms import ConfirmGroup
from fedq.core.batches import cut
from fedq.core.ids import ConnectionId, FragmentId
from fedq.core.limits import PEER_FRAME_BYTES_MAX
from fedq.core.publish_messages import NamedRun
from fedq.core.ranges import Range

Owner = TypeVar("Owner")


class Settled(NamedTuple):
    """Positions in the fragment, by what a transaction decided about them."""

    acknowledged: list[int]
    requeued: list[int]
    rejected: list[int]


class Numbered:
    """Consecutive publishes from number `first` on.

    With `settled` they are a transaction: all of it takes effect together.
    """

    __slots__ = ("first", "last", "messages", "named", "settled", "size")

    def __init__(
        self, first: int, messages: list[bytes], size: int, settled: Settled | None,
        named: tuple[NamedRun, ...],
    ) -> None:  # fmt: skip
        self.first = first
        self.messages = messages
        self.size = size
        self.settled = settled
        #: Those of publishers with names.
        self.named = named
        #: The last of its numbers; a transaction without publishes has one, too.
        self.last = first + max(1, len(messages)) - 1


class FragmentPublisher(Generic[Owner]):
    """The publisher of this node to one fragment."""

    __slots__ = (
        "_named", "_pending", "_reader", "_unconfirmed", "_waiting", "_window", "bytes_unconfirmed",
        "fragment_id", "last", "paused", "remote_publishes", "sent",
    )  # fmt: skip

    def __init__(self, fragment_id: FragmentId, window: int) -> None:
        """`window`: with so many bytes unconfirmed, whoever publishes should pause."""
        self.fragment_id = fragment_id
        self._window = window
        #: The number given last.
        self.last = 0
        #: The last of them that was sent to any primary: no other one can have come to it twice.
        self.sent = 0
        self.bytes_unconfirmed = 0
        #: Connections whose reading waits for this window.
        self.paused: dict[ConnectionId, None] = {}
        #: Publishes that went to another node; what the fragment policy looks at.
        self.remote_publishes = 0
        self._pending: list[bytes] = []
        #: From where to where in it there may be publishers with names; and who reads these.
        self._named: list[tuple[int, int]] = []
        self._reader: NamedReader | None = None
        self._unconfirmed: deque[Numbered] = deque()
        #: The number of its last publish here, how many came here, and the group.
        self._waiting: deque[tuple[int, int, ConfirmGroup[Owner]]] = deque()

    @property
    def full(self) -> bool:
        """Whether the window is full: whoever publishes should pause."""
        return self.bytes_unconfirmed >= self._window

    @property
    def relaxed(self) -> bool:
        """Whether there is room again for those that paused."""
        return self.bytes_unconfirmed <= self._window // 2

    def add(
        self, messages: list[bytes], group: ConfirmGroup[Owner] | None, named: bool = False
    ) -> None:
        """Numbers messages; `group` hears when all of them are committed.

        `named`: there may be some of publishers with names among them.
        """
        if named:
            self._named.append((len(self._pending), len(self._pending) + len(messages)))
        self._pending += messages
        self.last += len(messages)
        if group is not None:
            self._waiting.append((self.last, len(messages), group))

    def take(self) -> list[Numbered]:
        """What was added since the last take, in pieces that can travel; kept until it is done."""
        messages = self._pending
        if not messages:
            return []
        self._pending = []
        first = self.last - len(messages) + 1
        size = sum(map(len, messages))
        self.bytes_unconfirmed += size
        spans, self._named = self._named, []
        if size <= PEER_FRAME_BYTES_MAX:
            named = self._runs_in(messages, 0, spans) if spans else ()
            batches = [Numbered(first, messages, size, None, named)]
        else:
            batches = []
            for at, stop in cut(messages):
                part = messages[at:stop]
                named = self._runs_in(part, at, spans) if spans else ()
                batches.append(Numbered(first + at, part, sum(map(len, part)), None, named))
        self._unconfirmed += batches
        return batches

    def _runs_in(
        self, messages: list[bytes], at: int, spans: list[tuple[int, int]]
    ) -> tuple[NamedRun, ...]:
        """The runs of publishers with names in a part, which begins at a place of what is new."""
        if self._reader is None:
            self._reader = NamedReader()
        runs: list[NamedRun] = []
        for start, stop in spans:
            start, stop = max(start - at, 0), min(stop - at, len(messages))
            if start < stop:
                is_all = stop - start == len(messages)
                span = messages if is_all else messages[start:stop]
                runs += self._reader.runs_in(span, start)
        return tuple(runs)

    def add_atomic(
        self, messages: list[bytes], settled: Settled, group: ConfirmGroup[Owner],
        named: bool = False,
    ) -> Numbered:  # fmt: skip
        """Numbers a transaction's publishes, or itself if it has none; call `take` before.

        `group` hears when it is committed. Kept until then, as what `take` gives.
        """
        assert not self._pending, "what was added before goes before"
        runs = self._runs_in(messages, 0, [(0, len(messages))]) if named else ()
        batch = Numbered(self.last + 1, messages, sum(map(len, messages)), settled, runs)
        self.last = batch.last
        self.bytes_unconfirmed += batch.size
        self._waiting.append((self.last, len(messages), group))
        self._unconfirmed.append(batch)
        return batch

    def unconfirmed(self) -> list[Numbered]:
        """All that was taken and not done, in order: what a new primary must be told again."""
        return list(self._unconfirmed)

    def kept(self) -> list[Numbered]:
        """All that was taken and never sent to anybody, in order."""
        return [batch for batch in self._unconfirmed if batch.last > self.sent]

    def on_done(self, through: int, refused: Sequence[int] = ()) -> list[ConfirmGroup[Owner]]:
        """Takes note that publishes up to `through` are committed, but for `refused`."""
        unconfirmed, waiting = self._unconfirmed, self._waiting
        while unconfirmed and unconfirmed[0].last <= through:
            self.bytes_unconfirmed -= unconfirmed.popleft().size
        groups: list[ConfirmGroup[Owner]] = []
        if refused:
            self._refuse(refused)
        while waiting and waiting[0][0] <= through:
            groups.append(waiting.popleft()[2])
        return groups

    def _refuse(self, numbers: Sequence[int]) -> None:
        """Tells the groups of their refused publishes; publishes without a group have none."""
        numbers = sorted(numbers)
        for last, size, group in self._waiting:
            first = last - size + 1
            if first > numbers[-1]:
                return
            mine = numbers[bisect_left(numbers, first) : bisect_right(numbers, last)]
            if mine:
                group.refuse_at(self.fragment_id, [number - first for number in mine])

    @property
    def is_idle(self) -> bool:
        """Whether nothing is unconfirmed, nor waits to be sent."""
        return not self._pending and not self._unconfirmed

    def pass_on(self, other: "FragmentPublisher[Owner]") -> Range | None:
        """Gives all that is not confirmed to another fragment's publisher, in order.

        For a fragment that is retired: it has got none of it (docs/adr/0100). There it goes behind
        what `other` has, and is still to be sent. Returns the numbers that it had; None: no such.
        """
        self.take()
        other.take()
        batches, self._unconfirmed = list(self._unconfirmed), deque()
        waiting, self._waiting = self._waiting, deque()
        self.bytes_unconfirmed = 0
        if not batches:
            return None
        numbers = batches[0].first, batches[-1].last
        shift = other.last + 1 - batches[0].first
        for batch in batches:
            batch.first += shift
            batch.last += shift
            if batch.settled is not None:
                # Positions in a fragment that is no more, and had no messages.
                batch.settled = Settled([], [], [])
            other.bytes_unconfirmed += batch.size
        other.last = batches[-1].last
        other._unconfirmed += batches
        for last, size, group in waiting:
            group.follow(self.fragment_id, other.fragment_id)
            other._waiting.append((last + shift, size, group))
        return numbers

    def abandon(self) -> list[ConfirmGroup[Owner]]:
        """Gives up all publishes: the fragment is deleted, and nothing is owed any more."""
        self._pending, self._named = [], []
        return self.on_done(self.last)
