"""Publisher confirms of one channel: from many places' progress to one cumulative basic.ack.

A run of consecutive publishes with the same targets is one *group*. Each target (a fragment, a
relay to a node) reports once when the whole group is safe there, but for publishes that it refused:
these are answered by basic.nack. Groups are confirmed in order: the tag to acknowledge is the last
one before the first group that still waits.
"""

from collections import deque
from collections.abc import Iterable
from typing import Generic, NamedTuple, TypeVar

Owner = TypeVar("Owner")


class Verdict(NamedTuple):
    """What a publisher is told: tags up to (`multiple`) or just one, safe or refused."""

    tag: int
    multiple: bool
    safe: bool


class ConfirmGroup(Generic[Owner]):
    """`size` publishes up to `last_tag`; `waiting` targets have not reported yet."""

    __slots__ = ("last_tag", "owner", "refused", "size", "waiting")

    def __init__(self, owner: Owner, last_tag: int, size: int, waiting: int) -> None:
        self.owner = owner
        self.last_tag = last_tag
        self.size = size
        self.waiting = waiting
        #: Tags that some target refused; None for none.
        self.refused: dict[int, None] | None = None

    def refuse(self, before_last: Iterable[int]) -> None:
        """Publishes, by how many of the group come after them, that a target refused."""
        if self.refused is None:
            self.refused = {}
        self.refused.update((self.last_tag - back, None) for back in before_last)


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
        """A new group of `count` publishes that `targets` places must report."""
        self.last_tag += count
        group = ConfirmGroup(self.owner, self.last_tag, count, targets)
        self._groups.append(group)
        return group

    def flush(self) -> list[Verdict]:
        """What can be told to the publisher now, in order of tags."""
        groups = self._groups
        verdicts: list[Verdict] = []
        told = tag = self.confirmed
        while groups and groups[0].waiting == 0:
            group = groups.popleft()
            for refused in sorted(group.refused or ()):
                if refused - 1 > told:
                    verdicts.append(Verdict(refused - 1, refused - 2 > told, True))
                verdicts.append(Verdict(refused, False, False))
                told = refused
            tag = group.last_tag
        if tag > told:
            verdicts.append(Verdict(tag, tag - 1 > told, True))
        self.confirmed = tag
        return verdicts
