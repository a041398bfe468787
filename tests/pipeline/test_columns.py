"""Messages of a chunk as columns, against taking each apart by itself."""

import json
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedq.amqp.content import decode_properties, encode_properties
from fedq.amqp.values import TableValue, Timestamp
from fedq.core.message import encode, make_route
from fedq.pipeline.columns import PROPERTIES, Columns, Decoder
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.stream_client import ReadChunk
from tests.examples import examples
from tests.pipeline.chunks import chunk_of
from tests.property.amqp_strategies import names, properties

FRONTS = st.tuples(names, names, properties)
MESSAGES = st.lists(
    st.tuples(FRONTS, st.binary(max_size=20)) | st.tuples(st.just(("", "k", b"\0\0")), st.binary()),
    min_size=1, max_size=12,
)  # fmt: skip


def encoded(exchange: str, key: str, found: bytes, body: bytes) -> bytes:
    return encode(1, make_route(exchange, key), found, body)


def columns(*messages: bytes) -> Columns:
    return Decoder().columns(chunk_of(messages))


def headers_of(value: TableValue) -> str | None:
    """What becomes of one header."""
    found = encode_properties({"headers": {"h": value}})
    [front] = columns(encoded("", "k", found, b"")).fronts
    assert front.headers is not None
    return front.headers["h"]


@given(MESSAGES)
@settings(max_examples=examples(200))
def test_columns_are_what_each_message_says(
    given_messages: list[tuple[tuple[str, str, bytes], bytes]],
) -> None:
    messages = [encoded(*front, body) for front, body in given_messages]
    decoder = Decoder()
    for _ in range(2):
        found = decoder.columns(chunk_of(messages))
        assert found.bodies == [body for _, body in given_messages]
        assert list(found.offsets) == list(range(len(messages)))
        assert list(found.came_us) == [1_000_000] * len(messages)
        for index, ((exchange, key, encoded_properties), _) in enumerate(given_messages):
            front = found.fronts[found.front_of[index]]
            assert (front.exchange, front.routing_key) == (exchange, key)
            told = decode_properties(encoded_properties)
            for name, value in zip(PROPERTIES, front.properties, strict=True):
                wanted = told.get(name)
                if isinstance(wanted, int) and name == "timestamp" and wanted > 253_402_300_799:
                    wanted = None
                assert value == wanted
            assert (front.headers is None) == ("headers" not in told)


def test_neighbours_with_the_same_front_share_it() -> None:
    one, other = encode_properties({"priority": 3}), encode_properties({"message_id": "m"})
    found = columns(*(encoded("e", "k", each, b"x") for each in (one, one, other, one)))
    assert list(found.front_of) == [0, 0, 1, 2]
    assert found.fronts[0] is found.fronts[2]


def test_a_body_that_looks_like_a_front_is_a_body() -> None:
    inner = encoded("e", "k", b"\0\0", b"x")
    found = columns(encoded("e", "k", b"\0\0", inner), inner, encoded("e", "k", b"\0\0", b""))
    assert found.bodies == [inner, b"x", b""]
    assert len(found.fronts) == 1


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        (None, None),
        (5, "5"),
        (True, "true"),
        (1.5, "1.5"),
        (float("inf"), "inf"),
        (Decimal("1.20"), "1.20"),
        (b"\xff\x00", "/wA="),
        (Timestamp(0), "1970-01-01T00:00:00Z"),
        (Timestamp(1 << 60), str(1 << 60)),
        ([1, "a", None, b"x"], '[1,"a",null,"eA=="]'),
        ({"a": {"b": [Timestamp(0)]}}, '{"a":{"b":["1970-01-01T00:00:00Z"]}}'),
        ({"n": float("nan")}, '{"n":"nan"}'),
    ],
)
def test_headers_are_text_or_json(value: TableValue, text: str | None) -> None:
    assert headers_of(value) == text
    if text is not None and isinstance(value, dict | list):
        json.loads(text)


def test_text_that_is_no_utf_8_is_marked() -> None:
    found = encode_properties({"type": "a\udcff", "headers": {"ä": "\udcfd"}})
    [front] = columns(encoded("e\udcff", "ü", found, b"")).fronts
    assert (front.exchange, front.routing_key) == ("e\ufffd", "ü")
    assert "a\ufffd" in front.properties
    # A string of headers that is none is bytes (`fedq.amqp.values`).
    assert front.headers == {"ä": "/Q=="}


def test_times_hold_from_an_offset_on() -> None:
    messages = [encoded("", "k", b"\0\0", b"")] * 5
    chunk = chunk_of(messages, [4, 5, 9, 10, 11], [(4, 1), (7, 2), (10, 3), (11, 4)])
    assert [each // 1_000 for each in Decoder().columns(chunk).came_us] == [1, 1, 2, 3, 4]


MESSAGE = encoded("", "k", b"\0\0", b"body")
GOOD = chunk_of([MESSAGE, MESSAGE])


@pytest.mark.parametrize(
    "chunk",
    [
        GOOD._replace(ranges=[(0, 0)]),
        GOOD._replace(ranges=[(0, 2)]),
        GOOD._replace(lengths=GOOD.lengths[:-1]),
        GOOD._replace(data=GOOD.data[:-1]),
        GOOD._replace(data=GOOD.data + b"x"),
        GOOD._replace(times=[]),
        GOOD._replace(times=[(1, 5)]),
        chunk_of([b"\x01\x00"]),
        chunk_of([b"\x01\x00\x03\xff\xff\xff\xff" + MESSAGE[7:]]),
        chunk_of([b"\x01\xff\xff\x00\x00\x00\x02" + MESSAGE[7:]]),
        chunk_of([b"\x01\x00\x00\x00\x00\x00\x00"]),
        chunk_of([b"\x01\x00\x02\x00\x00\x00\x02\x00\x00\xff\xff"]),
        chunk_of([b"\x01\x00\x02\x00\x00\x00\x06\x00\x00\x20\x00\x00\x00\x00\x09"]),
    ],
)
def test_a_chunk_that_contradicts_itself_is_refused(chunk: ReadChunk) -> None:
    with pytest.raises(PipelineError, match="chunk"):
        Decoder().columns(chunk)


@given(st.binary(max_size=40))
def test_whatever_bytes_come_are_taken_or_refused(data: bytes) -> None:
    """Hostile: nothing else comes out."""
    try:
        found = Decoder().columns(chunk_of([data]))
    except PipelineError:
        return
    assert len(found.bodies) == 1


def test_fronts_that_are_remembered_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedq.pipeline.columns._FRONTS_MAX", 2)
    decoder = Decoder()
    messages = [encoded("", str(number), b"\0\0", b"") for number in range(9)]
    found = decoder.columns(chunk_of(messages))
    assert [front.routing_key for front in found.fronts] == [str(number) for number in range(9)]
    assert len(decoder._known) <= 2
