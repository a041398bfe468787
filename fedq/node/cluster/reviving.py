"""Fragments that are in nobody's memory: what copies hold is asked, answered and told.

Inputs: the leader's questions, queries and answers of nodes. Outputs: messages, answers to the
leader's memory, and what an operator should know: for whose copies the cluster waits, and without
whose it went on. The choice itself is `fedq.wiring.failover.worth`.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from fedq.core.ids import Epoch, FragmentId, NodeId
from fedq.core.peer_messages import CopyQuery, CopyWorth
from fedq.fragments.copy.positions import Checksum, Positions
from fedq.node.records.state import NodeState
from fedq.wiring.failover.decide import FailoverMemory
from fedq.wiring.failover.worth import Worth

#: What it costs to ask, or to answer, in units of work.
_QUESTION_WORK: Final = 3
#: How long the status says that fragments went on without a copy, and that copies differed.
_TOLD_MS: Final = 600_000


class Reviving:
    """Questions to copies of fragments that are in nobody's memory, and their answers."""

    __slots__ = ("_asked", "_awaited", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: Who was waited for when the log said so last.
        self._awaited: list[NodeId] = []
        #: What is being found out for others: the last question of each about each fragment.
        self._asked: dict[tuple[NodeId, FragmentId], CopyQuery] = {}

    def on_query(self, sender: NodeId, message: CopyQuery) -> None:
        """Takes a question of the leader: what this node's copy holds.

        Who asks again meanwhile gets one answer, and nobody wants to know of fragments that are
        gone: whatever is asked, not more is under way than there are fragments.
        """
        if message.fragment not in self.state.map.fragments:
            return
        key = sender, message.fragment
        is_asked = key in self._asked
        self._asked[key] = message
        if not is_asked:
            self._find_out(message.fragment, partial(self._answer, sender, message))

    def _answer(self, asker: NodeId, first: CopyQuery, worth: Worth | None) -> None:
        fragment = first.fragment
        last = self._asked.pop((asker, fragment))
        if worth is not None:
            self.state.send(asker, CopyWorth(fragment, last.epoch, *worth))
        elif last.epoch != first.epoch:
            self.on_query(asker, last)

    def on_worth(self, memory: FailoverMemory, sender: NodeId, message: CopyWorth) -> None:
        """Takes the answer of a node."""
        member = self.state.map.members.get(sender)
        if member is not None:
            worth = Worth(message.whole, message.last, message.live, message.digest)
            memory.on_worth(sender, member.incarnation, message.fragment, message.epoch, worth)

    def _find_out(self, fragment: FragmentId, tell: Callable[[Worth | None], None]) -> None:
        """What this node holds of a fragment that it does not serve; None: nobody wants to know."""
        self.state.chores.begin(self, _Weighing(self.state, fragment, tell))

    def ask(self, memory: FailoverMemory) -> bool:
        """Asks what the leader's last look wants to know, as far as there is room; false: not all.

        So it is told by a node that is the leader, too.
        """
        state, questions = self.state, memory.revivals.questions
        while questions:
            node, fragment, epoch = questions.popleft()
            if node == state.me:
                self._find_out(fragment, partial(self._answer_own, memory, fragment, epoch))
            else:
                state.send(node, CopyQuery(fragment, epoch))
            state.work.spend(_QUESTION_WORK)
            if state.work.is_spent:
                break
        return not questions

    def _answer_own(
        self, memory: FailoverMemory, fragment: FragmentId, epoch: Epoch, worth: Worth | None
    ) -> None:
        if worth is not None:
            state = self.state
            memory.on_worth(state.me, state.settings.incarnation, fragment, epoch, worth)

    def tell(self, memory: FailoverMemory) -> None:
        """Tells what an operator should know of the leader's last look."""
        revivals = memory.revivals
        self._tell_awaited(revivals.awaited, revivals.wait_ms)
        without, revivals.without = revivals.without, {}
        for node, count in without.items():
            self._tell(
                f"without {node}",
                f"{count} fragments went on from the copies that were back, without comparing that "
                f"of {node}, which was in sync, too: what only {node} holds is lost. If messages "
                f"are missing, save the data directory of {node} before you start it; "
                "timing.revive_wait_ms says how long to wait",
            )
        unlike, revivals.unlike = revivals.unlike, {}
        for node, count in unlike.items():
            self._tell(
                f"unlike {node}",
                f"{count} copies on {node} differ from others that end at the same event: the "
                f"larger ones lead; check the disk of {node}",
            )

    def _tell(self, subject: str, sentence: str) -> None:
        state = self.state
        state.out.warnings.append(sentence)
        state.found[subject] = (sentence, state.now_ms + _TOLD_MS)

    def _tell_awaited(self, awaited: dict[NodeId, int], wait_ms: int) -> None:
        """Tells who is awaited: the status as long as somebody is, the log when it is others."""
        state = self.state
        # Whoever is here answers within a moment.
        absent = [node for node in awaited if node not in state.peers or not self._is_here(node)]
        if absent:
            names = ", ".join(absent)
            count = max(awaited[node] for node in absent)
            sentence = (
                f"{count} fragments wait, at most {wait_ms} ms, for the copies of {names}, which "
                f"were in sync: one of them may hold more than those that are back. Start {names}"
            )
            if absent != self._awaited:
                state.out.warnings.append(sentence)
            state.found["revivals"] = (sentence, state.now_ms)
        elif self._awaited:
            state.found.pop("revivals", None)
        self._awaited = absent

    def _is_here(self, node: NodeId) -> bool:
        member = self.state.map.members.get(node)
        return node == self.state.me or (member is not None and member.up)


class _Weighing:
    """A chore: finds out what a copy holds, and tells it.

    A copy that changes meanwhile is led by somebody, and nobody wants to know any more: that is
    told as None.
    """

    __slots__ = (
        "_checksum",
        "_copy",
        "_edits",
        "_fragment",
        "_positions",
        "_state",
        "_tell",
        "_worth",
    )

    def __init__(
        self, state: NodeState, fragment: FragmentId, tell: Callable[[Worth | None], None]
    ) -> None:
        self._state = state
        self._fragment = fragment
        self._tell = tell
        self._copy: object = None
        self._edits = -1
        self._worth = Worth()
        self._positions: Positions | None = None
        self._checksum: Checksum | None = None

    def go_on(self) -> bool:
        """Looks at the next positions of the copy."""
        work = self._state.work
        work.spend(_QUESTION_WORK)
        copy, edits = self._copy_now()
        if self._edits < 0:
            self._copy, self._edits = copy, edits
            self._begin()
        elif self._copy is not copy or self._edits != edits:
            self._tell(None)
            return True
        if self._positions is not None:
            if not self._positions.go_on(work):
                return False
            self._checksum, self._positions = Checksum(self._positions.ranges), None
        checksum, worth = self._checksum, self._worth
        if checksum is not None:
            if not checksum.go_on(work):
                return False
            worth = worth._replace(live=checksum.count, digest=checksum.value)
        self._tell(worth)
        return True

    def _copy_now(self) -> tuple[object, int]:
        """What this node has of the fragment, and how often that has changed."""
        state, fragment = self._state, self._fragment
        recovered, backup = state.recovered.get(fragment), state.backups.get(fragment)
        if recovered is not None:
            return recovered, 0
        if backup is not None:
            return backup.replica, backup.replica.edits
        return None, 0

    def _begin(self) -> None:
        state, fragment = self._state, self._fragment
        recovered, backup = state.recovered.get(fragment), state.backups.get(fragment)
        primary = state.primaries.get(fragment)
        if recovered is not None:
            self._worth = Worth(recovered.whole, recovered.last)
            stowed = [(first, last) for first, last, _ in recovered.stowed]
            self._positions = Positions(recovered.messages, stowed)
        elif backup is not None:
            self._worth = Worth(backup.whole, backup.last_held)
            self._positions = backup.replica.positions()
        elif primary is not None:
            # Another process's reign that was meant for this one: as good as what it began with.
            self._worth = Worth(last=primary.fragment.last)
