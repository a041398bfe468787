"""The part of a Raft voter that learns: what it says of itself, and how it comes to vote again.

A mixin of the voter in `fedq.shell.raft.log`, whose private names it uses; who may do what is
decided in `fedq.shell.raft.electorate`. Inputs: time, standings, acknowledgements of learners,
promotions. Outputs: standings, entries that learners have to have, promotions.
"""

from typing import Any, Final

from fedq.core.ids import NodeId
from fedq.shell.raft.electorate import Electorate
from fedq.shell.raft.hooks import VoterHooks
from fedq.shell.raft.journal import FIRST_ENTRY, RaftJournal
from fedq.shell.raft.storage import RaftStorage
from fedq.shell.raft.timing import RaftTiming
from fedq.shell.raft.voters import VoterSet
from fedq.shell.raft.wire import ENTRY_COMMAND, NO_OP, TOLD_OF_A_SET, Promote, Standing

#: A log in which something was said says so within so many entries after its first one.
_LOOKED_THROUGH: Final = 100


class Learning:
    """The learning part of a voter."""

    _electorate: Electorate
    _hooks: VoterHooks
    _log: RaftJournal
    _node_name: NodeId
    _peers: dict[NodeId, Any]
    _timing: RaftTiming
    _configured: VoterSet
    _set: VoterSet
    _storage: RaftStorage
    #: Until when it neither founds a cluster nor begins to lead one alone.
    _listens_until_s = 0.0
    #: Until when it tells its peers, of which some may be as new, that there is a cluster.
    _told_until_s = 0.0
    #: The log holds, or has brought, what somebody said in it: it is of a cluster.
    _has_history = False
    #: When the peers were told last what this voter is.
    _introduced_s = float("-inf")
    term: Any
    leader: Any
    committed: Any
    _post: Any
    _wait_for_leader: Any
    _now_s: Any
    _follow_nobody: Any
    _SyncObj__setCurrentTerm: Any
    _SyncObj__raftElectionDeadline: Any
    _SyncObj__raftMatchIndex: Any
    _SyncObj__raftLeader: Any
    _remember_set: Any

    @property
    def is_learner(self) -> bool:
        """Whether this voter may have forgotten what it promised."""
        return self._electorate.is_learner

    def become_learner(self) -> None:
        """Makes this voter a learner: what it promised may not be in its files."""
        self._electorate.is_learner, self._electorate.is_new = True, False
        for peer in self._peers:
            self.introduce(peer)

    def found_nothing(self) -> None:
        """Founds no cluster for a while: there is one that this node may have been of.

        Nor does it begin to lead alone. If it votes in a log that nothing was ever said in, it
        learns first. Raises `OSError` if its disk does not take that.
        """
        if not self._has_history:
            now_s, before_s = self._now_s(), self._told_until_s
            self._told_until_s = now_s + self._timing.hearsay_ms / 1_000
            self._hold_back()
            if now_s >= before_s:
                for peer in self._peers:
                    self.introduce(peer)
        elif self._is_alone and self.leader is None:
            self._listen(self._timing.hearsay_ms)

    def hear_of_a_set(self) -> None:
        """Takes note that a peer knows of voters that are in a log, or was told of a cluster."""
        if not (self._has_history or self.is_learner or self._set.number):
            self._hold_back()

    def _hold_back(self) -> None:
        """Founds nothing for a while, and leads nothing that it has only just founded."""
        self._listen(self._timing.hearsay_ms)
        if not self.is_learner and self._node_name in self._configured.names:
            self._storage.become_learner()
            self._follow_nobody()
            self.become_learner()

    def begin_to_learn(self) -> None:
        """Looks what kind of log this is; who may be alone listens first for others."""
        log = self._log
        entries = log.since(log.first_index, _LOOKED_THROUGH)
        is_compacted = log.first_index > FIRST_ENTRY.number
        self._has_history = is_compacted or any(
            entry.command[0] == ENTRY_COMMAND for entry in entries
        )
        if not self._is_alone:
            return
        self._SyncObj__raftElectionDeadline = 0.0
        if self._timing.listen_ms:
            self._listen(self._timing.listen_ms)
            if not self.is_learner:
                # All that is in its log is committed. Who is of its cluster is to be known before
                # it judges who calls.
                self._SyncObj__raftCommitIndex = log.last_index

    @property
    def _is_alone(self) -> bool:
        """Whether this node is the only voter, by its log."""
        return self._set.is_alone(self._node_name)

    def _listen(self, for_ms: int) -> None:
        self._listens_until_s = max(self._listens_until_s, self._now_s() + for_ms / 1_000)
        self._electorate.hears_of_a_cluster = True

    def learn(self, now_s: float) -> None:
        """Does what is due before a step."""
        listens = now_s < self._listens_until_s
        self._electorate.hears_of_a_cluster = listens
        if listens and self._is_alone and self.leader is None:
            self._SyncObj__raftElectionDeadline = self._listens_until_s
        if self.is_learner:
            self._learn(now_s)
        if self._SyncObj__raftElectionDeadline < now_s and not self._may_stand:
            # Its leader is silent, and others have to find the next one.
            self._SyncObj__raftLeader = None
            self._wait_for_leader()
        pause_s = self._timing.election_min_ms / 2_000
        if self.leader is None and now_s - self._introduced_s > pause_s:
            self._introduced_s = now_s
            for peer in self._peers:
                self.introduce(peer)

    @property
    def _may_stand(self) -> bool:
        """Whether this node may call an election: it votes, by its own log, and forgot nothing."""
        return not self.is_learner and self._node_name in self._set.names

    def introduce(self, peer: NodeId) -> None:
        """Tells a peer what this voter is."""
        log = self._log
        learner = self._electorate.is_learner
        number = self._set.number
        if not number and self._now_s() < self._told_until_s:
            number = TOLD_OF_A_SET
        standing = Standing(self.term, log.last_index, log.last_term, learner, number)
        self._post(peer, standing)

    def _learn(self, now_s: float) -> None:
        """Learns: this voter stands for election only where that does no harm."""
        log, electorate = self._log, self._electorate
        if electorate.founds:
            self._become_voter()
            return
        is_due = self._SyncObj__raftElectionDeadline < now_s
        if is_due and electorate.may_lead(log.last_term, log.last_index):
            # In none of the terms in which it may have voted.
            term = max(self.term, electorate.highest_term)
            self._SyncObj__setCurrentTerm(term, self._node_name)
            self._become_voter()

    def _become_voter(self) -> None:
        self._hooks.on_voting()
        self._electorate.is_learner = False
        if self._set.number:
            self._remember_set()
        for peer in self._peers:
            self.introduce(peer)

    def teach(self, node: Any, has: int) -> None:
        """Teaches a learner that has the log up to an entry: it counts if made since it came."""
        electorate, learner = self._electorate, node.id
        electorate.has[learner] = has
        self._SyncObj__raftMatchIndex[node] = 0
        if not electorate.was_asked(learner, self.term):
            self._log.append(NO_OP, self.term)
            electorate.ask(learner, self.term, self._log.last_index)
        index = electorate.promotion(learner, self.committed, self.term)
        if index is not None:
            self._post(learner, Promote(self.term, index))

    def on_promote(self, node: Any, promote: Promote) -> None:
        """Takes the leader's word that this learner has all that it may have forgotten."""
        log, entry = self._log, promote.entry
        if not self.is_learner or promote.term != self.term or self.leader != node.id:
            return
        if self._electorate.hears_of_a_cluster and not self._has_history:
            # With its vote the leader would found another cluster beside the one that is.
            return
        # What was compacted is committed, and so the same as the leader's.
        is_compacted = entry < log.first_index
        if is_compacted or (entry <= log.last_index and log.term_at(entry) == promote.term):
            # Whoever asks for its vote in this term has heard of another leader.
            self._SyncObj__setCurrentTerm(self.term, node.id)
            self._become_voter()
