"""Declarations of a name that another node's exclusive queue holds: refused, but not at once.

An exclusive queue ends with its connection. Whoever connects to another node right after, as
clients do when their node was killed, would find the name held until the map has heard of it. So a
declaration waits: a moment if the holder is alive (its release may be on its way), longer while
nobody knows whether it is, or the map cannot say so: it has no leader, or another process of that
node answers by now. Clients know 405 as fatal.

Changes nothing; asks again by the callable that it was given.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from fedq.core.ids import NO_PROCESS, QueueKey
from fedq.node.records.answers import Answers
from fedq.node.records.client_state import Channel
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.state import Claim

#: How long a name that is held may take to become free.
PATIENCE_MS: Final = 500
#: The same, while it is in doubt whether the holder lives.
DOUBT_MS: Final = 5_000


class _Waiting(NamedTuple):
    since_ms: int
    channel: Channel
    key: QueueKey
    again: Callable[[], None]


class LockedNames:
    """Declarations that wait for a name."""

    __slots__ = ("_waiting", "answers", "state")

    def __init__(self, state: NodeState, answers: Answers) -> None:
        self.state = state
        self.answers = answers
        self._waiting: list[_Waiting] = []

    def wait(self, channel: Channel, key: QueueKey, again: Callable[[], None]) -> None:
        """Makes the channel wait; `again` is called once, when the name is free or time is up."""
        self.answers.wait(channel)
        self._waiting.append(_Waiting(self.state.now_ms, channel, key, again))

    def tick(self) -> None:
        """Looks at the names once more."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if each.channel.closed:
                continue
            if self._is_held(each.key, self.state.now_ms - each.since_ms):
                self._waiting.append(each)
                continue
            self.answers.finish(each.channel, None)
            each.again()

    def _is_held(self, key: QueueKey, waited_ms: int) -> bool:
        claim = self.state.map.claims.get(key)
        if claim is None:
            return False
        return waited_ms < (DOUBT_MS if self._is_in_doubt(claim) else PATIENCE_MS)

    def _is_in_doubt(self, claim: Claim) -> bool:
        """Whether the process that holds a name may be gone without the map's knowledge."""
        peer = self.state.peers.get(claim.node)
        if peer is None:
            return False
        if self.state.leader is None or not peer.link.connected:
            return True
        return peer.answering not in (NO_PROCESS, claim.incarnation)
