"""The file `vouch`: from which process on a journal is known to hold what it should.

Inputs: what recovery found, the number of this start. Output: the first of this node's processes
whose in-sync copies this journal holds whole, and a journal that is fit to go on from. Invariants:

* what was damaged, or is not there any more, is noted on disk before anything is mended;
* a damaged segment is kept, under a name that nobody reads, and never cut silently;
* the file also says which segment was made last, so that an emptied journal is no new one.
"""

import logging
import os
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from fedq.journal.recovered import Damage, Recovered
from fedq.journal.recovery import ACCEPT_NAME, CorruptJournal, mended
from fedq.shell.disk.durable_files import (
    OpenFile,
    open_private,
    replace_durably,
    segment_name,
    sync_directory,
)

logger = logging.getLogger("fedq.node")

_VOUCH_NAME: Final = "vouch"
#: The number of the last start.
COUNTER_NAME: Final = "incarnation"
_KEPT_SUFFIX: Final = ".damaged"


class Vouch(NamedTuple):
    """What the file says; zeros: there is none, as of a journal of an earlier release."""

    #: In-sync copies of processes before this one are in doubt.
    since: int = 0
    #: The last segment that was made.
    newest: int = 0


def read_vouch(directory: Path) -> Vouch | None:
    """What the file says; None: there is no such file, or not a readable one."""
    try:
        since, newest = (directory / _VOUCH_NAME).read_text("ascii").split()
        return Vouch(int(since), int(newest))
    except (FileNotFoundError, ValueError):
        return None


def write_vouch(directory: Path, vouch: Vouch, open_file: OpenFile = open_private) -> None:
    """Writes the file; it is on disk when this returns."""
    content = f"{vouch.since} {vouch.newest}\n".encode()
    replace_durably(directory / _VOUCH_NAME, content, open_file)


def vouch_for(
    directory: Path, recovered: Recovered, start: int, *, has_past: bool, is_alone: bool
) -> Vouch:
    """Judges what was recovered, and mends it; see the module's docstring.

    `has_past`: the data directory has seen earlier starts. Raises `CorruptJournal` where `is_alone`
    says that nobody else has the messages, unless the operator has accepted the loss.
    """
    known = read_vouch(directory)
    newest = recovered.segments[-1].number if recovered.segments else 0
    lost = _missing(known, recovered, has_past)
    since = known.since if known is not None else 0
    if recovered.damages or lost is not None:
        damages = [*recovered.damages, *([lost] if lost is not None else [])]
        accepted = directory / ACCEPT_NAME
        # An empty journal without its note may be that of an earlier release that was never used.
        if is_alone and (recovered.damages or known is not None) and not accepted.exists():
            raise CorruptJournal(damages[0].segment, damages[0].first, damages[0].reason)
        since = start
        write_vouch(directory, Vouch(since, newest))
        _mend(directory, recovered)
        accepted.unlink(missing_ok=True)
        recovered.damages = damages
    vouch = Vouch(since, newest)
    write_vouch(directory, vouch)
    return vouch


def damages_of(directory: Path, recovered: Recovered) -> list[Damage]:
    """What a start would find damaged; nothing is changed."""
    has_past = (directory / COUNTER_NAME).exists()
    lost = _missing(read_vouch(directory), recovered, has_past)
    return [*recovered.damages, *([lost] if lost is not None else [])]


def _missing(known: Vouch | None, recovered: Recovered, has_past: bool) -> Damage | None:
    """The end of a journal that is not there any more."""
    newest = recovered.segments[-1].number if recovered.segments else 0
    if known is not None and newest < known.newest:
        return Damage(newest + 1, 0, 0, "the segment is missing")
    if known is None and not recovered.segments and has_past:
        return Damage(1, 0, 0, "the journal is empty, though this is not its first start")
    return None


def _mend(directory: Path, recovered: Recovered) -> None:
    """Mends segments of what cannot be read; as they were they are kept beside them.

    A segment may be damaged more than once: each time it is kept as it was then.
    """
    by_segment: dict[int, list[Damage]] = {}
    for damage in recovered.damages:
        if damage.first == damage.stop and (directory / segment_name(damage.segment)).exists():
            # Nothing of it is there to be mended: what is missing is.
            continue
        by_segment.setdefault(damage.segment, []).append(damage)
    for number, damages in by_segment.items():
        path = directory / segment_name(number)
        if not path.exists():
            replace_durably(path, b"")
            continue
        is_last = number == recovered.segments[-1].number
        torn_bytes = recovered.torn_bytes if is_last else 0
        content = mended(path.read_bytes(), damages, torn_bytes)
        _keep(path)
        replace_durably(path, content)
    sync_directory(directory)


def _keep(path: Path) -> None:
    """Keeps a segment under the first name that is free, unless a start before has done so."""
    for again in count(1):
        kept = path.with_name(path.name + _KEPT_SUFFIX + (f".{again}" if again > 1 else ""))
        if not kept.exists():
            os.link(path, kept)
            return
        if kept.samefile(path):
            return


def log_findings(recovered: Recovered, directory: Path) -> None:
    """What an operator should know of the journal that was recovered, if anything."""
    if recovered.damages:
        logger.critical(
            "the journal is damaged (%s); what was in sync here is compared with the other "
            "copies. The files as they were are kept in %s, under names that end with .damaged",
            _describe(recovered.damages),
            directory,
        )
    if recovered.rotten:
        logger.warning(
            "the journal has rotten places, though nothing that is alive was there (%s): check the "
            "disk",
            _describe(recovered.rotten),
        )
    if recovered.torn_bytes:
        logger.warning("the journal's last write was cut off by a crash; it was not confirmed")


def _describe(damages: Iterable[Damage]) -> str:
    """A damage for the log: where, and why."""
    return "; ".join(
        f"{segment_name(damage.segment)} from byte {damage.first} up to {damage.stop}: "
        f"{damage.reason}"
        for damage in damages
    )
