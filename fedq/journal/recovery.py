"""Folds the journal back into what it says: live messages and progress of every fragment.

Inputs: the segments, one at a time: those from the last complete checkpoint on are folded in order;
those before it have bodies of what is alive, and nothing else that counts
(`fedq.journal.checkpoints`). Output: `Recovered`. Rules:

* Only the last segment can end in the middle of a write, since a segment is fsynced before the
  next one is made. What cannot be read at its end, and no mark calls synced
  (`fedq.journal.marks`), is a torn tail: what was never confirmed. It is cut and counted.
* Anything else that cannot be read, and a missing segment, is *damage*: what was confirmed may be
  lost. (Before the checkpoint only what is alive can be.) `recover` raises `CorruptJournal`;
  `salvage` notes it and goes on behind it, with the next mark or the next segment, for a node whose
  copies others can make whole again.
* A whole record that this release fails at, in reading or in applying it, is damage, too, to the
  byte: it says so with every start until it is out of the way (docs/adr/0042). It has changed
  nothing, and the fragment counts as no whole copy.
* A record of a newer release is `CorruptJournal` in any case: that release can read it.
* Transient messages do not outlive the process, even if they shared a record with others.
* A note counts for a message that is there. Of one that is not there yet, a copy's chunk that
  brings it brings its notes, too.

Recovering the same segments twice gives the same result.
"""

import traceback
from array import array
from collections.abc import Iterable, Mapping
from typing import Final

from fedq.core.errors import NodeFailure
from fedq.core.ids import FragmentId
from fedq.journal.checkpoints import find_bodies, newest_checkpoint
from fedq.journal.decoding import CorruptRecord, NewerRecord, end_of
from fedq.journal.folding import apply_whole, sort_messages, spread_of
from fedq.journal.marks import Mark, next_mark, was_synced
from fedq.journal.reader import read
from fedq.journal.records import BASE, FRAME, HEAD, KIND_ENQUEUE, KIND_NOTE, KIND_SETTLE
from fedq.journal.recovered import Damage, Recovered
from fedq.journal.segments import Segment
from fedq.journal.sources import InMemory, Source
from fedq.journal.stowing import stow

#: Records of these kinds begin with a position, or the number of an event.
_PLACED: Final = (KIND_ENQUEUE, KIND_SETTLE, KIND_NOTE)
#: A fragment's number in 64 bits without a sign.
_SIGN: Final = 1 << 63
_UNSIGNED: Final = 2 * _SIGN - 1
#: What is told of an exception's own words.
_WORDS_MAX: Final = 200
#: Its presence says that an operator knows of the damage and wants the node to start.
ACCEPT_NAME: Final = "accept-loss"


class CorruptJournal(NodeFailure):
    """Confirmed messages may be lost: `segment` is damaged from byte `offset` on.

    `is_newer`: nothing is damaged, another release has written it.
    """

    def __init__(self, segment: int, offset: int, reason: str, is_newer: bool = False) -> None:
        advice = (
            "This node has the only copy of its messages, so it does not start by itself: restore "
            "the file from a backup; or run `fedq store accept-loss` on the data directory and "
            "start again, and the node goes on with what can be read (the damaged file is kept)"
        )
        if is_newer:
            advice = "Nothing is damaged, and no message was touched"
        super().__init__(
            f"journal segment {segment} cannot be read from byte {offset} on: {reason}. {advice}"
        )
        self.is_newer = is_newer
        self.segment = segment
        self.offset = offset
        self.reason = reason


def recover(segments: Mapping[int, bytes]) -> Recovered:
    """Folds segments by number; raises `CorruptJournal`.

    Asks for one segment after the other, so that files need not be held together.
    """
    recovered = salvage(segments)
    if recovered.damages:
        damage = recovered.damages[0]
        raise CorruptJournal(damage.segment, damage.first, damage.reason)
    return recovered


