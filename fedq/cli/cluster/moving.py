"""`fedq cluster drain`, `undrain`, `rebalance`, and `fedq queue move-fragment`: planned moves."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import typer

from fedq.cli.asking.asker import Asker, asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.cluster.plans import carry_out, read_plan
from fedq.cli.terminal.failure import UNWELL, USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption, QueueArgument, QueueVhostOption
from fedq.cli.terminal.screen import console, print_json, table
from fedq.shell.pb import admin_pb2 as pb

#: How often `--wait` asks.
_ASK_AGAIN_S: Final = 0.2

MemberArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="Which member.", show_default=False)
]
WaitOption = Annotated[
    float | None,
    typer.Option(
        "--wait", metavar="SECONDS", min=0.0, help="Wait so long for it to be done.",
        show_default=False,
    ),
]  # fmt: skip


@reporting
@asking_a_node
def drain_node(
    endpoint: Endpoint,
    member: MemberArgument,
    close: Annotated[
        bool,
        typer.Option(
            "--close/--keep-clients",
            help="Send its clients to other nodes, once nothing of theirs is under way; or let "
            "them stay.",
        ),
    ] = True,
    wait: WaitOption = None,
    json: JsonOption = False,
) -> None:
    """Have other members take what a member holds; it gets nothing new, and no clients.

    With --wait: exit code 0 if it leads nothing, has no client that is to leave, and what is left
    of copies cannot go; 4 if the time is over before that, or somebody has undrained it.
    """
    with asking(endpoint) as asker:
        request = pb.DrainNodeRequest(node=member, close_clients=close)
        changed = asker.ask(asker.stub.DrainNode, request).changed
        left = _wait_until_drained(asker, member, wait)
    found, notes = left.member, [note for note in left.notes if note.startswith(f"{member} ")]
    if json:
        print_json(
            {
                "changed": changed, "leads": found.leads, "copies": found.copies,
                "copies_that_stay": found.copies_that_stay,
                "connections": left.connections, "notes": notes,
            }
        )  # fmt: skip
    else:
        screen = console()
        screen.print(f"{member} is {'to be' if changed else 'already'} drained")
        clients = "?" if left.connections is None else left.connections
        screen.print(f"left: {found.leads} primaries, {found.copies} copies, {clients} clients")
        for note in notes:
            screen.print(note)
        if not found.HasField("drain"):
            screen.print(f"somebody has undrained {member} meanwhile")
        screen.print("see `fedq cluster status`; `fedq cluster undrain` undoes it")
    if wait is not None and not left.is_done:
        raise typer.Exit(UNWELL)


class _Left(NamedTuple):
    """What a drained member has left, and what the cluster says of it."""

    member: pb.Member
    notes: Sequence[str]

    @property
    def connections(self) -> int | None:
        """How many clients it has; None: it did not answer."""
        figures = self.member.figures
        return int(figures.connections) if self.member.HasField("figures") else None

    @property
    def is_done(self) -> bool:
        """Whether all has gone that can: it leads nothing, and its clients that are to have left.

        A member that is down has none, and tells nobody.
        """
        member = self.member
        if not member.HasField("drain") or member.leads:
            return False
        if member.drain.closes_clients and self.connections:
            return False
        return bool(member.copies <= member.copies_that_stay)


def _wait_until_drained(asker: Asker, node: str, seconds: float | None) -> _Left:
    """What the member has left, once all has gone that can, or the time is over."""
    until = time.monotonic() + (seconds or 0.0)
    while True:
        status = asker.ask(asker.stub.ClusterStatus, pb.ClusterStatusRequest())
        found = [member for member in status.members if member.node == node]
        if not found:
            raise CommandError(f"{node} is no member any more")
        left = _Left(found[0], list(status.notes))
        is_given_up = not found[0].HasField("drain")
        if left.is_done or is_given_up or time.monotonic() >= until:
            return left
        time.sleep(_ASK_AGAIN_S)


@reporting
@asking_a_node
def undrain_node(endpoint: Endpoint, member: MemberArgument, json: JsonOption = False) -> None:
    """Let a member that was drained hold something, and have clients, again."""
    with asking(endpoint) as asker:
        changed = asker.ask(asker.stub.UndrainNode, pb.UndrainNodeRequest(node=member)).changed
    if json:
        print_json({"changed": changed})
        return
    screen = console()
    screen.print(f"{member} {'may hold something again' if changed else 'was not drained'}")
    if changed:
        screen.print("once it has copies in sync, `fedq cluster rebalance` has it lead its share")


@reporting
@asking_a_node
def forget_node(
    endpoint: Endpoint,
    member: MemberArgument,
    wait: WaitOption = None,
    json: JsonOption = False,
) -> None:
    """Take a member that is down for good out of the cluster; others get copies of what it had.

    It is refused if it comes back, unless it joins as a new node with an empty data directory.
    """
    with asking(endpoint) as asker:
        changed = asker.ask(asker.stub.ForgetNode, pb.ForgetNodeRequest(node=member)).changed
        short = _wait_until_copied(asker, wait)
    if json:
        print_json({"changed": changed, "fragments_short": short})
    else:
        screen = console()
        screen.print(f"{member} is {'' if changed else 'already '}of the cluster no more")
        screen.print(f"fragments that are short of copies: {short}")
    if wait is not None and short:
        raise typer.Exit(UNWELL)


def _wait_until_copied(asker: Asker, seconds: float | None) -> int:
    """How many fragments are short of copies, once none is, or the time is over."""
    until = time.monotonic() + (seconds or 0.0)
    while True:
        short = int(asker.ask(asker.stub.ClusterStatus, pb.ClusterStatusRequest()).fragments_short)
        if not short or time.monotonic() >= until:
            return short
        time.sleep(_ASK_AGAIN_S)


@reporting
@asking_a_node
def rebalance(
    endpoint: Endpoint,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the moves, and move nothing.")
    ] = False,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan", metavar="FILE", help="Make the moves of `fedq pipeline placement`.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Have members lead about as many fragments each; copies even out by themselves."""
    if plan is not None:
        carry_out(endpoint, read_plan(plan), dry_run, json)
        return
    with asking(endpoint) as asker:
        reply = asker.ask(asker.stub.Rebalance, pb.RebalanceRequest(dry_run=dry_run))
    moves = [
        {
            "vhost": move.queue.vhost, "queue": move.queue.name, "fragment": move.fragment,
            "from": getattr(move, "from"), "to": move.to,
        }
        for move in reply.moves
    ]  # fmt: skip
    if json:
        print_json({"moves": moves, "more": reply.more, "dry_run": dry_run})
        return
    screen = console()
    if not moves:
        even = "members lead about as many fragments each as their copies in sync allow"
        screen.print(f"nothing to move: {even}")
        return
    headings = ("VHOST", "QUEUE", "#FRAGMENT", "FROM", "TO")
    screen.print(table(headings, [tuple(move.values()) for move in moves]))
    if reply.more:
        screen.print("there are more: ask again when these are done")
    screen.print("nothing was moved" if dry_run else "see `fedq cluster status` for what is left")


