"""Rows as publishes: what the broker's own parser makes of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.amqp.content import decode_properties
from fedq.amqp.values import TableValue
from fedq.core.message import split, split_route
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.sink.encoding import PUBLISHER, SEQUENCE, Encoder, Front, front_of
from tests.pipeline.sink.parsing import parsed

FRAME_BYTES_MAX = 4_096
names = st.text(max_size=20)
properties = st.fixed_dictionaries(
    {},
    optional={
        "content_type": names, "content_encoding": names, "delivery_mode": st.integers(0, 255),
        "correlation_id": names, "message_id": names, "timestamp": st.integers(0, 1 << 40),
        "type": names, "app_id": names,
    },
)  # fmt: skip
values = st.one_of(st.none(), names, st.integers(-(1 << 63), (1 << 63) - 1), st.booleans())
headers = st.one_of(st.none(), st.dictionaries(names, values, max_size=4))
bodies = st.lists(
    st.one_of(st.binary(max_size=40), st.integers(0, 20_000).map(lambda size: b"x" * size)),
    max_size=6,
)


@given(names, names, properties, headers, bodies, st.integers(1, 1 << 62), st.booleans())
def test_a_broker_reads_what_was_encoded(
    exchange: str, key: str, given_properties: dict[str, TableValue],
    given_headers: dict[str, TableValue] | None, rows: list[bytes], first: int, is_mandatory: bool,
) -> None:  # fmt: skip
    front = front_of(exchange, key, given_properties, given_headers)
    encoder = Encoder(FRAME_BYTES_MAX, "job/1", is_mandatory=is_mandatory)
    found = parsed(encoder.encode(front, rows, first), FRAME_BYTES_MAX)
    assert [body for *_, body in found] == rows
    for number, (route, mandatory, encoded, _) in enumerate(found, first):
        assert (route, mandatory) == ((exchange, key), is_mandatory)
        assert decode_properties(encoded) == {
            **given_properties,
            "headers": {**(given_headers or {}), PUBLISHER: "job/1", SEQUENCE: number},
        }


@given(names, names, properties, headers, bodies)
def test_without_a_name_rows_are_as_they_are(
    exchange: str, key: str, given_properties: dict[str, TableValue],
    given_headers: dict[str, TableValue] | None, rows: list[bytes],
) -> None:  # fmt: skip
    front = front_of(exchange, key, given_properties, given_headers)
    encoder = Encoder(FRAME_BYTES_MAX, "", is_mandatory=False)
    found = parsed(encoder.encode(front, rows, 1), FRAME_BYTES_MAX)
    wanted = dict(given_properties)
    if given_headers is not None:
        wanted["headers"] = given_headers
    assert [(decode_properties(encoded), body) for _, _, encoded, body in found] == [
        (wanted, row) for row in rows
    ]


def test_fronts_may_change_and_come_again() -> None:
    one, other = front_of("e", "a", {}, None), front_of("e", "b", {"type": "t"}, None)
    encoder = Encoder(FRAME_BYTES_MAX, "job/1", is_mandatory=True)
    data = b"".join(
        encoder.encode(front, [b"1", b"22"], 1 + 2 * index)
        for index, front in enumerate((one, other, one))
    )
    found = parsed(data, FRAME_BYTES_MAX)
    assert [route[1] for route, *_ in found] == ["a", "a", "b", "b", "a", "a"]
    assert [decode_properties(each[2]).get("type") for each in found[1:4]] == [None, "t", "t"]


def test_the_headers_of_another_publisher_do_not_come_along() -> None:
    front = front_of("", "q", {}, {PUBLISHER: "somebody", SEQUENCE: 5, "a": "b"})
    assert decode_properties(front.properties) == {"headers": {"a": "b"}}


@pytest.mark.parametrize(
    ("exchange", "key", "given_properties", "given_headers", "sentence"),
    [
        ("e", "k" * 256, {}, None, "at most 255"),
        ("e" * 256, "k", {}, None, "at most 255"),
        ("e", "k", {"type": "t" * 256}, None, "at most 255"),
        ("e", "k", {"priority": 256}, None, "priority must be a octet"),
        ("e", "k", {"delivery_mode": -1}, None, "delivery_mode must be a octet"),
        ("e", "k", {}, {"h" * 256: "x"}, "at most 255"),
        ("e", "k", {}, {"h": "x" * 200_000}, "put what is large into the body"),
    ],
)
def test_what_amqp_cannot_say_is_an_error(
    exchange: str, key: str, given_properties: dict[str, TableValue],
    given_headers: dict[str, TableValue] | None, sentence: str,
) -> None:  # fmt: skip
    with pytest.raises(PipelineError, match=sentence):
        front_of(exchange, key, given_properties, given_headers)


def test_the_parser_of_nodes_takes_rows_as_runs() -> None:
    from fedq.amqp.publishes import take_publishes

    front = front_of("e", "k", {"delivery_mode": 2}, {"a": "b"})
    data = Encoder(FRAME_BYTES_MAX, "n", is_mandatory=True).encode(front, [b"1", b"2", b"33"], 1)
    runs: list[tuple[bytes, int, list[bytes]]] = []
    # It wants to see that something follows the last one.
    assert take_publishes(data + b"\x01", 0, FRAME_BYTES_MAX, {}, runs) == len(data)
    messages = [message for *_, run in runs for message in run]
    assert [split_route(route) for route, *_ in runs] == [("e", "k")] * len(runs)
    assert [split(message)[2] for message in messages] == [b"1", b"2", b"33"]
    assert isinstance(front, Front)
