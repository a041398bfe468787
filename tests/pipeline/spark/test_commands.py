"""A job as its command: Java and Spark begin, JSON comes out, and Ctrl-C ends it in a sentence."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.harness import environment
from tests.integration.stock import BlockingChannel
from tests.integration.waiting import until
from tests.pipeline.spark.test_archive import archived, once
from tests.pipeline.spark.test_streaming import declare, spread


@pytest.mark.sweep
def test_an_archive_that_follows_ends_with_a_sentence_and_goes_on(
    channel: BlockingChannel, url: str, tmp_path: Path
) -> None:
    declare(channel, "followed")
    spread(channel, "followed", range(40))
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "fedq", "pipeline", "archive", "--url", url, "--stream", "followed",
        "--out", str(out), "--follow", "1", "--json",
    ]  # fmt: skip
    variables = environment() | {"SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(
        command, env=variables, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        until("the first rows are there", lambda: archived(out, "followed").total() == 40, 240)
        spread(channel, "followed", range(40, 60))
        until("the others are there, too", lambda: archived(out, "followed").total() == 60, 240)
        os.kill(process.pid, signal.SIGINT)
        told, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    found = json.loads(told)
    assert (found["rows"], found["table_rows"], found["interrupted"]) == (60, 60, True)
    # Java's words are in the log.
    assert all(line.startswith("archiving") for line in said.splitlines()), said
    assert archived(out, "followed") == once(60)
    assert Path(found["page"]).read_text().startswith("<!doctype html>")
