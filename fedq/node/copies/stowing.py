"""Bodies of long queues leave memory when it holds much.

Inputs: how much is held, from time to time. Changes fragments and copies of this node, piece by
piece (a chore), those that hold the most first. What the journal has goes at once; the rest when it
is written elsewhere (`fedq.node.copies.scratching`). What is left of a message is its place; what
is next in line stays (`fedq.node.copies.reading_back` reads ahead); what consumers have goes first.
So memory stops publishers only where bodies may not go: those of queues with priorities whose
length is limited in bytes, and what has a past.
"""

from typing import Final, NamedTuple

from fedq.core.ids import FragmentId
from fedq.fragments.copy.applied import Mark
from fedq.fragments.replica import Replica
from fedq.fragments.upkeep.stowing import may_scratch, may_stow, stow
from fedq.node.copies.kept import kept_bytes, least_run_bytes
from fedq.node.copies.reading_back import ReadingBack
from fedq.node.copies.scratching import Scratching
from fedq.node.records.roles import Backup, Primary
from fedq.node.records.state import NodeState

#: Messages that are looked at in one piece, and for a unit of work, as a shift; of those that go
#: fewer, because freeing what was not touched for long waits for the machine's memory.
_PIECE: Final = 2_048
_LOOK_SHIFT: Final = 5
_GONE_SHIFT: Final = 2
#: What it costs to look at a fragment.
_FRAGMENT_WORK: Final = 2


class Stowing:
    """Lets bodies leave memory when it holds much."""

    __slots__ = ("_marks", "_reading", "_scratching", "state")

    def __init__(self, state: NodeState, reading: ReadingBack, scratching: Scratching) -> None:
        self.state = state
        self._reading = reading
        self._scratching = scratching
        self._marks: dict[FragmentId, _Marked] = {}

    def look(self, held: int) -> None:
        """Begins to let bodies go, if so many bytes that are held are too many."""
        state = self.state
        self._scratching.goes_on = held > state.settings.stow_above
        if not self._scratching.goes_on or state.chores.are_under_way(self):
            return
        keep = kept_bytes(state)
        sizes: list[tuple[int, FragmentId]] = []
        for fragment, backup in state.backups.items():
            held_here = backup.replica.bytes_in_memory
            if held_here > keep and not backup.failed:
                sizes.append((held_here, fragment))
        for fragment, primary in state.primaries.items():
            held_here = primary.fragment.bytes_in_memory
            if held_here > keep and may_stow(primary.fragment):
                sizes.append((held_here, fragment))
        for private in state.nonempty_private.values():
            held_here = private.fragment.bytes_in_memory
            if held_here > keep and may_scratch(private.fragment):
                sizes.append((held_here, private.fragment.fragment_id))
        if sizes:
            state.chores.add_patient(self, _Stowing(self, [each for _, each in sorted(sizes)]))

    def forget_gone(self) -> None:
        """Forgets copies that this node keeps no more."""
        backups = self.state.backups
        for fragment, marked in list(self._marks.items()):
            backup = backups.get(fragment)
            if backup is None or backup.replica is not marked.replica:
                del self._marks[fragment]

    def stow_some(self, fragment: FragmentId) -> bool:
        """Lets some bodies of a fragment go; false if there are no more to go."""
        state, primary = self.state, self.state.primaries.get(fragment)
        state.work.spend(_FRAGMENT_WORK)
        backup = state.backups.get(fragment)
        if backup is not None:
            gone = self._stow_copy(fragment, backup) if backup.replica.durable else 0
        elif primary is not None and may_stow(primary.fragment):
            gone = self._stow_line(primary) if primary.fragment.recorder.durable else 0
        elif fragment in state.private_by_id:
            gone = 0
        else:
            return False
        state.work.spend(gone >> _GONE_SHIFT)
        if not gone:
            self._scratching.write_some(fragment)
        return gone > 0

    def _stow_line(self, primary: Primary) -> int:
        """Lets go of bodies that are on disk, with takers or in the line; returns of how many."""
        fragment, number = primary.fragment, primary.fragment.fragment_id
        if self.state.synced < primary.begun_chunk:
            # What came while this was a copy is not all on its disk yet.
            return 0
        # All runs are walked, whatever goes.
        runs = fragment.fresh.run_count + fragment.messages.runs_held
        self.state.work.spend(runs >> _LOOK_SHIFT)
        keep, beyond = kept_bytes(self.state), self._reading.asked_through(number)
        least = least_run_bytes(self.state)
        gone = stow(fragment, primary.mark.safe, keep, beyond, _PIECE, least)
        self._reading.look(primary)
        return gone

    def _stow_copy(self, fragment: FragmentId, backup: Backup) -> int:
        """Lets bodies of a copy go that were here when it was looked at before, and are on disk.

        Returns of how many.
        """
        state, replica = self.state, backup.replica
        marked = self._marks.get(fragment)
        if marked is None or marked.replica is not replica:
            self._marks[fragment] = _Marked(replica, replica.mark(), state.sync_asked)
            return 0
        if marked.chunk > state.synced:
            return 0
        # So are notes, and what is kept singly and stays.
        looks = min(replica.count_read, _PIECE) + replica.note_count
        state.work.spend(looks >> _LOOK_SHIFT)
        gone = replica.stow(marked.mark, _PIECE)
        if not gone:
            self._marks[fragment] = _Marked(replica, replica.mark(), state.sync_asked)
        return gone


class _Marked(NamedTuple):
    """What a copy held at some time, and the chunk with which the disk has it."""

    replica: Replica
    mark: Mark
    chunk: int


class _Stowing:
    """A chore: lets bodies of these fragments go, the last one first."""

    __slots__ = ("_left", "_stowing")

    def __init__(self, stowing: Stowing, left: list[FragmentId]) -> None:
        self._stowing = stowing
        self._left = left

    def go_on(self) -> bool:
        """Lets the next bodies go."""
        work = self._stowing.state.work
        while self._left:
            if not self._stowing.stow_some(self._left[-1]):
                self._left.pop()
            if work.is_spent:
                break
        return not self._left
