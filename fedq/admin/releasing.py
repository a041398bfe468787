"""What is reserved for a reader that is gone goes back to its queue, wherever it is served.

Inputs: a request, this node's part of the answer, the other members. Outputs: replies, or
AdminError. What a member serves that is silent, or has not put back all, may stay as it is: the
reply names it.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

import grpc

from fedq.admin.calls import heard
from fedq.admin.changes import telling
from fedq.admin.members import OtherMembers
from fedq.admin.messages import text
from fedq.admin.refusal import AdminError, invalid, not_found, unavailable
from fedq.core.ids import QueueKey
from fedq.core.limits import NAME_BYTES_MAX
from fedq.node.views.overview_types import MemberState, Overview
from fedq.shell.pb import admin_pb2 as pb

#: Has the node do it; the last argument hears of how many messages, once, on this event loop, or
#: None if it is not done in all fragments that this node serves.
AskRelease: TypeAlias = Callable[[QueueKey, str, Callable[[int | None], None]], None]

#: What the log tells of a name; one that is refused may be of any length.
_SHOWN_MAX: Final = 120


class Releasing:
    """Puts back what is reserved for a reader. Belongs to one event loop."""

    __slots__ = ("_ask", "_others", "_overview")

    def __init__(self, overview: Overview, others: OtherMembers, ask: AskRelease) -> None:
        self._overview = overview
        self._others = others
        self._ask = ask

    async def local(
        self, request: pb.ReleaseReaderRequest, timeout_s: float
    ) -> pb.ReleaseReaderReply:
        """Puts back what is reserved in the fragments that this node serves."""
        if not request.reader or len(request.reader.encode()) > NAME_BYTES_MAX:
            raise invalid(f"reader: a name of 1 to {NAME_BYTES_MAX} bytes is needed")
        key = QueueKey(request.queue.vhost, request.queue.name)
        count = await heard(partial(self._ask, key, request.reader), timeout_s)
        if count is None:
            raise unavailable(
                f"not all that is reserved for '{text(request.reader)}' could be put back: the "
                "reader is at it, or a fragment moves; stop the reader, and ask again"
            )
        return pb.ReleaseReaderReply(messages=count)

    async def everywhere(
        self, request: pb.ReleaseReaderRequest, timeout_s: float
    ) -> pb.ReleaseReaderReply:
        """Puts back what is reserved in the whole queue, on all members."""
        key = QueueKey(request.queue.vhost, request.queue.name)
        reader = repr(text(request.reader))[:_SHOWN_MAX]
        with telling(f"release reader {reader} of queue {key.name!r} in vhost {key.vhost!r}"):
            if self._overview.queue(key) is None:
                raise not_found(
                    f"no shared queue '{key.name}' in vhost '{key.vhost}'; `fedq queue list` "
                    "shows those there are"
                )
            return await self._everywhere(request, timeout_s)

    async def _everywhere(
        self, request: pb.ReleaseReaderRequest, timeout_s: float
    ) -> pb.ReleaseReaderReply:
        own = self._overview.process()[0]
        try:
            merged = await self.local(request, timeout_s)
        except AdminError as error:
            if error.code != grpc.StatusCode.UNAVAILABLE:
                raise
            # The others put back what is theirs all the same.
            merged = pb.ReleaseReaderReply(silent_members=[own])
        members = [each for each in self._overview.members() if each.node != own]
        replies = await self._others.ask(
            members,
            lambda stub, timeout: stub.LocalReleaseReader(request, timeout=timeout),
            timeout_s,
        )
        for member in members:
            found = replies.get(member.node)
            if found is not None:
                merged.messages += found.messages
            elif member.state is MemberState.UP:
                merged.silent_members.append(member.node)
        return merged
