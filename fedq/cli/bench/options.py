"""The options of `fedq bench`, with their help: what each means for the plan of a run."""

from typing import Annotated

import typer

from fedq.bench.plan import DEFAULT_URL

UrlsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--url",
        metavar="URL",
        help=f"A broker's address; several spread the clients. Default: {DEFAULT_URL}",
        show_default=False,
    ),
]
ProducersOption = Annotated[int, typer.Option("--producers", help="Publishing connections.")]
ConsumersOption = Annotated[
    int, typer.Option("--consumers", help="Consuming connections; 0 for none.")
]
QueuesOption = Annotated[int, typer.Option("--queues", help="Queues that they share.")]
SizeOption = Annotated[
    str, typer.Option("--size", metavar="BYTES", help="Size of bodies, or a range: 16-79.")
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--rate", help="Publishes per second, all producers together. Default: at full speed."
    ),
]
PersistentOption = Annotated[
    bool, typer.Option("--persistent", help="Persistent messages, durable queues.")
]
DurableOption = Annotated[bool, typer.Option("--durable", help="Durable queues.")]
ExclusiveOption = Annotated[
    bool, typer.Option("--exclusive", help="Exclusive queues, one for each consumer.")
]
ConfirmsOption = Annotated[
    int | None,
    typer.Option("--confirms", metavar="WINDOW", help="Confirms; so many may be outstanding."),
]
PrefetchOption = Annotated[
    int | None,
    typer.Option(
        "--prefetch", metavar="N", help="Acknowledge each delivery; so many may be outstanding."
    ),
]
AckEveryOption = Annotated[
    int, typer.Option("--ack-every", metavar="N", help="One acknowledgement for N deliveries.")
]
AutoAckOption = Annotated[
    bool,
    typer.Option("--auto-ack", help="Acknowledge automatically: the same as no --prefetch."),
]
SubscribersOption = Annotated[
    int,
    typer.Option(
        "--subscribers", help="Fan-out: subscribers with a queue each on a fanout exchange."
    ),
]
ConnectionsOption = Annotated[
    int,
    typer.Option("--connections", help="Connections that the subscribers share; 0: one each."),
]
BindingsOption = Annotated[
    int,
    typer.Option(
        "--bindings", help="Topics: mixed wildcard bindings on a topic exchange, random keys."
    ),
]
BoundQueuesOption = Annotated[
    int, typer.Option("--bound-queues", help="Queues that share the bindings.")
]
IdleOption = Annotated[int, typer.Option("--idle", help="Connections that do nothing.")]
SecondsOption = Annotated[float, typer.Option("--seconds", help="How long to measure.")]
WarmUpOption = Annotated[float, typer.Option("--warm-up", help="Seconds under load before that.")]
PatienceOption = Annotated[
    float,
    typer.Option("--patience", metavar="SECONDS", help="How long nothing may happen in any wait."),
]
QueueArgumentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--queue-argument",
        metavar="NAME=VALUE",
        help="Argument of the queues: x-queue-type=quorum; repeatable.",
    ),
]
ConsumerArgumentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--consumer-argument",
        metavar="NAME=VALUE",
        help="Argument of the consumers: x-stream-offset=first; repeatable.",
    ),
]
FillOption = Annotated[
    int,
    typer.Option(
        "--fill",
        metavar="MESSAGES",
        help="Store so many before anybody consumes, then empty; --seconds bounds each.",
    ),
]
KeepOption = Annotated[
    bool, typer.Option("--keep", help="Leave queues and what is in them; --json names them.")
]
PidsOption = Annotated[
    list[int] | None,
    typer.Option("--pid", help="Watch this process of the broker and its children; repeatable."),
]
ProcessesOption = Annotated[
    int, typer.Option("--processes", help="Processes that share the clients.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", help="No progress on stderr.")]
