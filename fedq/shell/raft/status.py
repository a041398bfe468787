"""How a Raft log stands, for whoever wants to know: its node, health checks, operators.

A mixin of the turns in `fedq.shell.raft.turns`. Inputs: the voter and the files, once they are
there. Outputs: plain values, zeros before the start.
"""

import asyncio
from typing import NamedTuple

from fedq.core.ids import NodeId
from fedq.shell.raft.electorate import Memory
from fedq.shell.raft.hooks import Voter
from fedq.shell.raft.journal import RaftStorageError
from fedq.shell.raft.storage import RaftStorage


class RaftStanding(NamedTuple):
    """How far a node's Raft log has come: zeros before the start."""

    term: int
    #: The numbers of the newest entry known to be committed, and of the newest one applied here.
    committed: int
    applied: int


class RaftStatus:
    """The standing of one Raft log."""

    _loop: asyncio.AbstractEventLoop | None
    _node: NodeId
    _storage: RaftStorage | None
    _sync: asyncio.Future[RaftStorageError | None] | None
    _sync_began_s: float
    _voter: Voter | None

    @property
    def leader(self) -> NodeId | None:
        """The voter that this one believes to lead."""
        return self._voter.leader if self._voter is not None else None

    @property
    def voters(self) -> tuple[NodeId, ...]:
        """The voters, by the newest entry of this node's log; committed it may not be."""
        return self._voter.voters.names if self._voter is not None else ()

    @property
    def is_learner(self) -> bool:
        """Whether this voter may have forgotten what it promised, and so gives no vote."""
        return self._voter is not None and self._voter.is_learner

    @property
    def mark(self) -> Memory:
        """How far the files have come: what is applied is never taken back."""
        return Memory(self.term, self.applied_index, is_used=True)

    @property
    def standing(self) -> RaftStanding:
        """The term, and how far the log has come."""
        return RaftStanding(self.term, self.committed_index, self.applied_index)

    @property
    def is_leader(self) -> bool:
        """Whether this voter believes itself to lead. For a moment, two voters may believe so."""
        return self.leader == self._node

    @property
    def term(self) -> int:
        """The Raft term, 0 before the start."""
        return self._voter.term if self._voter is not None else 0

    @property
    def applied_index(self) -> int:
        """The index of the newest entry the machine has; the log begins with 1."""
        return self._voter.applied if self._voter is not None else 0

    @property
    def committed_index(self) -> int:
        """The index of the newest entry known to be committed."""
        return self._voter.committed if self._voter is not None else 0

    @property
    def truncations(self) -> int:
        """How often this process removed entries that conflicted with a leader's."""
        return self._storage.journal.truncations if self._storage is not None else 0

    @property
    def is_syncing(self) -> bool:
        """Whether a turn is waiting for the disk; nothing is decided meanwhile."""
        return self._sync is not None

    @property
    def sync_owed_ms(self) -> int:
        """How long the turn at hand has been waiting for the disk."""
        if self._sync is None or self._loop is None:
            return 0
        return round((self._loop.time() - self._sync_began_s) * 1_000)
