"""Columns as Arrow batches: the rows that Spark gets."""

from datetime import UTC, datetime

import pytest

from fedq.amqp.content import encode_properties
from fedq.core.message import encode, make_route
from fedq.pipeline.columns import PROPERTIES, Decoder
from tests.pipeline.chunks import chunk_of

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'fedq[spark]'")
from fedq.pipeline.arrow_batches import SCHEMA, batch_of

FULL = encode_properties({
    "content_type": "text/plain", "content_encoding": "gzip", "delivery_mode": 2, "priority": 255,
    "correlation_id": "c", "reply_to": "r", "expiration": "5", "message_id": "m",
    "timestamp": 1_700_000_000, "type": "t", "user_id": "u", "app_id": "a", "cluster_id": "z",
    "headers": {"a": 1, "b": None},
})  # fmt: skip


def test_a_batch_has_the_columns_of_its_chunk() -> None:
    messages = [
        encode(1, make_route("e", "k"), FULL, b"one"),
        encode(1, make_route("e", "k"), FULL, b""),
        encode(1, make_route("", "ü"), b"\0\0", b"\xff"),
    ]
    chunk = chunk_of(messages, [7, 8, 1 << 40], [(7, 1_500), (8, 2_500)])
    batch = batch_of(Decoder().columns(chunk))
    assert batch.schema == SCHEMA
    batch.validate(full=True)
    first, second, third = batch.to_pylist()
    assert (first["fragment"], first["offset"], first["body"]) == (3, 7, b"one")
    assert first["timestamp"] == datetime.fromtimestamp(1.5, UTC)
    assert (first["exchange"], first["routing_key"]) == ("e", "k")
    wanted = ["text/plain", "gzip", 2, 255, "c", "r", "5", "m", None, "t", "u", "a", "z"]
    wanted[8] = datetime.fromtimestamp(1_700_000_000, UTC)
    assert first["properties"] == dict(zip(PROPERTIES, wanted, strict=True))
    assert first["headers"] == [("a", "1"), ("b", None)]
    assert second == first | {
        "offset": 8, "body": b"", "timestamp": datetime.fromtimestamp(2.5, UTC)
    }  # fmt: skip
    assert third["properties"] == dict.fromkeys(PROPERTIES)
    assert (third["offset"], third["headers"], third["routing_key"]) == (1 << 40, None, "ü")


def test_a_batch_outlives_what_it_was_made_of() -> None:
    """Its numbers are where they were, and stay there."""
    batches = []
    for number in range(50):
        message = encode(1, make_route("", str(number)), b"\0\0", b"x" * number)
        batches.append(batch_of(Decoder().columns(chunk_of([message] * 20))))
    for number, batch in enumerate(batches):
        assert batch.column("offset").to_pylist() == list(range(20))
        assert batch.column("routing_key").to_pylist() == [str(number)] * 20
