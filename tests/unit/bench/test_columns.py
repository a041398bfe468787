"""Deliveries are cut alike however the stream is cut, whatever lies between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.frames import HEARTBEAT
from fedq.amqp.methods import BasicCancel, ConnectionClose, encode_method
from fedq.bench.columns import Batch, Reader
from fedq.core.errors import ConnectionViolation
from tests.unit.bench.streams import body, deliveries, numbered, redelivered

CLOSE = ConnectionClose(320, "CONNECTION_FORCED")


def read(pieces: list[bytes], reader: Reader) -> Batch:
    """All that these pieces bring."""
    whole = Batch()
    done = 0
    for piece in pieces:
        before = len(reader.partial)
        batch = reader.take(piece)
        whole.numbers += batch.numbers
        whole.times += batch.times
        whole.tags += batch.tags
        whole.methods += batch.methods
        whole.ends += [done - before + end for end in batch.ends]
        done += len(piece)
    return whole


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """The data in pieces."""
    marks = sorted(place % (len(data) + 1) for place in places)
    return [data[a:b] for a, b in zip([0, *marks], [*marks, len(data)], strict=True) if a < b]


MESSAGES = st.tuples(
    st.integers(0, 2**64 - 1), st.integers(0, 2**63), st.sampled_from((0, 0, 0, 1, 40, 300))
)
PLACES = st.lists(st.integers(0, 10_000), max_size=6)


@given(st.lists(MESSAGES, max_size=40), PLACES, st.booleans())
def test_numbers_times_and_ends(
    messages: list[tuple[int, int, int]], places: list[int], persistent: bool
) -> None:
    each = [deliveries([body(*message)], persistent=persistent) for message in messages]
    found = read(cut(b"".join(each), places), Reader(has_ends=True))
    assert found.numbers == [number for number, _, _ in messages]
    assert found.times == [time_ns for _, time_ns, _ in messages]
    assert found.ends == [sum(map(len, each[: at + 1])) for at in range(len(each))]
    assert found.tags == []


@given(st.lists(st.sampled_from(("00000000", "0000002a", "ffffffff")), max_size=30), PLACES)
def test_consumer_tags(tags: list[str], places: list[int]) -> None:
    data = b"".join(numbered([at], tag=tag) for at, tag in enumerate(tags))
    found = read(cut(data, places), Reader(has_tags=True))
    assert found.tags == [tag.encode() for tag in tags]
    assert found.numbers == list(range(len(tags)))


@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=4),
    st.sampled_from((HEARTBEAT, encode_method(1, BasicCancel("00000000", True)))),
    PLACES,
)
def test_what_lies_between(runs: list[int], between: bytes, places: list[int]) -> None:
    data = b""
    number = 0
    for run in runs:
        data += numbered(range(number, number + run)) + between
        number += run
    found = read(cut(data, places), Reader())
    assert found.numbers == list(range(number))
    assert len(found.methods) == (0 if between == HEARTBEAT else len(runs))


def test_the_end_of_a_connection_is_told() -> None:
    found = read([numbered(range(9)) + encode_method(0, CLOSE)], Reader())
    assert found.methods == [CLOSE]
    assert len(found.numbers) == 9


def test_a_long_run_with_one_other_size_in_it() -> None:
    data = numbered(range(50)) + numbered([50], padding=7) + numbered(range(51, 99))
    assert read([data], Reader()).numbers == list(range(99))


def test_the_same_size_by_another_key_and_body() -> None:
    data = numbered(range(20)) + deliveries([body(20)], key="queue2") + numbered(range(21, 40))
    other = deliveries([body(40, 0, 1)], key="queu") + numbered(range(41, 60))
    found = read([data + other], Reader())
    assert found.numbers == list(range(60))


@given(st.lists(st.booleans(), min_size=1, max_size=40), PLACES)
def test_what_came_back_is_known(marks: list[bool], places: list[int]) -> None:
    each = [redelivered(numbered([n])) if mark else numbered([n]) for n, mark in enumerate(marks)]
    reader = Reader(has_tags=True, has_ends=True)
    seen: list[tuple[int, bool]] = []
    for piece in cut(b"".join(each), places):
        found = reader.take(piece)
        seen += [(n, place in found.redelivered) for place, n in enumerate(found.numbers)]
        assert len(found.ends) == len(found.tags) == len(found.times) == len(found.numbers)
    assert seen == list(enumerate(marks))


def test_a_stream_out_of_step_is_a_violation() -> None:
    good = numbered([0])
    with pytest.raises(ConnectionViolation):
        Reader().take(good[:-1] + b"\x00" + good)


def test_a_partial_delivery_can_be_given_back() -> None:
    reader, data = Reader(), numbered(range(3))
    reader.take(data[:-5])
    other = Reader()
    other.partial = reader.partial
    assert other.take(data[-5:]).numbers == [2]


@pytest.mark.parametrize(
    "strange",
    [
        deliveries([body(0)], tag="short"),
        deliveries([b"fifteen bytes.."]),
        deliveries([b"fifteen bytes.."]) + numbered([1]),
        deliveries([b""]) + numbered([1]),
        numbered([0])[numbered([0]).index(b"\x02\x00\x01") :],
    ],
)
def test_a_delivery_that_nobody_published_is_a_violation(strange: bytes) -> None:
    with pytest.raises(ConnectionViolation):
        Reader().take(numbered(range(6)) + strange)
