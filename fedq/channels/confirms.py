"""Publisher confirms of one channel: from many places' progress to one cumulative basic.ack.

Consecutive publishes that are handled together are one *group*. Each target of a group (a fragment,
a relay to a node) reports once when all that the group has for it is safe there, but for publishes
that it refused: these are answered by basic.nack. Tags are told in order, as far as everything
before them is dealt with.

* A run of publishes with the same targets is a plain `ConfirmGroup`: told when all have reported.
* Publishes that go to many queues, each to some of them, are a `SpreadGroup`. It costs by the
  queue, not by the message; yet a tag waits for no queue but its own and those of earlier tags.
"""

from collections import deque
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

from fedq.core.ids import FragmentId, Target

Owner = TypeVar("Owner")


class Verdict(NamedTuple):
    """What a publisher is told: tags up to (`multiple`) or just one, safe or refused."""

    tag: int
    multiple: bool
    safe: bool


class ConfirmGroup(Generic[Owner]):
    """Consecutive publishes of a channel, `size` of them up to `last_tag`, to be confirmed."""

    __slots__ = ("last_tag", "owner", "refused", "size", "waiting")

    def __init__(self, owner: Owner, last_tag: int, size: int, waiting: int) -> None:
        self.owner = owner
        self.last_tag = last_tag
        self.size = size
        self.waiting = waiting
        #: Tags that some target refused; None for none.
        self.refused: dict[int, None] | None = None

    def refuse(self, before_last: Iterable[int]) -> None:
        """Notes publishes that a target refused, by how many of the group come after each."""
        if self.refused is None:
            self.refused = {}
        self.refused.update((self.last_tag - back, None) for back in before_last)

    def refuse_at(self, fragment: FragmentId, indexes: Iterable[int]) -> None:
        """As `refuse`, by the places among those of the group that went to the fragment."""
        self.refuse([self.size - 1 - index for index in indexes])

    def on_safe(self, fragment: FragmentId) -> bool:
        """Notes that the fragment has reported; whether more may be told than before."""
        self.waiting -= 1
        return self.waiting == 0

    def follow(self, before: FragmentId, after: FragmentId) -> None:
        """Notes that another fragment gets what was for one that was retired."""

    def settled_through(self) -> int:
        """The tag up to which every target has reported, as far as this group goes."""
        return self.last_tag if self.waiting == 0 else self.last_tag - self.size


class SpreadGroup(ConfirmGroup[Owner]):
    """A group whose publishes go to different queues, some perhaps to none.

    `ways` has the queues of each publish, in order of tags. Invariant: `_left` has the fragments
    that have not reported, in the order of the first publish of each.
    """

    __slots__ = ("_left", "_ways")

    def __init__(self, owner: Owner, last_tag: int, ways: list[tuple[Target, ...]]) -> None:
        super().__init__(owner, last_tag, len(ways), 0)
        self._ways = ways
        #: What of the group goes to a fragment: the first one's index, and the queue.
        self._left: dict[FragmentId, tuple[int, Target]] = {}

    def await_fragment(self, fragment: FragmentId, queue: Target, first: int) -> None:
        """Gives a fragment its part, beginning with the publish at index `first`; ascending."""
        self._left[fragment] = (first, queue)
        self.waiting += 1

    def refuse_at(self, fragment: FragmentId, indexes: Iterable[int]) -> None:
        """Notes publishes that the fragment refused, by their places among those it got."""
        first, queue = self._left[fragment]
        ways, last = self._ways, self.size - 1
        mine = [index for index in range(first, len(ways)) if queue in ways[index]]
        self.refuse([last - mine[index] for index in indexes])

    def on_safe(self, fragment: FragmentId) -> bool:
        """Notes that the fragment has reported; always more may be told after that."""
        del self._left[fragment]
        self.waiting -= 1
        return True

    def follow(self, before: FragmentId, after: FragmentId) -> None:
        """Awaits another fragment for a retired one, in its place."""
        self._left = {after if f == before else f: part for f, part in self._left.items()}

    def settled_through(self) -> int:
        """The tag before the first publish that some fragment has not reported."""
        for first, _ in self._left.values():
            return self.last_tag - self.size + first
        return self.last_tag


class ConfirmWindow(Generic[Owner]):
    """The unconfirmed publishes of a channel in confirm mode."""

    __slots__ = ("_groups", "confirmed", "last_tag", "owner")

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        #: The tag of the last publish; tags begin at 1 with confirm.select.
        self.last_tag = 0
        #: What the client has been told.
        self.confirmed = 0
        self._groups: deque[ConfirmGroup[Owner]] = deque()

    def open(self, count: int, targets: int) -> ConfirmGroup[Owner]:
        """Begins a group of `count` publishes that `targets` places must report."""
        self.last_tag += count
        group = ConfirmGroup(self.owner, self.last_tag, count, targets)
        self._groups.append(group)
        return group

    def open_spread(self, ways: list[tuple[Target, ...]]) -> SpreadGroup[Owner]:
        """Begins a group of publishes to these queues; their fragments are still to be named."""
        self.last_tag += len(ways)
        group = SpreadGroup(self.owner, self.last_tag, ways)
        self._groups.append(group)
        return group

    def flush(self) -> list[Verdict]:
        """The verdicts that can be told to the publisher now, in order of tags."""
        groups = self._groups
        verdicts: list[Verdict] = []
        told = tag = self.confirmed
        while groups:
            group = groups[0]
            through = group.settled_through()
            if group.refused is not None:
                for refused in sorted(group.refused):
                    if not told < refused <= through:
                        continue
                    if refused - 1 > told:
                        verdicts.append(Verdict(refused - 1, refused - 2 > told, True))
                    verdicts.append(Verdict(refused, False, False))
                    told = refused
            tag = max(tag, through)
            if group.waiting:
                break
            groups.popleft()
        if tag > told:
            verdicts.append(Verdict(tag, tag - 1 > told, True))
        self.confirmed = tag
        return verdicts
