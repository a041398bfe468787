"""What is read off a measurement, and what is aimed at.

A `Figure` is one number of one run; an `Aim` a bound on its median, absolute or relative to
RabbitMQ's in the same run. In: the object that `fedq bench --json` printed (docs/BENCHMARKING.md),
and for some figures that of another work of the same round. Out: a number, or None where the run
does not tell it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

#: What `fedq bench --json` printed, by work, of one broker in one round.
Round = Mapping[str, Mapping[str, Any]]
KIB: Final = 1024


class Figure(NamedTuple):
    """One number of a run."""

    name: str
    unit: str
    is_more_better: bool
    #: Of the runs of a round and the work in question.
    read: Callable[[Round, str], float | None]
    #: Whether others that use the machine change it: not what is counted in CPU-seconds or bytes.
    is_timed: bool = False


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound on a figure's median: a least value where more is better, else a greatest one."""

    bound: float
    #: Whether the bound is on fedq's median as a multiple of RabbitMQ's.
    is_relative: bool = False

    def is_reached(self, figure: Figure, ours: float, theirs: float | None) -> bool | None:
        """None if there is nothing to compare with."""
        if self.is_relative:
            if not theirs:
                return None
            ours /= theirs
        return ours >= self.bound if figure.is_more_better else ours <= self.bound

    def words(self, figure: Figure) -> str:
        """The aim as the table shows it."""
        sign = "≥" if figure.is_more_better else "≤"
        if self.is_relative:
            return f"{sign} {self.bound:g} times RabbitMQ's"
        return f"{sign} {number(self.bound)}"


def number(value: float) -> str:
    """A figure as people read it: three digits that count, thousands apart."""
    if abs(value) >= 1_000:
        digits = max(len(str(int(abs(value)))) - 3, 0)
        return f"{round(value, -digits):,.0f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.3g}"


def _plain(key: str) -> Callable[[Round, str], float | None]:
    def read(runs: Round, work: str) -> float | None:
        value = runs[work].get(key)
        return None if value is None else float(value)

    return read


def _scaled(key: str, scale: float) -> Callable[[Round, str], float | None]:
    plain = _plain(key)

    def read(runs: Round, work: str) -> float | None:
        value = plain(runs, work)
        return None if value is None else value * scale

    return read


def _within(key: str, part: str, scale: float = 1.0) -> Callable[[Round, str], float | None]:
    def read(runs: Round, work: str) -> float | None:
        summary = runs[work].get(key) or {}
        return float(summary[part]) * scale if summary.get("count") else None

    return read


def _connections(run: Mapping[str, Any]) -> int:
    """How many connections the run had that a broker without it has not."""
    return int(run["options"]["idle"] or 0) or int(run["options"]["connections"] or 0)


def _kib_each(runs: Round, work: str) -> float | None:
    """Resident memory that came with the connections, for each of them."""
    run = runs[work]
    count = _connections(run)
    brokers = run.get("brokers") or []
    if not count or not brokers:
        return None
    grown = sum(one["rss_bytes_connected"] - one["rss_bytes_before"] for one in brokers)
    return float(grown) / count / KIB


def cpu_us(run: Mapping[str, Any]) -> float | None:
    """Microseconds of the brokers' processors for each delivery, summed over all nodes."""
    rate = run.get("deliveries_per_cpu_second")
    return 1e6 / rate if rate else None


def _cpu_us(runs: Round, work: str) -> float | None:
    return cpu_us(runs[work])


def _filling(key: str, scale: float = 1.0) -> Callable[[Round, str], float | None]:
    """A figure of the filling; None where the broker did not take all in time."""

    def read(runs: Round, work: str) -> float | None:
        filling = runs[work].get("filling") or {}
        value = filling.get(key)
        return float(value) * scale if value is not None and filling["is_whole"] else None

    return read


def _filled(runs: Round, work: str) -> float | None:
    """The part of the messages that was stored in time, in per cent."""
    filling = runs[work].get("filling")
    return 100 * min(filling["stored"] / filling["wanted"], 1.0) if filling else None


def _last_to_first(runs: Round, work: str) -> float | None:
    first, last = (_filling(f"{end}_per_second")(runs, work) for end in ("first", "last"))
    return last / first if first and last is not None else None


def _drained(key: str) -> Callable[[Round, str], float | None]:
    """A figure of the emptying; None where not all was there to be emptied."""

    def read(runs: Round, work: str) -> float | None:
        run = runs[work]
        value, filling = run.get(key), run.get("filling") or {}
        if value is None or not filling.get("is_whole"):
            return None
        return float(value)

    return read


def _beside_to_idle(runs: Round, work: str) -> float | None:
    ours, theirs = (
        _within(f"confirm_us_{when}", "p99")(runs, work) for when in ("beside", "before")
    )
    return ours / theirs if ours and theirs else None


def rise_of(figure: Figure, words: str, base: str) -> Figure:
    """A figure next to that of another work in the same round."""

    def read(runs: Round, work: str) -> float | None:
        ours, theirs = figure.read(runs, work), figure.read(runs, base) if base in runs else None
        return ours / theirs if ours and theirs else None

    return Figure(figure.name, f"times {words}", figure.is_more_better, read, figure.is_timed)


