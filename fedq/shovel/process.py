"""The process that moves messages: runs the shovels that it is told to, and tells how they fare.

In: lines of JSON on stdin, each with all shovels that are to run. Out: lines of JSON on stdout,
each with how all fare by the orders of that number, when that has changed, twice a second at most.
It ends when stdin does: no shovel outlives its node, however that ends. Its memory is bounded by
the system: a shovel that gets none is told so, and tries again.
"""

import asyncio
import os
import resource
import sys
from typing import Any, Final

import orjson

from fedq.core.ids import NodeId, QueueKey
from fedq.shovel.peer import Local
from fedq.shovel.running import RunningShovel
from fedq.wiring.cluster_map.shovel_definitions import shovel_of

#: A line has all shovels of a node.
LINE_BYTES_MAX: Final = 4 * 1_048_576
MEMORY_BYTES_MAX: Final = 1_073_741_824
TELL_S: Final = 0.5
#: A node's loop comes first on a busy machine.
_NICENESS: Final = 5


class Shovels:
    """All shovels of the process. Belongs to one event loop."""

    __slots__ = ("_order", "_running", "_said", "_told")

    def __init__(self) -> None:
        self._running: dict[QueueKey, RunningShovel] = {}
        #: What each was told to be.
        self._said: dict[QueueKey, Any] = {}
        self._told = b""
        #: Of the last orders that were obeyed.
        self._order = 0

    async def obey(self, orders: dict[str, Any]) -> None:
        """Runs just these shovels: those that are new or others begin, those that are gone end."""
        node, local = NodeId(orders["node"]), Local(*orders["local"])
        wanted = {QueueKey(vhost, name): value for vhost, name, value in orders["shovels"]}
        for key in [each for each in self._running if wanted.get(each) != self._said[each]]:
            await self._running.pop(key).stop()
            del self._said[key]
        for key, value in wanted.items():
            if key not in self._running:
                self._said[key] = value
                self._running[key] = RunningShovel(key, shovel_of(value), node, local)
        self._order = orders["order"]

    def news(self) -> bytes:
        """How all fare, as a line; b"": as they did."""
        found = [
            [
                key.vhost, key.name, each.shown_state, each.since_ms, each.moved.messages,
                each.moved.bytes, each.moved.unsettled, each.error, each.restarts,
            ]
            for key, each in self._running.items()
        ]  # fmt: skip
        line = orjson.dumps({"order": self._order, "states": found}) + b"\n"
        if line == self._told:
            return b""
        self._told = line
        return line


async def _listen(shovels: Shovels) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(LINE_BYTES_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        await shovels.obey(orjson.loads(line))


async def _tell(shovels: Shovels) -> None:
    while True:
        line = shovels.news()
        if line:
            # Elsewhere: a node that reads nothing for a while does not keep the shovels.
            await asyncio.to_thread(_write, line)
        await asyncio.sleep(TELL_S)


def _write(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


async def _serve() -> None:
    shovels = Shovels()
    tasks = [asyncio.create_task(each) for each in (_listen(shovels), _tell(shovels))]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


def main() -> None:
    """Runs until stdin ends."""
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES_MAX, MEMORY_BYTES_MAX))
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
