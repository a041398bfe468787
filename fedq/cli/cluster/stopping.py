"""`fedq cluster upgrade-check` and `fedq cluster stop`: which nodes may go, and have them go."""

import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Final

import typer

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.cluster import upgrade
from fedq.cli.terminal.failure import FAILED, USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json, table
from fedq.core.addresses import split_address
from fedq.shell.pb import admin_pb2 as pb

#: How often `--wait` looks.
_LOOK_AGAIN_S: Final = 0.2

MaybeMember = Annotated[
    str, typer.Argument(metavar="NODE", help="Which member.", show_default=False)
]


def _status(endpoint: Endpoint) -> pb.ClusterStatusReply:
    with asking(endpoint) as asker:
        status: pb.ClusterStatusReply = asker.ask(
            asker.stub.ClusterStatus, pb.ClusterStatusRequest()
        )
    return status


@reporting
@asking_a_node
def check_upgrade(endpoint: Endpoint, member: MaybeMember = "", json: JsonOption = False) -> None:
    """Show what each node runs and speaks, and which of them may be stopped now.

    Exit code 0 if each of them (or NODE) may be stopped, one at a time; 1 if not.
    """
    status = _status(endpoint)
    found = [each for each in upgrade.judge(status) if member in ("", each.member.node)]
    if not found:
        raise CommandError(f"{member} is no member that is up; see `fedq cluster status`")
    versions = upgrade.switched_on(status)
    is_fine = versions["fits"] and all(each.is_safe for each in found)
    if json:
        members = [upgrade.judgement_form(each) for each in found]
        print_json({"safe": is_fine, "versions": versions, "members": members})
    else:
        _show(status, found, versions)
    if not is_fine:
        raise typer.Exit(FAILED)


def _show(
    status: pb.ClusterStatusReply, found: Sequence[upgrade.Judgement],
    versions: dict[str, object],
) -> None:  # fmt: skip
    screen = console()
    rows = [
        (
            each.member.node, each.member.figures.version or upgrade.UNKNOWN,
            upgrade.speaks(each.member), "yes" if each.is_safe else "no",
        )
        for each in found
    ]  # fmt: skip
    screen.print(table(("NODE", "RELEASE", "SPEAKS", "MAY BE STOPPED"), rows))
    for each in found:
        for reason in each.reasons:
            screen.print(f"! {each.member.node}: {reason}", style="red")
        for note in each.notes:
            screen.print(f"{each.member.node}: {note}")
    away = [each.node for each in status.members if each.state != pb.MEMBER_STATE_UP]
    if away:
        screen.print(f"not up: {', '.join(away)}")
    screen.print(
        f"the cluster speaks version {status.cluster_version}; this command is of release "
        f"{versions['this_release']}, which speaks {_range(versions['this_release_speaks'])}"
    )
    if not versions["fits"]:
        screen.print(
            "! this release does not speak with all of them: update one release after the other",
            style="red",
        )
    news = versions["switched_on_then"]
    assert isinstance(news, dict)
    for version, features in news.items():
        screen.print(f"once all nodes run it, version {version}: {', '.join(features)}")


def _range(versions: object) -> str:
    assert isinstance(versions, list)
    return f"versions {versions[0]} to {versions[1]}"


@reporting
@asking_a_node
def stop_nodes(
    endpoint: Endpoint,
    member: MaybeMember = "",
    every: Annotated[bool, typer.Option("--all", help="Stop all members.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Stop it though `upgrade-check` says it may not.")
    ] = False,
    wait: Annotated[
        float,
        typer.Option("--wait", metavar="SECONDS", min=0.0, help="Wait so long for their ends."),
    ] = 60.0,
    json: JsonOption = False,
) -> None:
    """Stop a member, or all, cleanly: each hands over what it leads, and ends.

    Exit code 1 if it may not be stopped now, has no admin port, or did not end in time.
    """
    if bool(member) == every:
        raise CommandError("give either a NODE or --all", USAGE)
    status = _status(endpoint)
    chosen = [each for each in upgrade.judge(status) if every or each.member.node == member]
    if not chosen:
        raise CommandError(f"{member} is no member that is up; see `fedq cluster status`")
    if not every and not force and not chosen[0].is_safe:
        reasons = "; ".join(chosen[0].reasons)
        raise CommandError(f"{member} may not be stopped now: {reasons}. --force stops it")
    addresses = {each.member.node: _admin_address(each.member) for each in chosen}
    # Last the one that was asked: until then it could tell what became of the others.
    order = sorted(addresses, key=lambda node: (node == status.node, node))
    for node in order:
        _ask_to_stop(replace(endpoint, address=addresses[node], others=(), data=None), node)
    left = _wait_for_ends([addresses[node] for node in order], wait)
    names = [node for node in order if addresses[node] in left]
    if json:
        print_json({"stopped": [node for node in order if node not in names], "left": names})
    else:
        for node in order:
            console().print(f"{node} {'is still stopping' if node in names else 'has stopped'}")
    if names:
        raise typer.Exit(FAILED)


def _admin_address(member: pb.Member) -> str:
    address = str(member.figures.admin_address)
    if not address:
        why = "has no admin port" if member.HasField("figures") else "does not answer"
        raise CommandError(
            f"{member.node} {why}: nobody was stopped; stop it on its own machine (SIGTERM)"
        )
    return address


def _ask_to_stop(endpoint: Endpoint, node: str) -> None:
    with asking(endpoint) as asker:
        asker.ask(asker.stub.StopNode, pb.StopNodeRequest(node=node))


def _wait_for_ends(addresses: Sequence[str], seconds: float) -> list[str]:
    """The addresses where somebody still listens once the time is over, or none."""
    until = time.monotonic() + seconds
    left = list(addresses)
    while True:
        left = [address for address in left if _is_there(address)]
        if not left or time.monotonic() >= until:
            return left
        time.sleep(_LOOK_AGAIN_S)


def _is_there(address: str) -> bool:
    try:
        socket.create_connection(split_address(address), 1.0).close()
    except OSError:
        return False
    return True
