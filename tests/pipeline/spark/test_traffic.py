"""`fedq pipeline traffic`: parts that add up, whatever the batches were, and a page of them."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.stock import BlockingChannel
from tests.pipeline.spark.conftest import Driver
from tests.pipeline.spark.test_streaming import declare

MINUTE_S = 60


def made(count: int) -> list[list[Any]]:
    """Rows of two fragments, some minutes, two exchanges and some keys of very different weight."""
    chosen = random.Random(7)
    return [
        [number % 2, number // 2, 1_700_000_040 + chosen.randrange(3 * MINUTE_S),
         chosen.choice(["shop", ""]), f"k{int(chosen.paretovariate(0.7)) % 12}",
         chosen.randrange(1, 2_000)]
        for number in range(count)
    ]  # fmt: skip


def totals(rows: list[list[Any]]) -> Counter[tuple[int, str]]:
    return Counter((at // MINUTE_S * MINUTE_S, exchange) for _, _, at, exchange, _, _ in rows)


@pytest.mark.sweep
def test_parts_add_up_whatever_the_batches_were(spark: Driver) -> None:
    rows = made(600)
    weights = Counter((exchange, key) for _, _, _, exchange, key, _ in rows)
    for batches, keys_max in (([rows], 100), ([rows[:100], rows[100:110], rows[110:]], 3)):
        parts = spark.run("rollup", batches=batches, keys_max=keys_max)
        found: Counter[tuple[int, str]] = Counter()
        sizes: Counter[tuple[int, str]] = Counter()
        for part in parts:
            found[part["minute_s"], part["exchange"]] += part["messages"]
            sizes[part["minute_s"], part["exchange"]] += part["bytes"]
        assert found == totals(rows)
        assert sizes.total() == sum(row[5] for row in rows)
        keys = {(part["exchange"], part["routing_key"]) for part in parts}
        if keys_max == 100:
            assert keys == set(weights)
            continue
        # Light keys are one part of each minute; the heaviest one is always named.
        assert ("shop", None) in keys
        assert max(weights, key=lambda each: weights[each]) in keys
        # And the median of the sketches is that of the rows, nearly.
        middle = sorted(row[5] for row in rows)
        half = spark.run("rollup_half", batches=batches, keys_max=keys_max)
        assert middle[240] <= half <= middle[360]


def test_what_is_published_is_on_the_page_once(
    spark: Driver, channel: BlockingChannel, url: str, tmp_path: Path
) -> None:
    declare(channel, "traffic")
    for number in range(90):
        channel.basic_publish("amq.topic", f"traffic.{'xxy'[number % 3]}", bytes(number))
    plan = {"options": {"url": url, "stream": "traffic"}, "place": str(tmp_path / "out")}
    error = spark.error("traffic", **plan, end_at="after the commit of a batch")
    assert "ended after the commit" in error
    found = spark.run("traffic", **plan)
    assert (found["messages"], found["bytes"], found["late"]) == (90, sum(range(90)), 0)
    heaviest = [(each["routing_key"], each["messages"]) for each in found["heaviest"]]
    assert heaviest == [("traffic.x", 60), ("traffic.y", 30)]
    assert (found["keys"], found["unlisted_max"]) == (2, 0)
    assert found["exchanges"] == [["amq.topic", 90, sum(range(90))]]
    assert 40 <= found["sizes"][-1][1]["half"] <= 90
    # Later rows come to what is there, and parts are put together in between.
    for _ in range(10):
        channel.basic_publish("", "traffic", b"1234567890")
    found = spark.run("traffic", **plan)
    assert (found["messages"], len(found["exchanges"])) == (100, 2)
    place = tmp_path / "out" / "stream=traffic"
    assert json.loads((place / "result.json").read_text()) == found
    page = (place / "index.html").read_text()
    assert "(default exchange)" in page
    assert "traffic.x" in page


@pytest.mark.sweep
def test_a_stream_without_rows_has_a_page(
    spark: Driver, channel: BlockingChannel, url: str, tmp_path: Path
) -> None:
    declare(channel, "quiet")
    plan = {"options": {"url": url, "stream": "quiet"}, "place": str(tmp_path / "out")}
    assert spark.run("traffic", **plan)["messages"] == 0
    assert "No rows" in (tmp_path / "out" / "stream=quiet" / "index.html").read_text()


@pytest.mark.sweep
def test_rows_of_minutes_that_were_complete_count_as_late(spark: Driver) -> None:
    old, new = made(20), made(20)
    for row in new:
        row[2] += 3_600
    parts = spark.run("rollup", batches=[new, old], keys_max=9, complete_s=1_700_003_600)
    assert sum(part["late"] for part in parts) == 20
    assert {part["minute_s"] < 1_700_003_600 for part in parts if part["late"]} == {True}
