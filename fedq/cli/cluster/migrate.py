"""`fedq migrate`: queues of a running RabbitMQ, with their messages, to this cluster, and back.

Definitions are imported, and shovels made (docs/adr/0114), some queues at a time. Whatever ends
this command leaves no message in between: what was not moved is where it was.
"""

import select
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote, urlsplit

import orjson
import typer

from fedq.amqp.uris import local_uri, parse_uri, with_vhost
from fedq.cli.asking.amqp_options import CaOption
from fedq.cli.asking.http_client import ask_http
from fedq.cli.cluster.definitions import HTTP_URL, WAIT_S, UrlOption, WaitOption
from fedq.cli.cluster.migration_plan import (
    MigrationPlan,
    moved_by,
    plan_of,
    shovel_name,
    shovel_value,
)
from fedq.cli.terminal.failure import FAILED, INTERRUPTED, USAGE, CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.terminal.screen import console, print_json
from fedq.cli.terminal.stopping import Stop
from fedq.core.ids import QueueKey

_AT_ONCE: Final = 50
_LOOK_S: Final = 1.0
#: A shovel that has failed so often will not do better by itself.
_FAILURES_MAX: Final = 3

Move = tuple[str, QueueKey]


class _Node:
    """The HTTP API of a node of this cluster, as one user."""

    def __init__(self, url: str, authority: Path | None, timeout_s: float) -> None:
        self._asked = (url, authority, timeout_s)
        parts = urlsplit(url)
        self.user = unquote(parts.username or "guest")
        self.password = unquote(parts.password or "guest")

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of an answer; raises `CommandError`."""
        said = None if body is None else orjson.dumps(body)
        return ask_http(*self._asked, method, path, said)[1]

    def let_in(self, vhost: str) -> None:
        """Gives the user permissions in a virtual host where it has none: a shovel needs them."""
        known = self.ask("GET", f"users/{quote(self.user, safe='')}/permissions")
        if vhost not in [row["vhost"] for row in known]:
            everything = {"configure": ".*", "write": ".*", "read": ".*"}
            path = f"permissions/{quote(vhost, safe='')}/{quote(self.user, safe='')}"
            self.ask("PUT", path, everything)

    def shovels(self) -> dict[Move, dict[str, Any]]:
        """Shovels of migrations with how they fare, by name and queue."""
        rows = self.ask("GET", "parameters/shovel")
        found: dict[Move, dict[str, Any]] = {}
        states = {(row["vhost"], row["name"]): row for row in self.ask("GET", "shovels")}
        for row in rows:
            key = moved_by(row["name"], row["vhost"], row["value"])
            if key is not None:
                state = states.get((row["vhost"], row["name"]), {})
                found[row["name"], key] = state
        return found

    def end(self, moves: Sequence[Move]) -> None:
        """Takes shovels away."""
        for name, key in moves:
            path = f"parameters/shovel/{quote(key.vhost, safe='')}/{quote(name, safe='')}"
            self.ask("DELETE", path)


@reporting
def migrate_queues(
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="URI", envvar="FEDQ_MIGRATE_FROM", show_default=False,
            help="amqp://user:password@host:port of the RabbitMQ, as nodes here reach it.",
        ),
    ] = "",
    definitions: Annotated[
        Path | None,
        typer.Option(
            "--definitions", metavar="FILE", show_default=False,
            help="What it has, as `rabbitmqadmin export` or `rabbitmqctl export_definitions` says.",
        ),
    ] = None,
    management: Annotated[
        str,
        typer.Option(
            "--management", metavar="URL", envvar="FEDQ_MIGRATE_MANAGEMENT", show_default=False,
            help="Or the address of its management API: http://USER:PASSWORD@127.0.0.1:15672.",
        ),
    ] = "",
    vhost: Annotated[
        str | None, typer.Option(metavar="VHOST", help="Only this one.", show_default=False)
    ] = None,
    is_dry: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")
    ] = False,
    is_back: Annotated[
        bool, typer.Option("--back", help="The other direction: from this cluster to there.")
    ] = False,
    is_kept: Annotated[
        bool, typer.Option("--keep", help="Go on moving what is published there, until --end.")
    ] = False,
    is_end: Annotated[
        bool, typer.Option("--end", help="End what --keep began; what is moved stays moved.")
    ] = False,
    url: UrlOption = HTTP_URL,
    authority: CaOption = None,
    timeout_s: WaitOption = WAIT_S,
    json: JsonOption = False,
) -> None:  # fmt: skip
    """Move the queues of a running RabbitMQ here, some at a time, until they are empty there."""
    node = _Node(url, authority, timeout_s)
    if is_end:
        _end(node, json)
        return
    _check(source)
    plan = _planned(definitions, management, authority, timeout_s, vhost)
    if is_dry:
        _show_plan(plan, json)
    else:
        _migrate(node, source, plan, is_back, is_kept, json)


def _end(node: _Node, json: bool) -> None:
    ended = list(node.shovels())
    node.end(ended)
    _tell(json, [], {"ended": len(ended)}, f"{len(ended)} shovels ended")


def _check(source: str) -> None:
    """Raises `CommandError` for what is no URI of another broker."""
    found = parse_uri(source)
    if isinstance(found, str):
        raise CommandError(f"--from: {found}", USAGE)
    if not found.host:
        raise CommandError("--from: a URI without a host is of this cluster", USAGE)


def _migrate(
    node: _Node, source: str, plan: MigrationPlan, is_back: bool, is_kept: bool, json: bool
) -> None:
    """Imports the definitions, if they are to come here, and has the queues moved."""
    differs: list[str] = []
    if not is_back:
        found = node.ask("POST", "definitions", plan.definitions)
        differs = found["differs"] if found else []
    for name in sorted({key.vhost for key in plan.queues}):
        node.let_in(name)
    told = [*plan.left, *differs]
    if is_kept:
        _make(node, source, _moves(list(enumerate(plan.queues))), is_back, "never")
        sentence = f"{len(plan.queues)} shovels move on: `fedq shovel list`, `fedq migrate --end`"
        _tell(json, told, {"shovels": len(plan.queues)}, sentence)
        return
    _move_all(node, source, plan, told, is_back, json)


def _planned(
    file: Path | None, management: str, authority: Path | None, timeout_s: float, vhost: str | None
) -> MigrationPlan:
    if (file is None) == (not management):
        raise CommandError(
            "say what is there: either --definitions FILE or --management URL", USAGE
        )
    if file is None:
        said = ask_http(management, authority, timeout_s, "GET", "definitions")[1]
    else:
        try:
            said = orjson.loads(file.read_bytes())
        except OSError as error:
            raise CommandError(f"cannot read {file}: {error.strerror}", USAGE) from error
        except orjson.JSONDecodeError as error:
            raise CommandError(f"{file} is no JSON: {error}", USAGE) from error
    try:
        return plan_of(said, vhost)
    except ValueError as error:
        raise CommandError(str(error), USAGE) from error


def _show_plan(plan: MigrationPlan, json: bool) -> None:
    counts = {name: len(rows) for name, rows in plan.definitions.items()}
    moved = [f"queue {key.name!r} in vhost {key.vhost!r} would be moved" for key in plan.queues]
    rows = [{"vhost": key.vhost, "name": key.name} for key in plan.queues]
    told = ", ".join(f"{count} {name}" for name, count in counts.items())
    form = {"queues": rows, "imported": counts, "dry_run": True}
    _tell(json, [*moved, *plan.left], form, f"would import {told}; nothing was done", plan.left)


def _tell(
    json: bool, lines: Sequence[str], form: dict[str, Any], last: str,
    left: Sequence[str] | None = None,
) -> None:  # fmt: skip
    if json:
        print_json({**form, "left": list(lines if left is None else left)})
        return
    for line in (*lines, last):
        console().print(line, soft_wrap=True)


def _moves(numbered: Sequence[tuple[int, QueueKey]]) -> list[Move]:
    return [(shovel_name(number, key), key) for number, key in numbered]


def _make(node: _Node, source: str, moves: Sequence[Move], is_back: bool, after: str) -> None:
    """Makes the shovels of some queues."""
    for name, key in moves:
        there, here = with_vhost(source, key.vhost), local_uri(node.user, node.password, key.vhost)
        ends = (here, there) if is_back else (there, here)
        value = shovel_value(key, *ends, after)
        path = f"parameters/shovel/{quote(key.vhost, safe='')}/{quote(name, safe='')}"
        node.ask("PUT", path, {"value": value})


def _move_all(
    node: _Node, source: str, plan: MigrationPlan, told: list[str], is_back: bool, json: bool
) -> None:
    """Moves what is in the queues, some of them at a time."""
    numbered, failed = list(enumerate(plan.queues)), list[str]()
    with Stop() as stop:
        for start in range(0, len(numbered), _AT_ONCE):
            part = numbered[start : start + _AT_ONCE]
            moves = _moves(part)
            try:
                _make(node, source, moves, is_back, "queue-length")
                failed += _watch(node, moves, stop)
            finally:
                node.end([move for move in node.shovels() if move in moves])
            if stop.asked:
                text = "interrupted: what is not moved is where it was; the same command goes on"
                raise CommandError(text, INTERRUPTED)
            if not json:
                done = min(start + _AT_ONCE, len(numbered))
                console().print(f"{done} of {len(numbered)} queues", soft_wrap=True)
    moved = len(numbered) - len(failed)
    _tell(json, [*told, *failed], {"queues": moved}, f"{moved} queues are moved")
    if failed:
        raise CommandError(
            f"{len(failed)} queues are not moved; the same command tries again", FAILED
        )


def _watch(node: _Node, moves: Sequence[Move], stop: Stop) -> list[str]:
    """Waits until these shovels are done; returns which ones are not, and why."""
    failed: dict[Move, str] = {}
    while not stop.asked:
        known = node.shovels()
        waiting = [move for move in moves if move in known and move not in failed]
        if not waiting:
            break
        for move in waiting:
            state = known[move]
            if state.get("restarts", 0) >= _FAILURES_MAX:
                reason = state.get("reason", "it does not say why")
                queue = move[1]
                failed[move] = f"queue {queue.name!r} in vhost {queue.vhost!r}: {reason}"
        select.select([stop], [], [], _LOOK_S)
    return list(failed.values())
