"""Hands out what queues have, to consumers here and to other nodes; when a turn ends, or before.

What a turn's publishes and settlements cause is worked off at its end, so that it is done once. A
request that looks at a queue comes after them all the same: a consumer that waits gets its message
before a later basic.get, and what is over a limit, or expired, is not counted any more.

Changes fragments of this node; sends to peers.
"""

from fedq.core.ids import QueueKey
from fedq.core.peer_messages import CreditBack, Got, Offer
from fedq.fragments.taking.pace import WINDOW_MS
from fedq.node.consuming.consume_flow import ConsumeFlow
from fedq.node.consuming.handing import hand_to_nodes
from fedq.node.consuming.keeping_up import look_what_waits, note_taken
from fedq.node.consuming.queue_timers import QueueTimers
from fedq.node.copies.questions import Questions
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState


class Dispatching:
    """Hands out what queues have, to consumers here and elsewhere."""

    __slots__ = ("consuming", "questions", "state", "timers")

    def __init__(
        self, state: NodeState, consuming: ConsumeFlow, questions: Questions, timers: QueueTimers
    ) -> None:
        self.state = state
        self.consuming = consuming
        self.questions = questions
        self.timers = timers

    def everywhere(self, queue: QueueKey) -> None:
        """Hands out what consumers can take now, here and elsewhere."""
        self.consuming.dispatch(queue)
        info = self.state.map.queues.get(queue)
        for fragment in info.fragments if info is not None else ():
            primary = self.state.primaries.get(fragment)
            if primary is not None:
                self.serve_takers(primary)

    def catch_up(self, queue: QueueKey) -> None:
        """Puts what came before in this turn into effect in the queue, as far as it is here.

        Costs next to nothing where nobody waits and no policy has a say.
        """
        self.state.risk.begin()
        self._catch_up(queue)
        self.state.risk.end()

    def _catch_up(self, queue: QueueKey) -> None:
        state = self.state
        if state.marks.settlements:
            self.consuming.settling.flush_settlements()
        if queue in state.streams:
            # Nobody takes anything: readers wait for the end of the turn.
            return
        info = state.map.queues.get(queue)
        if info is None:
            if queue in state.marks.queues:
                del state.marks.queues[queue]
                self.consuming.dispatch(queue)
            return
        touched: list[Primary] = []
        for fragment in info.fragments:
            primary = state.primaries.get(fragment)
            if primary is not None and fragment in state.marks.primaries and _has_say(primary):
                touched.append(primary)
        if touched or queue in state.marks.queues:
            state.marks.queues.pop(queue, None)
            self.everywhere(queue)
        for primary in touched:
            self.timers.after(primary)

    # --- to other nodes ----------------------------------------------------------------------

    def serve_takers(self, primary: Primary) -> None:
        """Hands ready messages to the nodes that have credit; offers what is left over."""
        fragment, takers = primary.fragment, primary.takers
        if primary.holds_back or fragment.shut or not self.state.serving:
            return
        if primary.calls:
            self.questions.work_off(primary)
        if fragment.tracked is not None and not self.timers.before(fragment):
            return
        ids = (fragment.fragment_id, fragment.reign)
        while primary.gets and not primary.ending and not fragment.must_read:
            node, request = primary.gets.popleft()
            taken = fragment.take(node, 1)
            note_taken(self.state, primary, node, len(taken.messages))
            self.state.send(
                node,
                Got(
                    request, *ids, taken.positions, taken.redelivered, taken.messages,
                    fragment.ready_count,
                ),
            )  # fmt: skip
        spared = self._spared(primary)
        if takers.credit and fragment.at_hand:
            hand_to_nodes(self.state, primary, None, spared)
        primary.noted = fragment.handed_out
        if fragment.at_hand > spared:
            for node in takers.offers():
                if node == self.state.me:
                    self.state.marks.queues[primary.queue] = None
                else:
                    self.state.send(node, Offer(*ids))
        elif not fragment.ready_count and (takers.once or takers.offered):
            for node, amount in takers.give_back():
                self.state.send(node, CreditBack(*ids, amount))
        if primary.windows is not None:
            look_what_waits(self.state, self.timers, primary)

    def _spared(self, primary: Primary) -> int:
        """How many of the ready messages are left for consumers here, though others want them.

        Never where rank or ticket decides, nor while a consumer elsewhere is reserved for it.
        """
        fragment, takers = primary.fragment, primary.takers
        primary.pace.note(fragment.handed_out - primary.noted, self.state.now_ms)
        if not fragment.at_hand or takers.levels or takers.once or takers.single:
            return 0
        if self.state.me not in takers.consumers or len(takers.consumers) == 1:
            return 0
        soon = primary.pace.soon()
        if soon:
            # Should they stop: with every window less is left for them.
            self.timers.look_again(primary, WINDOW_MS)
        return min(soon, fragment.at_hand)


def _has_say(primary: Primary) -> bool:
    """Whether somebody, or something, may take messages out of the fragment before all others."""
    if primary.takers.consumers or not primary.is_plain:
        return True
    return primary.fragment.tracked is not None
