"""What `fedq bench` shows people: a line of progress on stderr, and the table of the result.

On a terminal the line is written over and over; elsewhere a new one comes with each phase, and
every few seconds.
"""

import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from fedq.bench.histogram import Summary
from fedq.bench.plan import Kind
from fedq.bench.result import Result
from fedq.bench.run import Progress
from fedq.cli.terminal.screen import Cell, console, size, table

_LINE_EVERY_S: Final = 5.0


class ProgressLine:
    """The line; a context manager that ends it."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._shown_s = 0.0
        self._phase = ""
        self._has_open_line = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if self._has_open_line:
            sys.stderr.write("\n")

    def show(self, progress: Progress) -> None:
        """Writes the line, if it is time."""
        if progress.phase == "connecting":
            text = f"connecting: {progress.connected:,} connections are ready"
        else:
            text = (
                f"{progress.phase}: {progress.published:,} published "
                f"({progress.publish_per_second:,.0f}/s), {progress.delivered:,} delivered "
                f"({progress.deliver_per_second:,.0f}/s)"
            )
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._has_open_line = True
        elif self._phase != progress.phase or time.monotonic() - self._shown_s >= _LINE_EVERY_S:
            self._phase, self._shown_s = progress.phase, time.monotonic()
            sys.stderr.write(text + "\n")


def show_result(result: Result) -> None:
    """The result as tables on stdout."""
    screen = console()
    screen.print(table(("", "#MESSAGES", "#PER SECOND", "#PER BROKER CPU-SECOND"), _flows(result)))
    latencies = list(_latencies(result))
    if latencies:
        screen.print()
        screen.print(table(("MICROSECONDS", "#P50", "#P90", "#P99", "#P99.9", "#MAX"), latencies))
    screen.print()
    screen.print(table(("", "#"), _facts(result)))


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:,.0f}"


def _flows(result: Result) -> Iterator[tuple[Cell, ...]]:
    def rated(count: int) -> str | None:
        return _number(result.per_cpu_second(count)) if result.brokers else ""

    yield (
        "published", _number(result.published), _number(result.publish_per_second),
        rated(result.measured_published),
    )  # fmt: skip
    if result.plan.confirm_window is not None:
        yield "confirmed", _number(result.confirmed), "", ""
    yield (
        "delivered", _number(result.delivered), _number(result.deliver_per_second),
        rated(result.measured_delivered),
    )  # fmt: skip
    for name, count in (
        ("lost", result.lost), ("repeated", result.repeated),
        ("out of order", result.out_of_order), ("refused", result.refused),
    ):  # fmt: skip
        if count or name in ("lost", "repeated"):
            yield name, _number(count), "", ""


def _latencies(result: Result) -> Iterator[tuple[Cell, ...]]:
    rows: list[tuple[str, Summary]] = [
        ("publish to delivery", result.latencies.summary()),
        ("publish to confirm", result.confirms.summary()),
    ]
    if result.plan.kind is Kind.FANOUT:
        rows.append(("to the last subscriber", result.last_subscriber.summary()))
    for name, summary in rows:
        if summary["count"]:
            values = (summary[key] for key in ("p50", "p90", "p99", "p999", "max"))
            yield name, *map(_number, values)


def _facts(result: Result) -> Iterator[tuple[Cell, ...]]:
    yield "set-up", f"{result.setup_seconds:.2f} s"
    yield "measured time", f"{result.seconds:.2f} s"
    for broker in result.brokers:
        yield f"broker {broker.pid}: processor time", f"{broker.cpu_seconds:.2f} s"
        yield (
            f"broker {broker.pid}: memory before, connected, after",
            f"{size(broker.rss_bytes_before)}, {size(broker.rss_bytes_connected)}, "
            f"{size(broker.rss_bytes_after)}",
        )
    yield "generator: share of a core", f"{result.generator_share:.0%}"
