"""Asks the other members what only they know, all at once, and waits for none of them long.

Inputs: members of the cluster map, a call. Outputs: the replies of those that answered in time.
Channels are kept per member and address, so that asking again costs one round trip; a member that
moved to another address gets a new channel, one that left the map loses its own. One that is merely
not asked keeps it: others may be waiting for its answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import grpc
import grpc.aio

from fedq.admin.bounds import MEMBER_ANSWER_MS
from fedq.core.ids import NodeId
from fedq.node.views.overview_types import MemberOverview, MemberState
from fedq.shell.pb import admin_pb2_grpc

_log = logging.getLogger(__name__)

#: Ends of a call that mean no more than that the member is away, or slow.
_SILENCE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)

#: Ends that may be the channel's fault.
_BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNAUTHENTICATED)

Reply = TypeVar("Reply")

#: Opens a channel to the admin service of a member, given its node and "host:port".
Connect = Callable[[NodeId, str], grpc.aio.Channel]

#: Makes the call on a member's stub with a timeout in seconds.
Call = Callable[["MemberStub", float], Awaitable[Reply]]


class MemberStub(admin_pb2_grpc.AdminStub):
    """The generated stub on a channel."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        super().__init__(channel)  # type: ignore[no-untyped-call]


class OtherMembers:
    """The admin services of the other members. Belongs to one event loop."""

    __slots__ = ("_channels", "_closing", "_connect", "_members")

    def __init__(self, connect: Connect, members: Callable[[], Sequence[MemberOverview]]) -> None:
        """`members`: all that are in the cluster map by now."""
        self._connect = connect
        self._members = members
        self._channels: dict[NodeId, tuple[str, grpc.aio.Channel, MemberStub]] = {}
        self._closing: dict[asyncio.Task[None], None] = {}

    async def ask(
        self, members: Sequence[MemberOverview], call: Call[Reply], timeout_s: float
    ) -> Mapping[NodeId, Reply]:
        """Replies of those of `members` that are up and answer within `timeout_s`."""
        await self._forget_moved()
        asked = [member for member in members if member.state is MemberState.UP]
        replies = await asyncio.gather(*(self._ask_one(m, call, timeout_s) for m in asked))
        return {
            member.node: reply
            for member, reply in zip(asked, replies, strict=True)
            if reply is not None
        }

    async def _ask_one(
        self, member: MemberOverview, call: Call[Reply], timeout_s: float
    ) -> Reply | None:
        known = self._channels.get(member.node)
        if known is None:
            channel = self._connect(member.node, member.peer_address)
            known = (member.peer_address, channel, MemberStub(channel))
            self._channels[member.node] = known
        try:
            return await call(known[2], timeout_s)
        except grpc.aio.AioRpcError as error:
            if error.code() in _BROKEN:
                self._forget(member.node, known[1])
            # Its absence from the replies is how the caller hears of it.
            if error.code() not in _SILENCE:
                _log.warning(
                    "%s failed to answer: %s: %s", member.node, error.code().name, error.details()
                )
            return None

    def _forget(self, node: NodeId, channel: grpc.aio.Channel) -> None:
        """Makes the next question open another channel: the certificates may have changed."""
        known = self._channels.get(node)
        if known is not None and known[1] is channel:
            del self._channels[node]
            # Other questions that are on it have their own ends.
            closing = asyncio.create_task(channel.close(MEMBER_ANSWER_MS / 1_000))
            self._closing[closing] = None
            closing.add_done_callback(self._closing.pop)

    async def _forget_moved(self) -> None:
        addresses = {member.node: member.peer_address for member in self._members()}
        gone = [n for n, known in self._channels.items() if addresses.get(n) != known[0]]
        channels = [self._channels.pop(node)[1] for node in gone]
        for channel in channels:
            await channel.close()

    async def close(self) -> None:
        """Closes all channels."""
        channels = [known[1] for known in self._channels.values()]
        self._channels.clear()
        for channel in channels:
            await channel.close()
        await asyncio.gather(*self._closing)
