"""A run on Locust's events: stations in workers, collector and verdict in the master.

In: Locust's events. Out: the preflight's sentences and exit code 2 before anything starts; reports
from workers; the verdict in files, on the screen, and as exit code 1 if it is bad.
"""

import json
import logging
import os
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any, Final

import gevent
from gevent.monkey import get_original
from locust import events, runners
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner
from locust.stats import StatsEntry, bucket_response_time

from fedq.amqp import methods
from fedq.bench.blocks import CHANNEL
from fedq.bench.histogram import middle_of
from fedq.bench.opening import BrokerFailure, Opener, Opening, Step, goodbye
from fedq.bench.plan import BadPlan
from loadtests.locust import nodes, page, preflight
from loadtests.locust.collecting import Collector
from loadtests.locust.options import EXCHANGE, RPC_QUEUE, WORK_QUEUE, Wishes, wishes_of
from loadtests.locust.station import Station
from loadtests.locust.verdict import complaints, sentence

#: The system's own: gevent replaces one, and removes the other.
SOCKET: Final = get_original("socket", "socket")
EPOLL: Final = get_original("select", "epoll")
LOCAL: Final = "local"
REPORT_S: Final = 3.0
SAMPLE_S: Final = 2.0
_USAGE: Final = 2
_BAD: Final = 1
#: How many heartbeats a worker may miss before its users are given to others: three seconds, as
#: Locust has it, are short where thousands of connections are opened at once.
runners.HEARTBEAT_LIVENESS = 60
_log = logging.getLogger("fedq.load")


class Site:
    """What a process knows of its run."""

    def __init__(self) -> None:
        self.station: Station | None = None
        self.collector = Collector()
        #: Samples and reports are taken while it is set.
        self.is_running = False

    @property
    def here(self) -> Station:
        """This process's station; there is one from the start of a test on."""
        assert self.station is not None, "users run within a test"
        return self.station


SITE: Final = Site()


def say_and_leave(sentences: list[str]) -> None:
    """Ends the process before anything has started."""
    for each in sentences:
        sys.stderr.write(f"fedq load: {each}\n")
    sys.exit(_USAGE)


def wishes(environment: Environment) -> Wishes:
    """What the options ask for; ends the process if they make no sense."""
    try:
        return wishes_of(environment.parsed_options)
    except BadPlan as problem:
        say_and_leave([str(problem)])
        raise


def look_ahead(environment: Environment) -> None:
    """Says what cannot work, and leaves; the master's limits are taken for the workers', too."""
    wanted, parsed = wishes(environment), environment.parsed_options
    workers = max(getattr(parsed, "expect_workers", 1), 1)
    if wanted.course is not None:
        found = preflight.check(
            wanted.subscribers, workers, wanted.targets,
            preflight.descriptors(), preflight.ports_of_a_source(), wanted.node_connections,
        )  # fmt: skip
        if found:
            say_and_leave(found)
    try:
        _declare(wanted)
    except BrokerFailure as failure:
        say_and_leave([str(failure)])
    for target in wanted.targets:
        if text := preflight.ask_broker(wanted.fleet_plan(""), target, EPOLL, SOCKET):
            say_and_leave([text])


def _script(wanted: Wishes, *steps: Step) -> None:
    opening = (Step(CHANNEL, methods.ChannelOpen(), methods.ChannelOpenOk), *steps)
    once = Opening(wanted.targets[0], "the control connection", opening, goodbye)
    Opener([once], 15.0, EPOLL(), SOCKET).run()


def _declare(wanted: Wishes) -> None:
    """Declares what all users share. Raises `BrokerFailure`."""
    declare = methods.ExchangeDeclare(EXCHANGE, "fanout", durable=False)
    _script(wanted, Step(CHANNEL, declare, methods.ExchangeDeclareOk))


def _clean_up(wanted: Wishes) -> None:
    try:
        _script(
            wanted,
            Step(CHANNEL, methods.ExchangeDelete(EXCHANGE), methods.ExchangeDeleteOk),
            Step(CHANNEL, methods.QueueDelete(WORK_QUEUE), methods.QueueDeleteOk),
            Step(CHANNEL, methods.QueueDelete(RPC_QUEUE), methods.QueueDeleteOk),
        )
    except BrokerFailure as failure:
        _log.warning("queues or exchanges named %s may be left: %s", EXCHANGE, failure)


