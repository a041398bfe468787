"""The part of a Raft voter that learns: what it says of itself, and how it comes to vote again.

A mixin of the voter in `fedq.shell.raft.log`, whose private names it uses; who may do what is
decided in `fedq.shell.raft.electorate`. Inputs: time, standings, acknowledgements of learners,
promotions. Outputs: standings, entries that learners have to have, promotions.
"""

from typing import Any

from fedq.core.ids import NodeId
from fedq.shell.raft.electorate import Electorate
from fedq.shell.raft.hooks import VoterHooks
from fedq.shell.raft.journal import RaftJournal
from fedq.shell.raft.timing import RaftTiming
from fedq.shell.raft.voters import VoterSet
from fedq.shell.raft.wire import NO_OP, Promote, Standing


class Learning:
    """The learning part of a voter."""

    _electorate: Electorate
    _hooks: VoterHooks
    _log: RaftJournal
    _node_name: NodeId
    _peers: dict[NodeId, Any]
    _timing: RaftTiming
    _set: VoterSet
    #: When the peers were told last what this voter is.
    _introduced_s = float("-inf")
    term: Any
    leader: Any
    committed: Any
    _post: Any
    _wait_for_leader: Any
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
        """Founds no cluster from now on: there is one that this node may have been of."""
        self._electorate.hears_of_a_cluster = True

    def learn(self, now_s: float) -> None:
        """Does what is due before a step."""
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
        standing = Standing(self.term, log.last_index, log.last_term, learner, self._set.number)
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
        log = self._log
        is_known = log.first_index <= promote.entry <= log.last_index
        if not self.is_learner or promote.term != self.term or self.leader != node.id:
            return
        if is_known and log.term_at(promote.entry) == promote.term:
            # Whoever asks for its vote in this term has heard of another leader.
            self._SyncObj__setCurrentTerm(self.term, node.id)
            self._become_voter()
