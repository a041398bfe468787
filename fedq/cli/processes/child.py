"""A process of `fedq node` that another command starts, watches for its end, and stops.

In: a name, what `fedq node` is to be given, where it writes. Out: a process of its own process
group (Ctrl-C in the terminal reaches only the command, which stops it in order), and a call when it
ends. Invariant: none outlives the command, however that ends: a node stops when its stdin closes,
and the other end of that is held here and nowhere else.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

from fedq.cli.terminal.failure import CommandError
from fedq.shell.host.service_manager import VARIABLES

#: How long a node may take to stop before it is killed.
STOP_S: Final = 10.0
#: A node that ran for so long is not failing at its start.
SETTLED_S: Final = 10.0
_LOG_TAIL_BYTES: Final = 4_096

#: Called with the node's name and its exit code (negative: the signal that ended it).
OnEnd = Callable[[str, int], None]


class Child:
    """One node and, while it runs, its process."""

    __slots__ = (
        "_arguments", "_log", "_on_end", "_on_line", "_started_s", "_stop_s", "_watching", "name",
        "process", "quick_ends",
    )  # fmt: skip

    def __init__(
        self, name: str, arguments: Sequence[str], on_end: OnEnd, *, log: Path | None = None,
        on_line: Callable[[str], None] | None = None, stop_s: float = STOP_S,
    ) -> None:  # fmt: skip
        """`arguments` of `fedq node`, which is told to stop with its stdin as well.

        What it writes goes to `log`, else to this process's stderr, but for its stdout: `on_line`
        is called with the node's name when a line of that has come.
        """
        self.name = name
        self._arguments = arguments
        self._on_end = on_end
        self._log = log
        self._on_line = on_line
        self._stop_s = stop_s
        self.process: asyncio.subprocess.Process | None = None
        #: How often in a row it ended soon after its start, the last time included.
        self.quick_ends = 0
        self._started_s = 0.0
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the process; raises `CommandError` if the system refuses."""
        assert self.process is None, f"{self.name} runs already"
        try:
            if self._log is None:
                self.process = await self._begin(asyncio.subprocess.PIPE, None)
            else:
                with self._log.open("ab") as log:
                    self.process = await self._begin(log, log)
        except OSError as error:
            raise CommandError(f"{self.name} cannot be started: {error}") from error
        self._started_s = asyncio.get_running_loop().time()
        self._watching = asyncio.create_task(self._watch(self.process))

    async def _begin(
        self, out: int | IO[bytes], errors: IO[bytes] | None
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fedq", "node", "--stop-with-stdin", *self._arguments,
            stdin=asyncio.subprocess.PIPE, stdout=out, stderr=errors, process_group=0,
            env={name: value for name, value in os.environ.items() if name not in VARIABLES},
        )  # fmt: skip

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        if process.stdout is not None:
            # Read to its end: a full pipe would hold the node up.
            while data := await process.stdout.read(_LOG_TAIL_BYTES):
                if self._on_line is not None and b"\n" in data:
                    self._on_line(self.name)
        code = await process.wait()
        self.process = None
        lived_s = asyncio.get_running_loop().time() - self._started_s
        self.quick_ends = self.quick_ends + 1 if lived_s < SETTLED_S else 1
        if process.stdin is not None:
            process.stdin.close()
        self._on_end(self.name, code)

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
        _, late = await asyncio.wait([self._watching], timeout=self._stop_s)
        if late:
            self.signal(signal.SIGKILL)
        await self._watching

    def last_words(self) -> str:
        """The last line of the node's log, "" if it wrote none."""
        if self._log is None:
            return ""
        try:
            with self._log.open("rb") as log:
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


def pause_s(quick_ends: int, first_s: float = 1.0, most_s: float = 30.0) -> float:
    """How long to wait before a node is started again: twice as long for each quick end."""
    return float(min(first_s * 2 ** min(quick_ends - 1, 10), most_s))
