"""Messages as people and scripts see them, and the properties that they give on a command line."""

import base64
from typing import Annotated, Any, Final

import typer

from fedq.amqp import method_types as m
from fedq.amqp.values import TableValue
from fedq.cli.asking.amqp_client import Message
from fedq.cli.terminal.failure import USAGE, CommandError
from fedq.cli.terminal.screen import Cell

#: Properties that `--property` takes: those that are text or a small number.
_TEXTS: Final = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id",
    "type", "app_id",
)  # fmt: skip
_NUMBERS: Final = {"priority": 255, "delivery_mode": 2}

PropertiesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        metavar="NAME=VALUE",
        help=f"One of {', '.join((*_TEXTS, *_NUMBERS))}; repeatable.",
    ),
]
HeadersOption = Annotated[
    list[str] | None,
    typer.Option("--header", metavar="NAME=VALUE", help="A header, as text; repeatable."),
]


def message_form(message: Message, body_bytes: int) -> dict[str, Any]:
    """A message as JSON, with so much of its body; one that is no text as base64."""
    method, body = message.method, message.body[:body_bytes]
    try:
        shown: dict[str, object] = {"body": body.decode()}
    except UnicodeDecodeError:
        shown = {"body_base64": base64.b64encode(body).decode()}
    return {
        "exchange": method.exchange,
        "routing_key": method.routing_key,
        "redelivered": not isinstance(method, m.BasicReturn) and method.redelivered,
        "properties": {name: plain(value) for name, value in message.properties.items()},
        "body_bytes": message.size,
        **shown,
    }


def plain(value: TableValue) -> object:
    """A property's value as JSON has it."""
    match value:
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case list():
            return [plain(each) for each in value]
        case bytes():
            return base64.b64encode(value).decode()
        case bool() | float() | str() | None:
            return value
        case int():
            return int(value)
        case _:
            return str(value)


def message_row(number: int, form: dict[str, Any]) -> list[Cell]:
    """A message, as `message_form` made it, as a row of a table."""
    shown = " ".join(f"{name}={value}" for name, value in form["properties"].items())
    body = str(form.get("body", form.get("body_base64")))
    again = "yes" if form["redelivered"] else ""
    exchange, key = str(form["exchange"]), str(form["routing_key"])
    return [number, exchange, key, again, shown, str(form["body_bytes"]), body]


def given_properties(given: list[str], headers: list[str]) -> dict[str, TableValue]:
    """What `--property` and `--header` say, persistent unless they say otherwise."""
    found: dict[str, TableValue] = {"delivery_mode": 2}
    for text in given:
        name, equals, value = text.partition("=")
        if name in _TEXTS and equals and len(value.encode()) < 256:
            found[name] = value
        elif name in _NUMBERS and value.isdigit() and int(value) <= _NUMBERS[name]:
            found[name] = int(value)
        else:
            known = ", ".join((*_TEXTS, *_NUMBERS))
            raise CommandError(f"--property {text}: write NAME=VALUE with one of {known}", USAGE)
    table_of: dict[str, TableValue] = {}
    for text in headers:
        name, equals, value = text.partition("=")
        if not equals or not 0 < len(name.encode()) < 256:
            raise CommandError(f"--header {text}: write NAME=VALUE", USAGE)
        table_of[name] = value
    return found | ({"headers": table_of} if table_of else {})
