"""Batches: `spark.read.format("fedq")`."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.harness import Cluster
from tests.integration.stock import BlockingChannel, connect, pika
from tests.integration.waiting import until
from tests.pipeline.spark.conftest import Driver

COUNT = 600
STREAM = {"x-queue-type": "stream", "x-fedq-fragments": 3}
KEYS = ("a", "b", "c", "d", "e")


def properties(number: int) -> pika.BasicProperties:
    return pika.BasicProperties(
        content_type="text/plain", delivery_mode=2, priority=number % 10, message_id=str(number),
        timestamp=1_700_000_000 + number, headers={"n": number, "even": number % 2 == 0},
    )  # fmt: skip


@pytest.fixture(scope="module")
def times(cluster: Cluster) -> Iterator[list[int]]:
    """A stream in three fragments, filled in two goes; when these began, in milliseconds."""
    connection = connect(cluster.nodes["a"].amqp)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("events", "topic")
    channel.queue_declare("batch", durable=True, arguments=STREAM)
    channel.queue_bind("batch", "events", "#")
    began: list[int] = []
    for half in (range(COUNT // 2), range(COUNT // 2, COUNT)):
        begins = time.time_ns() // 1_000_000
        # What was published before is of an earlier millisecond.
        until("time passes", lambda: time.time_ns() // 1_000_000 > begins)  # noqa: B023
        began.append(begins + 1)
        for number in half:
            key = KEYS[number % len(KEYS)]
            channel.basic_publish("events", key, b"%d" % number, properties(number))
    connection.close()
    yield began
    connection = connect(cluster.nodes["a"].amqp)
    connection.channel().queue_delete("batch")
    connection.close()


@pytest.fixture
def options(url: str, times: list[int]) -> dict[str, str]:
    assert len(times) == 2
    return {"url": url, "stream": "batch"}


def test_a_batch_has_every_row_with_all_its_columns(spark: Driver, options: dict[str, str]) -> None:
    rows = spark.run("rows", options=options)
    assert sorted(int(row["text"]) for row in rows) == list(range(COUNT))
    assert {row["fragment"] for row in rows} <= {0, 1, 2}
    for row in rows:
        number = int(row["text"])
        assert (row["exchange"], row["routing_key"]) == ("events", KEYS[number % len(KEYS)])
        assert row["properties"]["content_type"] == "text/plain"
        assert row["properties"]["priority"] == number % 10
        assert row["properties"]["message_id"] == str(number)
        assert row["properties"]["timestamp"].startswith("2023-11-14T22:")
        assert row["headers"] == {"n": str(number), "even": "true" if number % 2 == 0 else "false"}
    for fragment in {row["fragment"] for row in rows}:
        # A key's order is that of its fragment.
        mine = [row for row in rows if row["fragment"] == fragment]
        assert [row["offset"] for row in mine] == list(range(len(mine)))
        for key in KEYS:
            numbers = [int(row["text"]) for row in mine if row["routing_key"] == key]
            assert numbers == sorted(numbers)


def test_the_columns_are_those_of_the_documents(spark: Driver, options: dict[str, str]) -> None:
    assert spark.run("schema", options=options).startswith(
        "struct<fragment:int,offset:bigint,timestamp:timestamp,exchange:string,routing_key:string,"
        "body:binary,properties:struct<content_type:string,"
    )


def test_offsets_and_times_bound_a_batch(
    spark: Driver, options: dict[str, str], times: list[int]
) -> None:
    rows = spark.run("rows", options=options)
    fragment = rows[0]["fragment"]
    bounds = {"startingOffsets": f'{{"{fragment}": 5}}', "endingOffsets": f'{{"{fragment}": 9}}'}
    found = spark.run("rows", options=options | bounds, where=f"fragment = {fragment}")
    assert [row["offset"] for row in found] == [5, 6, 7, 8]
    later = spark.run("texts", options=options | {"startingTimestamp": str(times[1])})
    assert sorted(map(int, later)) == list(range(COUNT // 2, COUNT))
    earlier = spark.run("texts", options=options | {"endingTimestamp": str(times[1])})
    assert sorted(map(int, earlier)) == list(range(COUNT // 2))


def test_partitions_are_as_many_as_are_wanted(spark: Driver, options: dict[str, str]) -> None:
    assert spark.run("partitions", options=options) in (2, 3)
    more = options | {"minPartitions": "12"}
    assert 10 <= spark.run("partitions", options=more) <= 14
    assert sorted(map(int, spark.run("texts", options=more))) == list(range(COUNT))


def test_a_batch_without_rows_is_a_table_without_rows(
    spark: Driver, url: str, channel: BlockingChannel
) -> None:
    channel.queue_declare("empty", durable=True, arguments={"x-queue-type": "stream"})
    assert spark.run("rows", options={"url": url, "stream": "empty"}) == []


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"stream": "none"}, "no stream 'none' in vhost '/'"),
        ({"topic": "x"}, "topic: no such option"),
        ({"vhost": "elsewhere"}, "access to vhost 'elsewhere' refused for user 'guest'"),
        ({"endingOffsets": '{"0": 100000}'}, "by now, not at 100000"),
        ({"startingOffsets": '{"7": 1}'}, "there is no fragment 7; the stream has 3"),
        ({"url": "fedq://guest:wrong@HOST"}, "login refused for user 'guest'"),
        ({"url": "fedq://guest:guest@127.0.0.1:1", "retryTimeout": "1"}, "127.0.0.1:1"),
    ],
)
def test_what_is_wrong_is_said_at_the_driver(
    spark: Driver, options: dict[str, str], cluster: Cluster, changed: dict[str, str], sentence: str
) -> None:
    place = cluster.nodes["a"].admin
    changed = {
        name: value.replace("HOST", f"{place.host}:{place.port}") for name, value in changed.items()
    }
    assert sentence in spark.error("rows", options=options | changed)


#: A condition; of which rows it holds; and how many rows travel for it, at most.
ASKED: list[tuple[str, Callable[[int, dict[str, Any]], bool], int]] = [
    ("routing_key = 'b'", lambda number, row: number % 5 == 1, 120),
    (
        "routing_key IN ('a', 'c') AND exchange = 'events'",
        lambda number, row: number % 5 in (0, 2),
        240,
    ),
    ("routing_key LIKE 'd%'", lambda number, row: number % 5 == 3, 120),
    ("routing_key = 'b' AND routing_key = 'a'", lambda number, row: False, 0),
    ("offset >= 10 AND offset < 20", lambda number, row: 10 <= int(row["offset"]) < 20, 30),
    ("fragment = 1 AND length(body) > 2", lambda n, row: row["fragment"] == 1 and n > 99, 600),
    ("body = 'b'", lambda number, row: False, 600),
]


def test_filters_are_looked_at_by_nodes(
    spark: Driver, options: dict[str, str], times: list[int]
) -> None:
    rows = {int(row["text"]): row for row in spark.run("rows", options=options)}
    later = f"timestamp >= timestamp_millis({times[1]})"
    asked = [*ASKED, (later, lambda number, row: number >= COUNT // 2, COUNT // 2)]
    pushed = options | {"pushFilters": "true"}
    answers = spark.run("filtered", options=pushed, conditions=[each for each, *_ in asked])
    for (condition, is_wanted, most), (found, travelled) in zip(asked, answers, strict=True):
        wanted = sorted(number for number, row in rows.items() if is_wanted(number, row))
        assert sorted(map(int, found)) == wanted, condition
        assert travelled <= most, condition


def test_filters_are_pushed_where_spark_does_it(spark: Driver, options: dict[str, str]) -> None:
    error = spark.error("rows", options=options | {"pushFilters": "true"})
    assert "spark.sql.python.filterPushdown.enabled" in error
