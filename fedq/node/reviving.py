"""Fragments that are in nobody's memory: what copies hold is asked, answered and told.

Inputs: the leader's questions, queries and answers of nodes. Outputs: messages, answers to the
leader's memory, and what an operator should know: for whose copies the cluster waits, and without
whose it went on. The choice itself is `fedq.wiring.worth`.
"""

from typing import Final

from fedq.core.ids import FragmentId, NodeId
from fedq.core.peer_messages import CopyQuery, CopyWorth
from fedq.node.state import NodeState
from fedq.wiring.failover import FailoverMemory
from fedq.wiring.worth import Worth, digest_of

#: How long the status says that fragments went on without a copy, and that copies differed.
_TOLD_MS: Final = 600_000


class Reviving:
    """See the module's docstring."""

    __slots__ = ("_awaited", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        #: Who was waited for when the log said so last.
        self._awaited: list[NodeId] = []

    def on_query(self, sender: NodeId, message: CopyQuery) -> None:
        """The leader wants to know what this node's copy holds."""
        worth = self.worth_of(message.fragment)
        answer = CopyWorth(
            message.fragment, message.epoch, worth.whole, worth.last, worth.live,
            worth.digest,
        )  # fmt: skip
        self.state.send(sender, answer)

    def on_worth(self, memory: FailoverMemory, sender: NodeId, message: CopyWorth) -> None:
        """A node has answered."""
        member = self.state.map.members.get(sender)
        if member is not None:
            worth = Worth(message.whole, message.last, message.live, message.digest)
            memory.on_worth(sender, member.incarnation, message.fragment, message.epoch, worth)

    def worth_of(self, fragment: FragmentId) -> Worth:
        """What this node holds of a fragment that it does not serve."""
        state = self.state
        recovered = state.recovered.get(fragment)
        if recovered is not None:
            messages = recovered.messages
            return Worth(
                recovered.whole, recovered.last, len(messages),
                digest_of(messages),
            )  # fmt: skip
        backup = state.backups.get(fragment)
        if backup is not None:
            held = backup.replica.in_order()
            last = backup.last_held
            return Worth(backup.whole, last, len(held), digest_of(held))
        primary = state.primaries.get(fragment)
        if primary is not None:
            # Another process's reign that was meant for this one: as good as what it began with.
            return Worth(last=primary.fragment.last)
        return Worth()

    def work_off(self, memory: FailoverMemory) -> None:
        """What the leader's last look has left to be asked and told."""
        state, revivals = self.state, memory.revivals
        questions, revivals.questions = revivals.questions, []
        for node, fragment, epoch in questions:
            if node == state.me:
                mine = state.settings.incarnation
                memory.on_worth(node, mine, fragment, epoch, self.worth_of(fragment))
            else:
                state.send(node, CopyQuery(fragment, epoch))
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
        """As long as somebody is awaited the status says so; the log, each time it is others."""
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
