"""What the messages of a fragment, or of a copy, take in memory: their bytes, and their upkeep.

Input: a fragment or a replica. Output: bytes. Nothing is counted by the message: what is asked are
numbers that are kept anyhow, times constants that were measured on CPython 3.11 (200,000 messages
of each kind; docs/adr/0034-memory-is-counted.md). An encoded message is an object of its own, with
a place in a list; one that is kept singly has entries in tables besides.

Invariant: a look costs the same whatever the number of messages.
"""

from collections.abc import Mapping
from typing import Final

from fedq.fragments.fragment import Fragment
from fedq.fragments.replica import Replica
from fedq.fragments.runs.ranked import RankedFresh
from fedq.fragments.runs.sized import SizedFresh
from fedq.fragments.runs.stowed import STRETCH_MEMORY
from fedq.fragments.singly.tracked import TrackedMessages
from fedq.journal.steps import Steps

#: A message in a run, beside its bytes: the object's head and rounding, its place in the list.
MESSAGE: Final = 48
#: A run with a taker, and the deliveries that a consumer has of it.
_RUN: Final = 440
#: One in a line that has some on disk alone.
_LINE_RUN: Final = 256
#: What one that is kept singly takes more, and each thing that is said of it: its holder, that it
#: was returned, a note, an appointment, a place in a line by priority.
_SINGLE: Final = 112
_HOLDER: Final = 104
_RETURNED: Final = 140
_NOTE: Final = 136
#: Notes that go by steps: one of these.
_STEP: Final = 168
_APPOINTMENT: Final = 88
_STRETCH: Final = 120
_RANKED: Final = 72
#: A message that a copy has not read, in its record.
_UNREAD: Final = 24
#: A byte on disk alone takes so little, as a shift: a run of a mebibyte some 256.
_STOWED_SHIFT: Final = 12
#: A fragment without messages, with its queue, publisher and replication.
EMPTY: Final = 2_048


def of_fragment(fragment: Fragment) -> int:
    """What the primary's copy takes, or a private queue's messages."""
    fresh = fragment.fresh
    stowed = fragment.stowed_count
    count = fragment.ready_count + fragment.unacked_count - stowed
    # Of one that a taker has on disk alone a byte stays.
    size = fragment.bytes_in_memory + count * MESSAGE + stowed - fresh.stowed_count
    if isinstance(fresh, SizedFresh):
        size += fresh.index_bytes
    if fragment.log is not None:
        size += len(fragment.log.came) * _NOTE
    if fragment.publishers is not None:
        size += fragment.publishers.bytes_held
    size += fragment.messages.runs_held * _RUN
    if isinstance(fresh, RankedFresh):
        size += fresh.index_bytes
    elif fresh.stowed_count:
        size += fresh.run_count * _LINE_RUN
    return size if fragment.tracked is None else size + _of_singles(fragment.tracked)


def _of_singles(tracked: TrackedMessages) -> int:
    size = len(tracked.messages) * _SINGLE + len(tracked.unacked) * _HOLDER
    size += len(tracked.redelivered) * _RETURNED
    size += sum(map(_of_notes, tracked.notes.values()))
    size += len(tracked.expiring) * _STRETCH + len(tracked.delayed) * _APPOINTMENT
    return size + len(tracked.line) * _RANKED if tracked.policy.max_priority else size


def of_replica(replica: Replica) -> int:
    """What a backup's copy takes."""
    on_disk = replica.stowed.bytes_held + replica.scratched.bytes_held
    size = replica.bytes_in_memory + (on_disk >> _STOWED_SHIFT)
    size += replica.count_read * (MESSAGE + _SINGLE)
    size += replica.count_unread * _UNREAD
    size += len(replica.came) * _NOTE + replica.publishing.bytes_held
    size += (replica.stowed.stretch_count + replica.scratched.stretch_count) * STRETCH_MEMORY
    return size + sum(map(_of_notes, replica.notes.values()))


def _of_notes(table: Mapping[int, int]) -> int:
    return table.step_count * _STEP if isinstance(table, Steps) else len(table) * _NOTE
