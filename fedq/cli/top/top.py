"""`fedq top`: nodes, queues and connections, by what they do, until Ctrl-C.

Exit codes: those of all commands; 0 after Ctrl-C, which is its end; with --once 4 if anything is
wrong.
"""

import select
import sys
import time
from typing import Annotated, Final

import orjson
import typer
from rich.live import Live

from fedq.cli.asking.asker import asking
from fedq.cli.asking.endpoint import Endpoint, asking_a_node
from fedq.cli.asking.forms import Form
from fedq.cli.terminal.failure import UNWELL, CommandError, reporting
from fedq.cli.terminal.options import VhostOption
from fedq.cli.terminal.screen import console, print_json
from fedq.cli.terminal.stopping import Stop
from fedq.cli.top import rates
from fedq.cli.top.looking import Look, look
from fedq.cli.top.screen import page

_ROWS_MAX: Final = 1_000


@reporting
@asking_a_node
def show_top(
    endpoint: Endpoint,
    interval: Annotated[
        float,
        typer.Option(
            "--interval", metavar="SECONDS", min=0.1, max=3600.0, help="Between two looks."
        ),
    ] = 2.0,
    rows: Annotated[
        int, typer.Option(min=1, max=_ROWS_MAX, help="So many queues, and connections.")
    ] = 10,
    once: Annotated[
        bool, typer.Option("--once", help="Look twice, show it, and end: exit code 4 if not well.")
    ] = False,
    vhost: VhostOption = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="JSON: one value with --once, else a line for each look."),
    ] = False,
) -> None:
    """Show what nodes, queues and connections do, and what is wrong, until Ctrl-C.

    BUSY: the share of the time in which a node did something. PUBLISHED/S, DELIVERED/S, ACKED/S:
    messages a second, of a node what its clients do. +-/S: how fast the number before it changes.
    """
    with Stop() as stop:
        watch = Watch(endpoint, vhost, rows)
        watch.look()
        if once:
            _wait(stop, interval)
            form = watch.look()
            if json:
                print_json(form)
            else:
                console().print(page(form))
            if form["problems"]:
                raise typer.Exit(UNWELL)
        elif json:
            while _wait(stop, interval):
                sys.stdout.write(orjson.dumps(watch.look_again()).decode() + "\n")
                sys.stdout.flush()
        else:
            _show_live(watch, stop, interval)


class Watch:
    """Looks again and again, and remembers the last look."""

    def __init__(self, endpoint: Endpoint, vhost: str | None, rows: int) -> None:
        self._endpoint = endpoint
        self._vhost = vhost
        self._rows = rows
        self._last: Look | None = None
        self.trouble = ""
        self.form: Form = {}

    def look(self) -> Form:
        """The difference to the look before; raises `CommandError`."""
        with asking(self._endpoint) as asker:
            after = look(asker, self._vhost)
        self.form = rates.shown(self._last or after, after, self._rows)
        self._last = after
        return self.form

    def look_again(self) -> Form:
        """As `look`; what was seen last, and why, where nobody answers."""
        try:
            self.trouble = ""
            return self.look()
        except CommandError as error:
            self.trouble = error.sentence
            return {**self.form, "trouble": error.sentence}


def _show_live(watch: Watch, stop: Stop, interval: float) -> None:
    """A page on the terminal that is kept up to date; elsewhere one after the other."""
    screen = console()
    if not screen.is_terminal:
        while _wait(stop, interval):
            form = watch.look_again()
            screen.print(time.strftime("%H:%M:%S"))
            screen.print(page(form, watch.trouble))
        return
    with Live(console=screen, auto_refresh=False, screen=True, vertical_overflow="crop") as live:
        live.update(page(watch.form), refresh=True)
        while _wait(stop, interval):
            form = watch.look_again()
            live.update(page(form, watch.trouble), refresh=True)


def _wait(stop: Stop, seconds: float) -> bool:
    """Waits; returns whether nobody wants an end."""
    if not stop.asked:
        select.select([stop], [], [], seconds)
    return not stop.asked
