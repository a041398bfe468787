"""One shovel: session after session, with pauses, until it is done or nobody wants it.

In: a shovel. Out: its state, which whoever asks reads; errors are told without passwords.
"""

import asyncio
import contextlib
import time
from typing import Any, Final

from fedq.amqp import method_types as m
from fedq.amqp.uris import AmqpUri, parse_uri
from fedq.core.ids import NodeId, QueueKey
from fedq.shovel.moving import Moved, Session, Whose, is_missing
from fedq.shovel.peer import Local, Peer, ShovelError, opened
from fedq.wiring.cluster_map.shovel_definitions import Shovel

STARTING: Final = "starting"
RUNNING: Final = "running"
BLOCKED: Final = "blocked"
WAITING: Final = "waiting"
TERMINATED: Final = "terminated"
#: It has moved all that it was to move, and is to be deleted.
FINISHED: Final = "finished"
#: What a pause is at least: whoever says 0.1 must not keep two brokers busy with logins.
_PAUSE_S_MIN: Final = 0.5
_TOLD: Final = 500


class RunningShovel:
    """A shovel that runs until `stop`. Belongs to one event loop."""

    __slots__ = (
        "_dest", "_local", "_shovel", "_task", "_tries", "_whose", "error", "moved", "restarts",
        "since_ms", "state",
    )  # fmt: skip

    def __init__(self, key: QueueKey, shovel: Shovel, node: NodeId, local: Local) -> None:
        self._whose = Whose(key, node)
        self._shovel = shovel
        self._local = local
        self._tries = 0
        self._dest: Peer | None = None
        self.moved = Moved()
        self.error = ""
        self.restarts = 0
        self.state = STARTING
        self.since_ms = _now_ms()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Ends it; what is not settled goes back to the source."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    @property
    def shown_state(self) -> str:
        """How it fares: a running one may be blocked by its destination."""
        is_blocked = self._dest is not None and not self._dest.is_free.is_set()
        return BLOCKED if self.state == RUNNING and is_blocked else self.state

    def _enter(self, state: str) -> None:
        if state != self.state:
            self.state, self.since_ms = state, _now_ms()

    async def _run(self) -> None:
        while True:
            self._enter(STARTING)
            try:
                await self._session()
            except ShovelError as error:
                self.error = self._without_passwords(str(error))
            except MemoryError:
                self.error = "there is no memory left for its messages"
            except OSError as error:
                self.error = f"the connection was lost: {error.strerror or type(error).__name__}"
            except Exception as error:
                # Contained: other shovels run in this process. (Its words might have a password.)
                self.error = f"a fault of fedq: {type(error).__name__}"
            else:
                self._enter(FINISHED)
                return
            finally:
                self.moved.unsettled = 0
            self.restarts += 1
            self._tries += 1
            if not self._shovel.reconnect_s:
                self._enter(TERMINATED)
                return
            self._enter(WAITING)
            await asyncio.sleep(max(_PAUSE_S_MIN, self._shovel.reconnect_s))

    async def _session(self) -> None:
        shovel, peers = self._shovel, list[Peer]()
        try:
            dest = await self._opened("destination", shovel.dest_uris, peers)
            if shovel.dest_queue is not None:
                arguments = shovel.dest_queue_arguments
                dest = await self._declared(
                    "destination", shovel.dest_uris, dest, shovel.dest_queue, arguments, peers
                )
            source = await self._opened("source", shovel.src_uris, peers)
            if shovel.src_queue:
                arguments = shovel.src_queue_arguments
                source = await self._declared(
                    "source", shovel.src_uris, source, shovel.src_queue, arguments, peers
                )
            self._dest = dest
            self._enter(RUNNING)
            await Session(self._whose, shovel, source, dest, self.moved).run()
        finally:
            self._dest = None
            for peer in peers:
                peer.abandon()

    async def _opened(self, what: str, uris: tuple[str, ...], peers: list[Peer]) -> Peer:
        uri = parse_uri(uris[self._tries % len(uris)])
        if not isinstance(uri, AmqpUri):
            raise ShovelError(f"the {what} is no URI: {uri}")
        peer = await opened(what, uri, self._local)
        peers.append(peer)
        return peer

    async def _declared(
        self, what: str, uris: tuple[str, ...], peer: Peer, queue: str,
        arguments: dict[str, Any], peers: list[Peer],
    ) -> Peer:  # fmt: skip
        """A connection on which the queue is there: it is declared only if it is not."""
        try:
            await peer.call(m.QueueDeclare(queue, passive=True), m.QueueDeclareOk)
        except ShovelError as error:
            if not is_missing(error):
                raise
        else:
            return peer
        peer.abandon()
        again = await self._opened(what, uris, peers)
        declare = m.QueueDeclare(queue, durable=True, arguments=arguments)
        await again.call(declare, m.QueueDeclareOk)
        return again

    def _without_passwords(self, text: str) -> str:
        """A sentence in which none of the shovel's passwords is, even if a broker said it."""
        for uri in (*self._shovel.src_uris, *self._shovel.dest_uris):
            parsed = parse_uri(uri)
            if isinstance(parsed, AmqpUri) and len(parsed.password) > 1:
                text = text.replace(parsed.password, "***")
        return text[:_TOLD]


def _now_ms() -> int:
    return int(time.time() * 1_000)
