"""Which queues a damaged journal concerns, for the sentence with which a lone node does not start.

Inputs: a journal that is open, the data directory. Outputs: what was recovered; or `CorruptJournal`
that names the queues. A fragment is concerned if something alive of it is in no segment that can be
read, or if a segment has messages of it in which records are damaged that count.
"""

from pathlib import Path
from typing import Final

from fedq.journal.recovered import Recovered
from fedq.journal.recovery import CorruptJournal
from fedq.shell.disk.journal_files import JournalFiles
from fedq.shell.disk.store_messages import StoreMessages
from fedq.shell.raft.journal import RaftStorageError
from fedq.shell.raft.reading import read_map

#: So many queues are named.
_NAMED_MAX: Final = 10


def recover_naming(
    journal: JournalFiles, data: Path, start: int, *, has_past: bool, is_alone: bool,
    body_bytes_max: int,
) -> Recovered:  # fmt: skip
    """As `JournalFiles.recover`; damage of the last copy is told with the queues it concerns."""
    try:
        return journal.recover(
            start, has_past=has_past, is_alone=is_alone, body_bytes_max=body_bytes_max
        )
    except CorruptJournal as error:
        names = concerned(data)
        if names:
            shown = ", ".join(map(repr, names[:_NAMED_MAX]))
            more = f" and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else ""
            error.args = (f"{error}. Messages may be missing of the queues {shown}{more}",)
        raise


def concerned(data: Path) -> list[str]:
    """The queues of which messages may be missing; empty: that cannot be told."""
    try:
        recovered = StoreMessages(data / "journal").recovered
        fragments = read_map(data / "raft").fragments
    except (CorruptJournal, RaftStorageError, OSError):
        # What is wrong is told already.
        return []
    damaged = dict.fromkeys([damage.segment for damage in recovered.damages])
    found = dict.fromkeys(recovered.lost)
    for segment in recovered.segments:
        if segment.number in damaged:
            found.update(dict.fromkeys(segment.spans))
    return sorted({fragments[each].queue.name for each in found if each in fragments})
