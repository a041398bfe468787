"""`fedq queue purge | delete | peek | publish | move`: what touches a queue and its messages.

These commands are AMQP clients: they log in as a user, and may do what that user may.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fedq.amqp import method_types as m
from fedq.bench.plan import DEFAULT_URL
from fedq.cli.asking.amqp_client import AmqpClient, Message
from fedq.cli.asking.amqp_options import CaOption, UrlOption, WaitOption
from fedq.cli.asking.message_forms import (
    HeadersOption,
    PropertiesOption,
    given_properties,
    message_form,
    message_row,
)
from fedq.cli.terminal.failure import FAILED, USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption, QueueArgument
from fedq.cli.terminal.screen import console, print_json, say, table
from fedq.core.limits import BODY_BYTES_MAX


@contextmanager
def _client(url: str, ca: Path | None, timeout_s: float) -> Iterator[AmqpClient]:
    with AmqpClient(url, ca, timeout_s) as client:
        yield client


@reporting
def purge_queue(
    queue: QueueArgument,
    url: UrlOption = DEFAULT_URL,
    ca: CaOption = None,
    timeout: WaitOption = 10.0,
    json: JsonOption = False,
) -> None:
    """Remove all messages that wait in a queue; those with consumers stay."""
    with _client(url, ca, timeout) as client:
        count = client.call(m.QueuePurge(queue), m.QueuePurgeOk).message_count
    say({"queue": queue, "removed": count}, f"{count} messages of {queue} removed", json)


@reporting
def delete_queue(
    queue: QueueArgument,
    if_unused: Annotated[bool, typer.Option(help="Only if it has no consumers.")] = False,
    if_empty: Annotated[bool, typer.Option(help="Only if it has no messages.")] = False,
    url: UrlOption = DEFAULT_URL,
    ca: CaOption = None,
    timeout: WaitOption = 10.0,
    json: JsonOption = False,
) -> None:
    """Delete a queue with its messages and bindings."""
    with _client(url, ca, timeout) as client:
        request = m.QueueDelete(queue, if_unused, if_empty)
        count = client.call(request, m.QueueDeleteOk).message_count
    say({"queue": queue, "removed": count}, f"{queue} deleted, with {count} messages", json)


@reporting
def peek_queue(
    queue: QueueArgument,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many.")] = 10,
    body_bytes: Annotated[
        int, typer.Option(min=0, max=BODY_BYTES_MAX, help="Show so much of each body.")
    ] = 200,
    url: UrlOption = DEFAULT_URL,
    ca: CaOption = None,
    timeout: WaitOption = 10.0,
    json: JsonOption = False,
) -> None:
    """Show the first messages of a queue; they stay, and are marked as redelivered from then on."""
    with _client(url, ca, timeout) as client:
        messages: list[Message] = []
        while len(messages) < limit and (message := client.get(queue)) is not None:
            messages.append(message)
        if messages:
            client.tell(m.BasicNack(0, multiple=True, requeue=True))
    forms = [message_form(message, body_bytes) for message in messages]
    if json:
        print_json({"queue": queue, "messages": forms})
        return
    console().print(
        table(
            ("#", "EXCHANGE", "ROUTING KEY", "AGAIN", "PROPERTIES", "#SIZE", "BODY"),
            (message_row(number, form) for number, form in enumerate(forms, 1)),
        )
    )


@reporting
def publish_message(
    key: Annotated[
        str, typer.Argument(help="The routing key: a queue's name, without --exchange.")
    ],
    body: Annotated[
        str | None, typer.Argument(help="Default: standard input.", show_default=False)
    ] = None,
    exchange: Annotated[str, typer.Option(help="Default: the default exchange.")] = "",
    properties: PropertiesOption = None,
    headers: HeadersOption = None,
    url: UrlOption = DEFAULT_URL,
    ca: CaOption = None,
    timeout: WaitOption = 10.0,
    json: JsonOption = False,
) -> None:
    """Publish one persistent message and wait until it is confirmed: exit code 1 if it is not."""
    given = given_properties(properties or [], headers or [])
    content = sys.stdin.buffer.read() if body is None else body.encode()
    with _client(url, ca, timeout) as client:
        client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
        if not client.publish(exchange, key, given, content):
            raise CommandError(_not_taken(client, exchange, key), FAILED)
    say({"bytes": len(content)}, f"{len(content)} bytes confirmed", json)


@reporting
def move_messages(
    queue: Annotated[str, typer.Argument(help="Where they are.", show_default=False)],
    to: Annotated[str, typer.Argument(metavar="TO", help="The queue they go to.")],
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="At most so many. Default: as many as there are at first."),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    ca: CaOption = None,
    timeout: WaitOption = 10.0,
    json: JsonOption = False,
) -> None:
    """Move messages to another queue, such as dead letters back to where they came from.

    Each is acknowledged when its copy is confirmed: none is lost if this ends early, and one may be
    in both queues then.
    """
    if queue == to:
        raise CommandError("the two queues are the same; give another one to move to", USAGE)
    with _client(url, ca, timeout) as client:
        client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
        client.call(m.QueueDeclare(to, passive=True), m.QueueDeclareOk)
        found = client.call(m.QueueDeclare(queue, passive=True), m.QueueDeclareOk).message_count
        wanted = found if limit is None else min(limit, found)
        moved = 0
        while moved < wanted and (message := client.get(queue)) is not None:
            assert isinstance(message.method, m.BasicGetOk), "basic.get is answered by get-ok"
            tag = message.method.delivery_tag
            if not client.publish("", to, message.properties, message.body):
                client.tell(m.BasicReject(tag, requeue=True))
                reason = _not_taken(client, "", to)
                raise CommandError(f"{moved} messages were moved; then {reason}", FAILED)
            client.tell(m.BasicAck(tag))
            moved += 1
    say({"moved": moved}, f"{moved} messages moved from {queue} to {to}", json)


def _not_taken(client: AmqpClient, exchange: str, key: str) -> str:
    where = f"with the key {key!r}" if exchange else f"to queue {key!r}"
    if client.returned:
        method = client.returned[-1].method
        assert isinstance(method, m.BasicReturn), "what comes back is a basic.return"
        return f"the message {where} reached no queue: {method.reply_code} {method.reply_text}"
    return f"the broker refused the message {where} (basic.nack): the queue may be full"
