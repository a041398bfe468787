"""What a run found out, and its form as JSON.

The form is stable: fields are added, never renamed; `version` counts what is not an addition.
Times are in seconds or microseconds, as named. Figures per second and per CPU-second are of the
measured time; `published` … `out_of_order` are of the whole run, for every message is checked.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from fedq.bench.filling import Filling
from fedq.bench.histogram import Histogram
from fedq.bench.plan import Plan

VERSION: Final = 1
#: Above this share of a core the generator may have been the limit.
SHARE_MAX: Final = 0.8


@dataclass(slots=True)
class Broker:
    """A process that was watched, with its descendants."""

    pid: int
    #: Before the first connection, when all were ready, and at the end of the measured time.
    rss_bytes_before: int
    rss_bytes_connected: int = 0
    rss_bytes_after: int = 0
    #: User and system time within the measured time.
    cpu_seconds: float = 0.0


@dataclass(slots=True)
class Result:
    """The figures of one run."""

    plan: Plan
    #: From the first connection until all clients were ready.
    setup_seconds: float = 0.0
    seconds: float = 0.0
    measured_published: int = 0
    measured_delivered: int = 0
    published: int = 0
    confirmed: int = 0
    refused: int = 0
    delivered: int = 0
    lost: int = 0
    repeated: int = 0
    out_of_order: int = 0
    latencies: Histogram = field(default_factory=Histogram)
    confirms: Histogram = field(default_factory=Histogram)
    last_subscriber: Histogram = field(default_factory=Histogram)
    brokers: list[Broker] = field(default_factory=list)
    #: How the queues were filled; None when they were not.
    filling: Filling | None = None
    generator_cpu_seconds: float = 0.0
    #: Of one core, for the busiest process of the generator.
    generator_share: float = 0.0
    #: Why the run ended early; None when it did not.
    error: str | None = None
    #: Queues that are left because that was asked for.
    kept: list[str] = field(default_factory=list)
    #: Why queues or the exchange may still be there; None when they are gone.
    left_behind: str | None = None

    @property
    def is_sound(self) -> bool:
        """Whether the broker did all it was asked to, in order and once."""
        return self.error is None and not (
            self.lost or self.repeated or self.out_of_order or self.refused
        )

    @property
    def is_generator_limited(self) -> bool:
        """Whether the generator, and not the broker, may have been measured."""
        return self.generator_share > SHARE_MAX

    @property
    def publish_per_second(self) -> float:
        """Messages handed to the broker per second."""
        return self.measured_published / self.seconds if self.seconds else 0.0

    @property
    def deliver_per_second(self) -> float:
        """Deliveries received per second."""
        return self.measured_delivered / self.seconds if self.seconds else 0.0

    def per_cpu_second(self, count: int) -> float | None:
        """The given number in the measured time by the processor seconds of all brokers."""
        used = sum(broker.cpu_seconds for broker in self.brokers)
        return round(count / used, 1) if used else None

    def as_json(self) -> dict[str, Any]:
        """The stable form; see docs/BENCHMARKING.md."""
        return {
            "version": VERSION,
            "options": _options(self.plan),
            "kind": self.plan.kind.value,
            "setup_seconds": round(self.setup_seconds, 3),
            "seconds": round(self.seconds, 4),
            "published": self.published,
            "confirmed": self.confirmed,
            "refused": self.refused,
            "delivered": self.delivered,
            "lost": self.lost,
            "repeated": self.repeated,
            "out_of_order": self.out_of_order,
            "publish_per_second": round(self.publish_per_second, 1),
            "deliver_per_second": round(self.deliver_per_second, 1),
            "latency_us": self.latencies.summary(),
            "confirm_us": self.confirms.summary(),
            "last_subscriber_us": self.last_subscriber.summary(),
            "brokers": [asdict(broker) for broker in self.brokers],
            "publishes_per_cpu_second": self.per_cpu_second(self.measured_published),
            "deliveries_per_cpu_second": self.per_cpu_second(self.measured_delivered),
            "filling": None if self.filling is None else self.filling.as_json(),
            "generator_cpu_seconds": round(self.generator_cpu_seconds, 3),
            "generator_share": round(self.generator_share, 3),
            "generator_limited": self.is_generator_limited,
            "error": self.error,
            "kept": self.kept,
            "left_behind": self.left_behind,
        }


def _options(plan: Plan) -> dict[str, Any]:
    options = asdict(plan)
    # Passwords stay out of files that are shared.
    options["targets"] = [target.place for target in plan.targets]
    return options