@reporting
@asking_a_node
def move_fragment(
    endpoint: Endpoint,
    name: QueueArgument,
    to: Annotated[
        str,
        typer.Option("--to", metavar="NODE", help="Who is to lead it.", show_default=False),
    ] = "",
    fragment: Annotated[
        int,
        typer.Option(
            "--fragment",
            metavar="NUMBER",
            min=0,
            help="Which one; needless if there is but one.",
            show_default=False,
        ),
    ] = 0,
    cancel: Annotated[bool, typer.Option("--cancel", help="It stays where it is.")] = False,
    vhost: QueueVhostOption = "/",
    wait: WaitOption = None,
    json: JsonOption = False,
) -> None:
    """Have a fragment of a queue led by another member; what is unacknowledged stays so."""
    if bool(to) == cancel:
        raise CommandError("give either --to NODE or --cancel", USAGE)
    with asking(endpoint) as asker:
        queue = pb.QueueName(vhost=vhost, name=name)
        request = pb.MoveFragmentRequest(queue=queue, fragment=fragment, node=to)
        reply = asker.ask(asker.stub.MoveFragment, request)
        primary = _wait_until_led(asker, queue, reply.fragment, to, wait)
    if json:
        print_json({"fragment": reply.fragment, "changed": reply.changed, "primary": primary})
    else:
        done = f"is led by {primary}" if cancel or primary == to else f"is to be led by {to}"
        console().print(f"fragment {reply.fragment} {done}")
    if wait is not None and to and primary != to:
        raise typer.Exit(UNWELL)


def _wait_until_led(
    asker: Asker, queue: pb.QueueName, fragment: int, node: str, seconds: float | None
) -> str:
    """Waits until the node leads the fragment, or the time is over; returns who leads it then.

    Raises `CommandError` if nobody wants that any more.
    """
    until = time.monotonic() + (seconds or 0.0)
    while True:
        request = pb.ShowQueueRequest(vhost=queue.vhost, name=queue.name)
        found = asker.ask(asker.stub.ShowQueue, request).queue.fragments
        parts = [each for each in found if each.fragment == fragment]
        if not parts:
            raise CommandError(f"fragment {fragment} is gone")
        primary = str(parts[0].primary)
        if primary == node or seconds is None:
            return primary
        if node and parts[0].moves_to != node:
            raise CommandError(
                f"fragment {fragment} stays with {primary}: the move was given up, as {node} went "
                "down, started again or was drained, or somebody wants it elsewhere; see `fedq "
                "cluster status`, and ask again"
            )
        if time.monotonic() >= until:
            return primary
        time.sleep(_ASK_AGAIN_S)
