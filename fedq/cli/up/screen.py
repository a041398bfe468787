"""What `fedq up` shows: a live page on a terminal, plain lines elsewhere, JSON lines for scripts.

In: events and pictures. Each screen is a context manager and shows an event at once.
"""

import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

import orjson
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fedq.cli.terminal.screen import console, table, word
from fedq.cli.up.plan import PlannedNode
from fedq.cli.up.watch import Event, Picture

_STYLES = {
    "ready": "green",
    "up": "green",
    "whole": "bold green",
    "ended": "red",
    "down": "red",
    "fenced": "red",
    "no-leader": "red",
    "trouble": "red",
    "fragments": "yellow",
}


class Screen(Protocol):
    """Where events and pictures go."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
    def show(self, event: Event) -> None:
        """Shows an event, once."""

    def draw(self, picture: Picture, running: Sequence[str]) -> None:
        """Shows the present state; called as often as it is looked at."""


class LineScreen:
    """A line for each event, as JSON or for people; pictures are not shown."""

    def __init__(self, is_json: bool) -> None:
        self._is_json = is_json

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        sys.stdout.flush()

    def show(self, event: Event) -> None:
        """Writes the line and flushes: whoever reads a pipe should not wait."""
        if self._is_json:
            form = {"event": event.kind, "node": event.node, "amqp": event.amqp_url}
            line = orjson.dumps(form | {"text": event.text}).decode()
        else:
            line = f"{time.strftime('%H:%M:%S')} {event.text}"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def draw(self, picture: Picture, running: Sequence[str]) -> None:
        """Draws nothing: lines tell of changes only."""


class LiveScreen:
    """Events scroll by above a table of the nodes that is kept up to date."""

    def __init__(self, nodes: Sequence[PlannedNode]) -> None:
        self._nodes = nodes
        self._console = console()
        self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._live.stop()

    def show(self, event: Event) -> None:
        """Writes a line above the table."""
        line = Text(f"{time.strftime('%H:%M:%S')} ", style="dim")
        line.append(event.text, style=_STYLES.get(event.kind, ""))
        self._live.console.print(line)

    def draw(self, picture: Picture, running: Sequence[str]) -> None:
        """Draws the table as of now."""
        problems = [Text(f"! {problem}", style="red") for problem in picture.problems]
        hint = Text("Ctrl-C stops all nodes", style="dim")
        self._live.update(
            Group(Text(), _node_table(self._nodes, picture, running), *problems, hint),
            refresh=True,
        )


def _node_table(nodes: Sequence[PlannedNode], picture: Picture, running: Sequence[str]) -> Table:
    rows = []
    for node in nodes:
        says = picture.nodes.get(node.name)
        if node.name not in running:
            state = "down"
        elif says is None:
            state = "starting"
        else:
            state = "up" if says.is_serving else "fenced"
        rows.append(
            (
                node.name,
                word(state),
                word(says.role) if says else "",
                node.amqp_url,
                says.connections if says else "",
                says.map_version if says else "",
                node.admin,
            )
        )
    return table(("NODE", "STATE", "ROLE", "AMQP", "#CONNECTIONS", "#MAP", "ADMIN"), rows)
