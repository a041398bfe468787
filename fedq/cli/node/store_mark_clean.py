"""`fedq store mark-clean`: another copy counts, as all that were in sync are gone (ADR 0071).

In: a running node, a queue, the operator's word on what may be lost. Out: what is done, with the
copies that were shown: their epochs go along, so that nothing else is done.
"""

import sys
from typing import Annotated

import typer

from fedq.cli.asking.asker import Asker, asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.asking.forms import Form, member_form, stored_form
from fedq.cli.terminal.failure import USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption, QueueArgument, QueueVhostOption
from fedq.cli.terminal.screen import console, say
from fedq.shell.pb import admin_pb2 as pb


@reporting
@asking_a_node
def mark_clean(
    endpoint: Endpoint,
    name: QueueArgument,
    vhost: QueueVhostOption = "/",
    copy: Annotated[
        str | None,
        typer.Option(
            "--copy", metavar="NODE", help="Whose copy counts. Default: the best of those up."
        ),
    ] = None,
    empty: Annotated[
        str | None,
        typer.Option(
            "--empty", metavar="NODE", help="Where no node has a copy: begin with nothing there."
        ),
    ] = None,
    accept_loss: Annotated[
        str | None,
        typer.Option(
            "--accept-loss", metavar="QUEUE", help="The queue's name: you have read what is lost."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Let an older copy of a durable queue count, as all copies in sync are gone for good.

    Asks a running node; the change needs a majority. Says first what is lost by it.
    """
    if accept_loss is not None and accept_loss != name:
        raise CommandError(f"--accept-loss names {accept_loss!r}, not {name!r}", USAGE)
    with asking(endpoint) as asker:
        choices, sentences = _planned(asker, name, vhost, copy, empty)
        if accept_loss is None:
            _ask_for_the_name(name, sentences, json)
        request = pb.AdoptCopyRequest(vhost=vhost, name=name, choices=choices)
        adopted = asker.ask(asker.stub.AdoptCopy, request).adopted
    form = {
        "vhost": vhost,
        "name": name,
        "adopted": adopted,
        "lost": sentences,
        "fragments": [{"fragment": each.fragment, "node": each.node} for each in choices],
    }
    say(form, f"{adopted} fragments of {name} are served again", json)


def _ask_for_the_name(name: str, sentences: list[str], is_json: bool) -> None:
    if is_json or not sys.stdin.isatty():
        raise CommandError(
            f"{'; '.join(sentences)}. If that is what you want, add --accept-loss {name}"
        )
    screen = console()
    for sentence in sentences:
        screen.print(f"! {sentence}", style="red", soft_wrap=True)
    if typer.prompt("Type the name of the queue to go on") != name:
        raise CommandError("that is not its name; nothing was changed")


def _planned(
    asker: Asker, name: str, vhost: str, copy: str | None, empty: str | None
) -> tuple[list[pb.CopyChoice], list[str]]:
    """Which copies would count, and what that means, fragment by fragment."""
    request = pb.ShowQueueRequest(vhost=vhost, name=name)
    queue = stored_form(asker.ask(asker.stub.ShowQueue, request).queue)
    members = asker.ask(asker.stub.Members, pb.MembersRequest()).members
    up = [form["node"] for form in map(member_form, members) if form["state"] == "up"]
    choices: list[pb.CopyChoice] = []
    sentences: list[str] = []
    for fragment in queue["fragments"]:
        if any(node in up for node in fragment["in_sync"]):
            continue
        found = _best(fragment, copy)
        if found is None and empty is None:
            number, homes = fragment["fragment"], " or ".join(fragment["in_sync"])
            if copy is not None:
                raise CommandError(
                    f"{copy} has no copy of fragment {number}, or does not say so; `fedq queue "
                    f"show {name}` shows who has one"
                )
            raise CommandError(
                f"no node that is up has a copy of fragment {number}, which waits for {homes}; "
                "--empty NODE begins it anew, with nothing"
            )
        node = found["node"] if found is not None else empty
        choices.append(
            pb.CopyChoice(
                fragment=fragment["fragment"], epoch=fragment["epoch"], node=node,
                empty=found is None,
            )
        )  # fmt: skip
        sentences.append(_loss(fragment, found, node))
    if not choices:
        raise CommandError(
            f"queue {name} needs no other copy: of each fragment a node with one in sync is up"
        )
    return choices, sentences


def _best(fragment: Form, node: str | None) -> Form | None:
    """The copy that holds most, or that of a node; None: there is none."""
    copies = [
        copy
        for copy in fragment["copies"]
        if copy["role"] in ("backup", "kept") and node in (None, copy["node"])
    ]
    ranks = [(copy["whole"], copy["last"], copy["messages"]) for copy in copies]
    return copies[ranks.index(max(ranks))] if copies else None


def _loss(fragment: Form, copy: Form | None, node: str | None) -> str:
    """What is lost of a fragment if that copy counts."""
    homes = " and ".join(fragment["in_sync"])
    head = f"fragment {fragment['fragment']}: {homes} had all that was confirmed"
    later = f"if {homes} comes back, what it alone has is dropped: `fedq store export` it first"
    if copy is None:
        return f"{head}, and {node} begins with nothing: all of it is lost; {later}"
    reign = fragment["reign"]
    ends = "" if copy["last_reign"] >= reign else f" of reign {copy['last_reign']}, not {reign}"
    hole = "" if copy["whole"] else ", and older ones that it had not been sent yet"
    return (
        f"{head}; the copy of {copy['node']} has {copy['messages']} messages and ends at event "
        f"{copy['last']}{ends}: what was confirmed after that is lost{hole}, and what was "
        f"acknowledged after that may come again; {later}"
    )
