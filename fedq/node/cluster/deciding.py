"""The leader's decisions: a look at all fragments in pieces, then the commands that come of it.

Inputs: ticks, what copies hold. Outputs: proposals, questions about copies. What is decided is in
`fedq.wiring.failover.decide`; here is when, and how much of it in a turn. It is a chore: it leaves
room for clients, and goes on in the next turn. Nothing is proposed before the look is over.
"""

from typing import Final

from fedq.core.ids import NodeId
from fedq.core.limits import DECISIONS_PER_TICK_MAX
from fedq.core.peer_messages import CopyWorth
from fedq.node.cluster.proposals import Proposals
from fedq.node.cluster.reviving import Reviving
from fedq.node.records.state import NodeState
from fedq.wiring.failover.decide import FailoverMemory, decide
from fedq.wiring.failover.detector import Detector

#: What it costs to write down an operation, in units of work.
_OPERATION_WORK: Final = 8


class Deciding:
    """The leader's decisions, made piece by piece."""

    __slots__ = ("_detector", "_memory", "_proposals", "_sent", "reviving", "state")

    def __init__(
        self, state: NodeState, proposals: Proposals, detector: Detector, reviving: Reviving
    ) -> None:
        self.state = state
        self._proposals = proposals
        self._detector = detector
        self.reviving = reviving
        self.begin_reign()
        #: Commands since the last tick.
        self._sent = 0

    def begin_reign(self) -> None:
        """Begins to lead: what another leader knew, this node has to find out."""
        settings = self.state.settings
        self._memory = FailoverMemory(settings.replace_backup_ms, settings.revive_wait_ms)

    def tick(self) -> None:
        """Looks whether it is time to decide anything."""
        self._sent = 0
        chores = self.state.chores
        if self._leads() and not chores.are_under_way(self):
            chores.add(self, self)

    def go_on(self) -> bool:
        """Looks at the next fragments; a loss of many takes several commands."""
        state, memory, detector = self.state, self._memory, self._detector
        work = state.work
        if not self._leads():
            return True
        while self._sent < DECISIONS_PER_TICK_MAX:
            operations = decide(
                state.map, detector.suspects(state.now_ms), state.now_ms, memory,
                detector.unproven(state.now_ms), detector.unheard, detector.gone, work,
            )  # fmt: skip
            if operations:
                self._proposals.ask_together(operations)
                self._sent += 1
                work.spend(_OPERATION_WORK * len(operations))
            if memory.is_looking or (memory.plan and work.is_spent):
                return False
            if not memory.plan:
                break
        if not self.reviving.ask(memory):
            return False
        self.reviving.tell(memory)
        return True

    def on_worth(self, sender: NodeId, message: CopyWorth) -> None:
        """Notes what a node's copy holds, as this node, then the leader, has asked."""
        self.reviving.on_worth(self._memory, sender, message)

    def _leads(self) -> bool:
        state = self.state
        return state.leader == state.me and state.map.is_up(state.me, state.settings.incarnation)
