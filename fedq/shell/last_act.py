"""The last act of a node that fails, and what its next start knows of it.

In: what the node was at when an exception stopped it. Out: `stopped.json` on disk, last words to
every peer whose stream is up; and at the next start the same again, for the node's settings. The
peers come first: they serve in its place within a second, and must not try the same input.
"""

import asyncio
import logging
import time
from pathlib import Path
from typing import Final

from fedq.core.ids import Incarnation, MapVersion, NodeId
from fedq.core.peer_messages import PeerFrame
from fedq.core.suspects import LastWords, Stopped, Suspect
from fedq.shell.disk.stopped import FILE, StoppedFile
from fedq.shell.peers.client import PeerClient

#: A start has gone well after so long: what it was to set aside is set aside.
_WELL_S: Final = 60.0

logger = logging.getLogger("fedq.node")


class LastAct:
    """Tells the failure of a node, as its last act."""

    __slots__ = ("_data", "_file", "_node", "_peers", "_timer")

    def __init__(self, node: NodeId, data: Path) -> None:
        self._node = node
        self._data = data
        self._file = StoppedFile(data)
        self._peers: PeerClient | None = None
        self._timer: asyncio.TimerHandle | None = None

    def recall(self) -> tuple[Suspect, ...]:
        """What the process before this one failed at."""
        try:
            stopped = self._file.read()
        except ValueError as error:
            logger.error(
                "%s cannot be read (%s): what this node failed at last is not known; if it fails "
                "again, look into its log", self._data / FILE, error,
            )  # fmt: skip
            return ()
        if stopped is None:
            return ()
        logger.warning(
            "this node failed before, at %s: %s; %d messages will be set aside",
            stopped.step, stopped.error, len(stopped.suspects),
        )  # fmt: skip
        return tuple(stopped.suspects)

    @property
    def last_stop(self) -> str:
        """The sentence about the last stop, however long ago; "" if there was none."""
        stopped = self._file.read_last()
        if stopped is None:
            return ""
        when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(stopped.unix_ms // 1_000))
        return (
            f"failed at {when}: it was at {stopped.step}; {len(stopped.suspects)} messages were "
            "suspected (see `fedq store quarantine`, and its log)"
        )

    def begin(self, peers: PeerClient, loop: asyncio.AbstractEventLoop) -> None:
        """Begins: the node runs."""
        self._peers = peers
        self._timer = loop.call_later(_WELL_S, self._file.handle)

    def tell(self, stopped: Stopped) -> None:
        """Tells that the node has failed; returns when its file is on disk."""
        logger.critical(
            "fedq %s was at %s; %d messages are suspected and will be set aside",
            self._node, stopped.step, len(stopped.suspects),
        )  # fmt: skip
        if self._peers is not None:
            self._peers.say_last(farewell(self._node, stopped))
        try:
            self._file.write(stopped)
        except OSError as error:
            logger.error("what it failed at is not on disk: %s", error)

    async def end(self, has_failed: bool) -> None:
        """Ends: the node has stopped, in whatever way; returns when its last words have left."""
        if self._timer is not None:
            self._timer.cancel()
        if has_failed and self._peers is not None:
            await self._peers.last_said()


def farewell(node: NodeId, stopped: Stopped) -> PeerFrame:
    """The last frame of a node: of no session, whatever became of its links."""
    words = LastWords(stopped.step, stopped.suspects)
    return PeerFrame(
        node, Incarnation(stopped.incarnation), (0, 0), 0, 0, MapVersion(0), [], None, False, words
    )
