"""Where messages may be in scratch files, against a list of all that was written."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.core.ids import FragmentId
from fedq.journal.places import Place
from fedq.node.outbox import NodeOut
from fedq.node.records.disk.scratch import Scratch
from tests.unit.journal.samples import message

FRAGMENT = FragmentId(1)
POSITIONS = st.integers(1, 60)
PIECES = st.sets(POSITIONS, min_size=1, max_size=4).map(sorted)


class _Answer:
    def on_written(self, positions: object) -> None:
        """It is there."""

    def on_write_failed(self, reason: str) -> None:
        """It is not."""


@given(st.lists(st.one_of(PIECES, POSITIONS), max_size=40))
def test_a_place_is_told_for_each_piece_that_spans_the_position(
    steps: list[list[int] | int],
) -> None:
    """A list is a piece that is written; a number a position below which nothing is needed."""
    out = NodeOut()
    scratch = Scratch(out)
    model: list[Place] = []
    for step in steps:
        if isinstance(step, int):
            scratch.forget_below(FRAGMENT, step)
            model = [place for place in model if place.last >= step]
        else:
            scratch.write(FRAGMENT, step, [message("a")] * len(step), _Answer())
            piece = out.scratch.pop()
            scratch.on_written(piece.number)
            model.append(Place(piece.segment, piece.offset, len(piece.data), step[0], step[-1]))
        assert scratch.bytes_of(FRAGMENT) == sum(place.length for place in model)
        for position in range(62):
            newest_first = [place for place in model[::-1] if place.first <= position <= place.last]
            assert scratch.places_of(FRAGMENT, position) == newest_first
    scratch.forget(FRAGMENT)
    assert scratch.bytes_held == scratch.index_bytes == 0
    assert not scratch.fragments
    assert len(out.scratch_drops) == len(set(out.scratch_drops))
