"""Batches that are published: `df.write.format("fedq")`."""

import pytest

from tests.integration.stock import BlockingChannel
from tests.pipeline.spark.conftest import Driver

COUNT = 900
COLUMNS = [
    "lpad(id, 6, '0') AS body",
    "concat('{queue}-', id % 3) AS routing_key",
    "named_struct('priority', cast(id % 10 AS TINYINT), 'timestamp', timestamp_seconds(id)) "
    "AS properties",
    "map('n', id) AS headers",
]


def drained(channel: BlockingChannel, queue: str) -> list[str]:
    """The bodies of all messages of a queue, in order."""
    found: list[str] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body.decode())


@pytest.fixture
def queue(channel: BlockingChannel, request: pytest.FixtureRequest) -> str:
    """The name of three queues of the test's own, but for their numbers."""
    name = str(request.node.originalname).removeprefix("test_")[:40]
    for number in range(3):
        channel.queue_declare(f"{name}-{number}", durable=True)
    return name


def columns(queue: str) -> list[str]:
    return [each.replace("{queue}", queue) for each in COLUMNS]


def test_rows_are_published_where_their_columns_say(
    spark: Driver, channel: BlockingChannel, queue: str, sink: str
) -> None:
    spark.run("publish", options={"url": sink}, count=COUNT, columns=columns(queue))
    _, properties, body = channel.basic_get(f"{queue}-1", auto_ack=True)
    number = int(body)
    assert (properties.priority, properties.timestamp) == (number % 10, number)
    assert properties.delivery_mode == 2
    assert properties.headers["n"] == number
    found = [number, *map(int, drained(channel, f"{queue}-1"))]
    assert sorted(found) == list(range(1, COUNT, 3))
    for other in (0, 2):
        numbers = sorted(map(int, drained(channel, f"{queue}-{other}")))
        assert numbers == list(range(other, COUNT, 3))


def test_each_partition_keeps_an_order_that_is_promised(
    spark: Driver, channel: BlockingChannel, queue: str, sink: str
) -> None:
    options = {"url": sink, "rowOrder": "deterministic", "routingKey": f"{queue}-0"}
    body = ["lpad(id * 7919 % 900, 6, '0') AS body"]
    spark.run("publish", options=options, count=COUNT, columns=body)
    found = list(map(int, drained(channel, f"{queue}-0")))
    assert sorted(found) == list(range(COUNT))
    places = {number: at for at, number in enumerate(found)}
    for part in range(4):
        numbers = [each * 7919 % 900 for each in range(part * 225, part * 225 + 225)]
        assert [places[number] for number in numbers] == sorted(places[each] for each in numbers)


@pytest.mark.parametrize(
    ("changed", "wrong", "sentence"),
    [
        ({}, ["id AS key", "'x' AS body"], "column key: not one that is published"),
        ({}, ["id AS body"], "column body: binary or string is needed, not bigint"),
        ({"topic": "x"}, ["'x' AS body"], "topic: no such option"),
        ({"exchange": "nowhere"}, ["'x' AS body"], "404 NOT_FOUND - no exchange 'nowhere'"),
        ({"vhost": "elsewhere"}, ["'x' AS body"], "530 NOT_ALLOWED"),
        (
            {"url": "amqp://guest:guest@127.0.0.1:1"},
            ["'x' AS body"],
            "no node answers: 127.0.0.1:1",
        ),
        ({"url": "WRONG"}, ["'x' AS body"], "403 ACCESS_REFUSED"),
        ({"routingKey": "nowhere"}, ["'x' AS body"], "with routing key 'nowhere'"),
        ({}, ["cast(NULL AS STRING) AS body"], "a row's body is NULL"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(
    spark: Driver, sink: str, changed: dict[str, str], wrong: list[str], sentence: str
) -> None:
    options = {"url": sink, "routingKey": "q"} | changed
    options["url"] = options["url"].replace("WRONG", sink.replace(":guest@", ":wrong@"))
    assert sentence in spark.error("publish", options=options, count=1, columns=wrong)


def test_nothing_is_overwritten(spark: Driver, sink: str) -> None:
    error = spark.error("overwrite", options={"url": sink, "routingKey": "q"})
    assert "what is published stays published" in error
