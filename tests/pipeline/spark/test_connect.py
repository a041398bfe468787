"""Spark Connect: the session is a client alone, and a server has the data source."""

from collections.abc import Iterator

import pytest

from tests.integration.stock import BlockingChannel
from tests.pipeline.spark.conftest import Driver
from tests.pipeline.spark.settings import CONNECT
from tests.pipeline.spark.test_streaming import NOW, declare, numbers, spread
from tests.pipeline.spark.test_write import drained

pytestmark = pytest.mark.sweep


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver whose session is one of Spark Connect."""
    for needed in ("grpc_status", "pandas"):
        pytest.importorskip(needed, reason="Spark Connect: pip install 'fedq[connect]'")
    driver = Driver(tmp_path_factory.mktemp("connect") / "driver", CONNECT)
    yield driver
    driver.stop()


def test_batches_and_queries_are_read_and_rows_are_published(
    client: Driver, channel: BlockingChannel, url: str, sink: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    declare(channel, "remote")
    spread(channel, "remote", range(60))
    options = {"url": url, "stream": "remote", "startingOffsets": "earliest"}
    assert sorted(map(int, client.run("texts", options=options))) == list(range(60))
    rows = client.run("rows", options=options, where="offset < 5 AND fragment = 0")
    assert len(rows) == 5
    place = tmp_path_factory.mktemp("query")
    limited = options | {"maxOffsetsPerTrigger": "40"}
    assert client.run("follow", options=limited, place=str(place), trigger=NOW) == [40, 20]
    assert numbers(client, place) == list(range(60))
    channel.queue_declare("remote-out", durable=True)
    target = {"url": sink, "routingKey": "remote-out"}
    client.run("publish", options=target, count=30, columns=["cast(id AS STRING) AS body"])
    assert sorted(map(int, drained(channel, "remote-out"))) == list(range(30))
    error = client.error("rows", options={"url": url, "stream": "none"})
    assert "no stream 'none' in vhost '/'" in error
