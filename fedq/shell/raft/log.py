"""The Raft-replicated log of a voter: pysyncobj made safe (ADR: the cluster map, D3).

Inputs: commands to propose, frames of peers, links going up and down, time. Outputs: committed
commands and snapshots for the machine, frames for the peers, who leads.

pysyncobj keeps the elections, terms and votes, the commit rule and the timers. Everything in it
that touches a wire, a disk or the machine is replaced here, because as it comes it

* executes pickles that peers send: here nothing is pickled, and its own pickle functions refuse;
* acknowledges what is not on disk, and loses entries when killed in a compaction: here all that a
  turn has written is synced before the first frame of that turn leaves (`RaftJournal`);
* truncates without conflict, commits entries it has not compared, and replaces a good snapshot by
  a damaged one: here `take_entries` and `SnapshotReceiver` decide;
* retries a command that raises for ever: here that stops the node.

Everything runs on one asyncio thread, in turns: frames in, pysyncobj's tick, sync, frames out.

Invariants: `on_committed` is called in log order, once per entry and process life, within a turn;
a snapshot replaces the entries up to its own. A failure of the disk or of the machine ends all
turns and is reported once through `failed`.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn

import pysyncobj.config
import pysyncobj.journal
import pysyncobj.monotonic
import pysyncobj.node
import pysyncobj.pickle
import pysyncobj.syncobj
import pysyncobj.transport
import pysyncobj.version

from fedq.core.errors import NodeFailure
from fedq.core.ids import NodeId
from fedq.shell.raft.changing import Changing
from fedq.shell.raft.electorate import Electorate, Memory
from fedq.shell.raft.hooks import LogMachine, VoterHooks
from fedq.shell.raft.journal_adapter import JournalFace
from fedq.shell.raft.learning import Learning
from fedq.shell.raft.linking import Linking
from fedq.shell.raft.replication import Follower, next_batch, take_entries
from fedq.shell.raft.snapshot import SnapshotReceiver
from fedq.shell.raft.storage import RaftStorage
from fedq.shell.raft.taking import Taking
from fedq.shell.raft.timing import RaftTiming
from fedq.shell.raft.turns import RaftTurns
from fedq.shell.raft.voters import ENTRY_VOTERS, VoterSet, decode_voters
from fedq.shell.raft.wire import (
    ENTRY_COMMAND,
    Ack,
    Append,
    Forward,
    LeadNow,
    Promote,
    RaftMessage,
    SnapshotChunk,
    Standing,
    Vote,
    VoteRequest,
)

__all__ = ["LogMachine", "RaftLog", "RaftTiming"]

PYSYNCOBJ_VERSION: Final = "0.3.17"
#: Entries applied in one turn, so that heartbeats go out between them.
_APPLIED_PER_TURN_MAX: Final = 2_000

_COMMAND_PREFIX: Final = bytes([ENTRY_COMMAND])
_FOLLOWER: Final = pysyncobj.syncobj._RAFT_STATE.FOLLOWER

#: Not `time.monotonic`: pysyncobj's clock may be the raw one, which drifts away from that.
_monotonic: Final[Callable[[], float]] = pysyncobj.monotonic.monotonic

logger = logging.getLogger(__name__)

if pysyncobj.version.VERSION != PYSYNCOBJ_VERSION:
    raise ImportError(
        f"fedq works with pysyncobj {PYSYNCOBJ_VERSION} only, because it replaces parts of its "
        f"inside; found {pysyncobj.version.VERSION}: pip install pysyncobj=={PYSYNCOBJ_VERSION}"
    )


def _no_pickle(*_: object, **__: object) -> NoReturn:
    raise AssertionError("pysyncobj tried to pickle: fedq must have replaced that path")


for _module, _names in (
    (pysyncobj.pickle, ("dumps", "loads", "dump", "load")),
    (pysyncobj.journal, ("dumps", "loads")),
):
    for _name in _names:
        setattr(_module, _name, _no_pickle)


def _given_journal(journal: object) -> object:
    """Hands over the journal itself, in place of the file name that pysyncobj works with."""
    return journal


pysyncobj.syncobj.createJournal = _given_journal


class _Transport(pysyncobj.transport.Transport):  # type: ignore[misc]
    """What pysyncobj still sends itself: the messages of elections."""

    def __init__(self, post: Callable[[NodeId, RaftMessage], None]) -> None:
        super().__init__(None, None, [])
        self._post = post
        #: The term of an election that the leader asked for.
        self.forced_term = 0

    def send(self, node: Any, message: dict[str, Any]) -> bool:
        term = int(message["term"])
        match message["type"]:
            case "request_vote":
                last_index, last_term = message["last_log_index"], message["last_log_term"]
                forced = term == self.forced_term
                self._post(node.id, VoteRequest(term, last_index, last_term, forced))
            case "response_vote":
                self._post(node.id, Vote(term))
            case "timeout_now":
                self._post(node.id, LeadNow(term))
            case kind:
                raise AssertionError(f"pysyncobj sent {kind}: fedq must have replaced that path")
        return True


class _Voter(Changing, Learning, Linking, Taking, pysyncobj.syncobj.SyncObj):  # type: ignore[misc]
    """pysyncobj's voter with its replication, application and compaction replaced.

    The names that begin with `_SyncObj__` are pysyncobj's private ones, hence the exact version.
    """

    def __init__(
        self,
        node: NodeId,
        configured: Iterable[NodeId],
        timing: RaftTiming,
        storage: RaftStorage,
        hooks: VoterHooks,
        memory: Memory,
    ) -> None:
        """`configured`: who votes as long as the log has not said so."""
        self._timing = timing
        self._storage = storage
        self._log = storage.journal
        self._hooks = hooks
        self._post = hooks.post
        self._node_name = node
        self._configured = self._set = VoterSet(0, tuple(sorted(configured)))
        self._make_node = pysyncobj.node.Node
        self._peers: dict[NodeId, Any] = {}
        self._followers: dict[NodeId, Follower] = {}
        self._only_named = {}
        self._receiver = SnapshotReceiver()
        self._electorate = Electorate(node, memory.voters or self._configured, storage)
        self._heard_leader = float("-inf")
        #: Who voted for this candidate in which term: a repeated frame must not count twice.
        self._ballots: tuple[int, dict[NodeId, None]] = (0, {})
        self._transport = _Transport(hooks.post)
        super().__init__(
            pysyncobj.node.Node(node),
            [],
            _configuration(timing, JournalFace(self._log)),
            transport=self._transport,
        )
        self._SyncObj__raftLastApplied = self._log.first_index
        for name in self._set.names:
            self.know(name)
        self._look_through(whole=True)
        self._electorate.use(self._set)
        if memory.voters is not None and memory.voters != self._set:
            self._remember_set()
        self.begin_to_learn()

    # --- what the turns ask ---

    @property
    def leader(self) -> NodeId | None:
        leader = self._getLeader()
        return None if leader is None else NodeId(leader.id)

    @property
    def term(self) -> int:
        return int(self.raftCurrentTerm)

    @property
    def applied(self) -> int:
        return int(self.raftLastApplied)

    @property
    def committed(self) -> int:
        return int(self.raftCommitIndex)

    def _now_s(self) -> float:
        return _monotonic()

    def step(self) -> None:
        now_s = self._now_s()
        self.learn(now_s)
        self.change(now_s)
        self.doTick(0)

    def append(self, commands: Sequence[bytes]) -> None:
        assert self._isLeader(), "only a leader appends to the log"
        for command in commands:
            self._log.append(_COMMAND_PREFIX + command, self.term)
        self._SyncObj__sendAppendEntries()

    def has_more_to_do(self) -> bool:
        alone = self._set.is_alone(self._node_name) and self._isLeader()
        known = self._log.last_index if alone else self.committed
        return self.applied < known

    def hand_over(self) -> bool:
        reasons: list[int] = []
        self.transferLeadership(None, lambda _, reason: reasons.append(reason))
        return reasons == [pysyncobj.config.FAIL_REASON.SUCCESS]

    # --- frames ---

    def handle(self, peer: NodeId, message: RaftMessage) -> None:
        node = self._peers[peer]
        match message:
            case VoteRequest():
                self._on_vote_request(node, message)
            case Vote():
                self._on_vote(node, message)
            case LeadNow():
                self._on_lead_now(node, message)
            case Append():
                self._on_append(node, message)
            case SnapshotChunk():
                self._on_chunk(node, message)
            case Ack():
                self._on_ack(node, message)
            case Standing():
                self._electorate.meet(peer, message)
                if message.set_index:
                    self.hear_of_a_set()
            case Promote():
                self.on_promote(node, message)
            case Forward():
                raise AssertionError("commands of other voters are the turns' business")

    def _on_vote_request(self, node: Any, request: VoteRequest) -> None:
        # Whether it votes by this node's own log is not asked: the entry that says so may be on its
        # way, and the candidate counts with its own (ADR 0084).
        # Who hears its leader does not listen to a candidate that does not: else one bad link
        # would depose a leader that a majority is content with (Raft, section 6).
        if self._has_leader_at_hand() and not request.forced:
            return
        if not self._electorate.may_vote(request):
            return
        self._SyncObj__onMessageReceived(
            node,
            {
                "type": "request_vote",
                "term": request.term,
                "last_log_index": request.last_index,
                "last_log_term": request.last_term,
            },
        )

    def _has_leader_at_hand(self) -> bool:
        if self._isLeader():
            return True
        leader, age = self.leader, _monotonic() - self._heard_leader
        if leader is None or not self.is_connected(leader):
            return False
        return age < self._timing.election_min_ms / 1_000

    def _on_vote(self, node: Any, vote: Vote) -> None:
        if self._ballots[0] != vote.term:
            self._ballots = (vote.term, {})
        voters = self._ballots[1]
        if node.id in voters or node.id not in self._set.names:
            return
        voters[node.id] = None
        message = {"type": "response_vote", "term": vote.term}
        self._SyncObj__onMessageReceived(node, message)

    def _on_lead_now(self, node: Any, order: LeadNow) -> None:
        if order.term == self.term and self.leader == node.id and self._may_stand:
            self._transport.forced_term = order.term + 1
            message = {"type": "timeout_now", "term": order.term}
            self._SyncObj__onMessageReceived(node, message)

    def _on_append(self, node: Any, append: Append) -> None:
        if not self._follow(node, append.term, append.number) or self._is_taking(node):
            return
        if append.prev_index == 0:
            self._answer(node, append.number, 0)
            return
        taken = take_entries(self._log, self.committed, append)
        success, following = taken.success, taken.next_index
        named = any(entry.command[0] == ENTRY_VOTERS for entry in append.entries)
        self._look_through(whole=named)
        self._answer(node, append.number, following, success=success, reset=not success)
        if taken.success:
            # Only what was compared with the leader's log may be committed.
            committed = min(append.commit_index, taken.next_index - 1)
            self._SyncObj__raftCommitIndex = max(self.committed, committed)

    def _follow(self, node: Any, term: int, number: int) -> bool:
        """Takes the sender for the leader; False when its term is over."""
        if term < self.term:
            self._answer(node, number, 0)
            return False
        if term > self.term:
            self._SyncObj__transferInProgress = False
            self._SyncObj__setCurrentTerm(term, None)
        elif self._isLeader():
            raise NodeFailure(
                f"{node.id} leads Raft term {term} and so does this node: a voter lost its vote. "
                "Stop the node whose data directory was replaced and let it rejoin as a new member"
            )
        if not self._SyncObj__transferInProgress:
            self._wait_for_leader()
        if self._getLeader() != node:
            self._SyncObj__raftLeader = node
            self._receiver = SnapshotReceiver()
        self._SyncObj__setState(_FOLLOWER)
        self._heard_leader = _monotonic()
        return True

    def _answer(
        self, node: Any, number: int, next_index: int, success: bool = False, reset: bool = False
    ) -> None:
        learner = self._electorate.is_learner
        self._post(node.id, Ack(self.term, number, next_index, success, reset, learner))

    def _wait_for_leader(self) -> None:
        timeout = self._SyncObj__generateRaftTimeout()
        self._SyncObj__raftElectionDeadline = _monotonic() + timeout

    def _follow_nobody(self) -> None:
        self._SyncObj__setState(_FOLLOWER)
        self._SyncObj__raftLeader = None
        self._wait_for_leader()

    def _on_ack(self, node: Any, ack: Ack) -> None:
        if ack.term > self.term:
            self._SyncObj__setCurrentTerm(ack.term, None)
            self._follow_nobody()
            return
        if not self._isLeader() or ack.term < self.term:
            return
        follower = self._followers[node.id]
        is_current = follower.on_ack(ack.number)
        self._SyncObj__lastResponseTime[node] = _monotonic()
        if ack.reset and is_current:
            follower.restart()
            following = min(max(ack.next_index, 2), self._log.last_index + 1)
            self._SyncObj__raftNextIndex[node] = following
        elif ack.success and ack.next_index <= self._log.last_index + 1:
            match, following = self._SyncObj__raftMatchIndex, self._SyncObj__raftNextIndex
            if ack.learner:
                self.teach(node, ack.next_index - 1)
            else:
                match[node] = max(match[node], ack.next_index - 1)
            following[node] = max(following[node], ack.next_index)
            if is_current:
                follower.snapshot_arrived()
        self._feed(node)

    # --- in place of pysyncobj's own ---

    def _SyncObj__onBecomeLeader(self) -> None:  # noqa: N802
        for follower in self._followers.values():
            follower.restart()
        self._electorate.elected(self._log.last_term, self._log.last_index)
        super()._SyncObj__onBecomeLeader()

    def _SyncObj__sendAppendEntries(self) -> None:  # noqa: N802
        """Sends each follower what it lacks, or a heartbeat."""
        due = _monotonic() + self._timing.heartbeat_ms / 1_000
        self._SyncObj__newAppendEntriesTime = due
        for peer, node in self._peers.items():
            if node in self._SyncObj__connectedNodes and not self._feed(node):
                previous = self._SyncObj__raftNextIndex[node] - 1
                term = 0
                if previous < self._log.first_index:
                    previous = 0
                else:
                    term = self._log.term_at(previous)
                number = self._followers[peer].next_number()
                self._post(peer, Append(self.term, number, self.committed, previous, term, []))

    def _feed(self, node: Any) -> bool:
        """Sends entries or snapshot chunks as far as the window goes; False if there is none."""
        if node not in self._SyncObj__connectedNodes:
            return False
        follower = self._followers[node.id]
        sent = False
        while follower.has_room:
            index = self._SyncObj__raftNextIndex[node]
            if index <= self._log.first_index:
                chunk = follower.next_chunk(self.term, self._hooks.encoded_snapshot)
                if chunk is None:
                    break
                self._post(node.id, chunk)
            elif index <= self._log.last_index:
                previous, batch = self._log.term_at(index - 1), next_batch(self._log, index)
                number = follower.next_number()
                frame = Append(self.term, number, self.committed, index - 1, previous, batch)
                self._post(node.id, frame)
                self._SyncObj__raftNextIndex[node] = index + len(batch)
            else:
                break
            sent = True
        return sent

    def _SyncObj__applyLogEntries(self) -> bool:  # noqa: N802
        """Hands the machine what it has room for; True tells followers of it at once."""
        behind = self.committed - self.applied
        if behind <= 0:
            return False
        entries = self._log.since(self.applied + 1, min(behind, _APPLIED_PER_TURN_MAX))
        for command, index, _ in entries:
            if command[0] == ENTRY_COMMAND:
                if not self._hooks.apply(command[1:]):
                    break
                self._has_history = True
            if command[0] == ENTRY_VOTERS:
                self._hooks.on_voters(decode_voters(command))
            self._SyncObj__raftLastApplied = index
        return True

    def _checkCommandsToApply(self) -> None:  # noqa: N802
        """Does nothing: the turns hand commands to `append`."""

    def _SyncObj__tryLogCompaction(self) -> None:  # noqa: N802
        """Does nothing: the turns compact the log."""


def _configuration(timing: RaftTiming, journal: JournalFace) -> Any:
    election_max_s = timing.election_max_ms / 1_000
    return pysyncobj.config.SyncObjConf(
        autoTick=False,
        # The other mode needs a pipe, and syncs once per command: `_checkCommandsToApply` and
        # `_SyncObj__applyLogEntries` send at once, and whole batches.
        appendEntriesUseBatch=True,
        appendEntriesPeriod=timing.heartbeat_ms / 1_000,
        raftMinTimeout=timing.election_min_ms / 1_000,
        raftMaxTimeout=election_max_s,
        connectionTimeout=election_max_s,
        leaderFallbackTimeout=timing.majority_lost_ms / 1_000,
        dynamicMembershipChange=False,
        journalFile=journal,
        useFork=False,
    )


class RaftLog(RaftTurns):
    """The replicated log of one voter; see the module's docstring."""

    def found_nothing(self) -> None:
        """Founds no cluster for a while: somebody is of one, and this node may have been.

        Nor does it begin to lead alone.
        """
        if self._voter is not None:
            try:
                self._voter.found_nothing()
            except OSError as error:
                self._fail(error)

    def start(self) -> None:
        """Restores the machine from disk and begins; needs a running asyncio loop.

        The machine gets its snapshot within this call; the commands after it follow once a
        leader is known. Raises `RaftStorageError` with what to do when the files cannot be
        trusted, `OSError` when they cannot be read.
        """
        storage = RaftStorage.open(self._directory, self._memory)
        try:
            memory = self._memory
            voter = _Voter(self._node, self._configured, self._timing, storage, self, memory)
            self._begin(voter, storage)
        except BaseException:
            storage.journal.abandon()
            raise
