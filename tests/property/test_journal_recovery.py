"""Recovery against the naive model: every prefix of the journal is the state at that prefix."""

from hypothesis import given
from hypothesis import strategies as st

from fedq.journal.events import Record
from fedq.journal.recovery import recover
from tests.property.journal_model import CLOSE_RECORDS, assert_same, replay
from tests.unit.journal.samples import encode_record

HISTORIES = st.lists(CLOSE_RECORDS, max_size=12)


@given(HISTORIES, st.data())
def test_any_prefix_recovers_to_the_state_at_that_prefix(
    history: list[Record], data: st.DataObject
) -> None:
    encoded = [encode_record(record) for record in history]
    journal = b"".join(encoded)
    size = data.draw(st.integers(0, len(journal)), "surviving bytes")
    whole, end = 0, 0
    while whole < len(encoded) and end + len(encoded[whole]) <= size:
        end += len(encoded[whole])
        whole += 1
    recovered = recover({1: journal[:size]})
    assert_same(recovered, replay(history[:whole]))
    assert recovered.torn_bytes == size - end
    assert recovered.segments[0].size == end


@given(HISTORIES, st.data())
def test_how_records_are_spread_over_segments_makes_no_difference(
    history: list[Record], data: st.DataObject
) -> None:
    segments: list[tuple[int, bytes]] = [(5, b"")]
    for record in history:
        if data.draw(st.booleans(), "roll"):
            segments.append((segments[-1][0] + 1, b""))
        number, content = segments[-1]
        segments[-1] = (number, content + encode_record(record))
    recovered = recover(dict(segments))
    assert_same(recovered, replay(history))
    assert [(s.number, s.size) for s in recovered.segments] == [
        (number, len(content)) for number, content in segments
    ]
