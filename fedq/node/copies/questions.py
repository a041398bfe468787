"""What is asked of the fragments that this node serves: counts, consumers, purges (P5).

In: questions of this node and of others. Out: answers, some of them only when what was asked for is
committed; a purge is a chore.

Changes `calls`, and what the fragments promise; marks them.
"""

from collections import deque
from functools import partial
from typing import Final

from fedq.core.ids import FragmentId, NodeId
from fedq.core.peer_messages import (
    CALL_CONSUME,
    CALL_CONSUME_ALONE,
    CALL_COUNT,
    CALL_DECLARE,
    CALL_LEFT,
    CALL_PURGE,
    Reply,
)
from fedq.fragments.upkeep.enforcement import visible_count
from fedq.node.cluster.abandoned import Abandoned
from fedq.node.copies.emptying import Purging
from fedq.node.records.roles import Primary
from fedq.node.records.state import NodeState
from fedq.proxy.calls import Calls

#: Calls of consumers: they wait while it is not known whether the queue goes.
_OF_CONSUMERS: Final = (CALL_CONSUME, CALL_CONSUME_ALONE, CALL_LEFT)


class Questions:
    """Answers questions about the fragments that this node serves."""

    __slots__ = ("abandoned", "calls", "state")

    def __init__(self, state: NodeState, abandoned: Abandoned) -> None:
        self.state = state
        self.abandoned = abandoned
        #: This node's own questions; fragments of this node answer them without a peer between.
        self.calls = Calls()

    def put(self, asker: NodeId, request: int, fragment: FragmentId, verb: int) -> bool:
        """Puts a question of this or another node; false if this node does not serve the fragment.

        A purge is answered when it is committed: it must not be undone by a failover. What must
        not be judged before this node may serve, and knows what consumers of an earlier reign
        hold, waits until then; so does a declaration while it is not known whether the queue goes.
        """
        primary = self.state.primaries.get(fragment)
        if primary is None:
            return False
        if verb == CALL_COUNT or (verb == CALL_DECLARE and not primary.ending):
            self._count(primary, asker, request, verb)
        else:
            primary.calls.append((asker, request, verb))
            self.state.marks.primaries[fragment] = None
        return True

    def _count(self, primary: Primary, asker: NodeId, request: int, verb: int) -> None:
        if verb == CALL_DECLARE:
            note_use(self.state, primary)
        fragment, consumers = primary.fragment, sum(primary.takers.consumers.values())
        self.answer(asker, request, fragment.fragment_id, visible_count(fragment), consumers)

    def answer(
        self, asker: NodeId, request: int, fragment: FragmentId, ready: int, consumers: int
    ) -> None:
        """Answers whoever asked: this node, or another."""
        if asker == self.state.me:
            self.calls.on_reply(request, fragment, ready, consumers)
        else:
            self.state.send(asker, Reply(request, fragment, ready, consumers))

    def work_off(self, primary: Primary) -> None:
        """Carries out what was asked for; some answers wait for the commit."""
        fragment = primary.fragment
        calls, primary.calls = primary.calls, deque()
        for asker, request, verb in calls:
            if verb == CALL_DECLARE and not primary.ending:
                self._count(primary, asker, request, verb)
            elif verb == CALL_DECLARE or (
                verb in _OF_CONSUMERS and self.abandoned.is_going(primary)
            ):
                primary.calls.append((asker, request, verb))
            elif verb == CALL_LEFT:
                self.answer(asker, request, fragment.fragment_id, 0, 0)
            elif verb in (CALL_CONSUME, CALL_CONSUME_ALONE):
                note_use(self.state, primary)
                ticket = primary.takers.admit(asker, verb == CALL_CONSUME_ALONE)
                refused = 0 if ticket else 1
                self.answer(asker, request, fragment.fragment_id, refused, ticket)
            elif verb == CALL_PURGE:
                purged = partial(self._purged, primary, asker, request)
                self.state.chores.begin(primary, Purging(self.state, fragment, purged))
            else:
                primary.promised.append((fragment.last, asker, request, 0))

    def _purged(self, primary: Primary, asker: NodeId, request: int, count: int) -> None:
        """Answers a purge when it is committed; a fragment that has moved is asked again."""
        number = primary.fragment.fragment_id
        if self.state.primaries.get(number) is primary:
            primary.promised.append((primary.fragment.last, asker, request, count))
            self.state.marks.primaries[number] = None


def note_use(state: NodeState, primary: Primary) -> None:
    """Notes that somebody has use for the queue (x-expires)."""
    primary.used_ms = state.now_ms
