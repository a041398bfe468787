"""Queues that go because nobody uses them: auto-delete ones, and those with `x-expires`.

The primary of a queue's first fragment decides. What it proposes names the queue it has judged, so
that one declared under the same name meanwhile stays. Who asks whether the queue goes
(`CALL_LEFT`), or for a consumer of it, waits until that is known: after cancel-ok the name is free.

Changes `ending` and `marking` of primaries; proposes.
"""

from fedq.node.cluster.proposals import GAVE_UP, Proposals, Result
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.operations import EndQueue, MarkUsed


class Abandoned:
    """Ends queues that nobody uses any more."""

    __slots__ = ("proposals", "state")

    def __init__(self, state: NodeState, proposals: Proposals) -> None:
        self.state = state
        self.proposals = proposals

    def look_at(self, primary: Primary) -> None:
        """Proposes the end of a queue that nobody uses any more; its first fragment decides.

        Declared so, a queue goes with its last consumer in the cluster, or unused for too long.
        """
        state, takers = self.state, primary.takers
        fragment = primary.fragment
        queue = state.map.queues[primary.queue]
        if queue.fragments[0] != fragment.fragment_id or primary.holds_back or not state.serving:
            return
        if takers.consumers:
            primary.used_ms = state.now_ms
            if queue.auto_delete and not queue.consumed and not primary.marking:
                self._mark_used(primary)
            return
        if primary.ending:
            return
        abandoned = queue.auto_delete and takers.had_consumers
        expires_ms = fragment.policy.expires_ms
        expired = expires_ms is not None and state.now_ms - primary.used_ms >= expires_ms
        if abandoned or expired:
            self._end(primary)

    def is_going(self, primary: Primary) -> bool:
        """Whether the queue's end is proposed, and not decided."""
        self.look_at(primary)
        return primary.ending

    def _end(self, primary: Primary) -> None:
        fragment = primary.fragment.fragment_id

        def on_result(result: Result) -> None:
            primary.ending = False
            primary.takers.had_consumers = primary.takers.had_consumers and result is GAVE_UP
            self.state.looked_after[fragment] = None
            self.state.marks.primaries[fragment] = None

        primary.ending = True
        self.proposals.ask(EndQueue(fragment), on_result)

    def _mark_used(self, primary: Primary) -> None:
        """Lets the next primary know, too, that the queue goes with its last consumer."""

        def on_result(_: Result) -> None:
            primary.marking = False
            self.state.looked_after[primary.fragment.fragment_id] = None

        primary.marking = True
        self.proposals.ask(MarkUsed(primary.fragment.fragment_id), on_result)
