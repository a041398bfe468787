"""The node processes of `fedq up`: started, watched for their end, and stopped.

In: planned nodes. Out: processes of their own process groups (Ctrl-C in the terminal reaches only
`fedq up`, which stops them in order), and a call for each one that ends. Invariant: none outlives
`fedq up`, however that ends: each node stops when its stdin closes, and the other end of that is
held here and nowhere else.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import Final

from fedq.cli.terminal.failure import CommandError
from fedq.cli.up.plan import PlannedNode

#: How long a node may take to stop before it is killed.
STOP_S: Final = 10.0
#: A node that ran for so long is not failing at its start.
SETTLED_S: Final = 10.0
_LOG_TAIL_BYTES: Final = 4_096

#: Called with the node and its exit code (negative: the signal that ended it).
OnEnd = Callable[[PlannedNode, int], None]


class Child:
    """One node and, while it runs, its process."""

    __slots__ = ("_on_end", "_started_s", "_watching", "node", "process", "quick_ends")

    def __init__(self, node: PlannedNode, on_end: OnEnd) -> None:
        self.node = node
        self._on_end = on_end
        self.process: asyncio.subprocess.Process | None = None
        #: How often in a row it ended soon after its start, the last time included.
        self.quick_ends = 0
        self._started_s = 0.0
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the process; raises `CommandError` if the system refuses."""
        assert self.process is None, f"{self.node.name} runs already"
        try:
            with self.node.log.open("ab") as log:
                self.process = await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "fedq", "node", "--stop-with-stdin",
                    "--config", str(self.node.config),
                    stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, process_group=0,
                )  # fmt: skip
        except OSError as error:
            raise CommandError(f"{self.node.name} cannot be started: {error}") from error
        self._started_s = asyncio.get_running_loop().time()
        self._watching = asyncio.create_task(self._watch(self.process))

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        self.process = None
        lived_s = asyncio.get_running_loop().time() - self._started_s
        self.quick_ends = self.quick_ends + 1 if lived_s < SETTLED_S else 1
        if process.stdin is not None:
            process.stdin.close()
        self._on_end(self.node, code)

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self.process is not None

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the node's process group, if it still runs."""
        if self.process is not None:
            # It may have ended a moment ago, which `_watch` is about to hear.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    async def stop(self) -> None:
        """Asks the process to stop, and waits; kills it when it takes too long."""
        self.signal(signal.SIGTERM)
        if self._watching is None:
            return
        _, late = await asyncio.wait([self._watching], timeout=STOP_S)
        if late:
            self.signal(signal.SIGKILL)
        await self._watching

    def last_words(self) -> str:
        """The last line of the node's log, "" if it wrote none."""
        try:
            with self.node.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _LOG_TAIL_BYTES))
                lines = log.read().decode("utf-8", "replace").split("\n")
        except FileNotFoundError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def how_it_ended(code: int) -> str:
    """An exit code in words."""
    if code == 0:
        return "stopped"
    if code > 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
