"""Bodies that the journal does not have leave memory for scratch files, when it holds much.

Inputs: fragments and copies that hold much; what has become of a piece that was to be written.
Outputs: pieces to write (`fedq.node.records.disk.scratch`). A body stays in memory until it is
known to be written, so what the disk refuses (it is full, or fails) is merely in memory still; then
nothing is written for a while, and memory stops publishers as it would without a disk. What a line
needs no more of its files is forgotten now and then.

Changes fragments and copies of this node.
"""

from collections.abc import Sequence
from typing import Final

from fedq.core.ids import FragmentId
from fedq.core.limits import MIB
from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.fragments.upkeep.stowing import for_scratch, let_go, may_scratch, missing
from fedq.node.copies.kept import kept_bytes, least_run_bytes
from fedq.node.copies.reading_back import ReadingBack
from fedq.node.copies.reading_private import ReadingPrivate
from fedq.node.records.chores import Each
from fedq.node.records.disk.scratch import UNDER_WAY_BYTES_MAX
from fedq.node.records.roles import Backup, Primary
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.operations import REPLICATE_PERSISTENT

#: What is written in one go, at most; no more than what is read ahead.
_PIECE_BYTES_MAX: Final = MIB
#: Messages, or runs, that are looked at for one piece.
_LOOK_MAX: Final = 8_192
#: Bytes that are put together for a unit of work, as a shift.
_BYTES_SHIFT: Final = 11
#: What it costs to look whether a fragment needs its files.
_TRIM_WORK: Final = 2
#: So long nothing is written after the disk refused something.
RETRY_MS: Final = 1_000
_SUBJECT: Final = "scratch"
#: Beyond all positions.
_BEYOND: Final = 1 << 64


