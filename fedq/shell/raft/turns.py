"""The turns of a Raft voter: frames in, one step, sync, frames out.

Inputs: frames and link changes of peers, proposals, the asyncio clock. Outputs: frames, and calls
of the machine. The `Voter` (pysyncobj behind `fedq.shell.raft.log`) decides; this file makes sure
of the order: **no frame leaves a turn before all that the turn has written is on disk**. That one
rule covers entries, acknowledgements, terms and votes, and one sync serves the whole turn. It runs
in a thread, so that clients are served meanwhile; what comes for the log waits for the next turn.

Nothing re-enters: what arrives, and what the machine proposes while it is called, waits for its
place in the turn. Any exception in a turn (disk, machine, broken invariant) is the last one: the
files are abandoned as a crash would leave them, and `failed` is told once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fedq.core import limits
from fedq.core.ids import NodeId
from fedq.core.limits import VOTERS_MAX
from fedq.shell.raft.compaction import Compactor
from fedq.shell.raft.electorate import NO_MEMORY, Memory
from fedq.shell.raft.hooks import LogMachine, Taken, Voter
from fedq.shell.raft.journal import RaftStorageError
from fedq.shell.raft.replication import batches
from fedq.shell.raft.snapshot import Snapshot
from fedq.shell.raft.status import RaftStatus
from fedq.shell.raft.storage import RaftStorage
from fedq.shell.raft.taking import Reader
from fedq.shell.raft.timing import RaftTiming
from fedq.shell.raft.voters import VoterSet
from fedq.shell.raft.wire import Forward, RaftMessage, WireError, decode, encode

#: Frames received and not yet handled; more are dropped, which Raft survives.
_INBOX_FRAMES_MAX: Final = 1_024
#: Commands of other voters taken in one turn; more are dropped, and repeated by their proposers.
_FORWARDED_MAX: Final = 4_096
#: A voter without others looks at the clock this many times more rarely, once it leads.
_ALONE_TICKS: Final = 10

logger = logging.getLogger(__name__)


class RaftTurns(RaftStatus):
    """Drives one `Voter` on the running asyncio loop."""

    def __init__(
        self,
        node: NodeId,
        voters: Sequence[NodeId],
        directory: Path,
        *,
        send: Callable[[NodeId, bytes], bool],
        machine: LogMachine,
        failed: Callable[[str], None],
        timing: RaftTiming | None = None,
        memory: Memory = NO_MEMORY,
        joins: bool = False,
        remember: Callable[[VoterSet], None] = lambda _: None,
    ) -> None:
        """`voters` contains `node`; `directory` holds the files, its parent exists.

        They count until the log says who votes; `joins`: there are none, this node is to be let
        into a cluster that runs. `remember` notes on disk who votes now (`Memory.voters`). `send`
        hands a frame to the peer's stream, False if it is not connected. `failed` is called once,
        with a sentence, when the log had to stop: the process should end. `memory`: how far the
        files must have come. Raises `ValueError` for impossible voters.
        """
        self._node = node
        self._memory, self._remember = memory, remember
        self._configured = _checked(node, voters, joins=joins)
        #: Nodes whose frames are taken, and that may get some: voters and others.
        self._known = {name: None for name in self._configured if name != node}
        self._directory = directory
        self._timing = timing or RaftTiming()
        self._send = send
        self._machine = machine
        self._failed = failed
        self._voter: Voter | None = None
        self._storage: RaftStorage | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._turn_is_due = False
        #: The sync of the turn at hand, when it began, and to which entry it compacts the log.
        self._sync: asyncio.Future[RaftStorageError | None] | None = None
        self._sync_began_s = 0.0
        self._compacts_to: int | None = None
        self._compactor: Compactor | None = None
        self._reader = Reader(self._make_turn_due)
        self._inbox: list[tuple[NodeId, RaftMessage]] = []
        self._outbox: list[tuple[NodeId, RaftMessage]] = []
        #: Peers to whom frames can be sent; kept from before the start.
        self._connected: dict[NodeId, None] = {}
        #: Commands for the log of this turn: own, and of voters that take this one for the leader.
        self._proposals: list[bytes] = []
        self._forwarded: list[bytes] = []
        #: Own proposals not yet seen committed, with the time when to stop counting them.
        self._in_flight: dict[bytes, float] = {}
        #: The leader and the term that what is in flight was proposed under.
        self._leadership: tuple[NodeId | None, int] = (None, 0)
        self._reported: NodeId | None = None
        self._leader_changed = asyncio.Event()
        #: Peers whose bad frames were logged since they connected.
        self._garbage_from: dict[NodeId, None] = {}
        #: Frames that could not be decoded, or came from no voter.
        self.garbage_frames = 0

    # --- what the voter calls within a turn ---

    def post(self, peer: NodeId, message: RaftMessage) -> None:
        """Takes a message of the voter; it leaves at the end of the turn."""
        self._outbox.append((peer, message))

    def apply(self, command: bytes) -> bool:
        """Hands the next committed command to the machine, if that has room for it.

        What it has no room for stays in the log: a snapshot contains all that is applied.
        """
        if not self._machine.takes_commands:
            return False
        self._in_flight.pop(command, None)
        self._machine.on_committed(command)
        return True

    def encoded_snapshot(self) -> bytes:
        """The newest snapshot on disk: entries were compacted only after it was there."""
        assert self._storage is not None
        encoded = self._storage.encoded_snapshot()
        assert encoded is not None, "entries were compacted without a snapshot"
        return encoded

    def read(self, encoded: bytes) -> None:
        """Has a leader's snapshot read, and written to the disk, beside the loop."""
        assert self._storage is not None
        self._reader.begin(self._storage, self._machine, encoded)

    def install(self, taken: Taken) -> None:
        """A leader's snapshot, on disk already, takes its place, and is shown to the machine."""
        assert self._storage is not None
        self._storage.install(taken.number, taken.term, taken.voters)
        self._machine.on_snapshot(taken.read)

    def wanted_voters(self) -> tuple[NodeId, ...] | None:
        """The nodes that should vote, as the machine has it."""
        return self._machine.wanted_voters

    def on_voters(self, voters: tuple[NodeId, ...]) -> None:
        """Hands the machine the next committed set of voters."""
        self._machine.on_voters(voters)

    def on_new_set(self, voters: VoterSet) -> None:
        """Has the newest set in the log remembered, on disk on return, before its first promise."""
        self._remember(voters)

    def learn_first(self) -> None:
        """Learns before it votes from now on: the files turn out to be an older copy."""
        voter, storage = self._voter, self._storage
        if voter is not None and storage is not None and not voter.is_learner:
            logger.warning("the data directory is an older copy: this node learns before it votes")
            storage.become_learner()
            voter.become_learner()

    def on_voting(self) -> None:
        """Takes note that this voter is no learner any more; on disk on return."""
        assert self._storage is not None
        self._storage.become_voter()
        logger.info("this node votes on the cluster map")

    def _begin(self, voter: Voter, storage: RaftStorage) -> None:
        """Starts the turns; the machine gets the restored snapshot first."""
        assert self._loop is None, "a Raft log is started once"
        self._loop = asyncio.get_running_loop()
        if storage.restored is not None:
            self._machine.on_snapshot(self._read_own(storage.restored))
            storage.restored = None
        self._voter, self._storage = voter, storage
        self._compactor = Compactor(self._loop, self._timing, self._make_turn_due)
        for peer in self._known:
            voter.know(peer)
        for peer in self._connected:
            voter.connected(peer)
        self._timer = self._loop.call_later(0, self._on_timer)

    def _read_own(self, restored: Snapshot) -> object:
        """Reads the machine's state from this voter's own file: the only one to begin with."""
        try:
            return self._machine.read_snapshot(restored.data)
        except ValueError as error:
            raise RaftStorageError(
                f"the cluster map in {self._directory} cannot be restored: {error}. Start the "
                "release of fedq that wrote it. If the other nodes of the cluster run, and only "
                "then, move that directory away: this node gets the map from them, and votes again "
                "once it has it"
            ) from error

    # --- inputs ---

    def propose(self, command: bytes) -> bool:
        """Asks for a command to be committed; fire and forget.

        A command that is under way already is not sent twice.
        False when no leader can be reached or `COMMANDS_IN_FLIGHT_MAX` proposals are under way:
        try again later. True promises nothing: the proposer repeats what it does not see
        committed, and the machine ignores what it has seen. Raises `ValueError` for a command
        that is empty or too large, because repeating that never helps.
        """
        if not 1 <= len(command) <= limits.COMMAND_BYTES_MAX:
            raise ValueError(
                f"a command of the cluster map has 1 to {limits.COMMAND_BYTES_MAX} bytes, this "
                f"one {len(command)}: split it"
            )
        if command in self._in_flight:
            return True
        voter = self._voter
        if voter is None or len(self._in_flight) >= limits.COMMANDS_IN_FLIGHT_MAX:
            return False
        leader = voter.leader
        if leader is None or (leader != self._node and not voter.is_connected(leader)):
            return False
        self._in_flight[command] = self._now() + self._timing.proposal_ms / 1_000
        self._proposals.append(command)
        self._make_turn_due()
        return True

    def know(self, peer: NodeId) -> None:
        """Has to do with one more node from now on, whether it votes or not."""
        if peer != self._node and peer not in self._known:
            self._known[peer] = None
            if self._voter is not None:
                self._voter.know(peer)

    def forget(self, peer: NodeId) -> bool:
        """Has nothing to do with a node any more; False: it votes, so it stays."""
        if self._voter is not None and not self._voter.forget(peer):
            return False
        self._known.pop(peer, None)
        self._connected.pop(peer, None)
        return True

    def _is_known(self, peer: NodeId) -> bool:
        voter = self._voter
        return peer in self._known or (voter is not None and voter.knows(peer))

    def receive(self, peer: NodeId, frame: bytes) -> None:
        """Takes a frame from the peer's Raft stream; drops and counts one that makes no sense."""
        if self._voter is None:
            return
        if not self._is_known(peer):
            self._refuse(peer, "it is no node of this cluster")
            return
        try:
            message = decode(frame)
        except WireError as error:
            self._refuse(peer, str(error))
            return
        if len(self._inbox) < _INBOX_FRAMES_MAX:
            self._inbox.append((peer, message))
            self._make_turn_due()

    def on_peer_connected(self, peer: NodeId) -> None:
        """Takes note that frames may be sent to the peer; again after a new connection."""
        if not self._is_known(peer):
            return
        self._garbage_from.pop(peer, None)
        self._connected[peer] = None
        if self._voter is not None:
            self._voter.connected(peer)
            self._make_turn_due()

    def on_peer_disconnected(self, peer: NodeId) -> None:
        """Takes note that the stream to the peer broke; frames under way may be lost."""
        if self._connected.pop(peer, self) is self:
            return
        if self._voter is not None:
            self._voter.disconnected(peer)
            if self._leadership[0] == peer:
                self._in_flight.clear()
            self._make_turn_due()

    # --- the end ---

    async def stop(self) -> None:
        """Hands leadership over, within `hand_over_ms`, and closes the files; may come again."""
        if self._voter is not None and not self._voter.voters.is_alone(self._node):
            await self._hand_over(self._voter)
        await self._reader.finish()
        if self._storage is not None:
            self._storage.journal.give_up()
        # Again: what one thread has staged, the next turn's sync puts in place.
        while work := self._sync or (self._compactor and self._compactor.under_way):
            await asyncio.wait((work,))
        if self._storage is not None and self._voter is not None:
            self._end()
            self._storage.journal.close()

    def abort(self) -> None:
        """Stops at once and drops what is not synced, as a crash would."""
        if self._storage is not None and self._voter is not None:
            self._end()
            if self._sync is None:  # Else a thread has the file, and `_on_synced` closes it.
                self._storage.journal.abandon()

    async def _hand_over(self, voter: Voter) -> None:
        deadline = self._now() + self._timing.hand_over_ms / 1_000
        asked = False
        while self.is_leader and self._connected and self._now() < deadline:
            if not asked:
                # Refused while no follower has every entry yet.
                asked = voter.hand_over()
                self._make_turn_due()
            self._leader_changed.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._leader_changed.wait(), self._timing.tick_ms / 1_000)

    def _end(self) -> None:
        self._voter = None
        if self._storage is not None:
            self._storage.journal.give_up()
        self._inbox.clear()
        self._outbox.clear()
        self._in_flight.clear()
        self._proposals.clear()
        self._forwarded.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _fail(self, error: Exception) -> None:
        self.abort()
        self._leader_changed.set()
        logger.error("the Raft log cannot go on", exc_info=error)
        self._failed(f"the Raft log cannot go on: {type(error).__name__}: {error}")

    # --- turns ---

    def _now(self) -> float:
        assert self._loop is not None, "the Raft log was not started"
        return self._loop.time()

    def _make_turn_due(self) -> None:
        if not self._turn_is_due and self._loop is not None:
            self._turn_is_due = True
            self._loop.call_soon(self._turn)

    def _on_timer(self) -> None:
        self._expire()
        self._turn()
        if self._voter is not None and self._loop is not None:
            tick_s = self._timing.tick_ms / 1_000
            alone = not self._known and self._voter.voters.is_alone(self._node)
            if alone and self.is_leader:
                # Nobody's silence means anything: what it is asked makes a turn due.
                tick_s *= _ALONE_TICKS
            self._timer = self._loop.call_later(tick_s, self._on_timer)

    def _expire(self) -> None:
        """Stops counting proposals that a leader lost: oldest first, so this ends early."""
        now = self._now()
        while self._in_flight:
            command, deadline = next(iter(self._in_flight.items()))
            if deadline > now:
                return
            del self._in_flight[command]

    def _turn(self) -> None:
        self._turn_is_due = False
        voter, storage, compactor = self._voter, self._storage, self._compactor
        if voter is None or storage is None or compactor is None or self._sync is not None:
            return
        try:
            taken = self._reader.take()
            if taken is not None:
                voter.on_read(taken)
            inbox, self._inbox = self._inbox, []
            for peer, message in inbox:
                if not voter.knows(peer):
                    continue
                if isinstance(message, Forward):
                    self._forwarded += message.commands[: _FORWARDED_MAX - len(self._forwarded)]
                else:
                    voter.handle(peer, message)
            voter.step()
            self._notice_leadership(voter)
            self._submit(voter)
            compactor.look(voter, storage, self._machine.freeze)
            has_written = storage.journal.begin_sync()
            self._compacts_to = compactor.take_staged(storage)
            if has_written or self._compacts_to is not None:
                loop = asyncio.get_running_loop()
                self._sync_began_s = loop.time()
                self._sync = loop.run_in_executor(
                    None, storage.sync, has_written, self._compacts_to
                )
                self._sync.add_done_callback(self._on_synced)
                return
            self._end_turn(voter)
        except Exception as error:
            # Whatever it is, a voter that is not sure of its state must not vote.
            self._fail(error)

    def _on_synced(self, sync: "asyncio.Future[RaftStorageError | None]") -> None:
        """Takes note that the disk has what the turn wrote, or has failed."""
        self._sync = None
        error = sync.exception()
        voter, storage, compactor = self._voter, self._storage, self._compactor
        if storage is None or compactor is None:
            return
        if voter is None:
            storage.journal.abandon()
            return
        try:
            if error is not None:
                raise error
            storage.journal.end_sync()
            kept = sync.result()
            if kept is not None:
                compactor.on_kept(kept)
            elif self._compacts_to is not None:
                storage.use_compacted(self._compacts_to)
                compactor.on_compacted()
            self._end_turn(voter)
        except Exception as failure:
            self._fail(failure)
            return
        # For what came meanwhile.
        self._make_turn_due()

    def _end_turn(self, voter: Voter) -> None:
        """Ends a turn: all that it wrote is on disk, so it may be told."""
        self._flush(voter)
        self._report(voter)
        if voter.has_more_to_do():
            self._make_turn_due()

    def _notice_leadership(self, voter: Voter) -> None:
        """Notices a change of leader: what was sent to the former one may be lost, and is repeated.

        At once, not with the report after the sync: what is proposed in between is not lost.
        """
        leadership = voter.leader, voter.term
        if leadership != self._leadership:
            self._leadership = leadership
            unsent = dict.fromkeys(self._proposals)
            in_flight = self._in_flight.items()
            self._in_flight = {command: due for command, due in in_flight if command in unsent}

    def _submit(self, voter: Voter) -> None:
        """Puts this turn's commands into the log, or asks the leader to."""
        proposals, self._proposals = self._proposals, []
        forwarded, self._forwarded = self._forwarded, []
        leader = voter.leader
        if leader == self._node:
            if proposals or forwarded:
                # What this release does not understand would stop every node that is like it.
                voter.append(proposals + [each for each in forwarded if self._machine.knows(each)])
        elif leader is not None and voter.is_connected(leader):
            # What others forwarded to this former leader is theirs to repeat.
            for batch in batches(proposals):
                self.post(leader, Forward(batch))
        else:
            for command in proposals:
                self._in_flight.pop(command, None)

    def _flush(self, voter: Voter) -> None:
        outbox, self._outbox = self._outbox, []
        for peer, message in outbox:
            if not self._send(peer, encode(message)):
                voter.frame_lost(peer)

    def _report(self, voter: Voter) -> None:
        if voter.leader != self._reported:
            self._reported = voter.leader
            self._leader_changed.set()
            self._machine.on_leader(self._reported)

    def _refuse(self, peer: NodeId, reason: str) -> None:
        self.garbage_frames += 1
        # One line for each voter's connection, one for all strangers together.
        source = peer if self._is_known(peer) else NodeId("")
        if source not in self._garbage_from:
            self._garbage_from[source] = None
            logger.warning("dropping Raft frames of %s: %s", peer, reason)


def _checked(node: NodeId, voters: Sequence[NodeId], *, joins: bool) -> dict[NodeId, None]:
    """The voters by the configuration; raises `ValueError` where they are impossible."""
    names = dict.fromkeys(voters)
    fits = not names if joins else node in names
    if not fits or len(names) != len(voters) or len(names) > VOTERS_MAX:
        raise ValueError(
            f"a Raft log has 1 to {VOTERS_MAX} different voters, among them the node itself; "
            f"{node} was given {', '.join(voters)}"
        )
    return names