def salvage(segments: Mapping[int, bytes], body_bytes_max: int | None = None) -> Recovered:
    """As `recover`, of whatever can be read; what cannot is in `damages`.

    `body_bytes_max`: so many bytes of bodies are taken into memory, the oldest of each fragment;
    the others are `stowed`, and are not in memory meanwhile either. None: all are taken. Places in
    segments (`Segment.places`) are those after damage was cut out (`mended`).

    Raises `CorruptJournal` only for records of a newer version.
    """
    recovered = Recovered(checkpoint=newest_checkpoint(segments))
    source = segments if isinstance(segments, Source) else InMemory(segments)
    recovered.without_bodies = body_bytes_max is not None
    tear: Damage | None = None
    numbers = [number for number in sorted(segments) if number >= recovered.checkpoint]
    expected = recovered.checkpoint or min(numbers, default=0)
    for number in numbers:
        if tear is not None:
            # Its segment is not the last one, so it was on disk.
            recovered.damages.append(tear)
        for missing in range(expected, number):
            recovered.segments.append(Segment(missing))
            recovered.damages.append(Damage(missing, 0, 0, "the segment is missing"))
        segment = Segment(number)
        recovered.segments.append(segment)
        tear = _fold_segment(recovered, segment, segments[number])
        expected = number + 1
    recovered.torn_bytes = tear.stop - tear.first if tear is not None else 0
    find_bodies(recovered, source)
    if body_bytes_max is not None:
        stow(recovered, source, body_bytes_max)
    for identity, fragment in recovered.fragments.items():
        sort_messages(fragment)
        fragment.whole = fragment.whole and identity not in recovered.failed
    _cut_places(recovered)
    return recovered


def _cut_places(recovered: Recovered) -> None:
    """Has places say where things will be once the damage is cut out."""
    places = {segment.number: segment.places for segment in recovered.segments}
    for damage in sorted(recovered.damages, reverse=True):
        if damage.first < damage.stop:
            places[damage.segment].cut(damage.first, damage.stop)


def mended(data: bytes, damages: Iterable[Damage], torn_bytes: int = 0) -> bytes:
    """A segment without its damage and its torn end."""
    parts: list[bytes] = []
    at = 0
    for damage in sorted(damages, key=lambda damage: damage.first):
        parts.append(data[at : damage.first])
        at = max(at, damage.stop)
    parts.append(data[at : len(data) - torn_bytes])
    return b"".join(parts)


def _fold_segment(recovered: Recovered, segment: Segment, data: bytes) -> Damage | None:
    """Applies the whole records of a segment; returns the record that ends it, if it is none."""
    at = 0
    nonce: int | None = None
    #: Flat: where each record has messages. Noted at last, when nothing can set it aside any more.
    noted = array("Q")
    while True:
        try:
            for offset, size, record in read(data, at):
                if isinstance(record, Mark):
                    nonce = record.nonce if record.segment == segment.number else nonce
                    segment.nonce = nonce
                else:
                    spread = spread_of(record)
                    apply_whole(recovered, segment, record)
                    if spread is not None:
                        noted.extend((record.fragment & _UNSIGNED, *spread, offset, size))
                segment.size += size
                at = offset + size
        except NewerRecord as error:
            raise CorruptJournal(segment.number, error.offset, error.reason, True) from error
        except MemoryError:
            # Nothing is wrong with the record.
            raise
        except Exception as failure:
            stop = end_of(data, at)
            if stop is not None:
                reason = _why_set_aside(recovered, data, at, failure)
            else:
                torn = isinstance(failure, CorruptRecord)
                reason = failure.reason if isinstance(failure, CorruptRecord) else _words(failure)
                if torn and not was_synced(data, at, segment.number, nonce):
                    _note_places(segment, noted)
                    return Damage(segment.number, at, len(data), reason)
                behind = next_mark(data, at, segment.number, nonce)
                stop = behind[0] if behind is not None else len(data)
            recovered.damages.append(Damage(segment.number, at, stop, reason))
            at = stop
        else:
            _note_places(segment, noted)
            return None


def _note_places(segment: Segment, noted: "array[int]") -> None:
    """Notes where the messages of a segment lie."""
    places = segment.places
    for at in range(0, len(noted), 6):
        number, first, last, copied, offset, size = noted[at : at + 6]
        fragment = FragmentId(number if number < _SIGN else number - 2 * _SIGN)
        places.add(fragment, first, last, offset + size, size, bool(copied))
    places.finish_chunk(0, 0)


def _why_set_aside(recovered: Recovered, data: bytes, at: int, failure: Exception) -> str:
    """Sets a whole record aside that this release fails at; returns whose it is, and why."""
    _, kind, number, _ = HEAD.unpack_from(data, at + FRAME.size)
    recovered.failed[FragmentId(number)] = None
    whose = f"fragment {number}"
    place_at = at + FRAME.size + HEAD.size
    if kind in _PLACED and place_at + BASE.size <= len(data):
        whose += f", position {BASE.unpack_from(data, place_at)[0]}"
    why = failure.reason if isinstance(failure, CorruptRecord) else _words(failure)
    return f"this release fails at a whole record of {whose}: {why}"


def _words(error: Exception) -> str:
    """Kind, words and place of an exception that is a bug, bounded."""
    place = "".join(
        f" in {frame.name}:{frame.lineno}"
        for frame in traceback.extract_tb(error.__traceback__)[-1:]
    )
    return f"{type(error).__name__}: {str(error)[:_WORDS_MAX]}{place}"
