"""A loop that does not turn is seen, told once, and ended; a stopped process is none."""

import asyncio
import logging
import threading

import pytest

from fedq.shell.host.watchdog import Watchdog

BEATS = 8


def hang(ends_after_ms: int, seconds: float) -> bool:
    """Whether the process would have ended while its loop stood still for so long."""
    ended = threading.Event()

    async def main() -> None:
        with Watchdog(ends_after_ms, ended.set):
            await asyncio.sleep(0)
            ended.wait(seconds)

    asyncio.run(main())
    return ended.is_set()


def test_a_loop_that_stands_still_is_told_with_its_place_and_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        assert hang(500, 30.0)
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 1
    assert "ended.wait(seconds)" in told[0]
    assert any("exit code 5" in record.getMessage() for record in caplog.records)


def test_nothing_ends_where_that_is_turned_off() -> None:
    assert not hang(0, 1.0)


def test_a_loop_that_turns_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    """For twice as many beats as would end one that stands still."""
    ended = threading.Event()

    class Counted(Watchdog):
        """Tells when its loop has turned long enough."""

        def _beat(self) -> None:
            super()._beat()
            if self._beats == BEATS:
                turned.set()

    async def main() -> None:
        with Counted(1_000, ended.set):
            await turned.wait()

    turned = asyncio.Event()

    asyncio.run(main())
    assert not ended.is_set()
    assert not caplog.records
