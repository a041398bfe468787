"""`fedq publish`: messages from the command line, a file or a pipe into a broker, with confirms."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from fedq.amqp import method_types as m
from fedq.bench.plan import DEFAULT_URL
from fedq.cli.asking.amqp_dialogue import Dialogue
from fedq.cli.asking.amqp_options import CaOption, UrlOption, WaitOption
from fedq.cli.asking.message_forms import HeadersOption, PropertiesOption, given_properties
from fedq.cli.messages.options import (
    BodyArgument,
    ExchangeOption,
    FileOption,
    KeyArgument,
    LinesOption,
    MessageBytesOption,
    RateOption,
    RepeatOption,
    UnroutableOption,
    WindowOption,
)
from fedq.cli.messages.sending import Manner, Tally, failure_of, publish_all
from fedq.cli.messages.sources import STDIN, Lines, Repeated, Source, checked, opened, whole
from fedq.cli.terminal.failure import USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import say
from fedq.cli.terminal.stopping import Stop
from fedq.core.limits import BODY_BYTES_MAX

_WINDOW_DEFAULT: Final = 256
_GOODBYE_S: Final = 2.0


@reporting
def publish_messages(
    key: KeyArgument,
    body: BodyArgument = None,
    exchange: ExchangeOption = "",
    file: FileOption = None,
    lines: LinesOption = False,
    count: RepeatOption = None,
    rate: RateOption = None,
    window: WindowOption = _WINDOW_DEFAULT,
    properties: PropertiesOption = None,
    headers: HeadersOption = None,
    allow_unroutable: UnroutableOption = False,
    max_bytes: MessageBytesOption = BODY_BYTES_MAX,
    url: UrlOption = DEFAULT_URL,
    ca: CaOption = None,
    timeout: WaitOption = 10.0,
    json: JsonOption = False,
) -> None:
    """Publish messages, persistent unless told otherwise, and wait until all are confirmed.

    It ends with the first that comes to nothing, and says how many were confirmed. --timeout is how
    long the broker may say nothing while a confirm is waited for.
    """
    given = given_properties(properties or [], headers or [])
    manner = Manner(exchange, key, given, not allow_unroutable, window, rate, timeout)
    tally, began = Tally(), time.monotonic()
    failure: CommandError | None = None
    with _source(body, file, lines, count, max_bytes) as source, Stop() as stop:
        try:
            _publish(url, ca, source, manner, tally, stop)
        except CommandError as error:
            failure = error
    failure = failure or failure_of(tally, manner, stop)
    form = _form(tally, time.monotonic() - began)
    if json or failure is None:
        say(form, f"{tally.confirmed} messages confirmed, {tally.bytes} bytes", json)
    if failure is not None:
        raise failure


def _publish(
    url: str, ca: Path | None, source: Source, manner: Manner, tally: Tally, stop: Stop
) -> None:
    with Dialogue(url, ca, manner.patience_s, stop) as dialogue:
        dialogue.call(m.ConfirmSelect(), m.ConfirmSelectOk)
        dialogue.begin()
        publish_all(dialogue, source, manner, tally, stop)
        # All is known by now: a broker that does not say goodbye changes nothing of it.
        with suppress(CommandError):
            dialogue.finish(_GOODBYE_S)


@contextmanager
def _source(
    body: str | None, file: str | None, lines: bool, count: int | None, bytes_max: int
) -> Iterator[Source]:
    if body is not None and (file is not None or lines):
        raise CommandError("a BODY excludes --file and --lines; give one of them", USAGE)
    if body is not None:
        yield Repeated(checked(body.encode(), bytes_max), count or 1)
        return
    with opened(STDIN if file is None else file) as found:
        if lines:
            yield Lines(found, bytes_max, count)
        else:
            yield Repeated(whole(found, bytes_max), count or 1)


def _form(tally: Tally, seconds: float) -> dict[str, Any]:
    return {
        "published": tally.published,
        "confirmed": tally.confirmed,
        "unroutable": tally.unroutable,
        "refused": tally.refused,
        "unconfirmed": tally.unconfirmed,
        "bytes": tally.bytes,
        "seconds": round(seconds, 3),
    }
