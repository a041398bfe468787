"""A node's part of its shovels: has those run that are its, in a process of their own.

Inputs: the map's shovels and their places, looked at every now and then; what the process tells.
Outputs: orders to the process; how each shovel fares; the wish that one which is done be deleted.
Invariants: nothing here waits for a broker, so neither does the node's loop; there is no process as
long as this node has no shovels; no line of the log, and no command line, has a password.
"""

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final

import orjson

from fedq.core.ids import NodeId, QueueKey
from fedq.node.views.shovel_view import PlacedShovels, ShovelState, places
from fedq.shell.host.service_manager import VARIABLES
from fedq.shovel.peer import Local
from fedq.shovel.process import LINE_BYTES_MAX
from fedq.shovel.running import FINISHED

_LOOK_S: Final = 0.5
#: How long the process may take to end before it is killed; until it is started again.
_STOP_S: Final = 3.0
_AGAIN_S: Final = 5.0
#: The log has one line of each shovel in so many seconds.
_TELL_S: Final = 60.0

logger = logging.getLogger(__name__)

#: Deletes a shovel that is done, if it is still the one that this text says.
Drop = Callable[[QueueKey], Awaitable[object]]


class ShovelHost:
    """The shovels of one node. Belongs to the node's event loop."""

    __slots__ = (
        "_drop", "_dropping", "_local", "_looking", "_me", "_mine", "_order_number", "_placed",
        "_process", "_reading", "_seen", "_sent", "_states", "_told", "_until",
    )  # fmt: skip

    def __init__(self, me: NodeId) -> None:
        self._me = me
        self._placed: PlacedShovels | None = None
        self._local = Local("", 0, False)
        self._drop: Drop | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._looking: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._dropping: asyncio.Task[None] | None = None
        #: What was seen last, and which of these shovels are this node's.
        self._seen: tuple[dict[QueueKey, str], list[NodeId]] = ({}, [])
        self._mine: dict[QueueKey, str] = {}
        #: Of the last orders: what the process tells of earlier ones is of other shovels.
        self._order_number = 0
        #: What the process was told last, and how its shovels fare by now.
        self._sent: dict[QueueKey, str] = {}
        self._states: dict[QueueKey, ShovelState] = {}
        #: The last error of each that the log has, and when it was told.
        self._told: dict[QueueKey, tuple[str, float]] = {}
        #: Before that no process is started.
        self._until = 0.0

    def states(self) -> dict[QueueKey, ShovelState]:
        """How the shovels of this node fare."""
        return self._states

    def start(self, placed: PlacedShovels, local: Local, drop: Drop) -> None:
        """Looks after them from now on."""
        self._placed, self._local, self._drop = placed, local, drop
        self._looking = asyncio.create_task(self._look_again(placed))

    async def stop(self) -> None:
        """Ends the process; what its shovels have not settled goes back to where it was."""
        for task in (self._looking, self._dropping):
            if task is not None:
                task.cancel()
        await self._end()

    async def _look_again(self, placed: PlacedShovels) -> None:
        while True:
            try:
                await self._look(placed)
            except Exception:
                # Contained: the node serves its clients all the same, and it is tried again.
                logger.exception("shovels are not run")
                await self._end()
                self._until = asyncio.get_running_loop().time() + _AGAIN_S
            await asyncio.sleep(_LOOK_S)

    async def _look(self, placed: PlacedShovels) -> None:
        values = placed.values()
        wanted = self._placed_here(placed, values)
        if self._process is not None and self._process.returncode is not None:
            self._on_ended()
        if not wanted:
            await self._end()
            return
        if self._process is None:
            if asyncio.get_running_loop().time() < self._until:
                return
            await self._begin()
        if wanted != self._sent:
            self._order(wanted)
        self._drop_done(placed)

    def _placed_here(
        self, placed: PlacedShovels, values: dict[QueueKey, str]
    ) -> dict[QueueKey, str]:
        """The shovels of this node; all are drawn anew only if there is something new."""
        seen = (values, [*placed.runners()] if values else [])
        if seen != self._seen:
            self._seen = seen
            drawn = places(placed) if values else {}
            self._mine = {key: values[key] for key, node in drawn.items() if node == self._me}
        return self._mine

    async def _begin(self) -> None:
        """Starts the process."""
        known = {name: value for name, value in os.environ.items() if name not in VARIABLES}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fedq.shovel.process", stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE, start_new_session=True, limit=LINE_BYTES_MAX, env=known,
        )  # fmt: skip
        self._sent = {}
        self._reading = asyncio.create_task(self._read(self._process))

    def _order(self, wanted: dict[QueueKey, str]) -> None:
        process = self._process
        assert process is not None, "it was started"
        assert process.stdin is not None, "it was asked for"
        if process.stdin.transport.get_write_buffer_size() > LINE_BYTES_MAX:
            logger.warning("the process of the shovels takes no orders; it is started again")
            _kill(process)
            return
        self._order_number += 1
        orders: dict[str, Any] = {
            "order": self._order_number, "node": self._me, "local": [*self._local],
            "shovels": [[*key, orjson.loads(value)] for key, value in wanted.items()],
        }  # fmt: skip
        process.stdin.write(orjson.dumps(orders) + b"\n")
        before, self._sent = self._sent, wanted
        # How one of that name fared that was another shovel says nothing of this one.
        for table in (self._states, self._told):
            for key in [each for each in table if wanted.get(each) != before.get(each)]:
                del table[key]

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None, "it was asked for"
        try:
            while line := await process.stdout.readline():
                said = orjson.loads(line)
                if said["order"] != self._order_number:
                    continue
                for vhost, name, *state in said["states"]:
                    key = QueueKey(vhost, name)
                    if key in self._sent:
                        self._take(key, ShovelState(*state))
        except (ValueError, LookupError, TypeError):
            logger.exception("the process of the shovels is not understood; it is started again")
            _kill(process)
        await process.wait()

    def _take(self, key: QueueKey, state: ShovelState) -> None:
        self._states[key] = state
        before, told_at = self._told.get(key, ("", float("-inf")))
        now = asyncio.get_running_loop().time()
        # Some words are another host's, which may be others each time.
        if state.error not in ("", before) and now - told_at >= _TELL_S:
            self._told[key] = (state.error, now)
            logger.warning("shovel %s in vhost %s: %s", key.name, key.vhost, state.error)

    def _drop_done(self, placed: PlacedShovels) -> None:
        """Has those deleted that are done, one after the other."""
        if self._dropping is not None and not self._dropping.done():
            return
        done = [key for key, state in self._states.items() if state.state == FINISHED]
        if done:
            self._dropping = asyncio.create_task(self._dropped(placed, done))

    async def _dropped(self, placed: PlacedShovels, keys: list[QueueKey]) -> None:
        assert self._drop is not None, "it was started"
        for key in keys:
            state = self._states.get(key)
            is_done = state is not None and state.state == FINISHED
            if not is_done or placed.values().get(key) != self._sent.get(key):
                # Somebody has set it anew meanwhile.
                continue
            try:
                await self._drop(key)
            except Exception as error:
                # Without a quorum, say: it is tried again.
                logger.warning("shovel %s in vhost %s is done, and stays: %s", *key[::-1], error)
                await asyncio.sleep(_AGAIN_S)
                return
            logger.info("shovel %s in vhost %s is done", key.name, key.vhost)
            if self._process is not None and key in self._sent:
                # At once: if the same one is made again, the process has to begin anew.
                rest = {each: value for each, value in self._sent.items() if each != key}
                self._order(rest)

    def _on_ended(self) -> None:
        """The process has ended by itself."""
        assert self._process is not None, "there was one"
        code = self._process.returncode
        logger.warning("the process of the shovels ended (%s); it is started again", code)
        self._forget()
        self._until = asyncio.get_running_loop().time() + _AGAIN_S

    def _forget(self) -> None:
        self._process = None
        self._sent, self._states, self._told = {}, {}, {}

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        assert process.stdin is not None, "it was asked for"
        process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        except TimeoutError:
            _kill(process)
            await process.wait()
        self._forget()


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()
