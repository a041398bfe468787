"""Options of `fedq publish`, `consume` and `tail`."""

from typing import Annotated, Final

import typer

from fedq.cli.messages.taking import Settle
from fedq.core.limits import BODY_BYTES_MAX

#: As many as the method basic.qos can say.
PREFETCH_MAX: Final = 65_535

# --- publish --------------------------------------------------------------------------------------

KeyArgument = Annotated[
    str, typer.Argument(help="The routing key: a queue's name, without --exchange.")
]
BodyArgument = Annotated[
    str | None,
    typer.Argument(help="The body. Default: --file, or standard input.", show_default=False),
]
ExchangeOption = Annotated[
    str, typer.Option("--exchange", metavar="NAME", help="Default: the default exchange.")
]
FileOption = Annotated[
    str | None,
    typer.Option(
        "--file",
        metavar="FILE",
        help="Read the body there; -: standard input.",
        show_default=False,
    ),
]
LinesOption = Annotated[
    bool,
    typer.Option("--lines", help="Each line is a message, published as soon as it is there."),
]
RepeatOption = Annotated[
    int | None,
    typer.Option(
        "--count",
        min=1,
        help="So many times; with --lines: at most so many lines.",
        show_default=False,
    ),
]
RateOption = Annotated[
    float | None,
    typer.Option(
        "--rate", min=0.001, help="At most so many messages a second.", show_default=False
    ),
]
WindowOption = Annotated[
    int, typer.Option("--window", min=1, max=100_000, help="At most so many unconfirmed.")
]
UnroutableOption = Annotated[
    bool,
    typer.Option("--allow-unroutable", help="What reaches no queue is no failure."),
]
MessageBytesOption = Annotated[
    int,
    typer.Option("--max-bytes", min=0, max=BODY_BYTES_MAX, help="Refuse a message that is longer."),
]

# --- consume --------------------------------------------------------------------------------------

CountOption = Annotated[
    int | None,
    typer.Option(
        "--count",
        min=1,
        help="Take exactly so many; no other message is touched.",
        show_default=False,
    ),
]
IdleOption = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        min=0.0,
        show_default=False,
        help="End when nothing has come for so long: exit code 1 if --count was not reached.",
    ),
]
SettleOption = Annotated[
    Settle,
    typer.Option(
        "--ack",
        help="ack: once a message is written; reject: the same, without putting it back, so "
        "that it is dead-lettered; requeue: all --count messages go back at the end; none: "
        "the broker forgets a message as soon as it has sent it.",
    ),
]
PrefetchOption = Annotated[
    int, typer.Option("--prefetch", min=1, max=PREFETCH_MAX, help="So many at a time.")
]
ArgumentsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--argument",
        metavar="NAME=VALUE",
        help="An argument of the consumer, such as x-stream-offset=first; repeatable.",
    ),
]
BytesOption = Annotated[
    int | None,
    typer.Option(
        "--max-bytes",
        min=0,
        show_default=False,
        help="End before bodies are more than so many bytes together.",
    ),
]
RawOption = Annotated[
    bool, typer.Option("--raw", help="Write bodies without a line end after each.")
]
JsonLinesOption = Annotated[
    bool,
    typer.Option("--json", help="Write a JSON line for each message, with its properties."),
]

# --- tail -----------------------------------------------------------------------------------------

BeginOption = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="PLACE",
        help="Of a stream: next, first, last, an offset, or an age such as 10m.",
    ),
]
FirehoseOption = Annotated[
    bool,
    typer.Option(
        "--firehose", help="Show what is published to a queue; the firehose has to be on."
    ),
]
TailCountOption = Annotated[
    int | None,
    typer.Option("--count", min=1, help="End after so many.", show_default=False),
]
BodyBytesOption = Annotated[
    int, typer.Option("--body-bytes", min=0, max=BODY_BYTES_MAX, help="Show so much of each body.")
]
