"""How scripts write positions, and what nodes say to each other."""

from collections.abc import Iterable, Sequence

from fedq.core.ids import POSITION_BITS
from fedq.core.peer_messages import (
    Attach,
    CopyChunk,
    CopyStart,
    Credit,
    CreditBack,
    Deliver,
    Get,
    Got,
    Offer,
    PeerMessage,
    PublishBatch,
    PublishDone,
    ReplicaAck,
    ReplicaOffer,
    Replicate,
    Settle,
    Watch,
)
from fedq.core.ranges import Range, to_ranges
from fedq.journal.decoding import decode, tracked
from fedq.journal.events import Copy, Enqueue
from fedq.journal.events import Settle as Settled


def place(position: int) -> str:
    """Reign and number: `2.17`."""
    return f"{position >> POSITION_BITS}.{position & ((1 << POSITION_BITS) - 1)}"


def places(ranges: Iterable[Range]) -> str:
    """Ranges of positions; `nothing` when there are none."""
    words = [
        place(first) if first == last else f"{place(first)} to {place(last)}"
        for first, last in ranges
    ]
    return ", ".join(words) or "nothing"


def list_of(positions: Sequence[int]) -> str:
    """Positions, as ranges."""
    return places(to_ranges(sorted(positions)))


def in_records(data: bytes) -> str:
    """What journal records say."""
    said: list[str] = []
    for record in tracked(decode(data)):
        if isinstance(record, Enqueue):
            first, last = record.first_position, record.last_position
            again = " again" if record.resent else ""
            said.append(f"new {places([(first, last)])}{again}")
        elif isinstance(record, Settled):
            said.append(f"gone {places(record.ranges)}")
        elif isinstance(record, Copy):
            said.append(f"old {list_of(record.positions)}")
    return "; ".join(said)


def words_for(message: PeerMessage) -> str | None:
    """A message in words; None for those that scripts leave out."""
    match message:
        case PublishBatch(first=first, messages=messages, resent=resent):
            numbers = f"{first} to {first + len(messages) - 1}" if len(messages) > 1 else first
            return f"publishes {numbers}{', again' if resent else ''}"
        case PublishDone(through=through):
            return f"publishes are safe through {through}"
        case Attach(consumers=consumers, held=held):
            return f"attaches: {_count(consumers)}, still held: {places(held)}"
        case Watch(consumers=consumers):
            return f"watches: {_count(consumers)}"
        case ReplicaOffer(held=held):
            return f"offers its copy: {places(held)}"
        case CopyStart() | CopyChunk() | Replicate() | ReplicaAck():
            return _about_copies(message)
        case _:
            return _about_deliveries(message)


def _about_copies(message: CopyStart | CopyChunk | Replicate | ReplicaAck) -> str:
    match message:
        case CopyStart(base=base, dropped=dropped):
            return f"copy begins after {place(base)}; forget {places(dropped)}"
        case CopyChunk(number=number, done=done, records=records):
            return f"chunk {number}{', the last' if done else ''}: {in_records(records)}"
        case Replicate(last=last, records=records):
            return f"records through {place(last)}: {in_records(records)}"
        case ReplicaAck(through=through, copied=copied):
            return f"has all through {place(through)}" + (f", chunk {copied}" if copied else "")


def _about_deliveries(message: PeerMessage) -> str | None:
    match message:
        case Offer():
            return "has messages"
        case Credit(through=through, once=once):
            return f"takes all up to number {through}{', if it is there' if once else ''}"
        case CreditBack(amount=amount):
            return f"is empty: {amount} not used"
        case Deliver(positions=positions, redelivered=again):
            return f"delivers {list_of(positions)}; delivered before: {list_of(again)}"
        case Settle(acknowledged=acknowledged, requeued=requeued):
            return f"settles: gone {list_of(acknowledged)}, back {list_of(requeued)}"
        case Get():
            return "gets"
        case Got(positions=positions):
            return f"gives {list_of(positions)}"
        case _:
            return None


def _count(consumers: int) -> str:
    return "1 consumer" if consumers == 1 else f"{consumers} consumers"
