"""Dispatch in the midst of a turn, for whoever is about to look at a queue.

What a turn's publishes and settlements cause is worked off at its end, so that it is done once. A
request that looks at a queue comes after them all the same: a consumer that waits gets its message
before a later basic.get, and what is over a limit, or expired, is not counted any more.

Changes what `consume_flow`, `fragment_flow` and `queue_timers` do; only of that queue.
"""

from fedq.core.ids import QueueKey
from fedq.node.consuming.consume_flow import ConsumeFlow
from fedq.node.consuming.queue_timers import QueueTimers
from fedq.node.copies.fragment_flow import FragmentFlow
from fedq.node.records.state import NodeState, Primary


class Dispatching:
    """See the module's docstring."""

    __slots__ = ("consuming", "fragments", "state", "timers")

    def __init__(
        self, state: NodeState, consuming: ConsumeFlow, fragments: FragmentFlow, timers: QueueTimers
    ) -> None:
        self.state = state
        self.consuming = consuming
        self.fragments = fragments
        self.timers = timers
        fragments.catch_up = self.catch_up

    def everywhere(self, queue: QueueKey) -> None:
        """Consumers take what they can now, here and elsewhere."""
        self.consuming.dispatch(queue)
        info = self.state.map.queues.get(queue)
        for fragment in info.fragments if info is not None else ():
            primary = self.state.primaries.get(fragment)
            if primary is not None:
                self.fragments.serve_takers(primary)

    def catch_up(self, queue: QueueKey) -> None:
        """What came before in this turn takes effect in the queue, as far as it is here.

        Costs next to nothing where nobody waits and no policy has a say.
        """
        self.state.risk.begin()
        self._catch_up(queue)
        self.state.risk.end()

    def _catch_up(self, queue: QueueKey) -> None:
        state = self.state
        if state.settlements:
            self.consuming.settling.flush_settlements()
        info = state.map.queues.get(queue)
        if info is None:
            if queue in state.dirty_queues:
                del state.dirty_queues[queue]
                self.consuming.dispatch(queue)
            return
        touched: list[Primary] = []
        for fragment in info.fragments:
            primary = state.primaries.get(fragment)
            if primary is not None and fragment in state.dirty_primaries and _has_say(primary):
                touched.append(primary)
        if touched or queue in state.dirty_queues:
            state.dirty_queues.pop(queue, None)
            self.everywhere(queue)
        for primary in touched:
            self.timers.after(primary)


def _has_say(primary: Primary) -> bool:
    """Whether somebody, or something, may take messages out of the fragment before all others."""
    if primary.takers.consumers or not primary.is_plain:
        return True
    return primary.fragment.singles is not None
