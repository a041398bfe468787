"""The right to vote and lead: a voter that may have forgotten what it said learns first.

Inputs: whether this voter remembers (`Memory`), what the others say of themselves (`Standing`).
Outputs: whether it may vote for a candidate, stand itself, or be counted. Invariants
(docs/adr/0031-who-a-process-is.md):

* a *learner* (its Raft files are new, lost or behind their mark) gives no vote, does not stand, and
  is not counted for a commit;
* it becomes a voter when a leader promotes it, when it founds the cluster with a majority of
  voters that are as new, or with the best log of all, when all are there;
* what it might have promised before is in the logs of those who let it in, and the term in which
  it might have voted is over;
* "all" are those of a set that this voter has not forgotten either: that of its data directory, or
  the configuration's, as long as nobody who was met has heard of another one (docs/adr/0084).
"""

from typing import Final, NamedTuple, Protocol

from fedq.core.ids import NodeId
from fedq.shell.raft.voters import VoterSet
from fedq.shell.raft.wire import Standing, VoteRequest


class Memory(NamedTuple):
    """What a voter knows of its Raft files from elsewhere; they must not have fallen behind it."""

    term: int = 0
    applied: int = 0
    #: There were Raft files before: if they are gone, they are lost and not new.
    is_used: bool = False
    #: The newest set of voters with which it promised anything; None: the configuration's.
    voters: VoterSet | None = None


class VotersFiles(Protocol):
    """What a voter's files say of themselves."""

    @property
    def is_learner(self) -> bool:
        """Whether this voter may have forgotten what it promised."""

    @property
    def is_new(self) -> bool:
        """Whether they have never promised anything, so that their voter may found a cluster."""


NO_MEMORY: Final = Memory()


class Electorate:
    """The voters that this one has met, and what may be done with them."""

    __slots__ = (
        "_asked", "_elected_log", "_me", "_met", "_remembered", "_set", "has",
        "hears_of_a_cluster", "is_learner", "is_new",
    )  # fmt: skip

    def __init__(self, me: NodeId, remembered: VoterSet, files: VotersFiles) -> None:
        """`remembered`: of the data directory, else of the configuration."""
        self._me = me
        self._remembered = remembered
        #: The newest set in the log; a learner's log may be far behind what it promised.
        self._set = remembered
        self.is_learner = files.is_learner
        self.is_new = files.is_new
        #: Somebody is, or may be, of a cluster, and this node's data directory of none: it may have
        #: been of that one, and lost it. With a log that is as empty nothing begins beside it.
        self.hears_of_a_cluster = False
        #: What each peer said of itself last.
        self._met: dict[NodeId, Standing] = {}
        #: The end of this voter's log when it was elected: term and index.
        self._elected_log = (0, 0)
        #: The entry that each learner has to have before it is promoted: term and index.
        self._asked: dict[NodeId, tuple[int, int]] = {}
        #: Up to where each learner's log equals this leader's.
        self.has: dict[NodeId, int] = {}

    def meet(self, peer: NodeId, standing: Standing) -> None:
        """Takes note of what a peer says of itself."""
        self._met[peer] = standing

    def use(self, voters: VoterSet) -> None:
        """Counts these from now on, unless this is a learner."""
        self._set = voters

    def forget(self, peer: NodeId) -> None:
        """Forgets a node that is gone for good."""
        for known in (self._met, self._asked, self.has):
            known.pop(peer, None)

    @property
    def _others(self) -> list[NodeId]:
        """The other voters that are to be met."""
        voters = self._remembered if self.is_learner else self._set
        return [name for name in voters.names if name != self._me]

    @property
    def _is_a_voter(self) -> bool:
        """Whether this node is one of the voters, by what it has not forgotten."""
        return self._me in self._remembered.names

    def connected(self, peer: NodeId) -> None:
        """Begins anew with a peer, perhaps a new process, as a stream to it begins."""
        self._asked.pop(peer, None)
        self.has.pop(peer, None)

    # --- a learner's own -------------------------------------------------------------------------

    @property
    def founds(self) -> bool:
        """Whether this new voter and the others that are met are at a cluster's beginning."""
        if not (self.is_learner and self.is_new and self._is_a_voter and self._knows_the_set):
            return False
        if self.hears_of_a_cluster or any(not each.is_empty for each in self._met.values()):
            return False
        others = self._others
        met = [name for name in others if name in self._met]
        return 2 * (1 + len(met)) > 1 + len(others)

    def may_vote(self, request: VoteRequest) -> bool:
        """Whether this voter may vote for the candidate."""
        if not self.is_learner:
            return True
        if not (self._is_a_voter and self._knows_the_set and self._all_met):
            return False
        newest = (request.last_term, request.last_index)
        if self._would_found(*newest):
            return False
        return request.term > self.highest_term and newest >= self._best_log

    def may_lead(self, last_term: int, last_index: int) -> bool:
        """Whether this learner, whose log ends so, has the best one of all, and all are there."""
        if not (self._is_a_voter and self._knows_the_set and self._all_met):
            return False
        if self._would_found(last_term, last_index):
            return False
        return (last_term, last_index) >= self._best_log

    def _would_found(self, last_term: int, last_index: int) -> bool:
        """Whether a leader whose log ends so would begin another cluster beside one that is."""
        return self.hears_of_a_cluster and Standing(0, last_index, last_term, True).is_empty

    @property
    def highest_term(self) -> int:
        """The highest term that anybody met was in."""
        return max((standing.term for standing in self._met.values()), default=0)

    @property
    def _all_met(self) -> bool:
        return all(name in self._met for name in self._others)

    @property
    def _knows_the_set(self) -> bool:
        """Whether nobody has heard of another set than this learner remembers."""
        if self._remembered.number:
            return True
        return all(not standing.set_index for standing in self._met.values())

    @property
    def _best_log(self) -> tuple[int, int]:
        logs = [(standing.last_term, standing.last_index) for standing in self._met.values()]
        return max(logs, default=(0, 0))

    # --- a leader's ------------------------------------------------------------------------------

    def elected(self, last_term: int, last_index: int) -> None:
        """Takes note that this voter leads; its log ended so when it was elected."""
        self._elected_log = (last_term, last_index)
        self._asked = {}
        self.has = {}

    def was_asked(self, learner: NodeId, term: int) -> bool:
        """Whether an entry of this term is on its way to the learner for that."""
        return self._asked.get(learner, (0, 0))[0] == term

    def ask(self, learner: NodeId, term: int, index: int) -> None:
        """Notes to promote the learner once it has this entry, which was made after it came."""
        self._asked[learner] = (term, index)

    def promotion(self, learner: NodeId, committed: int, term: int) -> int | None:
        """The entry as of which the learner may vote again; None: it may not yet."""
        asked = self._asked.get(learner)
        if asked is None or asked[0] != term or self.has.get(learner, 0) < asked[1]:
            return None
        if committed >= asked[1] or (self._all_met and self._has_the_best_log(term)):
            return asked[1]
        return None

    def _has_the_best_log(self, term: int) -> bool:
        return all(
            standing.last_term == term
            or (standing.last_term, standing.last_index) <= self._elected_log
            for standing in self._met.values()
        )
