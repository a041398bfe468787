"""`fedq cluster`: the cluster at a glance, its members, and who is connected."""

import time
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.asking.forms import (
    Form,
    connection_form,
    member_form,
    member_state,
    status_form,
)
from fedq.cli.cluster import hosts, moving, stopping
from fedq.cli.terminal.failure import UNREACHABLE, UNWELL, USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import Cell, console, duration, print_json, size, table, word
from fedq.shell.pb import admin_pb2 as pb

app = typer.Typer(
    no_args_is_help=True,
    help="Show the cluster, its members and its clients; drain, stop or forget members.",
)
app.command("drain")(moving.drain_node)
app.command("undrain")(moving.undrain_node)
app.command("forget")(moving.forget_node)
app.command("rebalance")(moving.rebalance)
app.command("upgrade-check")(stopping.check_upgrade)
app.command("stop")(stopping.stop_nodes)


#: What connections wait for that one line tells.
_WAITS_SHOWN: Final = 5
#: How often `--wait` asks.
_ASK_AGAIN_S: Final = 0.5


@app.command("status")
@reporting
@asking_a_node
def show_status(
    endpoint: Endpoint,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            min=0.0,
            help="Wait so long for all to be well, also for the node to answer.",
            show_default=False,
        ),
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option(
            "--watch",
            metavar="SECONDS",
            min=0.1,
            help="Show it again every so many seconds, until Ctrl-C.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        bool,
        typer.Option(
            "--workers", help="A line for each worker, also of hosts whose workers are all up."
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """Show the members, the leader, and what is wrong: exit code 4 if anything is."""
    if wait is not None and watch is not None:
        raise CommandError("--wait and --watch exclude each other; give one of them", USAGE)
    while watch is not None:
        _show_status(_ask_status(endpoint), json, workers)
        time.sleep(watch)
    form = _ask_status(endpoint) if wait is None else _wait_until_well(endpoint, wait)
    _show_status(form, json, workers)
    if form["problems"]:
        raise typer.Exit(UNWELL)


def _ask_status(endpoint: Endpoint) -> Form:
    with asking(endpoint) as asker:
        return status_form(asker.ask(asker.stub.ClusterStatus, pb.ClusterStatusRequest()))


def _wait_until_well(endpoint: Endpoint, seconds: float) -> Form:
    """The first status without a problem, or the last one when the time is over."""
    until = time.monotonic() + seconds
    while True:
        is_over = time.monotonic() >= until
        try:
            form = _ask_status(endpoint)
            if is_over or not form["problems"]:
                return form
        except CommandError as error:
            if is_over or error.exit_code != UNREACHABLE:
                raise
        time.sleep(min(_ASK_AGAIN_S, max(0.0, until - time.monotonic())))


def _show_status(form: Form, is_json: bool, unfolds: bool) -> None:
    if is_json:
        print_json(form)
        return
    screen = console()
    screen.print(
        f"asked {form['node']}: leader {form['leader'] or 'none'}, era {form['era']}, "
        f"map version {form['map_version']}, queues {form['queues']} in fragments "
        f"{form['fragments']}"
    )
    rows = hosts.status_rows(form["members"], unfolds=unfolds)
    screen.print(table(hosts.HEADINGS, rows))
    for member in form["members"]:
        for line in (*_about_drain(member), *_about_rot(member), *_about_alarms(member)):
            screen.print(line)
    if form["moves"]:
        screen.print(f"fragments that are to be led by another node: {form['moves']}")
    for note in form["notes"]:
        screen.print(note)
    for problem in form["problems"]:
        screen.print(f"! {problem}", style="red")
    if not form["problems"]:
        screen.print("all is well", style="green")


def _about_drain(member: Form) -> Iterator[str]:
    """What a drained member has left, if it is one."""
    if not member["drained"]:
        return
    figures = member["figures"]
    clients = "?" if figures is None else figures["connections"]
    to_leave = ", which are to leave" if member["clients_are_to_leave"] else ""
    if member["leads"] or member["copies"]:
        left = f"drains: {member['leads']} primaries and {member['copies']} copies are left"
    else:
        left = "drained: it holds nothing"
    yield f"{member['node']}: {left}; clients: {clients}{to_leave}"


def _about_rot(member: Form) -> Iterator[str]:
    """What has rotted on a member's disk since its start, if anything."""
    scrub = member["figures"] and member["figures"]["scrub"]
    if not scrub:
        return
    rotten, mended = scrub["segments_with_rot"], scrub["messages_mended"]
    lost = scrub["messages_lost"]
    if rotten or mended or lost:
        yield (
            f"{member['node']}: rot in {rotten} segments of the journal, {mended} messages fetched "
            f"from other copies, {lost} lost; {scrub['passes']} passes since its start"
        )


def _about_alarms(member: Form) -> Iterator[str]:
    """What a member is short of, and which of its connections wait, if that is so."""
    figures = member["figures"]
    alarms = figures and figures["alarms"]
    if not alarms:
        return
    if alarms["memory"]:
        yield (
            f"{member['node']}: low on memory: holds {size(figures['memory_bytes'])}, resident "
            f"{size(alarms['resident_bytes'])}, of {size(alarms['memory_bytes_max'])}"
        )
    if alarms["disk"]:
        yield (
            f"{member['node']}: low on disk: {size(alarms['disk_free_bytes']) or '?'} free, less "
            f"than {size(alarms['disk_free_bytes_min'])}"
        )
    if alarms["connections_waiting"]:
        waits = ", ".join(
            f"{wait['node']}{'' if wait['queue'] is None else ' (queue ' + wait['queue'] + ')'}: "
            f"{wait['connections']}"
            for wait in alarms["waits"][:_WAITS_SHOWN]
        )
        more = ", …" if len(alarms["waits"]) > _WAITS_SHOWN else ""
        yield (
            f"{member['node']}: {alarms['connections_waiting']} of its connections wait to "
            f"publish, for {waits}{more}"
        )


#: The columns of `fedq cluster members`, and of `--wide` besides; `#` begins one of numbers.
_COLUMNS: Final = (
    "NODE", "STATE", "ROLE", "UP FOR", "#CLIENTS", "#CONSUMERS", "#MEMORY", "#JOURNAL",
)  # fmt: skip
_WIDE: Final = (
    "LEASE", "#MAP", "#PROCESS", "#CHANNELS", "#SEGMENTS", "#LONGEST TURN", "ZONE", "PEER", "AMQP",
)  # fmt: skip


@app.command("members")
@reporting
@asking_a_node
def show_members(
    endpoint: Endpoint,
    wide: Annotated[bool, typer.Option("--wide", help="All columns: some 160 characters.")] = False,
    json: JsonOption = False,
) -> None:
    """List the members with their figures; ? is what a member did not tell."""
    with asking(endpoint) as asker:
        reply = asker.ask(asker.stub.Members, pb.MembersRequest())
    members = [member_form(member) for member in reply.members]
    if json:
        print_json({"members": members})
        return
    rows = [_member_row(member) + (_wide_row(member) if wide else []) for member in members]
    console().print(table((*_COLUMNS, *_WIDE) if wide else _COLUMNS, rows))


def _member_row(member: Form) -> list[Cell]:
    figures: Form | None = member["figures"]
    return [
        member["node"],
        word(member_state(member)),
        hosts.role_of(member),
        None if figures is None else duration(figures["uptime_ms"]),
        None if figures is None else figures["connections"],
        None if figures is None else figures["consumers"],
        None if figures is None else size(figures["memory_bytes"]),
        None if figures is None else size(figures["journal_bytes"]),
    ]


def _wide_row(member: Form) -> list[Cell]:
    figures: Form | None = member["figures"]
    return [
        _figure(member, "lease"),
        None if figures is None else figures["map_version"],
        member["incarnation"],
        None if figures is None else figures["channels"],
        None if figures is None else figures["journal_segments"],
        None if figures is None else _longest_turn(figures),
        member["zone"],
        member["peer_address"],
        member["amqp_address"],
    ]


def _longest_turn(figures: Form) -> Cell:
    turns: Form | None = figures["turns"]
    return None if turns is None else f"{turns['longest_us'] / 1_000:.1f} ms"


def _figure(member: Form, name: str) -> Cell:
    """A word for one of a member's own figures; a member that is not up has none."""
    figures: Form | None = member["figures"]
    if figures is not None:
        return word(figures[name])
    return None if member["state"] == "up" else ""


@app.command("connections")
@reporting
@asking_a_node
def list_connections(
    endpoint: Endpoint,
    member: Annotated[
        str, typer.Argument(help="Only those of this member.", show_default=False)
    ] = "",
    limit: Annotated[
        int, typer.Option(min=1, max=1_000, help="List at most so many of each member.")
    ] = 100,
    json: JsonOption = False,
) -> None:
    """List client connections of all members, or of one."""
    with asking(endpoint) as asker:
        request = pb.ListConnectionsRequest(node=member, limit=limit)
        reply = asker.ask(asker.stub.ListConnections, request)
    connections = [connection_form(connection) for connection in reply.connections]
    silent = list(reply.silent_members)
    if json:
        print_json({"connections": connections, "total": reply.total, "silent_members": silent})
        return
    headings = (
        "NODE", "CLIENT", "USER", "VHOST", "NAME", "#CHANNELS", "#CONSUMERS", "#UNACKED", "STATE",
    )  # fmt: skip
    rows = [
        (
            one["node"], one["client_address"], one["user"], one["vhost"], one["client_name"],
            one["channels"], one["consumers"], one["unacknowledged"],
            word("blocked" if one["blocked"] else "running"),
        )
        for one in connections
    ]  # fmt: skip
    screen = console()
    screen.print(table(headings, rows))
    if reply.total > len(connections):
        screen.print(f"{len(connections)} of {reply.total} shown; see --limit")
    if silent:
        screen.print(f"! not all: {', '.join(silent)} did not answer", style="red")
