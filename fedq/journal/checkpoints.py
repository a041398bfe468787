"""Checkpoints: what is alive, written down so that a start need not read all that ever was.

A checkpoint is begun at a segment. From then on a node writes, among its other records and over
many turns, for each fragment a STANDING (its last event, whether it is whole, its origins) and
LIVE records with their notes; at last a CHECKPOINT. Each is true when it is written, and what
happens later is told by later records; so, read from the beginning of that segment, the journal
says all that is known, but for the bodies of messages that came in before. Those are in older
segments, of which nothing else counts any more, and which need not be there without gaps.

Of checkpoints that were begun and not completed nothing counts, nor does anything of one that a
later one has replaced. Input: segments. Outputs: where the last complete checkpoint begins; bodies.
"""

from collections.abc import Iterator, Mapping

from fedq.core.message import FLAG_PERSISTENT
from fedq.core.ranges import count, to_ranges
from fedq.journal.decoding import CorruptRecord, decode_at, tracked
from fedq.journal.events import Copy, Enqueue
from fedq.journal.notes import forget_notes
from fedq.journal.reader import frames
from fedq.journal.records import BASE, FRAME, HEAD, KIND_CHECKPOINT
from fedq.journal.recovered import ABSENT, Damage, Recovered
from fedq.journal.segments import Segment


def newest_checkpoint(segments: Mapping[int, bytes]) -> int:
    """The segment at which the last complete checkpoint begins; 0: there is none."""
    for number in sorted(segments, reverse=True):
        found = 0
        data = segments[number]
        for frame in frames(data, number):
            kind = data[frame.offset + FRAME.size + 1] if frame.is_whole else 0
            if kind == KIND_CHECKPOINT:
                (found,) = BASE.unpack_from(data, frame.offset + FRAME.size + HEAD.size)
        if found:
            return found
    return 0


def find_bodies(recovered: Recovered, segments: Mapping[int, bytes]) -> None:
    """Finds the bodies of what is alive in the segments before the checkpoint.

    What is not there is lost: it is damage, and its fragments count as no whole copies.
    """
    older: list[Segment] = []
    for number in sorted(segments):
        if number < recovered.checkpoint:
            segment = Segment(number)
            older.append(segment)
            _find_in(recovered, segment, segments[number])
    recovered.segments[:0] = older
    for identity, fragment in recovered.fragments.items():
        absent = [p for p, message in fragment.messages.items() if message == ABSENT]
        for position in absent:
            del fragment.messages[position]
        if absent:
            forget_notes(fragment.notes, absent)
            recovered.failed[identity] = None
            recovered.lost[identity] = to_ranges(sorted(absent))
    lost = sum(map(count, recovered.lost.values()))
    if lost:
        where = recovered.rotten or [Damage(recovered.checkpoint, 0, 0, "")]
        recovered.damages += [
            each._replace(reason=f"{lost} messages are in no segment that can be read")
            for each in where
        ]
        recovered.rotten = []


def _find_in(recovered: Recovered, segment: Segment, data: bytes) -> None:
    """Takes from a segment the bodies that are looked for, and notes where its messages stand."""
    for frame in frames(data, segment.number):
        if not frame.is_whole:
            reason = "its checksum does not match"
            recovered.rotten.append(Damage(segment.number, frame.offset, frame.end, reason))
            continue
        segment.size = frame.end
        try:
            record, _ = decode_at(data, frame.offset)
        except CorruptRecord as error:
            # Whole, and not understood: it matters if nothing else has what is looked for.
            recovered.rotten.append(Damage(segment.number, frame.offset, frame.end, error.reason))
            continue
        for single in tracked([record]):
            if isinstance(single, Enqueue | Copy):
                _take_bodies(recovered, segment, single)


def _take_bodies(recovered: Recovered, segment: Segment, record: Enqueue | Copy) -> None:
    kept = [p for p, message in _placed(record) if message[0] & FLAG_PERSISTENT]
    if not kept:
        return
    if isinstance(record, Copy):
        segment.copied(record.fragment, min(kept), max(kept))
    else:
        segment.arrived(record.fragment, kept[0], kept[-1])
    fragment = recovered.fragments.get(record.fragment)
    if fragment is None:
        return
    messages = fragment.messages
    for position, message in _placed(record):
        if messages.get(position) == ABSENT:
            messages[position] = message
            segment.live_bytes += len(message)
            segment.live_count += 1


def _placed(record: Enqueue | Copy) -> Iterator[tuple[int, bytes]]:
    """The messages of a record with their positions."""
    if isinstance(record, Copy):
        return zip(record.positions, record.messages, strict=True)
    return enumerate(record.messages, record.first_position)
