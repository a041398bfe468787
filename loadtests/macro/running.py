"""Measurements, one after the other: brokers are started, loaded by `fedq bench`, and ended.

Rounds alternate: in each, every group of works is done by every broker before the next group is
begun, so that a machine that gets slower or faster meanwhile does so for all brokers. A single node
has one core and the generator another; the nodes of a cluster and the generator share all cores.

In: brokers, works, rounds, seconds. Out: one `Run` for each work, round and broker. Nothing hangs:
a measurement that fails or does not end in time becomes a `Run` that says so.
"""

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from loadtests.macro.brokers import Broker, FedqBroker, RabbitBroker, pinned
from loadtests.macro.disk import DiskWatch
from loadtests.macro.machine import Stretch, cores
from loadtests.macro.scenes import stage_of
from loadtests.macro.works import Group, Work
from tests.integration.harness import environment
from tests.integration.stock import PERSISTENT, connect

#: Exit code of the generator when messages were lost, repeated or out of order.
WRONG_DELIVERIES: Final = 1
WORDS_SHOWN: Final = 400
#: The queue whose one message stays.
OLD: Final = "fedq-bench-old"

Make = Callable[[Path, str, int, int | None], Broker]
MAKES: Final[dict[str, Make]] = {"fedq": FedqBroker, "rabbitmq": RabbitBroker}


@dataclass(frozen=True, slots=True)
class Run:
    """One work on one broker in one round."""

    work: str
    #: "fedq" or "rabbitmq".
    kind: str
    broker: str
    round: int
    #: What the generator printed; empty if it did not finish.
    outcome: dict[str, Any] = field(default_factory=dict)
    #: Why there is no outcome; "" if there is one.
    failure: str = ""
    #: The part of the machine that neither broker nor generator used; None if unknown.
    others_share: float | None = None
    #: With connecting and ending.
    took_s: float = 0.0


def allow_descriptors() -> None:
    """Lets this process and those it starts have as many descriptors as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def generator_command(
    broker: Broker, work: Work, seconds: float, kind: str, core: str
) -> list[str]:
    """The load generator's command line for a work."""
    own = {"fedq": work.fedq, "rabbitmq": work.rabbitmq}[kind]
    command = [*pinned(core), sys.executable, *work.generator]
    for address in broker.addresses[: work.addresses]:
        command += ["--url", f"amqp://guest:guest@{address.host}:{address.port}"]
    for pid in broker.pids:
        command += ["--pid", str(pid)]
    command += ["--seconds", f"{seconds:g}", "--warm-up", f"{work.warm_up_s:g}"]
    return [*command, *work.options, *own]


def last_words(text: str) -> str:
    """The end of what a process said, on one line."""
    return " ".join(text.split())[-WORDS_SHOWN:]