def rise_over(base: str) -> Figure:
    """The processor time for a message next to that of another work in the same round."""

    def read(runs: Round, work: str) -> float | None:
        ours = cpu_us(runs[work])
        theirs = cpu_us(runs[base]) if base in runs else None
        return ours / theirs if ours and theirs else None

    return Figure("CPU for a message", "times that on one node", False, read)


PER_CPU: Final = Figure("messages", "a CPU-second", True, _plain("deliveries_per_cpu_second"))
DELIVERIES_PER_CPU: Final = PER_CPU._replace(name="deliveries")
PUBLISHES_PER_CPU: Final = Figure(
    "routed publishes", "a CPU-second", True, _plain("publishes_per_cpu_second")
)
PER_SECOND: Final = Figure(
    "messages", "a second", True, _plain("deliver_per_second"), is_timed=True
)
DELIVERIES_PER_SECOND: Final = PER_SECOND._replace(name="deliveries")
CPU_EACH: Final = Figure("CPU for a message, all nodes", "µs", False, _cpu_us)
LATENCY_P50: Final = Figure(
    "end to end p50", "µs", False, _within("latency_us", "p50"), is_timed=True
)
LATENCY_P99: Final = Figure(
    "end to end p99", "µs", False, _within("latency_us", "p99"), is_timed=True
)
CONFIRM_P50: Final = Figure("confirm p50", "µs", False, _within("confirm_us", "p50"), is_timed=True)
CONFIRM_P99: Final = Figure("confirm p99", "µs", False, _within("confirm_us", "p99"), is_timed=True)
LAST_P50: Final = Figure(
    "last subscriber p50", "ms", False, _within("last_subscriber_us", "p50", 1e-3), is_timed=True
)
MEMORY_EACH: Final = Figure("memory for each connection", "KiB", False, _kib_each)
SET_UP: Final = Figure("set-up", "s", False, _plain("setup_seconds"), is_timed=True)
FILLED: Final = Figure("stored in time", "%", True, _filled)
FIRST_PER_SECOND: Final = Figure(
    "first part stored", "a second", True, _filling("first_per_second"), is_timed=True
)
LAST_PER_SECOND: Final = FIRST_PER_SECOND._replace(
    name="last part stored", read=_filling("last_per_second")
)
LAST_TO_FIRST: Final = Figure(
    "rate of the last part", "times the first's", True, _last_to_first, is_timed=True
)
FILLED_MEMORY: Final = Figure(
    "memory when full", "MiB", False, _filling("rss_bytes", 1 / (KIB * KIB))
)
BYTES_EACH: Final = Figure(
    "memory for an additional message", "bytes", False, _filling("rss_bytes_each")
)
DRAINED_PER_CPU: Final = PER_CPU._replace(read=_drained("deliveries_per_cpu_second"))
DRAINED_PER_SECOND: Final = PER_SECOND._replace(read=_drained("deliver_per_second"))
STORED_PER_CPU: Final = Figure(
    "messages stored", "a CPU-second", True, _plain("publishes_per_cpu_second")
)
PUBLISHED_PER_SECOND: Final = Figure(
    "messages stored", "a second", True, _plain("publish_per_second"), is_timed=True
)
RESTART: Final = Figure("serves after", "s", False, _plain("restart_seconds"), is_timed=True)
JOINED: Final = Figure(
    "copied", "MB a second", True, _scaled("joined_bytes_per_second", 1e-6), is_timed=True
)
JOINED_SECONDS: Final = Figure("in sync after", "s", False, _plain("joined_seconds"), is_timed=True)
BESIDE_P99: Final = CONFIRM_P99._replace(read=_within("confirm_us_beside", "p99"))
BESIDE_TO_IDLE: Final = Figure(
    "confirm p99", "times that of idle", False, _beside_to_idle, is_timed=True
)
LONG_TURNS: Final = Figure(
    "turns over 50 ms", "of all nodes", False, _plain("long_turns"), is_timed=True
)
DISK_MAX: Final = Figure("disk at most", "MiB", False, _scaled("disk_bytes_max", 1 / (KIB * KIB)))
DECLARED: Final = Figure(
    "queues declared", "a second", True, _plain("declared_per_second"), is_timed=True
)
DECLARED_CPU: Final = Figure(
    "CPU for a declaration, all nodes", "µs", False, _plain("declared_cpu_us")
)
DELETED: Final = Figure(
    "queues deleted", "a second", True, _plain("deleted_per_second"), is_timed=True
)
DELETED_CPU: Final = Figure("CPU for a deletion, all nodes", "µs", False, _plain("deleted_cpu_us"))
PASSIVE_P99: Final = Figure(
    "another client's passive declaration p99", "ms", False, _within("passive_us", "p99", 1e-3),
    is_timed=True,
)  # fmt: skip
IDLE_CORE: Final = Figure("CPU of a node", "% of a core", False, _plain("core_percent"))
