"""What a trace says is what a reader reads; any other bytes are a ValueError and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedq.core import trace_records
from fedq.core.trace_records import KINDS, Event, Head, decode, encode, fields_of, line

texts = st.text(max_size=20) | st.text(st.characters(codec=None), max_size=5)
numbers = st.integers(-(1 << 70), 1 << 70)
ranges = st.lists(st.tuples(numbers, numbers), max_size=4).map(tuple)
_OF_TYPE = {str: texts, int: numbers, bool: st.booleans()}
events = st.builds(
    Event,
    kind=st.sampled_from(KINDS) | texts,
    ms=numbers,
    **{
        name: _OF_TYPE.get(kind, ranges)
        for name, kind in Event.__annotations__.items()
        if name not in ("kind", "ms")
    },
)
heads = st.builds(Head, texts, texts, numbers, numbers, numbers)


@given(heads, st.lists(events, max_size=5))
def test_a_batch_comes_back(head: Head, said: list[Event]) -> None:
    body = encode(head, [line(fields_of(event)) for event in said])
    assert decode(body) == (head, said)


def test_what_does_not_apply_is_left_out() -> None:
    event = Event("acked", 5, fragment=3, positions=((1, 2),))
    assert line(fields_of(event)) == b'{"kind":"acked","ms":5,"fragment":3,"positions":[[1,2]]}'


def test_what_a_later_release_adds_is_passed_over() -> None:
    head = Head("all", "n1", 1, 1, 9)
    said = {**fields_of(Event("acked", 5)), "colour": "blue"}
    assert decode(encode(head, [line(said)])).events == [Event("acked", 5)]


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        decode(body)


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["fedq_trace", *Head._fields]), _json),
    st.lists(st.dictionaries(st.sampled_from(Event._fields), _json), max_size=2),
)
def test_any_objects_are_read_or_refused(head: dict[str, object], said: list[object]) -> None:
    body = b"\n".join(json.dumps(each).encode() for each in [head, *said])
    try:
        batch = decode(body)
    except ValueError:
        return
    assert decode(encode(batch.head, [line(fields_of(event)) for event in batch.events])) == batch


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{}", "no fedq_trace"),
        (b'{"fedq_trace":2}', "later release"),
        (b'{"fedq_trace":1,"trace":"a"}', "lacks node"),
        (b"[" * 100_000, "nested|Expecting|expected"),
        (b"x" * (trace_records.BATCH_BYTES_MAX + 1), "at most 8 MiB"),
    ],
)
def test_refusals_say_why(body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode(body)
