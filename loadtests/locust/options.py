"""The options of the load tests, beside Locust's own, and what follows from them.

In: an `argparse` parser, then what it parsed. Out: `Wishes`, or a `BadPlan` with a sentence.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fedq.bench.plan import DEFAULT_URL, BadPlan, Target, parse_url
from loadtests.locust.fleet import FleetPlan
from loadtests.locust.shapes import KINDS, Course, course_of

EXCHANGE: Final = "fedq-load"
WORK_QUEUE: Final = "fedq-load-work"
RPC_QUEUE: Final = "fedq-load-rpc"
BODY_BYTES_MIN: Final = 16


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a run should do."""

    targets: tuple[Target, ...]
    subscribers: int
    sockets_per_user: int
    publishers: int
    rate: float
    body_bytes: int
    course: Course | None
    grace_s: float
    queue_arguments: Mapping[str, bool | int | str]
    pids: tuple[int, ...]
    metrics: tuple[str, ...]
    report: str
    node_may_die: bool
    node_connections: int
    slow_pause_s: float

    @property
    def fleets(self) -> int:
        """How many users of Locust the subscribers are."""
        return -(-self.subscribers // self.sockets_per_user)

    def fleet_plan(self, source: str) -> FleetPlan:
        """What fleets are made by."""
        slow = self.course.slow_share if self.course else 0.0
        return FleetPlan(
            self.targets, EXCHANGE, self.publishers, source, self.queue_arguments,
            round(slow * 100_000), self.slow_pause_s,
        )  # fmt: skip


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options; Locust shows them in its web page, too."""
    kinds = "; ".join(f"{name}: {kind.about}" for name, kind in KINDS.items())
    add = parser.add_argument_group("fedq").add_argument
    add("--broker", default=DEFAULT_URL, help="URLs of brokers, with commas; clients are spread")
    add("--shape", default="", choices=["", *KINDS], help=f"{kinds}. Default: Locust's --users")
    add("--seconds", type=float, default=0.0, help="Of the shape; 0: as the shape has it")
    add("--subscribers", type=int, default=1_000, help="With a shape: how many in all")
    add("--sockets-per-user", type=int, default=500, help="Subscribers of one FleetUser")
    add("--publishers", type=int, default=1, help="Connections of the one PublisherUser")
    add("--publish-rate", type=float, default=2.0, help="Messages a second, of all publishers")
    add("--body-bytes", type=int, default=64, help="Bytes of a message")
    add("--drain", type=float, default=10.0, help="Publishers stop so many seconds before the end")
    add("--grace", type=float, default=5.0, help="How many seconds a delivery may take")
    add("--churn", type=float, default=0.0, help="Share of subscribers that leave each second")
    add("--slow-share", type=float, default=0.0, help="Share of subscribers that read slowly")
    add("--slow-pause", type=float, default=1.0, help="Seconds between two reads of 2 KiB of these")
    add("--queue-argument", default="", help="Arguments of queues: x-max-length=10,x=y")
    add("--pids", default="", help="Process ids of the brokers, with commas: their memory")
    add("--metrics", default="", help="URLs of the brokers' metrics, with commas")
    add("--node-connections", type=int, default=0, help="How many connections a broker takes")
    add("--report", default="", help="Write PATH.json, PATH.md and PATH.svg")
    add("--node-may-die", default=False, action="store_true",
        help="Connections that the broker ends are no fault")  # fmt: skip


def wishes_of(parsed: Any) -> Wishes:
    """What was asked for. Raises `BadPlan`."""
    targets = tuple(parse_url(url) for url in _list(parsed.broker))
    if not targets:
        raise BadPlan("--broker names none: write amqp://user:password@host:port")
    for name, least in (("sockets_per_user", 1), ("publishers", 1), ("subscribers", 1)):
        if getattr(parsed, name) < least:
            raise BadPlan(f"--{name.replace('_', '-')}: at least {least}")
    if parsed.body_bytes < BODY_BYTES_MIN:
        raise BadPlan(f"--body-bytes: at least {BODY_BYTES_MIN}, for a number and a time")
    if parsed.publish_rate <= 0 or parsed.slow_pause <= 0:
        raise BadPlan("--publish-rate and --slow-pause: above 0")
    if not 0 <= parsed.churn <= 1 or not 0 <= parsed.slow_share <= 1:
        raise BadPlan("--churn and --slow-share: a share between 0 and 1")
    fleets = -(-parsed.subscribers // parsed.sockets_per_user)
    course = None
    if parsed.shape:
        course = course_of(
            parsed.shape, parsed.seconds, fleets, parsed.drain, parsed.churn, parsed.slow_share
        )
    elif parsed.churn or parsed.slow_share:
        raise BadPlan("--churn and --slow-share need a --shape, as steady")
    return Wishes(
        targets, parsed.subscribers, parsed.sockets_per_user, parsed.publishers,
        parsed.publish_rate, parsed.body_bytes, course, parsed.grace,
        _arguments(parsed.queue_argument), tuple(int(pid) for pid in _list(parsed.pids)),
        tuple(_list(parsed.metrics)), parsed.report, parsed.node_may_die, parsed.node_connections,
        parsed.slow_pause,
    )  # fmt: skip


def _list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _arguments(text: str) -> dict[str, bool | int | str]:
    found: dict[str, bool | int | str] = {}
    for each in _list(text):
        name, equals, value = each.partition("=")
        if not equals:
            raise BadPlan(f"--queue-argument {each}: write name=value")
        found[name] = int(value) if value.lstrip("-").isdigit() else value
        if value in ("true", "false"):
            found[name] = value == "true"
    return found
