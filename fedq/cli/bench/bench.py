"""`fedq bench`: loads any AMQP 0-9-1 broker, checks every message, and says what it cost.

The table (or, with `--json`, one object) goes to stdout, progress to stderr. Exit codes: 0 all went
well; 1 messages were lost, repeated, refused or out of order, or the broker failed; 2 the options
make no sense. Figures and fields: docs/BENCHMARKING.md.
"""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from fedq.bench.opening import BrokerFailure
from fedq.bench.plan import DEFAULT_URL, BadPlan, Plan, parse_sizes, parse_url
from fedq.bench.result import Result
from fedq.bench.run import Progress, Run
from fedq.bench.usage import exists
from fedq.cli.bench.options import (
    AckEveryOption,
    AutoAckOption,
    BindingsOption,
    BoundQueuesOption,
    ConfirmsOption,
    ConnectionsOption,
    ConsumerArgumentsOption,
    ConsumersOption,
    DurableOption,
    ExclusiveOption,
    FillOption,
    IdleOption,
    KeepOption,
    PatienceOption,
    PersistentOption,
    PidsOption,
    PrefetchOption,
    ProcessesOption,
    ProducersOption,
    QueueArgumentsOption,
    QueuesOption,
    QuietOption,
    RateOption,
    SecondsOption,
    SizeOption,
    SubscribersOption,
    UrlsOption,
    WarmUpOption,
)
from fedq.cli.bench.screen import ProgressLine, show_result
from fedq.cli.terminal.failure import FAILED, USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import print_json

#: Descriptors that a process needs besides its connections.
_DESCRIPTORS_SPARE = 64
#: In a run as long as this, less processor time of a broker says little about a message's cost.
_CPU_SECONDS_MIN = 0.5
_SECONDS_MIN = 1.0


@reporting
def load_broker(
    url: UrlsOption = None,
    producers: ProducersOption = 1,
    consumers: ConsumersOption = 1,
    queues: QueuesOption = 1,
    size: SizeOption = "16",
    rate: RateOption = None,
    persistent: PersistentOption = False,
    durable: DurableOption = False,
    exclusive: ExclusiveOption = False,
    confirms: ConfirmsOption = None,
    prefetch: PrefetchOption = None,
    ack_every: AckEveryOption = 1,
    auto_ack: AutoAckOption = False,
    subscribers: SubscribersOption = 0,
    connections: ConnectionsOption = 0,
    bindings: BindingsOption = 0,
    bound_queues: BoundQueuesOption = 1,
    idle: IdleOption = 0,
    fill: FillOption = 0,
    keep: KeepOption = False,
    seconds: SecondsOption = 10.0,
    warm_up: WarmUpOption = 2.0,
    patience: PatienceOption = 30.0,
    queue_argument: QueueArgumentsOption = None,
    consumer_argument: ConsumerArgumentsOption = None,
    pid: PidsOption = None,
    processes: ProcessesOption = 1,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Load an AMQP broker, check every message, and say what it cost."""
    with _telling_bad_plans():
        size_min, size_max = parse_sizes(size)
        plan = Plan(
            targets=tuple(map(parse_url, url or [DEFAULT_URL])),
            producers=producers, consumers=consumers, queues=queues,
            size_min=size_min, size_max=size_max,
            rate=rate,
            is_persistent=persistent,
            is_durable=durable,
            is_exclusive=exclusive,
            confirm_window=confirms,
            prefetch=_prefetch(prefetch, auto_ack),
            ack_every=ack_every,
            subscribers=subscribers,
            connections=connections,
            bindings=bindings, bound_queues=bound_queues,
            idle=idle, fill=fill, is_kept=keep,
            seconds=seconds,
            warm_up_s=warm_up,
            patience_s=patience,
            queue_arguments=_arguments("--queue-argument", queue_argument),
            consumer_arguments=_arguments("--consumer-argument", consumer_argument),
            pids=tuple(pid or []),
            processes=processes,
        )  # fmt: skip
        plan.check()
        _check_machine(plan)
    _show(_execute(plan, quiet), json)


@contextmanager
def _telling_bad_plans() -> Iterator[None]:
    """Makes of a `BadPlan` what the command ends with."""
    try:
        yield
    except BadPlan as problem:
        raise CommandError(str(problem), USAGE) from problem


def _prefetch(wanted: int | None, auto_ack: bool) -> int | None:
    if auto_ack and wanted is not None:
        raise BadPlan("--auto-ack and --prefetch exclude each other: give one of them")
    return wanted


def _arguments(option: str, texts: list[str] | None) -> dict[str, bool | int | str]:
    return dict(_argument(option, text) for text in texts or [])


def _argument(option: str, text: str) -> tuple[str, bool | int | str]:
    """`name=value`; the value is a number or a truth value if it looks like one."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise BadPlan(f"{option} {text}: write name=value")
    if value in ("true", "false"):
        return name, value == "true"
    return name, int(value) if value.removeprefix("-").isdigit() else value


def _check_machine(plan: Plan) -> None:
    """Raises `BadPlan` for a process that is not there, and for too few descriptors."""
    for pid in plan.pids:
        if not exists(pid):
            raise BadPlan(f"--pid {pid}: no such process on this machine")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    each = -(-plan.client_count // plan.processes) + _DESCRIPTORS_SPARE
    if each > hard:
        needed = -(-plan.client_count // (hard - _DESCRIPTORS_SPARE))
        raise BadPlan(
            f"{each} connections in one process, and it may have {hard}; "
            f"give --processes {needed} or more"
        )


def _execute(plan: Plan, is_quiet: bool) -> Result:
    def unseen(progress: Progress) -> None:
        del progress

    with ProgressLine() as line:
        run = Run(plan, unseen if is_quiet else line.show)
        try:
            return run.execute()
        except BrokerFailure as failure:
            run.result.error = str(failure)
            return run.result


def _show(result: Result, is_json: bool) -> None:
    """Writes the result; raises the `CommandError` of a bad one."""
    if is_json:
        print_json(result.as_json())
    elif result.error is None or result.published or result.delivered:
        # What never began has no figures: a table of zeros would look like some.
        show_result(result)
    sys.stdout.flush()
    if result.left_behind is not None:
        typer.echo(f"fedq: queues may be left: {result.left_behind}", err=True)
    if result.is_generator_limited:
        typer.echo(
            f"fedq: the generator used {result.generator_share:.0%} of a core: it, and not the "
            "broker, may be what was measured; give it a core of its own, or more --processes",
            err=True,
        )
    for broker in result.brokers:
        is_long = result.error is None and result.seconds >= _SECONDS_MIN
        if is_long and broker.cpu_seconds < _CPU_SECONDS_MIN:
            typer.echo(
                f"fedq: the broker {broker.pid} got {broker.cpu_seconds:.2f} s of processor time: "
                "too little for figures per CPU-second; give more --seconds, or a machine with "
                "less other work",
                err=True,
            )
    if result.error is not None:
        raise CommandError(result.error, FAILED)
    if not result.is_sound:
        raise CommandError(
            f"{result.lost} messages were lost, {result.repeated} repeated, "
            f"{result.out_of_order} out of order, {result.refused} refused", FAILED,
        )  # fmt: skip
