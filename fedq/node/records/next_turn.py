"""Channels whose next command found the budget of its turn spent: they go on in the next one.

Input: such channels, in order, each with why. Output: those that go on now, and in which order.

Who waits only because of others comes first, for a slice: together all of them take half of a
turn, so that who asks for little does not wait until everyone before it had its whole share. Then
those whose clients had more than that, for a share each, as long as that leaves half of the turn to
what comes new. Now and then one of these comes first: should all others together be too much for
the node, nobody is forgotten (docs/adr/0033).
"""

from collections.abc import Iterator
from typing import Final

from fedq.core.work import Work
from fedq.node.records.client_state import Channel

#: Every so many turns the first of those that had more than their share comes before all others.
_TURNS_PER_EXCEPTION: Final = 4
#: No slice is a smaller part of a share: to go on for less costs more than it brings.
_SLICES_PER_SHARE_MAX: Final = 100


class NextTurn:
    """The channels that go on in the next turn."""

    __slots__ = ("_crowded_out", "_over_share", "_work")

    def __init__(self, work: Work) -> None:
        self._work = work
        #: Their clients had used up their shares; others had left nothing to them.
        self._over_share: dict[Channel, None] = {}
        self._crowded_out: dict[Channel, None] = {}

    def __bool__(self) -> bool:
        return bool(self._over_share or self._crowded_out)

    def add(self, channel: Channel) -> None:
        """Puts the channel off; its client's share is the one at hand."""
        work = self._work
        is_over = channel.client.used + work.done >= work.share
        (self._over_share if is_over else self._crowded_out)[channel] = None

    def take(self) -> Iterator[Channel]:
        """Takes the channels that go on in this turn; each may be added again at once."""
        work = self._work
        if self._over_share and not work.turn % _TURNS_PER_EXCEPTION:
            first = next(iter(self._over_share))
            del self._over_share[first]
            yield first
        whole, crowd = work.share, list(self._crowded_out)
        work.share = max(1, whole // min(len(crowd) or 1, _SLICES_PER_SHARE_MAX))
        for channel in crowd:
            if work.left <= 0:
                break
            del self._crowded_out[channel]
            yield channel
        work.share = whole
        for channel in list(self._over_share):
            if work.left <= work.per_turn // 2:
                return
            del self._over_share[channel]
            yield channel
