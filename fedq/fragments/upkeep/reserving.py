"""Messages of a queue that are reserved for a reader, batch by batch (docs/adr/0107).

A reservation is a note of the message, as its death is: journal and backups know it like any other.
What has one is with a taker of the fragment's own, `RESERVED`. Each step is one group of records,
which waits for the disk; with it goes who the readers are, and how far each is settled.

Inputs: a name that was admitted, batches. Changes the fragment, a piece at a time.
"""

from collections.abc import Iterable, Mapping, Sequence

from fedq.core.limits import RESERVED_BYTES_MAX, RESERVED_MAX
from fedq.fragments.fragment import Fragment
from fedq.fragments.singly.holders import RESERVED
from fedq.fragments.singly.queue_readers import BATCH_BITS, QueueReaders
from fedq.journal.notes import table_of
from fedq.journal.records import NOTE_RESERVED


def reserved(
    fragment: Fragment, name: str, after: int = 0, through: int | None = None
) -> dict[int, int]:
    """What is reserved for a reader: positions, ascending, and the batch of each.

    `after`, `through`: of later batches alone, and of none that is later. A walk over all that is
    reserved.
    """
    readers = fragment.queue_readers
    number = readers.number(name) if readers is not None else 0
    if not number:
        return {}
    begin = number << BATCH_BITS
    low, high = begin + after, begin + ((1 << BATCH_BITS) - 1 if through is None else through)
    table = fragment.notes.get(NOTE_RESERVED, {})
    return {p: mark - begin for p, mark in sorted(table.items()) if low < mark <= high}


def reserved_by_reader(fragment: Fragment) -> dict[str, tuple[int, int]]:
    """How many messages are reserved for each name that is known, and their bytes."""
    readers = fragment.queue_readers
    if readers is None:
        return {}
    names = {readers.number(name): name for name in readers}
    found = dict.fromkeys(readers, (0, 0))
    messages = _messages(fragment)
    for position, mark in fragment.notes.get(NOTE_RESERVED, {}).items():
        name = names.get(mark >> BATCH_BITS)
        if name is not None:
            count, size = found[name]
            found[name] = count + 1, size + len(messages[position])
    return found


def _messages(fragment: Fragment) -> Mapping[int, bytes]:
    """Where whatever is reserved is kept: singly."""
    return fragment.tracked.messages if fragment.tracked is not None else {}


def busy_readers(fragment: Fragment) -> set[int]:
    """The numbers of the readers for which something is reserved."""
    return {mark >> BATCH_BITS for mark in fragment.notes.get(NOTE_RESERVED, {}).values()}


def room(fragment: Fragment) -> tuple[int, int]:
    """How many messages more may be reserved, and of how many bytes."""
    table = fragment.notes.get(NOTE_RESERVED, {})
    messages = _messages(fragment)
    held = sum([len(messages[position]) for position in table])
    return max(0, RESERVED_MAX - len(table)), max(0, RESERVED_BYTES_MAX - held)


def admit(fragment: Fragment, name: str, through: int, under_way: Iterable[str] = ()) -> bool:
    """Makes a reader known, in memory; its first reservation records it. False: no room.

    `under_way`: names that are not forgotten for it, as calls of theirs are worked on.
    """
    readers = fragment.queue_readers
    if readers is None:
        readers = fragment.queue_readers = QueueReaders({})
    if readers.number(name):
        return True
    busy = busy_readers(fragment)
    busy.update([readers.number(each) for each in under_way])
    return readers.admit(name, through, busy)


def reserve(fragment: Fragment, name: str, batch: int, most: int, size: int) -> tuple[int, int]:
    """Reserves the next ones in line that are at hand; how many, and their bytes.

    At most so many, and of about so many bytes, but for one message.
    """
    readers = fragment.queue_readers
    assert readers is not None, "the reader was admitted"
    if most <= 0 or size <= 0:
        return 0, 0
    taken = fragment.take(RESERVED, fragment.within(most, size))
    positions = sorted(taken.positions)
    tracked = fragment.single_out(positions)
    if tracked is None or not positions:
        return 0, 0
    mark = readers.number(name) << BATCH_BITS | batch
    values = dict.fromkeys(positions, mark)
    table_of(tracked.notes, NOTE_RESERVED).update(values)
    group = fragment.recorder.begin_atomic()
    fragment.record_note(tracked, NOTE_RESERVED, values)
    fragment.recorder.readers(fragment.last, True, readers.marks)
    fragment.recorder.end_atomic(group)
    return len(positions), sum(map(len, taken.messages))


def raise_mark(fragment: Fragment, name: str, through: int) -> None:
    """Says that all of a reader is settled, or released, up to a batch: before any of it is."""
    readers = fragment.queue_readers
    if readers is not None and readers.number(name) and readers.settle(name, through):
        fragment.recorder.readers(fragment.last, True, readers.marks)


def settle(fragment: Fragment, positions: Sequence[int]) -> None:
    """Lets messages go that are reserved (ascending): their reader has committed them."""
    group = fragment.recorder.begin_atomic()
    fragment.settle(RESERVED, positions)
    fragment.recorder.end_atomic(group)


def release(fragment: Fragment, positions: Sequence[int]) -> None:
    """Makes messages that are reserved ready again, at their old places, as ones that were seen."""
    tracked = fragment.tracked
    held = tracked.held_by(RESERVED, positions) if tracked is not None else []
    if tracked is None or not held:
        return
    table = table_of(tracked.notes, NOTE_RESERVED)
    for position in held:
        del table[position]
    tracked.put_back(held)
    tracked.redelivered.update(held)
    group = fragment.recorder.begin_atomic()
    fragment.record_note(tracked, NOTE_RESERVED, dict.fromkeys(held, 0))
    fragment.recorder.end_atomic(group)
