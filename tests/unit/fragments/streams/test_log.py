"""What a stream keeps, against a plain list; and what its times say."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.content import decode_properties
from fedq.amqp.offsets import with_offsets
from fedq.core.ids import FragmentId, Incarnation, NodeId, Origin
from fedq.core.limits import FRAME_BYTES_MAX, HEADER_OVERHEAD_BYTES
from fedq.core.message import FLAG_DELAYED, FLAG_EXPIRES, FLAG_PERSISTENT, FLAG_SEEN, encode, split
from fedq.core.policy import QueuePolicy, StreamPolicy
from fedq.fragments.fragment import Fragment
from fedq.fragments.streams.log import STAMPS_MAX, StreamLog, as_kept, read_from

ME = Origin(NodeId("n1"), Incarnation(1))
ROUTE = b"\x00\x01q"
FLAGS = (0, FLAG_PERSISTENT, FLAG_EXPIRES, FLAG_DELAYED | FLAG_PERSISTENT, FLAG_SEEN)


class Batch(NamedTuple):
    """Messages with these flags, of bodies of so many bytes, after so much time."""

    messages: list[tuple[int, int]]
    after_ms: int


batches = st.lists(
    st.builds(
        Batch,
        st.lists(st.tuples(st.sampled_from(FLAGS), st.integers(0, 60)), min_size=1, max_size=5),
        st.integers(0, 50),
    ),
    max_size=20,
)
policies = st.builds(
    StreamPolicy,
    st.none() | st.integers(0, 400),
    st.none() | st.integers(1, 200),
    st.integers(0, 200),
)


def stream_of(policy: StreamPolicy) -> Fragment:
    """An empty stream."""
    return Fragment(
        FragmentId(1), 1, durable=True, recording=True, policy=QueuePolicy(stream=policy)
    )


@given(policies, batches, st.integers(1, 50), st.integers(1, 500))
def test_a_stream_is_the_end_of_a_list(
    policy: StreamPolicy, given_batches: list[Batch], amount: int, size: int
) -> None:
    fragment = stream_of(policy)
    log = fragment.log
    assert log is not None
    everything: dict[int, bytes] = {}
    times: dict[int, int] = {}
    unix_ms, number = 1_000, 1
    for batch in given_batches:
        unix_ms += batch.after_ms
        sent = [encode(flags, ROUTE, b"\0\0", b"x" * length) for flags, length in batch.messages]
        fragment.publish(ME, number, sent, bool(number % 2), unix_ms)
        number += len(sent)
        first = fragment.last - len(sent) + 1
        everything.update(enumerate(as_kept(sent), first))
        times.update(dict.fromkeys(range(first, fragment.last + 1), unix_ms))
        log.retain(unix_ms)
        while log.through and fragment.purge(log.through, 3) == 3:
            pass
        log.through = 0
    fragment.check()
    kept = dict(fragment.messages.pairs())
    # What is kept is the end of all there was, with its last message.
    assert kept == dict(list(everything.items())[len(everything) - len(kept) :])
    assert bool(kept) == bool(everything)
    if policy.max_bytes is None and policy.max_age_ms is None:
        assert kept == everything
    if policy.max_age_ms is not None and kept:
        # Only what is too old goes, unless it is too much.
        young = [p for p in everything if times[p] >= unix_ms - policy.max_age_ms]
        assert policy.max_bytes is not None or set(young) <= set(kept)
    for start in (0, *list(everything)[::3], fragment.last + 1):
        wanted = [(p, m) for p, m in kept.items() if p >= start][:amount]
        pieces = read_from(fragment.fresh, start, amount, size)
        found = [pair for first, part in pieces for pair in enumerate(part, first)]
        assert found == wanted[: len(found)]
        if wanted:
            assert found
            following = wanted[len(found) : len(found) + 1]
            whole = sum(len(message) for _, message in [*found, *following])
            assert not following or whole > size


@given(st.lists(st.integers(0, 20), max_size=60), st.integers(0, 700))
def test_no_message_of_a_time_is_left_out(gaps: list[int], wanted_ms: int) -> None:
    log = StreamLog(StreamPolicy())
    unix_ms, times = 100, []
    for position, gap in enumerate(gaps, 1):
        unix_ms += gap
        log.add(position, [1], 1, unix_ms)
        times.append(unix_ms)
    since = log.since(wanted_ms)
    exact = next((p for p, when in enumerate(times, 1) if when >= wanted_ms), None)
    assert since == exact


def test_times_become_coarser_and_stay_few() -> None:
    log = StreamLog(StreamPolicy())
    for position in range(1, 20 * STAMPS_MAX):
        log.add(position, [1], 1, 10 * position)
    for position in (1, 77, STAMPS_MAX, 20 * STAMPS_MAX - 1):
        since = log.since(10 * position)
        assert since is not None
        assert position - 100 <= since <= position
    assert log.since(10 * 20 * STAMPS_MAX) is None


def test_a_clock_that_goes_back_hides_nothing() -> None:
    log = StreamLog(StreamPolicy())
    for position, unix_ms in enumerate((500, 100, 900), 1):
        log.add(position, [1], 1, unix_ms)
    assert [log.since(unix_ms) for unix_ms in (100, 500, 501, 900, 901)] == [1, 1, 3, 3, None]


def test_what_an_earlier_reign_left_came_when_this_one_began() -> None:
    policy = QueuePolicy(stream=StreamPolicy(max_age_ms=100, segment_bytes=20))
    message = encode(FLAG_PERSISTENT, ROUTE, b"\0\0", b"x" * 10)
    fragment = Fragment(
        FragmentId(1), 2, durable=True, recording=True, policy=policy,
        messages=dict.fromkeys(range(5, 15), message), unix_ms=1_000,
    )  # fmt: skip
    log = fragment.log
    assert log is not None
    assert log.batch == 14
    log.retain(1_050)
    assert not log.through
    log.retain(1_200)
    assert log.through == 14 - 1


def test_an_offset_is_written_among_headers_of_any_name() -> None:
    names = ("ÿ".encode(), b"a", b"x-stream-offset", b"zz")
    table = b"".join(bytes([len(name)]) + name + b"V" for name in names)
    properties = b"\x20\x00" + len(table).to_bytes(4, "big") + table
    [message] = with_offsets([encode(FLAG_PERSISTENT, ROUTE, properties, b"body")], [7])
    _, written, body = split(message)
    headers = decode_properties(written)["headers"]
    assert isinstance(headers, dict)
    assert list(headers) == ["a", "x-stream-offset", "zz", "ÿ"]
    assert (headers["x-stream-offset"], len(headers), body) == (7, 4, b"body")


def test_without_room_for_an_offset_a_message_goes_out_as_it_is() -> None:
    value = b"\x01aS" + (FRAME_BYTES_MAX - HEADER_OVERHEAD_BYTES - 13).to_bytes(4, "big")
    table = value + b"x" * (FRAME_BYTES_MAX - HEADER_OVERHEAD_BYTES - 13)
    properties = b"\x20\x00" + len(table).to_bytes(4, "big") + table
    message = encode(FLAG_PERSISTENT, ROUTE, properties, b"body")
    assert with_offsets([message], [7]) == [message]