def generate(command: list[str], timeout_s: float) -> tuple[dict[str, Any], str]:
    """What the generator measured, or why it did not."""
    # A quiet terminal: progress bars are for people.
    quiet = environment() | {"TERM": "dumb", "NO_COLOR": "1"}
    # In a session of its own, because it may have processes of its own, and all have to end.
    with subprocess.Popen(
        command, env=quiet, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            printed, said = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return {}, f"did not finish within {timeout_s:.0f} s"
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    said = last_words(said)
    if process.returncode not in (0, WRONG_DELIVERIES) or not printed.strip():
        return {}, f"the generator ended with {process.returncode}: {said}"
    outcome: dict[str, Any] = json.loads(printed)
    if process.returncode == WRONG_DELIVERIES:
        return {}, f"messages were lost, repeated or out of order, or the broker ended: {said}"
    return outcome, ""


@contextmanager
def loaded_beside(broker: Broker, work: Work, kind: str, core: str) -> Iterator[None]:
    """Another load that goes on meanwhile, if the work has one."""
    if not work.beside:
        yield
        return
    aside = replace(work, options=work.beside, warm_up_s=0.0)
    command = ["chrt", "--idle", "0", *generator_command(broker, aside, 0.0, kind, core)]
    with subprocess.Popen(
        command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def keep_old_message(broker: Broker) -> None:
    """Stores one persistent message that nobody takes."""
    connection = connect(broker.addresses[0])
    channel = connection.channel()
    channel.queue_declare(OLD, durable=True)
    channel.confirm_delivery()
    channel.basic_publish("", OLD, b"old", PERSISTENT)
    connection.close()


def measure(
    broker: Broker, work: Work, kind: str, number: int, seconds: float, generator_cores: str
) -> Run:
    """One measurement on a broker that runs."""
    seconds = work.deadline_s or seconds * work.times_longer

    def generate_other(options: tuple[str, ...], timeout_s: float) -> tuple[dict[str, Any], str]:
        other = replace(work, options=options, fedq=(), rabbitmq=(), warm_up_s=0.0)
        return generate(generator_command(broker, other, 0.0, kind, generator_cores), timeout_s)

    stage = stage_of(work, broker, generate_other)
    stretch, began = Stretch(broker.pids), time.monotonic()
    outcome: dict[str, Any] = {}
    others: float | None = None
    try:
        stage.before()
        if work.has_old_message:
            keep_old_message(broker)
        command = generator_command(broker, work, seconds, kind, generator_cores)
        with (
            loaded_beside(broker, work, kind, generator_cores),
            DiskWatch(broker.directory) if work.group is Group.BESIDE else nullcontext() as disk,
        ):
            outcome, failure = generate(command, seconds + work.warm_up_s + work.patience_s)
        others = stretch.others_share()
        if not failure:
            outcome |= stage.after(outcome)
            if disk is not None:
                outcome["disk_bytes_max"] = disk.most
    except (OSError, RuntimeError, AssertionError, LookupError) as error:
        outcome, failure = {}, last_words(str(error))
    took_s = round(time.monotonic() - began, 2)
    return Run(work.name, kind, broker.name, number, outcome, failure, others, took_s)


class Rounds:
    """All measurements that the options ask for."""

    def __init__(self, works: list[Work], kinds: list[str], rounds: int, seconds: float) -> None:
        """`seconds`: how long each work is measured after its warm-up."""
        self._works = works
        self._kinds = kinds
        self._rounds = rounds
        self._seconds = seconds

    def __iter__(self) -> Iterator[Run]:
        for number in range(1, self._rounds + 1):
            for _, works in groupby(self._works, lambda work: work.group):
                same_group = list(works)
                times = max(work.times_oftener for work in same_group)
                for own_number in range((number - 1) * times + 1, number * times + 1):
                    for kind in self._kinds:
                        yield from self._measured(own_number, same_group, kind)

    def _measured(self, number: int, works: list[Work], kind: str) -> Iterator[Run]:
        """The works of one group on one broker; a broker that broke is replaced."""
        core, generator_core = cores()
        nodes = works[0].group.nodes
        if nodes > 1:
            core = generator_core = ""
        with ExitStack() as stack:
            broker: Broker | None = None
            for work in works:
                if work.is_own and kind != "fedq":
                    continue
                if broker is not None and work.needs_fresh_broker:
                    stack.pop_all().close()
                    broker = None
                if broker is None:
                    try:
                        broker = self._started(stack, kind, core, work)
                    except (OSError, RuntimeError, AssertionError) as error:
                        failure = f"the broker did not start: … {last_words(str(error))}"
                        yield Run(work.name, kind, kind, number, failure=failure)
                        continue
                run = measure(broker, work, kind, number, self._seconds, generator_core)
                yield run
                if run.failure:
                    stack.pop_all().close()
                    broker = None

    @staticmethod
    def _started(stack: ExitStack, kind: str, core: str, work: Work) -> Broker:
        prefix = "fedq-bench-"
        directory = stack.enter_context(
            tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
        )
        make, nodes = MAKES[kind], work.group.nodes
        made = make(Path(directory) / "broker", core, nodes, work.memory_bytes)
        return stack.enter_context(made)


def kinds_to_measure(options: argparse.Namespace) -> list[str]:
    """The brokers to compare: those that are asked for and installed."""
    kinds = [options.only] if options.only else list(MAKES)
    return [kind for kind in kinds if kind != "rabbitmq" or RabbitBroker.is_installed()]


def expected_s(works: list[Work], kinds: list[str], rounds: int, seconds: float) -> float:
    """About how long a run takes; connecting to RabbitMQ takes most of the rest."""
    works_s = sum(
        ((work.deadline_s or seconds * work.times_longer) + work.warm_up_s + 4.0)
        * work.times_oftener
        for work in works
    )
    starts_s = 12.0 * sum({work.group: work.times_oftener for work in works}.values())
    return rounds * len(kinds) * (works_s + starts_s)


def running_on(works: list[Work]) -> str:
    """A word on the cores, and on who is measured oftener, for the reader of the results."""
    available = sorted(os.sched_getaffinity(0))
    broker, generator = cores()
    oftener = {work.group.value: work.times_oftener for work in works if work.times_oftener > 1}
    more = "".join(f"; {times} times as many rounds of {name}" for name, times in oftener.items())
    return (
        f"a single broker on core {broker}, the generator on core {generator}; the nodes of a "
        f"cluster and the generator on all {len(available)}, processor time summed over the nodes"
        f"{more}"
    )
