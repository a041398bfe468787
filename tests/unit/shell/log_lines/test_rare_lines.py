"""What strangers cause is told a few times, and counted."""

import logging

import pytest

from fedq.core.limits import FAILED_LOGINS_TOLD
from fedq.shell.log_lines.rare_lines import RareLines


def test_a_flood_is_told_in_a_few_lines_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    lines = RareLines(logging.getLogger("test"), lambda: now_s)
    for number in range(1_000):
        lines.warn("from %d", number)
    told = [record.getMessage() for record in caplog.records]
    assert told == [f"from {number}" for number in range(FAILED_LOGINS_TOLD)]
    now_s = 10.0
    lines.warn("from %s", "afar")
    last = caplog.records[-1].getMessage()
    assert last == "from afar (995 more were not told, 1001 in all)"
    assert lines.total == 1_001
