"""Arrow batches of Spark as fronts and bodies."""

from datetime import UTC, datetime
from typing import Any

import pytest

from fedq.amqp.content import decode_properties
from fedq.pipeline.failure import PipelineError
from fedq.pipeline.sink.options import write_options

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'fedq[spark]'")


def read(batch: Any, **given: str) -> list[tuple[str, str, dict[str, Any], bytes]]:
    from fedq.pipeline.sink.arrow_rows import RowReader

    least = {"url": "amqp://robot:secret@h", "exchange": "e", "routingKey": "k"}
    reader = RowReader(write_options(least | given, is_streaming=False))
    return [
        (front.exchange, front.routing_key, decode_properties(front.properties), body)
        for front, bodies in reader.rows([batch])
        for body in bodies
    ]


def test_bodies_alone_go_where_the_options_say() -> None:
    batch = pa.record_batch({"body": pa.array(["a", "ü"])})
    persistent = {"delivery_mode": 2}
    assert read(batch) == [("e", "k", persistent, b"a"), ("e", "k", persistent, "ü".encode())]
    assert read(batch, persistent="false") == [("e", "k", {}, b"a"), ("e", "k", {}, "ü".encode())]


def test_columns_say_it_by_row_and_null_is_the_default() -> None:
    at = datetime(2026, 11, 26, 1, 2, 3, 999_999, tzinfo=UTC)
    fields = pa.struct([
        ("type", pa.string()), ("priority", pa.int32()), ("timestamp", pa.timestamp("us", "UTC")),
    ])  # fmt: skip
    batch = pa.record_batch(
        {
            "body": pa.array([b"1", b"2", b"3"], pa.binary()),
            "exchange": pa.array(["x", None, ""]),
            "routing_key": pa.array([None, "l", "q"]),
            "properties": pa.array(
                [{"type": "t", "priority": 3, "timestamp": at}, None, {"type": None}], fields
            ),
            "headers": pa.array(
                [[("a", "b"), ("n", None)], None, []], pa.map_(pa.string(), pa.string())
            ),
        }
    )
    assert read(batch) == [
        (
            "x", "k",
            {
                "delivery_mode": 2, "type": "t", "priority": 3, "timestamp": int(at.timestamp()),
                "headers": {"a": "b", "n": None},
            },
            b"1",
        ),
        ("e", "l", {"delivery_mode": 2}, b"2"),
        ("", "q", {"delivery_mode": 2, "headers": {}}, b"3"),
    ]  # fmt: skip


def test_a_body_that_is_null_is_an_error() -> None:
    with pytest.raises(PipelineError, match="a row's body is NULL"):
        read(pa.record_batch({"body": pa.array(["a", None])}))


def test_times_before_1970_have_no_form() -> None:
    fields = pa.struct([("timestamp", pa.timestamp("us", "UTC"))])
    early = pa.array([{"timestamp": datetime(1969, 1, 1, tzinfo=UTC)}], fields)
    with pytest.raises(PipelineError, match="timestamp must be"):
        read(pa.record_batch({"body": pa.array(["a"]), "properties": early}))
