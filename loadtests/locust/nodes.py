"""What the brokers say of themselves, and what the system says of them.

In: process ids, addresses of Prometheus metrics. Out: samples. A node that does not answer has
none: it may be dead, which is for the verdict to say.
"""

import urllib.request
from typing import Final

from fedq.bench.usage import usage
from loadtests.locust.collecting import NodeSample

TIMEOUT_S: Final = 5.0
_RESIDENT: Final = "rabbitmq_process_resident_memory_bytes"


def counters_of(text: str) -> dict[str, float]:
    """The figures of a page of metrics, those with labels summed by name."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, value = line.rpartition(" ")
        name = name.partition("{")[0]
        try:
            found[name] = found.get(name, 0.0) + float(value)
        except ValueError:
            continue
    return found


def read_counters(url: str) -> dict[str, float]:
    """The counters of a node; none if it does not answer."""
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
            return counters_of(answer.read().decode())
    except (OSError, ValueError):
        return {}


def look(pids: tuple[int, ...], metrics: tuple[str, ...], now_ns: int) -> list[NodeSample]:
    """A sample of each node; the process ids and the addresses are in the same order."""
    found = []
    for index in range(max(len(pids), len(metrics))):
        counters = read_counters(metrics[index]) if index < len(metrics) else {}
        used = usage(pids[index]) if index < len(pids) else None
        if not counters and (used is None or not used.rss_bytes):
            continue
        size = used.rss_bytes if used is not None else int(counters.get(_RESIDENT, 0))
        cpu_s = used.cpu_seconds if used is not None else 0.0
        found.append(NodeSample(now_ns, f"node {index + 1}", size, cpu_s, counters))
    return found