# --- events ---------------------------------------------------------------------------------------


@events.test_start.add_listener
def on_test_start(environment: Environment, **_: Any) -> None:
    """Begins a run in this process."""
    runner = environment.runner
    wanted = wishes(environment)
    if not isinstance(runner, MasterRunner):
        worker = runner.worker_index if isinstance(runner, WorkerRunner) else 0
        SITE.station = Station(wanted, preflight.source_of(wanted.targets, worker))
        gevent.spawn(_feed, environment, SITE.station)
    if not isinstance(runner, WorkerRunner):
        SITE.collector = Collector()
        SITE.is_running = True
        gevent.spawn(_watch_nodes, wanted, SITE.collector)
        if SITE.station is not None:
            gevent.spawn(_report_here, SITE.station, SITE.collector)


@events.report_to_master.add_listener
def on_report(data: dict[str, Any], **_: Any) -> None:
    """Puts a worker's report into what it sends."""
    if SITE.station is not None:
        data["fedq"] = SITE.station.report(time.time_ns())


@events.worker_report.add_listener
def on_worker_report(client_id: str, data: dict[str, Any], **_: Any) -> None:
    """Takes a worker's report."""
    if "fedq" in data:
        SITE.collector.take(client_id, data["fedq"])


@events.quitting.add_listener
def on_quitting(environment: Environment, **_: Any) -> None:
    """Writes the verdict."""
    runner = environment.runner
    if isinstance(runner, WorkerRunner) or not SITE.is_running:
        return
    SITE.is_running = False
    wanted = wishes(environment)
    if SITE.station is not None:
        SITE.collector.take(LOCAL, SITE.station.report(time.time_ns()))
    facts = SITE.collector.facts(wanted.grace_s)
    problems = complaints(facts, wanted.node_may_die)
    _log.info(sentence(facts, problems))
    if wanted.report:
        _write(environment, wanted, facts, problems)
    _clean_up(wanted)
    if problems:
        environment.process_exit_code = _BAD


def _write(
    environment: Environment, wanted: Wishes, facts: dict[str, Any], problems: list[str]
) -> None:
    parsed = environment.parsed_options
    about = {
        "date": date.today().isoformat(),
        "shape": parsed.shape or "Locust's own",
        "subscribers": wanted.subscribers,
        "brokers": len(wanted.targets),
        "rate": wanted.rate,
        "body_bytes": wanted.body_bytes,
        "cores": os.cpu_count(),
        "load_average": [round(each, 1) for each in os.getloadavg()],
    }
    report = {"version": 1, "good": not problems, "problems": problems, "about": about} | facts
    path = Path(wanted.report)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_name(path.name + ".json").write_text(json.dumps(report, indent=1) + "\n")
    path.with_name(path.name + ".svg").write_text(page.draw(report))
    path.with_name(path.name + ".md").write_text(page.page(report, path.name + ".svg"))


# --- in the background ----------------------------------------------------------------------------


def _watch_nodes(wanted: Wishes, collector: Collector) -> None:
    while SITE.is_running:
        for sample in nodes.look(wanted.pids, wanted.metrics, time.time_ns()):
            collector.sample(sample)
        gevent.sleep(SAMPLE_S)


def _report_here(station: Station, collector: Collector) -> None:
    while SITE.is_running:
        gevent.sleep(REPORT_S)
        if SITE.is_running:
            collector.take(LOCAL, station.report(time.time_ns()))


def _feed(environment: Environment, station: Station) -> None:
    """Has Locust show deliveries: once a second, by the bucket."""
    while SITE.station is station:
        gevent.sleep(1.0)
        entry = environment.stats.get("deliver", "AMQP")
        size = station.wishes.body_bytes
        for bucket, count in station.tally.take_fresh():
            latency_ms = middle_of(bucket) // 1_000
            log_many(entry, latency_ms, size, count)
            log_many(environment.stats.total, latency_ms, size, count)


def log_many(entry: StatsEntry, latency_ms: int, size: int, count: int) -> None:
    """Does what `entry.log` does, so many times."""
    entry.log(latency_ms, size)
    more = count - 1
    entry.num_requests += more
    entry.num_reqs_per_sec[int(time.time())] += more
    entry.total_response_time += latency_ms * more
    entry.response_times[bucket_response_time(latency_ms)] += more
    entry.total_content_length += size * more
