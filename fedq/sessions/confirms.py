"""Publisher confirms of one channel: from many places' progress to one cumulative basic.ack.

A run of consecutive publishes with the same targets is one *group*. Each target (a fragment, a
relay to a node) reports once when the whole group is safe there. Groups are confirmed in order:
the tag to acknowledge is the last one before the first group that still waits.
"""

from collections import deque
from typing import Generic, TypeVar

Owner = TypeVar("Owner")


class ConfirmGroup(Generic[Owner]):
    """Publishes up to `last_tag`; `waiting` targets have not reported yet."""

    __slots__ = ("last_tag", "owner", "waiting")

    def __init__(self, owner: Owner, last_tag: int, waiting: int) -> None:
        self.owner = owner
        self.last_tag = last_tag
        self.waiting = waiting


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
        group = ConfirmGroup(self.owner, self.last_tag, targets)
        self._groups.append(group)
        return group

    def flush(self) -> int:
        """The tag that can be acknowledged cumulatively now; 0 if nothing new."""
        groups = self._groups
        tag = 0
        while groups and groups[0].waiting == 0:
            tag = groups.popleft().last_tag
        if tag:
            self.confirmed = tag
        return tag
