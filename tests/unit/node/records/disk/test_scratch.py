"""Where in scratch files a message is, of a copy that came in another order than its line's."""

from collections.abc import Sequence

from fedq.fragments.replica import Replica
from fedq.journal.bodies import messages_in
from fedq.journal.records import encode_copy, encode_enqueue
from fedq.node.outbox import NodeOut
from fedq.node.records.disk.scratch import Scratch
from tests.unit.journal.samples import NORTH, ONE, message


class _Copy:
    """A copy whose bodies leave memory as soon as they come."""

    def __init__(self) -> None:
        self.replica = Replica(ONE, durable=True)
        self.out = NodeOut()
        self.scratch = Scratch(self.out)
        self.files: dict[int, bytearray] = {}

    def write(self, size: int) -> None:
        """Has the next bodies written, and lets go of them."""
        found = self.replica.for_scratch(size, 1_000)
        positions = sorted(found)
        self.scratch.write(ONE, positions, [found[position] for position in positions], self)
        for piece in self.out.scratch:
            self.files.setdefault(piece.segment, bytearray()).extend(piece.data)
            self.scratch.on_written(piece.number)
        self.out.scratch.clear()

    def on_written(self, positions: Sequence[int]) -> None:
        self.replica.scratch(positions)

    def on_write_failed(self, reason: str) -> None:
        raise AssertionError(reason)

    def read(self, position: int) -> bytes | None:
        """What is in the first place that has it."""
        for place in self.scratch.places_of(ONE, position):
            data = bytes(self.files[place.segment][place.offset : place.offset + place.length])
            found, _ = messages_in(data, ONE, position, position)
            if found:
                return found[position]
        return None


def test_every_message_is_found_of_a_copy_made_while_its_line_grows() -> None:
    """Old messages come newest first, live ones in between; before, most of these were lost.

    A piece has some of both, so that its place spans those of all pieces before.
    """
    copy, whole = (
        _Copy(),
        {position: message(f"{position:04}", False) for position in range(1, 500)},
    )
    last = 400
    for high in range(400, 0, -20):
        old = list(range(high - 19, high + 1))
        copy.replica.apply(encode_copy(ONE, 1, old, [whole[p] for p in old], {}))
        live = [whole[position] for position in range(last + 1, last + 5)]
        copy.replica.apply(encode_enqueue(ONE, 1, last + 1, NORTH, last, live))
        last += 4
        # Something is looked at by its position, and so read out of its record.
        assert last in copy.replica
        copy.write(1_000)
    while copy.replica.bytes_in_memory:
        copy.write(1_000)
    assert copy.replica.scratched.count == last
    assert [p for p in range(1, last + 1) if copy.read(p) != whole[p]] == []
