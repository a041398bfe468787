"""Runs of the same shape, put together: medians over rounds, and how far they are apart."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Shape:
    """Runs with the same broker, nodes, subscribers, connections, rate and size of body."""

    broker: str
    nodes: int
    subscribers: int
    connections: int
    rate: float
    size_min: int
    size_max: int
    runs: int
    deliveries: int
    #: Medians over the runs; times in microseconds.
    per_second: float
    p50: float
    p90: float
    p99: float
    longest: float
    #: Of the 99th percentile: its least and its most.
    p99_least: int
    p99_most: int
    last_p50: float | None
    last_p99: float | None
    wrong: int

    @property
    def name(self) -> str:
        """The shape in few words."""
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        rate = f"{self.rate:g} publishes/s" if self.rate else "full speed"
        shared = (
            "" if self.connections == self.subscribers else f" on {self.connections:,} connections"
        )
        return f"{self.broker}, {nodes}, {self.subscribers:,}{shared}, {rate}"


@dataclass(frozen=True, slots=True)
class Summary:
    """All shapes, by subscribers."""

    shapes: tuple[Shape, ...]
    files: tuple[str, ...]
    #: Runs in the files that are no fan-outs.
    other_runs: int

    def as_json(self) -> dict[str, Any]:
        """The form for scripts."""
        return asdict(self)
