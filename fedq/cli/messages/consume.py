"""`fedq consume`: messages of a queue on stdout, each acknowledged once it has been written."""

import sys
from typing import Final

import typer

from fedq.amqp.values import FieldTable
from fedq.bench.plan import DEFAULT_URL
from fedq.cli.asking.amqp_client import Message
from fedq.cli.asking.amqp_dialogue import Dialogue
from fedq.cli.asking.amqp_options import CaOption, UrlOption
from fedq.cli.asking.message_forms import message_form
from fedq.cli.messages.options import (
    PREFETCH_MAX,
    ArgumentsOption,
    BytesOption,
    CountOption,
    IdleOption,
    JsonLinesOption,
    PrefetchOption,
    RawOption,
    SettleOption,
)
from fedq.cli.messages.output import (
    Output,
    Shown,
    body_line,
    forget_stdout,
    json_line,
    raw_body,
    terminal_line,
)
from fedq.cli.messages.taking import Settle, Taker, Wish
from fedq.cli.terminal.failure import FAILED, INTERRUPTED, USAGE, CommandError, reporting
from fedq.cli.terminal.options import QueueArgument
from fedq.cli.terminal.stopping import Stop
from fedq.core.limits import BODY_BYTES_MAX

CONNECT_S: Final = 10.0


@reporting
def consume_messages(
    queue: QueueArgument,
    count: CountOption = None,
    timeout: IdleOption = None,
    settle: SettleOption = Settle.ACK,
    prefetch: PrefetchOption = 100,
    arguments: ArgumentsOption = None,
    max_bytes: BytesOption = None,
    raw: RawOption = False,
    url: UrlOption = DEFAULT_URL,
    ca: CaOption = None,
    json: JsonLinesOption = False,
) -> None:
    """Take messages from a queue and write their bodies to stdout, a line each.

    At a terminal without what that would obey (escape sequences), unless --raw is given.
    A message is acknowledged once it has been written. Ctrl-C, an error, or a reader that goes away
    put back what was not: it comes again, marked as redelivered.
    """
    wish = _wish(queue, count, timeout, settle, prefetch, given_arguments(arguments or []))
    if raw and json:
        raise CommandError("--raw and --json exclude each other; give one of them", USAGE)
    if max_bytes is not None and settle is Settle.NONE:
        raise CommandError(
            "--ack none has no place to put back what is beyond --max-bytes; leave one out", USAGE
        )
    output = Output(_shown(raw, json), max_bytes)
    with Stop() as stop, Dialogue(url, ca, CONNECT_S, stop) as dialogue:
        dialogue.keep_of_bodies(BODY_BYTES_MAX if max_bytes is None else max_bytes)
        taker = Taker(dialogue, wish, output, stop)
        run_to_its_end(taker)
        if taker.taken == count:
            return
        if stop.asked:
            raise typer.Exit(INTERRUPTED)
        if count is not None and max_bytes is None:
            raise CommandError(
                f"{taker.taken} of {count} messages came before there was nothing for "
                f"{timeout:g} s",
                FAILED,
            )


def run_to_its_end(taker: Taker) -> None:
    """Takes messages; a reader that has gone away (`| head`) is an end without words."""
    try:
        taker.run()
    except BrokenPipeError as error:
        forget_stdout()
        raise typer.Exit(FAILED) from error
    except OSError as error:
        raise CommandError(
            f"the output takes no more ({error.strerror or error}): what was not written is back "
            "in the queue"
        ) from error


def given_arguments(given: list[str]) -> FieldTable:
    """Arguments of a consumer; what looks like a number or a truth value is one."""
    found: FieldTable = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not 0 < len(name.encode()) < 256:
            raise CommandError(f"--argument {text}: write NAME=VALUE", USAGE)
        found[name] = value
        if value in ("true", "false"):
            found[name] = value == "true"
        elif value.removeprefix("-").isdigit() and len(value) < 19:
            found[name] = int(value)
    return found


def _wish(
    queue: str, count: int | None, idle_s: float | None, settle: Settle, prefetch: int,
    arguments: FieldTable,
) -> Wish:  # fmt: skip
    if settle is Settle.NONE and count is not None:
        raise CommandError(
            "--ack none takes whatever the broker sends, so --count would lose the rest; leave one "
            "of them out",
            USAGE,
        )
    if settle is Settle.REQUEUE:
        if count is None or count > PREFETCH_MAX:
            raise CommandError(
                f"--ack requeue holds all messages until the end: say how many with --count, "
                f"{PREFETCH_MAX} at most",
                USAGE,
            )
        prefetch = count
    return Wish(queue, settle, prefetch, count, idle_s, arguments)


def _shown(raw: bool, json: bool) -> Shown:
    if json:
        return _as_json
    if raw:
        return raw_body
    # Whoever publishes has no say in what a terminal does; a pipe gets bodies as they are.
    return terminal_line if sys.stdout.isatty() else body_line


def _as_json(message: Message) -> bytes:
    return json_line(message_form(message, BODY_BYTES_MAX))
