"""Plans of who should lead what, as `fedq pipeline placement` writes them: read, and carried out.

In: a file. Out: moves that the cluster was asked for, and those that it refused, each with why. A
plan may be old: a move that needs nothing any more is said to be done.
"""

from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson
import typer

from fedq.cli.asking.asker import Asker, asking
from fedq.cli.asking.endpoint import Endpoint
from fedq.cli.terminal.failure import UNWELL, USAGE, CommandError
from fedq.cli.terminal.screen import console, print_json, table
from fedq.shell.pb import admin_pb2 as pb

#: The version of the form that is known here, and how much of it is read.
_VERSION: Final = 1
_BYTES_MAX: Final = 64 << 20
_MOVES_MAX: Final = 10_000
_TEXTS: Final = ("vhost", "queue", "from", "to")


class PlannedMove(NamedTuple):
    """A fragment that another node is to lead."""

    vhost: str
    queue: str
    fragment: int
    source: str
    target: str


def read_plan(path: Path) -> list[PlannedMove]:
    """The moves in a file; CommandError if it is no plan that can be carried out."""
    try:
        if path.stat().st_size > _BYTES_MAX:
            raise CommandError(f"{path} is larger than {_BYTES_MAX >> 20} MiB: no plan is", USAGE)
        form = orjson.loads(path.read_bytes())
    except OSError as error:
        raise CommandError(f"cannot read the plan {path}: {error.strerror}", USAGE) from error
    except ValueError as error:
        raise CommandError(f"{path} is no plan: it is no JSON ({error})", USAGE) from error
    if not isinstance(form, dict) or form.get("fedq_plan") != _VERSION:
        raise CommandError(
            f"{path} is no plan of a form that is known here; `fedq pipeline placement` writes "
            "plan.json",
            USAGE,
        )
    moves = form.get("moves")
    if not isinstance(moves, list) or len(moves) > _MOVES_MAX:
        raise CommandError(f"{path} needs a list of {_MOVES_MAX:,} moves at most", USAGE)
    return [_move(path, number, each) for number, each in enumerate(moves, 1)]


def _move(path: Path, number: int, form: Any) -> PlannedMove:
    is_form = isinstance(form, dict) and all(isinstance(form.get(name), str) for name in _TEXTS)
    fragment = form.get("fragment") if is_form else None
    if type(fragment) is not int or not 0 < fragment < 1 << 63 or not form["to"]:
        raise CommandError(
            f"move {number} of {path} needs vhost, queue, fragment, from and to", USAGE
        )
    return PlannedMove(form["vhost"], form["queue"], fragment, form["from"], form["to"])


def carry_out(endpoint: Endpoint, moves: list[PlannedMove], dry_run: bool, json: bool) -> None:
    """Asks for each move, and says what became of it; exit code 4 if some were refused."""
    outcomes = ["planned"] * len(moves)
    refused = 0
    if not dry_run:
        with asking(endpoint) as asker:
            for index, move in enumerate(moves):
                try:
                    outcomes[index] = _ask(asker, move)
                except CommandError as refusal:
                    outcomes[index] = f"refused: {refusal.sentence}"
                    refused += 1
    if json:
        forms = [
            {
                "vhost": move.vhost, "queue": move.queue, "fragment": move.fragment,
                "from": move.source, "to": move.target, "outcome": outcome,
            }
            for move, outcome in zip(moves, outcomes, strict=True)
        ]  # fmt: skip
        print_json({"moves": forms, "refused": refused, "dry_run": dry_run})
    else:
        _show(moves, outcomes, dry_run)
    if refused:
        raise typer.Exit(UNWELL)


def _ask(asker: Asker, move: PlannedMove) -> str:
    queue = pb.QueueName(vhost=move.vhost, name=move.queue)
    request = pb.MoveFragmentRequest(queue=queue, fragment=move.fragment, node=move.target)
    changed = asker.ask(asker.stub.MoveFragment, request).changed
    return "wished" if changed else "nothing to do"


def _show(moves: list[PlannedMove], outcomes: list[str], dry_run: bool) -> None:
    screen = console()
    if not moves:
        screen.print("the plan has no moves")
        return
    rows = [(*move, outcome) for move, outcome in zip(moves, outcomes, strict=True)]
    headings = ("VHOST", "QUEUE", "#FRAGMENT", "FROM", "TO", "OUTCOME")
    screen.print(table(headings, rows))
    screen.print("nothing was moved" if dry_run else "see `fedq cluster status` for what is left")
