"""Lists that come in pages, in RabbitMQ's columns: a table for people, JSON for scripts.

In: what is listed, and the options of the command. Out: the command itself, for `app.command`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from fedq.admin.bounds import QUEUES_PER_PAGE_MAX
from fedq.cli.asking.asker import Asker, ListRequest, asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.asking.forms import Form
from fedq.cli.terminal.failure import reporting
from fedq.cli.terminal.options import JsonOption, LimitOption, VhostOption
from fedq.cli.terminal.screen import Cell, console, print_json, table

LISTED_DEFAULT: Final = 1_000


@dataclass(frozen=True, slots=True)
class Listed:
    """One kind of thing that can be listed."""

    #: Its name in the plural, as in JSON and in the replies.
    name: str
    #: A method of the admin service's stub, and the type of its requests.
    call: str
    request: Callable[..., ListRequest]
    #: One thing as a JSON value, its keys the columns.
    form: Callable[[Any], Form]
    #: The columns of the table; `#` begins one of numbers.
    columns: tuple[str, ...]
    #: Members may be silent: their part is missing then.
    of_members: bool = False


@dataclass(slots=True)
class _Found:
    forms: list[Form]
    are_more: bool
    silent: dict[str, None]


def list_command(listed: Listed) -> Callable[..., None]:
    """The command that lists one kind of thing."""

    @reporting
    @asking_a_node
    def show(
        endpoint: Endpoint,
        vhost: VhostOption = None,
        limit: LimitOption = LISTED_DEFAULT,
        json: JsonOption = False,
    ) -> None:
        show_list(endpoint, listed, vhost, limit, json)

    return show


def show_list(
    endpoint: Endpoint, listed: Listed, vhost: str | None, limit: int, json: bool, **more: object
) -> None:
    """Asks for a list and prints it; `more`: what else its request says."""
    request = listed.request(vhost=vhost, page_size=min(limit, QUEUES_PER_PAGE_MAX), **more)
    with asking(endpoint) as asker:
        found = _gathered(asker, listed, request, limit)
    if json:
        _print_json(listed, found)
    else:
        _print_table(listed, found)


def _gathered(asker: Asker, listed: Listed, request: ListRequest, limit: int) -> _Found:
    """The first entries of all pages, at most so many."""
    found = _Found([], False, {})
    for page in asker.pages(getattr(asker.stub, listed.call), request):
        room = limit - len(found.forms)
        items: Sequence[object] = getattr(page, listed.name)
        found.forms += map(listed.form, items[:room])
        found.are_more = bool(page.next_page_token) or len(items) > room
        if listed.of_members:
            found.silent.update(dict.fromkeys(page.silent_members))
        if len(found.forms) == limit:
            break
    return found


def _print_json(listed: Listed, found: _Found) -> None:
    value: Form = {listed.name: found.forms, "more": found.are_more}
    if listed.of_members:
        value["silent_members"] = list(found.silent)
    print_json(value)


def _print_table(listed: Listed, found: _Found) -> None:
    keys = [column.removeprefix("#") for column in listed.columns]
    rows = ([_cell(form[key]) for key in keys] for form in found.forms)
    screen = console()
    screen.print(table([column.upper() for column in listed.columns], rows))
    if found.are_more:
        shown = len(found.forms)
        screen.print(f"the first {shown}; there are more: see --limit, or name a --vhost")
    if found.silent:
        screen.print(f"! not all: {', '.join(found.silent)} did not answer", style="red")


def _cell(value: object) -> Cell:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str | int | None) else orjson.dumps(value).decode()
