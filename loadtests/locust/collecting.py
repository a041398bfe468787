"""The reports of all workers, and samples of the nodes, put together.

In: reports as they come, of any number of workers; samples of nodes. Out: the facts of a run, as
plain values for JSON. A worker's tables replace those that it sent before; what is counted second
by second adds.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from fedq.bench.blocks import PRODUCER_SHIFT, SEQUENCE_MASK
from fedq.bench.histogram import Histogram
from loadtests.locust.judging import Owed, judge
from loadtests.locust.lives import Tables
from loadtests.locust.sends import Sends
from loadtests.locust.tally import SECOND_NS, unpack_into

MICROSECOND_NS: Final = 1_000


@dataclass(slots=True)
class Worker:
    """What was last heard of one worker."""

    heard_ns: int = 0
    live: int = 0
    opening: int = 0
    deliveries: int = 0
    published: int = 0
    confirmed: int = 0
    refused: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    tables: Tables = field(default_factory=Tables)
    confirms: Histogram = field(default_factory=Histogram)


@dataclass(frozen=True, slots=True)
class NodeSample:
    """One node at one moment."""

    at_ns: int
    name: str
    #: Resident memory; 0: unknown.
    bytes: int
    cpu_seconds: float
    counters: dict[str, float]


class Collector:
    """All that is known of a run."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = defaultdict(Worker)
        self._sends: dict[int, Sends] = defaultdict(Sends)
        self._windows: dict[int, Histogram] = defaultdict(Histogram)
        #: Number of a message: when the last of all subscribers had it.
        self._lasts: dict[int, int] = {}
        #: (second, worker): subscribers there.
        self._live: dict[int, dict[str, int]] = defaultdict(dict)
        self._nodes: list[NodeSample] = []

    def take(self, name: str, report: dict[str, Any]) -> None:
        """Takes a report of this worker."""
        worker = self._workers[name]
        worker.heard_ns = report["at_ns"]
        worker.live, worker.opening = report["live"], report["opening"]
        worker.deliveries, worker.failures = report["deliveries"], report["failures"]
        for count in ("published", "confirmed", "refused"):
            setattr(worker, count, report[count])
        worker.tables = Tables.unpacked(report["tables"])
        worker.confirms = Histogram()
        unpack_into(worker.confirms, report["confirms"])
        self._live[report["at_ns"] // SECOND_NS][name] = report["live"]
        for second, window in report["windows"]:
            unpack_into(self._windows[second], window)
        for number, at_ns in report["lasts"]:
            self._lasts[number] = max(self._lasts.get(number, 0), at_ns)
        for publisher, sent in report["sends"]:
            self._sends[publisher].take(sent)

    def sample(self, sample: NodeSample) -> None:
        """Takes a look at a node."""
        self._nodes.append(sample)

    @property
    def live(self) -> int:
        """How many subscribers there are by the last reports."""
        return sum(worker.live for worker in self._workers.values())

    def facts(self, grace_s: float) -> dict[str, Any]:
        """Everything, as of the last reports."""
        workers = self._workers.values()
        sums: Counter[str] = Counter()
        failures: Counter[str] = Counter()
        deliveries, confirms = Histogram(), Histogram()
        total = Owed(0, 0, 0)
        for worker in workers:
            sums.update(worker.tables.sums)
            failures.update(worker.failures)
            confirms.add(worker.confirms)
            one = judge(worker.tables, self._sends, worker.heard_ns, int(grace_s * SECOND_NS))
            total = Owed(*(a + b for a, b in zip(total, one, strict=True)))
        for window in self._windows.values():
            deliveries.add(window)
        last = Histogram()
        for latency_us in self._last_latencies().values():
            last.record(latency_us)
        live = self._live_by_second()
        return {
            "workers": len(self._workers),
            "subscribers_max": max(live.values(), default=0),
            "published": sum(worker.published for worker in workers),
            "confirmed": sum(worker.confirmed for worker in workers),
            "refused": sum(worker.refused for worker in workers),
            "unsettled": sum(
                stop - first for sends in self._sends.values() for first, stop in sends.unsettled
            ),
            "delivered": sum(worker.deliveries for worker in workers),
            "owed": total.owed, "lost": total.lost, "short": total.short,
            "repeated": sums["repeats"], "out_of_order": sums["disorder"],
            "lives": {
                "live": sums["lives live"], "closed": sums["lives closed"],
                "broken": sums["lives broken"], "slow": sums["slow lives"],
            },
            "missed_by_slow": sums["slow missed"],
            "failures": dict(failures.most_common(20)),
            "not_ready": sum(worker.opening for worker in workers),
            "latency_us": deliveries.summary(),
            "confirm_us": confirms.summary(),
            "last_subscriber_us": last.summary(),
            "timeline": self._timeline(live),
            "nodes": self._node_facts(),
        }  # fmt: skip

    def _last_latencies(self) -> dict[int, int]:
        """By number of a message: until the last subscriber had it, from when it was due."""
        found = {}
        for number, at_ns in self._lasts.items():
            publisher, sequence = number >> PRODUCER_SHIFT, number & SEQUENCE_MASK
            sends = self._sends.get(publisher)
            if sends is not None and sequence < len(sends.due_ns):
                found[number] = max(at_ns - sends.due_ns[sequence], 0) // MICROSECOND_NS
        return found

    def _live_by_second(self) -> dict[int, int]:
        """Subscribers, in each second in which a worker reported."""
        latest: dict[str, int] = {}
        found = {}
        for second in sorted(self._live):
            latest |= self._live[second]
            found[second] = sum(latest.values())
        return found

    def _timeline(self, live: dict[int, int]) -> list[dict[str, Any]]:
        lasts: dict[int, int] = {}
        for number, latency_us in self._last_latencies().items():
            sends = self._sends[number >> PRODUCER_SHIFT]
            second = sends.due_ns[number & SEQUENCE_MASK] // SECOND_NS
            lasts[second] = max(lasts.get(second, 0), latency_us)
        nodes: dict[int, dict[str, int]] = defaultdict(dict)
        for sample in self._nodes:
            nodes[sample.at_ns // SECOND_NS][sample.name] = sample.bytes
        seconds = sorted({*live, *self._windows, *lasts, *nodes})
        rows: list[dict[str, Any]] = []
        subscribers = 0
        for second in seconds:
            subscribers = live.get(second, subscribers)
            row: dict[str, Any] = {"second": second - seconds[0], "subscribers": subscribers}
            if (window := self._windows.get(second)) is not None:
                row |= {
                    "deliveries": window.count, "p50_us": window.percentile(0.5),
                    "p99_us": window.percentile(0.99), "max_us": window.max,
                }  # fmt: skip
            if second in lasts:
                row["last_us"] = lasts[second]
            if second in nodes:
                row["node_bytes"] = nodes[second]
            rows.append(row)
        return rows

    def _node_facts(self) -> dict[str, Any]:
        """For each node its memory and processor time, and what its counters grew by."""
        found: dict[str, Any] = {}
        for name in dict.fromkeys(sample.name for sample in self._nodes):
            samples = [sample for sample in self._nodes if sample.name == name]
            first, last = samples[0], samples[-1]
            found[name] = {
                "bytes_first": first.bytes,
                "bytes_max": max(sample.bytes for sample in samples),
                "bytes_last": last.bytes,
                "cpu_seconds": round(last.cpu_seconds - first.cpu_seconds, 2),
                "counters_last": last.counters,
                "counters_grown": {
                    key: value - first.counters.get(key, 0.0)
                    for key, value in last.counters.items()
                    if key.endswith("_total")
                },
            }
        return found
