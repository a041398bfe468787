"""The lease of a node: it may confirm and deliver while it knows that nobody has replaced it.

Inputs: the heartbeats that peers send, each of which echoes the newest `sent_ms` they heard from
this node, by this node's own clock (monotonic milliseconds). Output: whether the lease holds.

A node is declared down only after the leader has not heard it for `suspect_ms`. So a follower is
safe while a leader has heard it lately, and a leader while a majority has heard *it* lately:
then nobody else can have been elected and have waited. That leader need not lead any more: its
successor begins to wait when it is elected, and a leader that hears no majority steps down long
before that wait is over. So the end of a leader fences nobody if another is elected in time.
"Lately" (`lease_ms`) must be shorter than `suspect_ms` by more than clocks drift in that time; no
two clocks are ever compared.
"""

from collections.abc import Iterable
from typing import Final

from fedq.core.ids import NodeId
from fedq.core.peer_messages import Heartbeat

#: Later than any time.
NEVER_MS: Final = 1 << 62


class Lease:
    """The lease of one node."""

    __slots__ = (
        "_earned_ms", "_echo_ms", "_end_ms", "_lease_ms", "_led_echo_ms", "_me", "_of_leader",
        "_voters", "is_alone",
    )  # fmt: skip

    def __init__(self, me: NodeId, voters: Iterable[NodeId], lease_ms: int) -> None:
        """`voters`: the members that elect; `me` may be an observer."""
        self._me = me
        self._voters = tuple(dict.fromkeys(voters))
        #: Nobody else elects: the lease always holds.
        self.is_alone = self._voters == (me,)
        self._lease_ms = lease_ms
        #: Per peer, this node's newest heartbeat that the peer has echoed.
        self._echo_ms: dict[NodeId, int] = {}
        #: The same, only of heartbeats in which the peer said that it leads.
        self._led_echo_ms: dict[NodeId, int] = {}
        #: What `ends_ms` said of this leader since the last heartbeat: it is asked in every turn.
        self._of_leader: NodeId | None = None
        self._end_ms = 0
        #: Until when this node may serve whoever leads by then.
        self._earned_ms = 0

    def count(self, voters: Iterable[NodeId]) -> None:
        """Counts these from now on: those with whom this node's log would elect."""
        self._voters = tuple(dict.fromkeys(voters))
        self.is_alone = self._voters == (self._me,)
        self._of_leader = None

    def on_heartbeat(self, peer: NodeId, heartbeat: Heartbeat, now_ms: int) -> None:
        """Notes what the peer has heard of this node."""
        echo_ms = heartbeat.echo_ms
        if not 0 < echo_ms <= now_ms:
            return  # heard nothing yet, or heard an earlier process by another clock
        self._of_leader = None
        if echo_ms > self._echo_ms.get(peer, 0):
            self._echo_ms[peer] = echo_ms
        if heartbeat.leads and echo_ms > self._led_echo_ms.get(peer, 0):
            self._led_echo_ms[peer] = echo_ms
            self._earned_ms = max(self._earned_ms, self._end_of(echo_ms))

    def has_heard(self, peer: NodeId, now_ms: int) -> bool:
        """Whether the peer has heard of this node lately, so that this lease could count it."""
        return now_ms < self._end_of(self._echo_ms.get(peer, 0))

    def holds(self, now_ms: int, leader: NodeId | None) -> bool:
        """Whether this node may serve; `leader` is whom it believes to lead now."""
        return now_ms < self.ends_ms(leader)

    def ends_ms(self, leader: NodeId | None) -> int:
        """Until when this node may serve as far as it knows now; 0: it may not."""
        if self.is_alone:
            return NEVER_MS
        return max(self._earned_ms, self._ends_with_known(leader))

    def _ends_with_known(self, leader: NodeId | None) -> int:
        if leader is None:
            return 0
        if leader != self._of_leader:
            self._of_leader, self._end_ms = leader, self._ends_with(leader)
            self._earned_ms = max(self._earned_ms, self._end_ms)
        return self._end_ms

    def _ends_with(self, leader: NodeId) -> int:
        if leader != self._me:
            return self._end_of(self._led_echo_ms.get(leader, 0))
        if self._me not in self._voters:
            return 0
        echoes = sorted(
            (self._echo_ms.get(voter, 0) for voter in self._voters if voter != self._me),
            reverse=True,
        )
        # With this node so many of the others are a majority: the oldest of their words decides.
        return self._end_of(echoes[len(self._voters) // 2 - 1])

    def leads(self, now_ms: int, leader: NodeId | None) -> bool:
        """Whether this node leads with a majority's knowledge: goes into its own heartbeats."""
        if leader != self._me:
            return False
        return self.is_alone or now_ms < self._ends_with_known(leader)

    def _end_of(self, echo_ms: int) -> int:
        return echo_ms + self._lease_ms if echo_ms > 0 else 0
