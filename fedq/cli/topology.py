"""`fedq exchange` and `fedq binding`: what the cluster map says of them, in RabbitMQ's columns."""

from collections.abc import Callable, Iterable
from typing import Annotated, Protocol, TypeVar

import orjson
import typer

from fedq.admin.bounds import queues_per_page_max
from fedq.cli.asking import asking
from fedq.cli.endpoint import Endpoint, asking_a_node
from fedq.cli.failure import reporting
from fedq.cli.forms import Form
from fedq.cli.options import JsonOption
from fedq.cli.screen import console, print_json, table
from fedq.shell.pb import admin_pb2 as pb

exchanges = typer.Typer(no_args_is_help=True, help="Show exchanges.")
bindings = typer.Typer(no_args_is_help=True, help="Show bindings.")

VhostOption = Annotated[
    str | None,
    typer.Option("--vhost", metavar="NAME", help="Only this virtual host.", show_default=False),
]
LimitOption = Annotated[int, typer.Option(min=1, max=100_000, help="List at most so many.")]

_EXCHANGE_COLUMNS = ("vhost", "name", "type", "durable", "auto_delete", "internal", "arguments")
_BINDING_COLUMNS = (
    "vhost", "source_name", "source_kind", "destination_name", "destination_kind", "routing_key",
    "arguments",
)  # fmt: skip


class _Page(Protocol):
    @property
    def next_page_token(self) -> str: ...


Reply = TypeVar("Reply", bound=_Page)


@exchanges.command("list")
@reporting
@asking_a_node
def list_exchanges(
    endpoint: Endpoint,
    vhost: VhostOption = None,
    limit: LimitOption = 1_000,
    json: JsonOption = False,
) -> None:
    """List exchanges."""
    with asking(endpoint) as asker:
        found, are_more = _gathered(
            lambda size, token: asker.ask(
                asker.stub.ListExchanges,
                pb.ListExchangesRequest(vhost=vhost, page_size=size, page_token=token),
            ),
            lambda page: page.exchanges,
            _EXCHANGE_COLUMNS,
            limit,
        )
    _show("exchanges", _EXCHANGE_COLUMNS, found, are_more, json)


@bindings.command("list")
@reporting
@asking_a_node
def list_bindings(
    endpoint: Endpoint,
    vhost: VhostOption = None,
    limit: LimitOption = 1_000,
    json: JsonOption = False,
) -> None:
    """List bindings; those of exclusive queues as what their nodes want of an exchange."""
    with asking(endpoint) as asker:
        found, are_more = _gathered(
            lambda size, token: asker.ask(
                asker.stub.ListBindings,
                pb.ListBindingsRequest(vhost=vhost, page_size=size, page_token=token),
            ),
            lambda page: page.bindings,
            _BINDING_COLUMNS,
            limit,
        )
    _show("bindings", _BINDING_COLUMNS, found, are_more, json)


def _gathered(
    ask: Callable[[int, str], Reply],
    items_of: Callable[[Reply], Iterable[object]],
    columns: tuple[str, ...],
    limit: int,
) -> tuple[list[Form], bool]:
    """The first so many of all pages, and whether there are more."""
    found: list[Form] = []
    token = ""
    while True:
        page = ask(min(limit, queues_per_page_max), token)
        items = [_form(item, columns) for item in items_of(page)]
        room = limit - len(found)
        found += items[:room]
        token = page.next_page_token
        if len(found) == limit:
            return found, bool(token) or len(items) > room
        if not token:
            return found, False


def _form(item: object, columns: tuple[str, ...]) -> Form:
    form: Form = {name: getattr(item, name) for name in columns if name != "arguments"}
    form["arguments"] = orjson.loads(getattr(item, "arguments_json") or "{}")  # noqa: B009
    return form


def _show(
    name: str, columns: tuple[str, ...], found: list[Form], are_more: bool, json: bool
) -> None:
    if json:
        print_json({name: found, "more": are_more})
        return
    rows = ([_cell(form[column]) for column in columns] for form in found)
    screen = console()
    screen.print(table([column.upper() for column in columns], rows))
    if are_more:
        screen.print(f"the first {len(found)}; there are more: see --limit, or name a --vhost")


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else orjson.dumps(value).decode()
