"""The scrub's check of frames: any journal, in any pieces, with and without rot."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.journal.bodies import messages_in
from fedq.journal.frame_check import FrameCheck
from fedq.journal.segments import SegmentPlan
from tests.examples import examples
from tests.property.test_places import Use, take_a_step


def pieces_of(content: bytes, data: st.DataObject) -> list[bytes]:
    """The content in any pieces; some of one byte, some of none."""
    size = data.draw(st.sampled_from([1, 3, 7, 8, 9, 64, 1_000, 1 << 20]))
    pieces = [content[at : at + size] for at in range(0, len(content), size)]
    return [b"", *pieces] if data.draw(st.booleans()) else pieces


def checked(content: bytes, pieces: list[bytes]) -> FrameCheck | None:
    """The check that has taken the pieces; None: it was content with all of them."""
    check = FrameCheck(len(content))
    for piece in pieces:
        if not check.take(piece):
            return check
    assert check.is_done or not content
    return None


def a_use(data: st.DataObject) -> Use:
    """A journal of some segments, and what was written to it."""
    use = Use(SegmentPlan(bytes_max=data.draw(st.sampled_from([300, 2_000])), nonce=7))
    for _ in range(data.draw(st.integers(1, 15))):
        take_a_step(use, data)
    use.write()
    return use


@settings(max_examples=examples(100))
@given(data=st.data())
def test_what_was_written_is_whole_in_any_pieces(data: st.DataObject) -> None:
    for content in a_use(data).disk.values():
        assert checked(content, pieces_of(content, data)) is None


@settings(max_examples=examples(150))
@given(data=st.data())
def test_flipped_bits_are_found_or_every_message_is_there_as_it_was(data: st.DataObject) -> None:
    use = a_use(data)
    for number, content in list(use.disk.items()):
        if not content:
            continue
        rotten = bytearray(content)
        places = st.lists(st.integers(0, 8 * len(content) - 1), max_size=4, unique=True)
        flipped = data.draw(places)
        for bit in flipped:
            rotten[bit // 8] ^= 1 << bit % 8
        found = checked(bytes(rotten), pieces_of(bytes(rotten), data))
        assert (found is not None) == bool(flipped)
        if found is not None:
            first = min(flipped) // 8
            assert found.begin <= first
            # What comes before it is what was written.
            assert checked(content[: found.begin], [content[: found.begin]]) is None
        use.disk[number] = bytes(rotten)
    for fragment, messages in use.known.items():
        for position, expected in messages.items():
            for place in use.plan.locate_all(fragment, position):
                segment = use.disk[place.segment]
                piece = segment[place.offset : place.offset + place.length]
                read, _ = messages_in(piece, fragment, position, position)
                # No rot makes another message of one.
                assert read in ({}, {position: expected})


@given(content=st.binary(max_size=300), size=st.integers(0, 400), data=st.data())
def test_no_bytes_raise_anything(content: bytes, size: int, data: st.DataObject) -> None:
    check = FrameCheck(size)
    for piece in pieces_of(content[:size], data):
        if not check.take(piece):
            break
    assert 0 <= check.begin <= size
