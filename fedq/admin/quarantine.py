"""Messages that were set aside: shown, put back, or removed, wherever they are served.

Inputs: a request, this node's part of the answer, the other members. Outputs: replies, or
AdminError. What a member that is silent serves stays as it is, and the reply names it.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from fedq.admin.members import Connect, OtherMembers
from fedq.admin.refusal import invalid, not_found, unavailable
from fedq.core.ids import QueueKey
from fedq.core.limits import asides_per_answer_max
from fedq.node.overview_types import MemberState, Overview
from fedq.node.setting_aside import DISCARD, LIST, REQUEUE, Aside
from fedq.shell.pb import admin_pb2 as pb

#: Has the node do it; the last argument hears what was found once, on this event loop.
AskQuarantine: TypeAlias = Callable[
    [QueueKey, int, dict[int, None], Callable[[list[Aside]], None]], None
]
_ACTS: Final = {
    pb.QUARANTINE_ACT_LIST: LIST,
    pb.QUARANTINE_ACT_REQUEUE: REQUEUE,
    pb.QUARANTINE_ACT_DISCARD: DISCARD,
}


class QuarantineAnswers:
    """See the module's docstring. Belongs to one event loop."""

    __slots__ = ("_ask", "_others", "_overview")

    def __init__(self, overview: Overview, connect: Connect, ask: AskQuarantine) -> None:
        self._overview = overview
        self._others = OtherMembers(connect)
        self._ask = ask

    async def close(self) -> None:
        """Closes the channels to other members."""
        await self._others.close()

    async def local(self, request: pb.QuarantineRequest, timeout_s: float) -> pb.QuarantineReply:
        """Of the fragments that this node serves."""
        act = _ACTS.get(request.act)
        if act is None:
            raise invalid("say what to do: list, requeue or discard")
        if len(request.positions) > asides_per_answer_max:
            raise invalid(f"name at most {asides_per_answer_max} positions")
        key = QueueKey(request.queue.vhost, request.queue.name)
        heard: asyncio.Future[list[Aside]] = asyncio.get_running_loop().create_future()
        self._ask(key, act, dict.fromkeys(request.positions), heard.set_result)
        try:
            async with asyncio.timeout(timeout_s):
                found = await heard
        except TimeoutError as error:
            raise unavailable("the node has stopped: ask another one") from error
        node = self._overview.node().node
        return pb.QuarantineReply(
            messages=[
                pb.QuarantinedMessage(
                    fragment=each.fragment, position=each.position, bytes=each.size, node=node
                )
                for each in found
            ]
        )

    async def everywhere(
        self, request: pb.QuarantineRequest, timeout_s: float
    ) -> pb.QuarantineReply:
        """Of the whole queue."""
        key = QueueKey(request.queue.vhost, request.queue.name)
        if self._overview.queue(key) is None:
            raise not_found(
                f"no shared queue '{key.name}' in vhost '{key.vhost}'; `fedq queue list` shows "
                "those there are"
            )
        merged = await self.local(request, timeout_s)
        own = self._overview.node().node
        members = [each for each in self._overview.cluster().members if each.node != own]
        replies = await self._others.ask(
            members,
            lambda stub, timeout: stub.LocalQuarantine(request, timeout=timeout),
            timeout_s,
        )
        for member in members:
            reply = replies.get(member.node)
            if reply is not None:
                merged.messages.extend(reply.messages)
            elif member.state is MemberState.UP:
                merged.silent_members.append(member.node)
        return merged
