"""`fedq up`: a cluster of real nodes on this machine, for as long as the command runs.

Exit codes: 0 stopped by Ctrl-C or SIGTERM, 1 a node could not be started or all have ended, 2 the
command line or a configuration is wrong.
"""

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer

from fedq.cli.processes.child import Child, how_it_ended, pause_s
from fedq.cli.terminal.failure import CommandError, reporting
from fedq.cli.terminal.options import JsonOption
from fedq.cli.up.plan import (
    NODES_DEFAULT,
    Plan,
    check_ports,
    locked,
    open_plan,
)
from fedq.cli.up.screen import LineScreen, LiveScreen, Screen
from fedq.cli.up.watch import Event, Picture, Watcher, compare
from fedq.core.limits import VOTERS_MAX, WORKERS_MAX

_LOOK_S: Final = 0.25
_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@reporting
def start_cluster(
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=VOTERS_MAX,
            help=f"How many nodes. Default: {NODES_DEFAULT}, or as many as --data holds.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep data, configuration and ports here for the next time. Default: a "
            "temporary directory that is removed at the end.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=WORKERS_MAX,
            help="Each node is a host with so many workers. Default: 1, or as --data has it.",
            show_default=False,
        ),
    ] = None,
    amqp_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65_535,
            help="AMQP port of the first node; the others follow. Default: free ones from 5672.",
            show_default=False,
        ),
    ] = None,
    http: Annotated[
        bool,
        typer.Option(
            "--http",
            help="Serve a web page, RabbitMQ's HTTP API and metrics on each node: free ports from "
            "15672 and 15691.",
        ),
    ] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start a node again when it ended by itself.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Start a cluster on this machine and show what happens to it, until Ctrl-C."""
    with _place(data) as directory:
        plan = open_plan(directory, nodes, amqp_port, has_http=http, workers=workers)
        with locked(plan.directory):
            check_ports(plan)
            with _screen(plan, json) as screen:
                asyncio.run(LocalCluster(plan, screen, restart).run())


@contextmanager
def _place(data: Path | None) -> Iterator[Path]:
    """Where the cluster lives: the user's directory, or one that is gone after the block."""
    if data is not None:
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="fedq-up-") as temporary:
        yield Path(temporary) / "cluster"


def _screen(plan: Plan, is_json: bool) -> Screen:
    if is_json or not sys.stdout.isatty():
        return LineScreen(is_json)
    return LiveScreen(plan.nodes)


class LocalCluster:
    """The running command: the children, what is seen of them, and the wish to stop."""

    def __init__(self, plan: Plan, screen: Screen, restart: bool) -> None:
        self._plan = plan
        self._screen = screen
        self._restart = restart
        self._children = {
            str(node.name): Child(
                node.name, ["--config", str(node.config)], self._on_end, log=node.log
            )
            for node in plan.nodes
        }
        self._picture = Picture()
        self._stop = asyncio.Event()
        self._failure: str | None = None
        #: Nodes that have served since the command began.
        self._proven: dict[str, None] = {}
        self._restarts: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Returns after a stop by signal; raises `CommandError` when the cluster cannot go on."""
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._on_signal)
        watcher = Watcher(self._plan.nodes)
        names = " ".join(self._children)
        self._show(Event("starting", f"starting {names}; files in {self._plan.directory}"))
        try:
            for child in self._children.values():
                await child.start()
            await self._watch(watcher)
        finally:
            await self._end()
            await watcher.close()
        if self._failure is not None:
            raise CommandError(self._failure)

    async def _watch(self, watcher: Watcher) -> None:
        """Looks at the nodes again and again, until there is a wish to stop."""
        while not self._stop.is_set():
            running = [name for name, child in self._children.items() if child.is_running]
            picture = await watcher.look(running, self._picture)
            if self._stop.is_set():
                return
            for event in compare(self._plan.nodes, self._picture, picture):
                if event.kind == "ready" and event.node is not None:
                    self._proven[event.node] = None
                self._show(event)
            self._picture = picture
            self._screen.draw(picture, running)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), _LOOK_S)

    async def _end(self) -> None:
        """Stops every child, and waits until the last one is gone."""
        self._stop.set()
        for task in self._restarts.values():
            task.cancel()
        if any(child.is_running for child in self._children.values()):
            self._show(Event("stopping", "stopping; Ctrl-C again does not wait for a clean end"))
        await asyncio.gather(*(child.stop() for child in self._children.values()))

    def _show(self, event: Event) -> None:
        self._screen.show(event)

    # --- what happens -----------------------------------------------------------------------------

    def _on_signal(self) -> None:
        """Takes a signal: the first asks for a clean stop, the second does not wait for that."""
        if self._stop.is_set():
            for child in self._children.values():
                child.signal(signal.SIGKILL)
        self._stop.set()

    def _on_end(self, name: str, code: int) -> None:
        child = self._children[name]
        text = f"{name} {how_it_ended(code)}"
        if code > 0:
            text += f": {child.last_words()}"
        self._show(Event("ended", text, name))
        if self._stop.is_set():
            return
        if code > 0 and name not in self._proven:
            # What stops a node at its very start will stop it every time.
            self._fail(text)
        elif self._restart:
            self._restarts[name] = asyncio.create_task(self._start_again(child))
        elif not any(one.is_running for one in self._children.values()):
            self._fail("all nodes have ended")

    async def _start_again(self, child: Child) -> None:
        await asyncio.sleep(pause_s(child.quick_ends))
        self._show(Event("restarting", f"starting {child.name} again", child.name))
        try:
            await child.start()
        except CommandError as error:
            self._fail(error.sentence)

    def _fail(self, sentence: str) -> None:
        self._failure = sentence
        self._stop.set()
