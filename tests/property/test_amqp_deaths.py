"""Whatever a publisher puts into its headers, its message can die, as often as it has to."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp import rewriting
from fedq.amqp.content import headers_of, message_flags
from fedq.amqp.values import FieldTable
from fedq.core.errors import ConnectionViolation
from fedq.core.limits import FRAME_BYTES_MAX, HEADER_OVERHEAD_BYTES
from fedq.core.message import encode, make_route, split
from tests.examples import examples
from tests.property.amqp_extremes import DEAD_QUEUES, REASONS, property_lists


def is_taken(properties: bytes) -> bool:
    try:
        message_flags(properties)
    except ConnectionViolation:
        return False
    return True


def newest_of(headers: FieldTable) -> FieldTable:
    deaths = headers["x-death"]
    assert isinstance(deaths, list)
    assert isinstance(deaths[0], dict)
    return deaths[0]


@settings(max_examples=examples(400))
@given(
    property_lists().filter(is_taken),
    st.lists(st.tuples(st.sampled_from(DEAD_QUEUES), st.sampled_from(REASONS)), max_size=5),
)
def test_whatever_is_taken_can_die(properties: bytes, deaths: list[tuple[str, str]]) -> None:
    message = encode(message_flags(properties), make_route("e", "k"), properties, b"body")
    before = headers_of(properties)
    for queue, reason in deaths:
        rewriting.cycled_queues(message)
        message = rewriting.dead_letter(message, reason, queue, "dlx", None, 5)
        _, written, body = split(message)
        headers = headers_of(written)
        newest = newest_of(headers)
        assert (newest["queue"], newest["reason"]) == (queue, reason)
        assert type(newest["count"]) is int
        assert body == b"body"
        assert len(written) + HEADER_OVERHEAD_BYTES <= FRAME_BYTES_MAX
        for name in before.keys() - {"x-death"}:
            assert repr(headers[name]) == repr(before[name])


def _death(count: bytes) -> bytes:
    entry = b"\5countl" + count + b"\5queueS\0\0\0\1q\6reasonS\0\0\0\7expired"
    table = b"F" + struct.pack(">I", len(entry)) + entry
    array = b"A" + struct.pack(">I", len(table)) + table
    header = b"\7x-death" + array
    return b"\x20\0" + struct.pack(">I", len(header)) + header


def test_a_count_stays_at_the_highest_number() -> None:
    properties = _death(b"\x7f" + b"\xff" * 7)
    message = encode(0, make_route("", "q"), properties, b"")
    for _ in range(2):
        message = rewriting.dead_letter(message, "expired", "q", "dlx", None, 5)
        assert headers_of(split(message)[1])["x-death"] == [
            {"count": 2**63 - 1, "queue": "q", "reason": "expired"}
        ]
