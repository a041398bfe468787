"""`fedq pipeline fanout`: runs of the same shape beside each other."""

from pathlib import Path

import pytest

from tests.pipeline.jobs.test_fanout_files import run_of, write
from tests.pipeline.spark.conftest import Driver


def test_rounds_of_a_shape_are_one_row_with_their_median(spark: Driver, tmp_path: Path) -> None:
    rounds = [{"broker": "fedq", "outcome": run_of(100, delay_us=delay)} for delay in (0, 50, 900)]
    other = write(tmp_path / "other.json", run_of(5_000, nodes=3))
    files = [str(write(tmp_path / "rounds.json", {"runs": rounds})), str(other)]
    found = spark.run("fanout", files=files, place=str(tmp_path / "out"))
    [small, large] = found["shapes"]
    assert (small["subscribers"], small["runs"], large["nodes"]) == (100, 3, 3)
    assert small["p50"] == pytest.approx(650, rel=0.02)
    assert small["p99_least"] < small["p99"] < small["p99_most"]
    assert (tmp_path / "out" / "index.html").exists()
    queues = write(tmp_path / "queues.json", {**run_of(1), "kind": "queues"})
    error = spark.error("fanout", files=[str(queues)], place=str(tmp_path / "never"))
    assert "none of the 1 runs is a fan-out" in error
