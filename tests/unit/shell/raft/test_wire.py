"""The frames of the Raft stream: what goes in comes out, and nothing else gets in."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fedq.core import limits
from fedq.core.ids import NodeId
from fedq.shell.raft.voters import encode_voters
from fedq.shell.raft.wire import (
    ENTRY_BYTES_MAX,
    FRAME_BYTES_MAX,
    NO_OP,
    PAYLOAD_BYTES_MAX,
    SNAPSHOT_BYTES_MAX,
    TOLD_OF_A_SET,
    Ack,
    Append,
    Forward,
    LeadNow,
    LogEntry,
    Promote,
    RaftMessage,
    SnapshotChunk,
    Standing,
    Vote,
    VoteRequest,
    WireError,
    decode,
    encode,
)

numbers = st.integers(0, 2**63 - 1)
commands = st.binary(min_size=1, max_size=40)
entry_commands = st.one_of(
    st.just(NO_OP),
    commands.map(lambda body: b"\x00" + body),
    st.sets(st.text(min_size=1, max_size=9), min_size=1, max_size=5).map(
        lambda names: encode_voters([NodeId(name) for name in sorted(names)])
    ),
)


@st.composite
def appends(draw: st.DrawFn) -> Append:
    terms = sorted(draw(st.lists(numbers, min_size=2, max_size=9)))
    entries = [LogEntry(term, draw(entry_commands)) for term in terms[1:-1]]
    prev_index = draw(st.integers(1, 2**63 - 1))
    return Append(terms[-1], draw(numbers), draw(numbers), prev_index, terms[0], entries)


@st.composite
def chunks(draw: st.DrawFn) -> SnapshotChunk:
    data = draw(st.binary(min_size=1, max_size=100))
    offset = draw(st.integers(0, SNAPSHOT_BYTES_MAX - len(data)))
    total = draw(st.integers(offset + len(data), SNAPSHOT_BYTES_MAX))
    return SnapshotChunk(draw(numbers), draw(numbers), offset, total, data)


@st.composite
def vote_requests(draw: st.DrawFn) -> VoteRequest:
    last_term, term = sorted((draw(numbers), draw(numbers)))
    return VoteRequest(term, draw(numbers), last_term, draw(st.booleans()))


@st.composite
def standings(draw: st.DrawFn) -> Standing:
    last_term, term = sorted((draw(numbers), draw(numbers)))
    last_index = draw(numbers)
    named = st.integers(TOLD_OF_A_SET, max(last_index, TOLD_OF_A_SET))
    return Standing(
        term, last_index, last_term, draw(st.booleans()), draw(st.one_of(st.just(0), named))
    )


messages: st.SearchStrategy[RaftMessage] = st.one_of(
    vote_requests(),
    st.builds(Vote, numbers),
    st.builds(LeadNow, numbers),
    appends(),
    chunks(),
    st.builds(Ack, numbers, numbers, numbers, st.booleans(), st.booleans(), st.booleans()),
    standings(),
    st.builds(Promote, numbers, numbers),
    st.builds(Forward, st.lists(commands, max_size=5)),
)


@given(messages)
def test_a_message_survives_the_wire(message: RaftMessage) -> None:
    decoded = decode(encode(message))
    assert type(decoded) is type(message)
    assert decoded == message


@given(messages, st.data())
def test_a_frame_cut_short_or_prolonged_is_refused(
    message: RaftMessage, data: st.DataObject
) -> None:
    frame = encode(message)
    if not isinstance(message, SnapshotChunk):
        with pytest.raises(WireError):
            decode(frame + b"\x00")
        shorter = frame[: data.draw(st.integers(0, len(frame) - 1))]
        with pytest.raises(WireError):
            decode(shorter)


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=200).map(lambda b: b"\x02" + b)))
@example(b"\x02\x04" + bytes(42))
def test_whatever_decodes_encodes_to_the_same_bytes(frame: bytes) -> None:
    try:
        message = decode(frame)
    except WireError:
        return
    assert encode(message) == frame


def test_the_format_is_frozen() -> None:
    assert encode(Vote(7)).hex() == "02020000000000000007"
    append = Append(3, 6, 8, 9, 2, [LogEntry(3, b"\x00hi"), LogEntry(3, NO_OP)])
    assert encode(append).hex() == (
        "0204"
        "0000000000000003" "0000000000000006" "0000000000000008"
        "0000000000000009" "0000000000000002" "0002"
        "0000000000000003" "00000003" "006869"
        "0000000000000003" "00000001" "01"
    )  # fmt: skip
    assert (
        encode(Ack(3, 7, 12, True, False)).hex()
        == "020600000000000000030000000000000007000000000000000c010000"
    )
    assert encode(Standing(3, 7, 2, True)).hex() == (
        "0208" "0000000000000003" "0000000000000007" "0000000000000002" "01"
    )  # fmt: skip
    assert encode(Standing(3, 7, 2, True, 5)).hex() == (
        "020a" "0000000000000003" "0000000000000007" "0000000000000002" "01" "0000000000000005"
    )  # fmt: skip
    assert encode(Promote(3, 7)).hex() == "020900000000000000030000000000000007"


def test_the_largest_frames_fit() -> None:
    entry = LogEntry(1, b"\x00" + bytes(limits.COMMAND_BYTES_MAX))
    assert decode(encode(Append(1, 0, 0, 1, 0, [entry]))) == Append(1, 0, 0, 1, 0, [entry])
    chunk = SnapshotChunk(1, 0, 0, PAYLOAD_BYTES_MAX, bytes(PAYLOAD_BYTES_MAX))
    assert decode(encode(chunk)) == chunk


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (b"", "has 2 to"),
        (bytes(FRAME_BYTES_MAX + 1), "has 2 to"),
        (b"\x01\x02" + bytes(8), "version 1; this node speaks version 2"),
        (b"\x80\x04\x95" + bytes(20), "version 128"),
        (b"\x02\x63", "unknown kind of Raft frame: 99"),
        (b"\x02\x02" + b"\xff" * 8, "beyond"),
        (b"\x02\x06" + bytes(24) + b"\x00\x00\x02", "a flag is 0 or 1"),
        (encode(Append(5, 0, 0, 1, 4, [LogEntry(3, NO_OP)])), "never fall"),
        (encode(Append(5, 0, 0, 1, 4, [LogEntry(6, NO_OP)])), "pass the leader"),
        (encode(Append(5, 0, 0, 0, 0, [LogEntry(5, NO_OP)])), "after index 0"),
        (encode(Append(5, 0, 0, 1, 4, [LogEntry(5, b"\x03x")])), "unknown kind of log entry: 3"),
        (encode(Append(5, 0, 0, 1, 4, [LogEntry(5, b"\x00")])), "unknown kind of log entry"),
        (encode(Append(5, 0, 0, 1, 4, [LogEntry(5, bytes(ENTRY_BYTES_MAX + 1))])), "at most 49153"),
        (encode(Forward([bytes(limits.COMMAND_BYTES_MAX + 1)])), "at most 49152"),
        (encode(VoteRequest(1, 1, 2, False)), "later term than its own"),
        (encode(Standing(1, 1, 2, False)), "later term than its own"),
        (encode(Standing(2, 7, 2, True, 8)), "in entry 8 of 7"),
        (encode(Standing(2, 1, 1, True, 2)), "in entry 2 of 1"),
        (encode(Append(5, 0, 0, 1, 4, [LogEntry(5, b"\x02\x01\x00")])), "kind of log entry: 2"),
        (encode(SnapshotChunk(1, 0, 5, 6, b"xx")), "2 bytes at 5 of a snapshot of 6"),
        (encode(SnapshotChunk(1, 0, 0, SNAPSHOT_BYTES_MAX + 1, b"x")), "of a snapshot of"),
    ],
)
def test_a_frame_no_voter_sends_is_refused_and_says_why(frame: bytes, why: str) -> None:
    with pytest.raises(WireError, match=why):
        decode(frame)
