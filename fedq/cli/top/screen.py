"""What `fedq top` shows people: three tables, and what is wrong."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from fedq.cli.asking.forms import Form
from fedq.cli.terminal.screen import Cell, size, table, word
from fedq.cli.top.rates import COUNTED

_MESSAGES = ("#PUBLISHED/S", "#DELIVERED/S", "#ACKED/S")
_MEMBERS = (
    "NODE", "STATE", "ROLE", "#BUSY", "#TURNS/S", *_MESSAGES, "#CLIENTS", "#WAITING", "#LEADS",
    "#MEMORY", "#JOURNAL", "#+/S",
)  # fmt: skip
_QUEUES = (
    "QUEUE", "VHOST", "STATE", *_MESSAGES, "#READY", "#UNACKED", "#+-/S", "#CONSUMERS",
)  # fmt: skip
_CONNECTIONS = (
    "CONNECTION", "CLIENT", "USER", "VHOST", "STATE", "#CHANNELS", "#CONSUMERS", "#UNACKED",
    "#+-/S",
)  # fmt: skip


def page(form: Form, trouble: str = "") -> RenderableType:
    """The whole page; `trouble`: why it is not of this moment."""
    return Group(*_parts(form, trouble))


def _parts(form: Form, trouble: str) -> Iterator[RenderableType]:
    yield Text(
        f"asked {form['node']}: leader {form['leader'] or 'none'}, queues {form['queues_total']}, "
        + (f"rates of {form['seconds']:.1f} s" if form["seconds"] else "no rates yet"),
        style="bold",
    )
    if trouble:
        yield Text(f"! not of this moment: {trouble}", style="red")
    for problem in form["problems"]:
        yield Text(f"! {problem}", style="red")
    if not form["problems"]:
        yield Text("all is well", style="green")
    if form["silent_members"]:
        yield Text(f"! not all: {', '.join(form['silent_members'])} did not answer", style="red")
    yield Text()
    yield table(_MEMBERS, map(_member_row, form["members"]))
    yield Text()
    yield table(_QUEUES, map(_queue_row, form["queues"]))
    if form["more_queues"]:
        yield Text(f"of the first {form['queues_looked_at']} queues; see --vhost", style="dim")
    yield Text()
    yield table(_CONNECTIONS, map(_connection_row, form["connections"]))
    if form["more_connections"]:
        looked_at = form["connections_looked_at"]
        yield Text(f"of the first {looked_at} connections; see --vhost", style="dim")


def _member_row(member: Form) -> list[Cell]:
    busy = member["busy_percent"]
    return [
        member["node"],
        word(member["state"]),
        member["role"] if member["role"] is None else word(member["role"]),
        None if busy is None else f"{busy:.0f} %",
        _number(member["turns_per_second"]),
        *_messages(member),
        member["connections"],
        member["connections_waiting"],
        member["leads"],
        size(member["memory_bytes"]),
        size(member["journal_bytes"]),
        _bytes(member["journal_bytes_per_second"]),
    ]


def _queue_row(queue: Form) -> list[Cell]:
    return [
        queue["name"],
        queue["vhost"],
        word(queue["state"]),
        *_messages(queue),
        queue["ready"],
        queue["unacknowledged"],
        _signed(queue["messages_change_per_second"]),
        queue["consumers"],
    ]


def _connection_row(connection: Form) -> list[Cell]:
    return [
        connection["name"],
        connection["user_provided_name"] or connection["peer_host"],
        connection["user"],
        connection["vhost"],
        word(connection["state"]),
        connection["channels"],
        connection["consumers"],
        connection["messages_unacknowledged"],
        _signed(connection["unacknowledged_change_per_second"]),
    ]


def _messages(row: Form) -> list[Cell]:
    return [_number(row[f"{name}_per_second"]) for name in COUNTED]


def _number(value: float | None) -> Cell:
    return None if value is None else f"{value:,.0f}"


def _signed(value: float | None) -> Cell:
    if value is None:
        return None
    return "0" if not value else f"{value:+,.0f}"


def _bytes(value: float | None) -> Cell:
    if value is None:
        return None
    return size(int(value)) if value >= 0 else f"-{size(int(-value))}"
