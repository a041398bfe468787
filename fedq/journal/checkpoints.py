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
from fedq.core.ranges import Range, count, minus, to_ranges
from fedq.journal.bare import Bare
from fedq.journal.decoding import CorruptRecord, decode_at, tracked
from fedq.journal.events import Copy, Enqueue
from fedq.journal.folding import spread_of
from fedq.journal.indexes import OPENING_BYTES, decode_index
from fedq.journal.marks import mark_at
from fedq.journal.notes import forget_between, forget_notes
from fedq.journal.reader import frames
from fedq.journal.records import BASE, FRAME, HEAD, KIND_CHECKPOINT
from fedq.journal.recovered import ABSENT, Damage, Recovered, RecoveredFragment
from fedq.journal.segments import Segment
from fedq.journal.sources import Source


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


def find_bodies(recovered: Recovered, segments: Source) -> None:
    """Finds the bodies of what is alive in the segments before the checkpoint.

    What is not there is lost: it is damage, and its fragments count as no whole copies. Where
    bodies stay on the disk, it is enough that they are there.
    """
    older: list[Segment] = []
    for number in sorted(segments):
        if number < recovered.checkpoint:
            indexed = _read_index(segments, number) if recovered.without_bodies else None
            segment = indexed or Segment(number)
            older.append(segment)
            if indexed is not None:
                _find_indexed(recovered, segment)
            else:
                data = segments[number]
                mark = mark_at(data, 0)
                if mark is not None and mark.segment == number:
                    segment.nonce = mark.nonce
                _find_in(recovered, segment, data)
    recovered.segments[:0] = older
    for identity, fragment in recovered.fragments.items():
        absent = _forget_absent(fragment)
        if absent:
            recovered.failed[identity] = None
            recovered.lost[identity] = absent
    lost = sum(map(count, recovered.lost.values()))
    if lost:
        where = recovered.rotten or [Damage(recovered.checkpoint, 0, 0, "")]
        recovered.damages += [
            each._replace(reason=f"{lost} messages are in no segment that can be read")
            for each in where
        ]
        _shorten(older, recovered.rotten)
        recovered.rotten = []


def _shorten(segments: list[Segment], damages: list[Damage]) -> None:
    """Has sizes be what they are once damage is cut out."""
    cut: dict[int, int] = {}
    sizes = {segment.number: segment.size for segment in segments}
    for damage in damages:
        if damage.stop <= sizes[damage.segment]:
            cut[damage.segment] = cut.get(damage.segment, 0) + damage.stop - damage.first
    for segment in segments:
        segment.size -= cut.get(segment.number, 0)


def _forget_absent(fragment: RecoveredFragment) -> list[Range]:
    """Forgets what is alive and was found nowhere; returns it."""
    if fragment.bare is not None:
        ranges = minus(fragment.bare.absent, fragment.bare.somewhere)
        if not ranges:
            return []
        for first, last in ranges:
            fragment.bare.forget(first, last)
        forget_between(fragment.notes, ranges)
        return ranges
    absent = [p for p, message in fragment.messages.items() if message == ABSENT]
    for position in absent:
        del fragment.messages[position]
    if absent:
        forget_notes(fragment.notes, absent)
    return to_ranges(sorted(absent))


def _read_index(segments: Source, number: int) -> Segment | None:
    """A segment before the checkpoint by its index; None: it has none that can be believed."""
    data = segments.index(number)
    if data is None:
        return None
    opening = segments.piece(number, 0, OPENING_BYTES)
    segment = decode_index(data, number, segments.size(number), opening)
    if segment is not None:
        segment.is_indexed = True
    return segment


def _find_indexed(recovered: Recovered, segment: Segment) -> None:
    """Notes what of that which is looked for a segment may have, going by its index.

    More than one segment may, so it counts for each: none of them is taken for dead.
    """
    for identity in segment.places.fragments():
        fragment = recovered.fragments.get(identity)
        if fragment is None or fragment.bare is None:
            continue
        for first, last, noted, taken in segment.places.runs(identity):
            wanted = count(fragment.bare.absent.within(first, last))
            if wanted:
                fragment.bare.somewhere.add(first, last)
                segment.live_count += wanted
                segment.live_bytes += max(1, wanted * taken // noted)


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
        spread = spread_of(record)
        if spread is not None:
            first, last, copied = spread
            size = frame.end - frame.offset
            segment.places.add(record.fragment, first, last, frame.end, size, copied)
    segment.places.finish_chunk(0, 0)


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
    if fragment.bare is not None:
        _find_bare(fragment.bare, segment, record)
        return
    messages = fragment.messages
    for position, message in _placed(record):
        if messages.get(position) == ABSENT:
            messages[position] = message
            segment.live_bytes += len(message)
            segment.live_count += 1


def _find_bare(bare: Bare, segment: Segment, record: Enqueue | Copy) -> None:
    """Notes which of the messages that are looked for a record has; as the one above does."""
    if isinstance(record, Enqueue):
        wanted = bare.absent.within(record.first_position, record.last_position)
        if not wanted:
            return
    for position, message in _placed(record):
        if position in bare.absent:
            bare.absent.remove(position, position)
            segment.live_bytes += len(message)
            segment.live_count += 1


def _placed(record: Enqueue | Copy) -> Iterator[tuple[int, bytes]]:
    """The messages of a record with their positions."""
    if isinstance(record, Copy):
        return zip(record.positions, record.messages, strict=True)
    return enumerate(record.messages, record.first_position)
