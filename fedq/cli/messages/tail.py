"""`fedq tail`: messages as they come, without taking any.

A stream is read from its end on. A queue gives each message to one consumer, so whoever follows it
by AMQP takes, if only for a moment; what is published to it is seen in the firehose instead
(docs/adr/0103-commands-that-are-clients.md).
"""

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import typer

from fedq.amqp import method_types as m
from fedq.amqp.values import FieldTable, TableValue
from fedq.bench.plan import DEFAULT_URL
from fedq.cli.asking.amqp_client import Message
from fedq.cli.asking.amqp_dialogue import Dialogue
from fedq.cli.asking.amqp_options import CaOption, UrlOption
from fedq.cli.asking.message_forms import message_form, plain
from fedq.cli.messages.consume import CONNECT_S, run_to_its_end
from fedq.cli.messages.options import (
    BeginOption,
    BodyBytesOption,
    FirehoseOption,
    IdleOption,
    JsonLinesOption,
    TailCountOption,
)
from fedq.cli.messages.output import Stdout, json_line
from fedq.cli.messages.taking import Settle, Taker, Wish
from fedq.cli.terminal.failure import FAILED, CommandError, reporting
from fedq.cli.terminal.options import QueueArgument
from fedq.cli.terminal.plain_text import printable
from fedq.cli.terminal.stopping import Stop

_OFFSET: Final = "x-stream-offset"
_FIREHOSE: Final = "amq.rabbitmq.trace"
#: What may wait for this command, which is slower than a broker: older messages are left out.
_WAITING_MAX: Final = 10_000

Form = dict[str, Any]
Told = Callable[[Message], Form | None]


@reporting
def tail_queue(
    queue: QueueArgument,
    begin: BeginOption = "next",
    firehose: FirehoseOption = False,
    count: TailCountOption = None,
    timeout: IdleOption = None,
    body_bytes: BodyBytesOption = 200,
    url: UrlOption = DEFAULT_URL,
    ca: CaOption = None,
    json: JsonLinesOption = False,
) -> None:
    """Show the messages of a stream as they come, until Ctrl-C; nothing is taken.

    A queue that is no stream gives each message to one consumer: see what is published to it with
    --firehose (`fedq trace firehose on`, or rabbitmqctl trace_on), and what waits there with
    `fedq queue peek`.
    """
    shown: Callable[[Form], bytes] = json_line if json else _line
    with Stop() as stop, Dialogue(url, ca, CONNECT_S, stop) as dialogue:
        dialogue.keep_of_bodies(body_bytes)
        if firehose:
            told: Told = partial(_of_firehose, queue, body_bytes)
            wish = Wish(_listen(dialogue), Settle.NONE, 0, idle_s=timeout)
            if not json:
                typer.echo("nothing comes unless the firehose of this vhost is on", err=True)
        else:
            told = partial(_of_stream, queue, body_bytes)
            # One at a time: if this is no stream after all, one message is put back, and no more.
            place: FieldTable = {_OFFSET: int(begin) if begin.isdigit() else begin}
            wish = Wish(queue, Settle.ACK, 1, idle_s=timeout, arguments=place)
        sink = _Followed(told, shown, count)
        try:
            run_to_its_end(Taker(dialogue, wish, sink, stop))
        except CommandError as error:
            if _OFFSET in error.sentence and not firehose and "invalid arg" in error.sentence:
                raise _no_stream(queue) from error
            raise
        if count is not None and sink.shown < count and not stop.asked:
            raise CommandError(f"{sink.shown} of {count} messages came", FAILED)


class _Followed(Stdout):
    """Messages that are shown, and how many were."""

    def __init__(self, told: Told, shown: Callable[[Form], bytes], count: int | None) -> None:
        """`told`: what is to be shown of a message; None: it is not one of the queue's."""
        self._told = told
        self._line = shown
        self._count = count
        self.shown = 0

    @property
    def is_full(self) -> bool:
        """Enough were shown."""
        return self.shown == self._count

    def take(self, message: Message) -> bool:
        """Shows a message, if it is one of the queue's."""
        form = None if self.is_full else self._told(message)
        if form is not None:
            form = {"ms": int(time.time() * 1_000), **form}
            self.write(self._line(form | {"body_cut": message.size > len(message.body)}))
            self.shown += 1
        return True


def _of_stream(queue: str, body_bytes: int, message: Message) -> Form:
    offset = plain(_headers(message).get(_OFFSET))
    if offset is None:
        raise _no_stream(queue)
    return {"offset": offset} | message_form(message, body_bytes)


def _of_firehose(queue: str, body_bytes: int, message: Message) -> Form | None:
    """What the firehose tells of a message that was published to the queue."""
    headers = _headers(message)
    queues, keys = headers.get("routed_queues"), headers.get("routing_keys")
    if not isinstance(queues, list) or queue not in queues:
        return None
    return message_form(message, body_bytes) | {
        "offset": None,
        "exchange": plain(headers.get("exchange_name")),
        "routing_key": plain(keys[0]) if isinstance(keys, list) and keys else "",
        "properties": plain(headers.get("properties")),
    }


def _headers(message: Message) -> dict[str, TableValue]:
    headers = message.properties.get("headers")
    return headers if isinstance(headers, dict) else {}


def _listen(dialogue: Dialogue) -> str:
    """A queue of this connection's own that hears what is published."""
    bounds: FieldTable = {"x-max-length": _WAITING_MAX}
    own = m.QueueDeclare("", exclusive=True, auto_delete=True, arguments=bounds)
    name = dialogue.call(own, m.QueueDeclareOk).queue
    dialogue.call(m.QueueBind(name, _FIREHOSE, "publish.#"), m.QueueBindOk)
    return name


def _no_stream(queue: str) -> CommandError:
    return CommandError(
        f"{queue!r} is no stream: each of its messages goes to one consumer, so nobody follows it "
        f"without taking. `fedq queue peek {queue}` shows what waits; --firehose shows what is "
        "published to it while the firehose is on (`fedq trace firehose on`)"
    )


def _line(form: Form) -> bytes:
    when = time.strftime("%H:%M:%S", time.localtime(form["ms"] / 1_000))
    offset = "" if form["offset"] is None else f" {form['offset']}"
    body = printable(str(form.get("body", form.get("body_base64"))))
    where = printable(f"{form['exchange'] or '(default)'} {form['routing_key']}")
    more = "…" if form["body_cut"] else ""
    return f"{when}{offset} {where} {form['body_bytes']} B {body}{more}\n".encode()
