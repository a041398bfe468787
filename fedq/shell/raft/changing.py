"""The part of a Raft voter that knows who votes, and that changes it, while it leads, by one name.

A mixin of the voter in `fedq.shell.raft.log`, whose private names it uses. Inputs: nodes that
become known and go, sets of voters in the log, who should vote. Outputs: whom pysyncobj counts,
entries with the next set. The rules, and what goes wrong without each of them, are in
docs/adr/0084-voters-change-in-the-log.md.
"""

from collections.abc import Sequence
from typing import Any

from fedq.core.ids import NodeId
from fedq.core.limits import VOTERS_MAX
from fedq.shell.raft.electorate import Electorate
from fedq.shell.raft.hooks import VoterHooks
from fedq.shell.raft.journal import RaftJournal
from fedq.shell.raft.replication import Follower
from fedq.shell.raft.storage import RaftStorage
from fedq.shell.raft.timing import RaftTiming
from fedq.shell.raft.voters import VoterSet, encode_voters, next_set


class Changing:
    """The part of a voter that knows who votes."""

    _electorate: Electorate
    _followers: dict[NodeId, Follower]
    _hooks: VoterHooks
    _log: RaftJournal
    _node_name: NodeId
    _peers: dict[NodeId, Any]
    _storage: RaftStorage
    _timing: RaftTiming
    #: Who votes as long as the log has not said so.
    _configured: VoterSet
    #: The newest set in the log, or the configured one.
    _set: VoterSet
    #: Voters that this node has heard of in its log alone.
    _only_named: dict[NodeId, None]
    #: How often entries had been removed for a conflict when the log was last looked through.
    _truncations_seen = 0
    #: When this leader last asked another one to lead.
    _left_s = float("-inf")
    #: Makes what pysyncobj knows a node by.
    _make_node: Any
    term: Any
    committed: Any
    is_connected: Any
    hand_over: Any
    _isLeader: Any  # noqa: N815
    _SyncObj__otherNodes: Any
    _SyncObj__readonlyNodes: Any
    _SyncObj__connectedNodes: Any
    _SyncObj__lastResponseTime: Any
    _SyncObj__raftMatchIndex: Any
    _SyncObj__raftNextIndex: Any
    _SyncObj__sendAppendEntries: Any

    @property
    def voters(self) -> VoterSet:
        """The voters, by the newest entry of this node's log that says so."""
        return self._set

    # --- who is known ----------------------------------------------------------------------------

    def knows(self, peer: NodeId) -> bool:
        """Whether the node is one that this one gives its log to, or follows."""
        return peer in self._peers

    def know(self, peer: NodeId) -> None:
        """Gives the log to one more node from now on, which follows it, whether it votes or not."""
        self._only_named.pop(peer, None)
        if peer in self._peers or peer == self._node_name:
            return
        node = self._peers[peer] = self._make_node(peer)
        self._followers[peer] = Follower()
        self._SyncObj__raftNextIndex[node] = self._log.last_index + 1
        self._SyncObj__raftMatchIndex[node] = 0
        self._SyncObj__lastResponseTime[node] = float("-inf")
        self._count()

    def forget(self, peer: NodeId) -> bool:
        """Has nothing to do with a node any more; False: it votes, so it stays."""
        if peer in self._set.names:
            return False
        node = self._peers.pop(peer, None)
        if node is not None:
            del self._followers[peer]
            self._electorate.forget(peer)
            self._SyncObj__connectedNodes.discard(node)
            for numbers in (
                self._SyncObj__raftNextIndex,
                self._SyncObj__raftMatchIndex,
                self._SyncObj__lastResponseTime,
            ):
                numbers.pop(node, None)
            self._count()
        return True

    def _count(self) -> None:
        """Has pysyncobj count the voters, and nobody else."""
        voters = {node for name, node in self._peers.items() if name in self._set.names}
        self._SyncObj__otherNodes = voters
        self._SyncObj__readonlyNodes = {*self._peers.values()} - voters

    # --- the set that counts ---------------------------------------------------------------------

    def _look_through(self, *, whole: bool = False) -> None:
        """Takes the newest set in the log for the one that counts, once entries came or went."""
        truncations = self._log.truncations
        if not whole and truncations == self._truncations_seen:
            return
        self._truncations_seen = truncations
        found = self._storage.voters_at(self._log.last_index) or self._configured
        if found == self._set:
            return
        self._set = found
        self._know_named(found.names)
        self._count()
        self._electorate.use(found)
        self._remember_set()

    def _know_named(self, names: Sequence[NodeId]) -> None:
        """Counts who votes even before anybody has said where to find it, and only as long."""
        for gone in [name for name in self._only_named if name not in names]:
            del self._only_named[gone]
            self.forget(gone)
        for name in names:
            if name not in self._peers and name != self._node_name:
                self.know(name)
                self._only_named[name] = None

    def _remember_set(self) -> None:
        """Has the set remembered with which this node votes, before it says anything with it."""
        if not self._electorate.is_learner:
            self._hooks.on_new_set(self._set)

    # --- the next set ----------------------------------------------------------------------------

    def change(self, now_s: float) -> None:
        """Takes the next step, if this voter leads, to the set that the machine wants."""
        if not self._isLeader() or not self._may_change():
            return
        wanted = self._hooks.wanted_voters()
        if wanted is None or wanted == self._set.names or not 1 <= len(wanted) <= VOTERS_MAX:
            return
        # First what only the configurations say: all are to have heard of a set in the log before
        # there is another one.
        names: Sequence[NodeId] | None = self._set.names
        if self._set.number:
            alive = [name for name in self._peers if self._is_alive(name, now_s)]
            joining = [name for name in alive if self._has_all(name)]
            me = self._node_name
            names = next_set(self._set.names, wanted, joining, [me, *alive], me)
        if names is not None:
            self._log.append(encode_voters(names), self.term)
            self._look_through(whole=True)
            self._SyncObj__sendAppendEntries()
        elif {*self._set.names} - {self._node_name} == {*wanted}:
            # Only a leader removes, and none removes itself. Once: who is to lead has to be asked
            # by others meanwhile, and to have all that this one has.
            self._leave(now_s)

    def _leave(self, now_s: float) -> None:
        """Hands leadership over; again if nothing came of it."""
        if now_s - self._left_s >= self._timing.election_max_ms / 1_000 and self.hand_over():
            self._left_s = now_s

    def _may_change(self) -> bool:
        """Whether no other change is under way, this leader's or one that it does not know of."""
        return self._has_committed() and self._set.number <= self.committed

    def _has_committed(self) -> bool:
        """Whether an entry of this leader's term is committed: no older one can be any more."""
        term: int = self.term
        return self._log.term_at(self.committed) == term

    def _is_alive(self, peer: NodeId, now_s: float) -> bool:
        """Whether the node answered just now, in this term."""
        node = self._peers[peer]
        if not self.is_connected(peer) or not self._SyncObj__raftMatchIndex[node]:
            return False
        heard_s: float = self._SyncObj__lastResponseTime[node]
        return now_s - heard_s < self._timing.majority_lost_ms / 1_000

    def _has_all(self, peer: NodeId) -> bool:
        """Whether the node's log has all that is committed; that of a learner counts for none."""
        match: int = self._SyncObj__raftMatchIndex[self._peers[peer]]
        committed: int = self.committed
        return match >= committed
