"""The workers of a host under one supervisor: started together, watched, and stopped together.

In: a host's configuration. Out: a process for each worker, all with this one's log, and one exit
code: 0 all stopped cleanly, 1 one of them did not, or the first cannot go on, 2 a configuration is
wrong. What can be said before anything starts is: ports and data that are in use, a host without
room for so many, a certificate that does not speak for all of them.

Invariants: a worker that ends is started again, later each time that it ends soon; one that was
never up and says that its configuration is wrong ends all, as does the first if it never came up.
None outlives this process (`fedq.cli.processes.child`). See docs/adr/0098.
"""

import asyncio
import logging
import signal
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from fedq.cli.node.signals import heed
from fedq.cli.processes.child import Child, how_it_ended, pause_s
from fedq.cli.terminal.failure import FAILED, USAGE, CommandError
from fedq.shell.clients import listeners
from fedq.shell.config.values import ConfigError, Listener, NodeConfig
from fedq.shell.config.workers import left_behind, worker_data, worker_name
from fedq.shell.disk.stopped_store import process_on
from fedq.shell.host.service_manager import ServiceManager

#: Pause before a worker is started again; see `pause_s`.
_RESTART_S: Final = 0.5
#: How much longer than for copies a worker's clean stop may take.
_STOP_MORE_S: Final = 15.0

logger = logging.getLogger("fedq.node")


def run_workers(
    workers: Sequence[NodeConfig], arguments: Sequence[str], stop_with_stdin: bool
) -> int:
    """Runs a host's workers until they are to stop; returns the exit code.

    `arguments`: what each is given, with its place. Raises `CommandError` before anything starts.
    """
    held = _check(workers)
    try:
        return asyncio.run(_supervise(workers, arguments, stop_with_stdin))
    finally:
        for each in held:
            each.close()


def tell_left_behind(host: NodeConfig, count: int) -> None:
    """Warns of data of workers that are not among the first `count`: their votes still count."""
    for left in left_behind(host.data, count):
        logger.warning(
            "%s holds what worker %s had, which is not started any more: start with more "
            "workers, drain it, and then `fedq cluster forget` it and remove that directory",
            worker_data(host.data, left), worker_name(host.node, left),
        )  # fmt: skip


async def _supervise(
    workers: Sequence[NodeConfig], arguments: Sequence[str], stop_with_stdin: bool
) -> int:
    return await Supervisor(workers, arguments).run(stop_with_stdin)


def _check(workers: Sequence[NodeConfig]) -> list[socket.socket]:
    """Sockets that hold the AMQP ports. Raises `CommandError` for what is in use."""
    first, held = workers[0], []
    try:
        for number, each in enumerate(workers, 1):
            owner = process_on(worker_data(first.data, number))
            if owner is not None:
                raise first.error(
                    "data", f"{each.data} is in use by process {owner}: stop that node first, or "
                    "give this one a data directory of its own",
                )  # fmt: skip
            own: dict[str, Listener | None] = {
                "peer": each.peer, "admin": each.admin, "http": each.http, "metrics": each.metrics,
            }  # fmt: skip
            for key, listener in own.items():
                if listener is not None:
                    listeners.check_free(first, key, listener)
        for index, listener in enumerate(first.amqp):
            held += listeners.hold(first, f"amqp.listen[{index}]", listener)
    except ConfigError as error:
        for one in held:
            one.close()
        raise CommandError(str(error), USAGE) from error
    return held


class Supervisor:
    """The workers of one host on the running event loop."""

    def __init__(self, workers: Sequence[NodeConfig], arguments: Sequence[str]) -> None:
        first = workers[0]
        stop_s = first.timing.stop_wait_ms / 1_000 + _STOP_MORE_S
        count = len(workers)
        self._host = first.node
        self._children = {
            str(each.node): Child(
                each.node, [*arguments, "--worker", f"{number}/{count}"], self._on_end,
                on_line=self._on_ready, stop_s=stop_s,
            )
            for number, each in enumerate(workers, 1)
        }  # fmt: skip
        self._stop = asyncio.Event()
        self._exit_code = 0
        #: Told once all workers are ready, and of those that are not any more.
        self._manager = ServiceManager(self._status)
        self._managed, self._is_managed = ExitStack(), False
        #: Workers that have served since this process began, and those that serve.
        self._proven: dict[str, None] = {}
        self._serving: dict[str, None] = {}
        self._restarts: dict[str, asyncio.Task[None]] = {}

    async def run(self, stop_with_stdin: bool) -> int:
        """Runs until a stop is asked for, or nothing can go on; returns the exit code."""
        heed(self._on_signal, stop_with_stdin=stop_with_stdin)
        logger.info("starting %d workers: %s", len(self._children), ", ".join(self._children))
        try:
            for child in self._children.values():
                await child.start()
            await self._stop.wait()
        except CommandError as error:
            self._end_all(error.sentence, FAILED)
        self._manager.stopping()
        with self._managed:
            await self._stop_all()
        return self._exit_code

    async def _stop_all(self) -> None:
        """Stops every worker at once: each hands over to other hosts, not to the next one here."""
        for task in self._restarts.values():
            task.cancel()
        await asyncio.gather(*self._restarts.values(), return_exceptions=True)
        running = [child for child in self._children.values() if child.is_running]
        await asyncio.gather(*(child.stop() for child in running))
        logger.info("fedq %s stopped with all its workers", self._host)

    # --- what happens -----------------------------------------------------------------------------

    def _on_signal(self) -> None:
        """Takes a wish to stop: the first asks for a clean stop, the second does not wait."""
        if self._stop.is_set():
            for child in self._children.values():
                child.signal(signal.SIGKILL)
        self._stop.set()

    def _on_ready(self, name: str) -> None:
        self._proven[name] = self._serving[name] = None
        if len(self._serving) == len(self._children):
            if not self._is_managed:
                self._is_managed = True
                self._managed.enter_context(self._manager)
            logger.info("fedq %s: all %d workers are ready", self._host, len(self._children))

    def _status(self) -> str:
        return f"{len(self._serving)} of {len(self._children)} workers are ready"

    def _on_end(self, name: str, code: int) -> None:
        self._serving.pop(name, None)
        how = f"worker {name} {how_it_ended(code)}"
        if self._stop.is_set():
            if code:
                logger.error("%s instead of stopping cleanly", how)
                self._exit_code = self._exit_code or FAILED
            return
        if code and name not in self._proven and (code == USAGE or name == self._host):
            # What stops it at its very start will stop it every time.
            self._end_all(how, code if code == USAGE else FAILED)
            return
        wait_s = pause_s(self._children[name].quick_ends, _RESTART_S)
        logger.warning(
            "%s: the others serve its clients as they connect again, and it is started again in "
            "%.1f s", how, wait_s,
        )  # fmt: skip
        self._restarts[name] = asyncio.create_task(self._start_again(name, wait_s))

    async def _start_again(self, name: str, wait_s: float) -> None:
        await asyncio.sleep(wait_s)
        logger.info("starting worker %s again", name)
        try:
            await self._children[name].start()
        except CommandError as error:
            # The system is short of something; what that is may pass.
            logger.error("%s", error.sentence)
            again = asyncio.create_task(self._start_again(name, pause_s(6, _RESTART_S)))
            self._restarts[name] = again

    def _end_all(self, reason: str, code: int) -> None:
        logger.critical("fedq %s stops with all its workers: %s", self._host, reason)
        self._exit_code = code
        self._stop.set()