class Scratching:
    """Lets bodies leave memory that are nowhere else."""

    __slots__ = (
        "_idle_until_ms", "_reading", "_reading_private", "_under_way", "goes_on", "state",
    )  # fmt: skip

    def __init__(
        self, state: NodeState, reading: ReadingBack, reading_private: ReadingPrivate
    ) -> None:
        self.state = state
        self._reading = reading
        self._reading_private = reading_private
        #: For which fragments a piece is on its way: one for each.
        self._under_way: dict[FragmentId, _Piece] = {}
        self._idle_until_ms = 0
        #: Memory holds too much: when a piece is written, the next one follows.
        self.goes_on = False

    def write_some(self, fragment: FragmentId) -> None:
        """Has the next bodies of a fragment, or a copy, written, if the disk takes any."""
        state = self.state
        if fragment in self._under_way or not self._may_write():
            return
        size = min(_PIECE_BYTES_MAX, kept_bytes(state))
        primary, backup = state.primaries.get(fragment), state.backups.get(fragment)
        holder: Fragment | Replica
        if primary is not None and may_scratch(primary.fragment):
            holder = primary.fragment
            any_kind = not holder.recorder.durable and not primary.replication.sparing
            positions, messages = for_scratch(
                holder, kept_bytes(state), self._reading.asked_through(fragment), size,
                _LOOK_MAX, any_kind, self._journalled(primary), least_run_bytes(state),
            )  # fmt: skip
        elif backup is not None and not backup.failed and self._may_go(fragment, backup):
            holder = backup.replica
            found = holder.for_scratch(size, _LOOK_MAX)
            positions = sorted(found)
            messages = [found[position] for position in positions]
        elif (private := state.private_by_id.get(fragment)) is not None:
            holder = private.fragment
            if not may_scratch(holder):
                return
            positions, messages = for_scratch(
                holder, kept_bytes(state), 0, size, _LOOK_MAX, True, 0, least_run_bytes(state)
            )
        else:
            return
        if positions:
            state.work.spend(1 + (sum(map(len, messages)) >> _BYTES_SHIFT))
            piece = self._under_way[fragment] = _Piece(self, fragment, holder)
            state.scratch.write(fragment, positions, messages, piece)

    def _journalled(self, primary: Primary) -> int:
        """Up to which position the journal has what is persistent; 0: it has not all of it yet."""
        has_all = primary.fragment.recorder.durable and self.state.synced >= primary.begun_chunk
        return primary.mark.safe if has_all else 0

    def _may_go(self, fragment: FragmentId, backup: Backup) -> bool:
        """Whether bodies of a copy may be in scratch files, which do not tell what is persistent.

        That has to be known where persistent messages alone are copied, should this node come to
        lead; those of durable queues are in the journal.
        """
        state, info = self.state, self.state.map.fragments.get(fragment)
        if backup.failed or info is None or state.is_stream(backup.queue):
            return False
        return backup.replica.durable or state.map.queues[info.queue].mode != REPLICATE_PERSISTENT

    def _may_write(self) -> bool:
        state = self.state
        if state.disk_low or state.now_ms < self._idle_until_ms:
            return False
        return state.scratch.bytes_under_way < UNDER_WAY_BYTES_MAX

    # --- answers -----------------------------------------------------------------------------

    def on_written(
        self, fragment: FragmentId, holder: Fragment | Replica, positions: Sequence[int]
    ) -> None:
        """Lets go of what is written, as far as it is where it was."""
        state = self.state
        del self._under_way[fragment]
        state.found.pop(_SUBJECT, None)
        primary, backup = state.primaries.get(fragment), state.backups.get(fragment)
        if primary is not None and primary.fragment is holder:
            state.risk.begin()
            let_go(
                primary.fragment, positions, kept_bytes(state),
                self._reading.asked_through(fragment), self._journalled(primary),
            )  # fmt: skip
            state.risk.end()
            self._reading.look(primary)
        elif backup is not None and backup.replica is holder:
            state.risk.begin()
            backup.replica.scratch(positions)
            state.risk.end()
        elif (private := state.private_by_id.get(fragment)) is not None:
            state.risk.begin()
            let_go(private.fragment, positions, kept_bytes(state), 0, 0)
            state.risk.end()
            self._reading_private.begin(private)
        if self.goes_on:
            self.write_some(fragment)

    def on_write_failed(self, fragment: FragmentId, reason: str) -> None:
        """Leaves it all in memory, and the disk alone for a while."""
        state = self.state
        del self._under_way[fragment]
        self._idle_until_ms = state.now_ms + RETRY_MS
        text = (
            f"scratch files cannot be written: {reason}; transient messages stay in memory, and "
            "publishers wait when that is full: make room on the disk of the data directory"
        )
        if _SUBJECT not in state.found:
            state.out.warnings.append(text)
        state.found[_SUBJECT] = (text, state.now_ms)

    # --- what is needed no more --------------------------------------------------------------

    def tick(self) -> None:
        """Looks which files are needed no more."""
        state = self.state
        fragments = state.scratch.fragments
        if fragments and not state.chores.are_under_way(self):
            state.chores.add_patient(self, Each(state.work, fragments, self.trim, _TRIM_WORK))

    def trim(self, fragment: FragmentId) -> None:
        """Forgets what a fragment needs no more of its scratch files."""
        state = self.state
        primary, backup = state.primaries.get(fragment), state.backups.get(fragment)
        private = state.private_by_id.get(fragment)
        if primary is not None:
            lowest = _lowest_on_disk(primary.fragment)
        elif private is not None:
            lowest = _lowest_on_disk(private.fragment)
        elif backup is not None:
            lowest = backup.replica.scratched.first
        elif fragment in state.recovered:
            return
        else:
            lowest = None
        if lowest is None:
            state.scratch.forget(fragment)
        else:
            state.scratch.forget_below(fragment, lowest)


def _lowest_on_disk(fragment: Fragment) -> int | None:
    """The lowest position of a message that is on disk alone."""
    stowed = missing(fragment, 0, _BEYOND)
    return stowed[0] if stowed is not None else None


class _Piece:
    """A piece that is on its way to the disk, for a fragment or a copy of it."""

    __slots__ = ("_fragment", "_holder", "_scratching")

    def __init__(
        self, scratching: Scratching, fragment: FragmentId, holder: Fragment | Replica
    ) -> None:
        self._scratching = scratching
        self._fragment = fragment
        self._holder = holder

    def on_written(self, positions: Sequence[int]) -> None:
        """Hands on that it is written."""
        self._scratching.on_written(self._fragment, self._holder, positions)

    def on_write_failed(self, reason: str) -> None:
        """Hands on why it is not."""
        self._scratching.on_write_failed(self._fragment, reason)
