"""What readers of streams and of queues have in common: who may read, their places, their pieces.

Who has no place waits, in order; who takes nothing leaves room for others' readers, and is ended.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from fedq.admin.bounds import CHUNK_STALL_MS
from fedq.admin.refusal import AdminError, denied, invalid
from fedq.core.ids import QueueKey
from fedq.core.limits import NAME_BYTES_MAX
from fedq.node.views.stream_view import StreamOverview

Piece = TypeVar("Piece")

_STALLED: Final = AdminError(
    grpc.StatusCode.ABORTED,
    f"nothing was taken for {CHUNK_STALL_MS // 1_000} s: read on from the next offset",
)


class ReadRoom:
    """Gives places. Belongs to one event loop."""

    __slots__ = ("_of_user", "_room", "_shares")

    def __init__(self, most: int, of_user: int) -> None:
        """`most`: places in all; `of_user`: of one user."""
        self._room = asyncio.Semaphore(most)
        self._of_user = of_user
        #: Of users who have a place, or want one: their places, and how many want or have one.
        self._shares: dict[str, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def place(self, user: str) -> AsyncGenerator[None, None]:
        """Holds a place of the user, once there is one."""
        share, wanted = self._shares.get(user) or (asyncio.Semaphore(self._of_user), 0)
        self._shares[user] = share, wanted + 1
        try:
            async with share, self._room:
                yield
        finally:
            share, wanted = self._shares.pop(user)
            if wanted > 1:
                self._shares[user] = share, wanted - 1


def check_name(what: str, name: str, most: int = NAME_BYTES_MAX) -> None:
    """Raises AdminError for a name that can be nobody's."""
    if not name or len(name.encode()) > most:
        raise invalid(f"{what}: a name of 1 to {most} bytes is needed")


def readable(view: StreamOverview, user: str, vhost: str, queue: str, what: str) -> QueueKey:
    """The queue, or stream (`what`), whether there is one, if the user may read it.

    Raises AdminError.
    """
    check_name("vhost", vhost)
    check_name(what, queue)
    key = QueueKey(vhost, queue)
    if not view.has_vhost(user, vhost):
        raise denied(f"access to vhost '{vhost}' refused for user '{user}'")
    if not view.may_read(user, key):
        raise denied(
            f"access to queue '{queue}' in vhost '{vhost}' refused for user '{user}': it has "
            "no read permission"
        )
    return key


async def hand_over(context: grpc.aio.ServicerContext[Any, Piece], piece: Piece) -> None:
    """Returns when gRPC has taken the piece; raises AdminError if the caller does not read."""
    try:
        async with asyncio.timeout(CHUNK_STALL_MS / 1_000):
            await context.write(piece)
    except TimeoutError as error:
        raise _STALLED from error
