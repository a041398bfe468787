"""What fedq answers has RabbitMQ's statuses, keys and types, but for what is written down."""

from pathlib import Path

import pytest

from tests.contract.http.record import LEFT_OUT, left_out, of_fedq, recorded
from tests.contract.http.shapes import NO_SUCH_KEY, lacking, shape_of, wrong

pytestmark = pytest.mark.slow


def test_answers_have_rabbitmqs_shapes(tmp_path: Path) -> None:
    theirs, ours = recorded(), of_fedq(tmp_path)
    assert list(ours) == list(theirs), "run: python -m tests.contract.http.record"
    problems = [
        f"{asked}: {ours[asked][0]}, and RabbitMQ says {status}"
        for asked, (status, _) in theirs.items()
        if ours[asked][0] != status
    ]
    problems += [
        f"{asked}: {problem}"
        for asked, (_, shape) in theirs.items()
        for problem in wrong(ours[asked][1], shape)
        # What has not been counted yet is not there, and RabbitMQ gathers every five seconds.
        if not ("message_stats" in problem and problem.endswith(NO_SUCH_KEY))
    ]
    assert not problems, "\n".join(problems)
    written = LEFT_OUT.read_text("utf-8").splitlines()
    assert left_out(ours) == written, "run: python -m tests.contract.http.record --left-out"


def test_differences_of_shapes_are_seen() -> None:
    theirs = shape_of([{"a": 1, "b": {"c": "x"}}, {"a": None, "d": [True]}])
    assert list(lacking(shape_of([{"b": {}}]), theirs)) == ["a", "b.c", "d"]
    assert list(wrong(shape_of([{"a": "x", "b": {"c": "y"}}]), theirs)) == [
        ".a: 'text', and in RabbitMQ 'number'"
    ]
    assert list(wrong(shape_of([{"e": 1, "fedq_e": 1}]), theirs)) == [
        ".e: RabbitMQ has no such key"
    ]
