"""What is contained is told: log lines with the traceback, files of what was set aside."""

import asyncio
import logging
from pathlib import Path

import pytest

from fedq.core.ids import FragmentId, QueueKey
from fedq.core.message import encode, make_route
from fedq.node.risk import Fault, SetAside
from fedq.shell.disk.quarantine import QuarantineStore, quarantined
from fedq.shell.log_lines.faults import FaultLog
from tests.unit.cli.command import fedq


def _fault(text: str = "publishes failed", may_tell: bool = True) -> Fault:
    try:
        raise ValueError("42 does not fit")
    except ValueError as error:
        return Fault(text, error, may_tell)


def test_a_cause_has_one_line_a_second_that_counts_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = FaultLog()
    for now_ms in (5_000, 5_001, 5_999, 6_000):
        log.note(_fault(), now_ms)
    first, second = (record.getMessage() for record in caplog.records)
    assert all(record.levelno == logging.ERROR for record in caplog.records)
    assert first.startswith("publishes failed (ValueError: 42 does not fit; 0 more")
    assert "test_contained.py" in first
    assert "2 more like it" in second


def test_nothing_is_told_of_who_has_not_logged_in(caplog: pytest.LogCaptureFixture) -> None:
    FaultLog().note(_fault(may_tell=False), 5_000)
    assert "(ValueError; 0 more" in caplog.text


def _aside(position: int, route: bytes = make_route("x", "k")) -> SetAside:
    message = encode(1, route, b"\x10\x00\x02", b"body \xff")
    return SetAside(QueueKey("/", "jobs"), FragmentId(7), position, message)


def test_a_message_that_was_set_aside_can_be_looked_into(tmp_path: Path) -> None:
    async def put() -> None:
        store = QuarantineStore(tmp_path)
        store.put([_aside(5), _aside(6, b"")])
        await store.close()
        store.put([_aside(5)])
        await store.close()

    asyncio.run(put())
    one, odd = quarantined(tmp_path)
    assert (one.vhost, one.queue, one.fragment, one.position) == ("/", "jobs", 7, 5)
    assert (one.exchange, one.routing_key, one.body) == ("x", "k", b"body \xff")
    assert odd.position == 6
    assert (tmp_path / "quarantine").stat().st_mode & 0o777 == 0o700
    shown = fedq("store", "quarantine", str(tmp_path))
    assert ["/", "jobs", "7", "5", "x", "k", "6", "B"] in shown.rows("VHOST")
    [first, _] = fedq("store", "quarantine", str(tmp_path), "--json").value["quarantined"]
    assert first["properties"] == "100002"


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "quarantine").mkdir()
    (tmp_path / "quarantine" / "7-5.json").write_text("{")
    shown = fedq("store", "quarantine", str(tmp_path))
    assert shown.exit_code == 1
    assert "7-5.json" in shown.sentence
    assert "no directory" in fedq("store", "quarantine", str(tmp_path / "none")).sentence


def test_nothing_is_in_quarantine(tmp_path: Path) -> None:
    assert fedq("store", "quarantine", str(tmp_path), "--json").value == {"quarantined": []}
