"""Messages that were set aside: shown, put back, or removed, wherever they are served.

Inputs: a request, this node's part of the answer, the other members. Outputs: replies, or
AdminError. What a member that is silent serves stays as it is, and the reply names it.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from fedq.admin.calls import heard
from fedq.admin.changes import telling
from fedq.admin.members import OtherMembers
from fedq.admin.refusal import invalid, not_found
from fedq.core.ids import QueueKey
from fedq.core.limits import ASIDES_PER_ANSWER_MAX
from fedq.node.containment.setting_aside import DISCARD, LIST, REQUEUE, Aside
from fedq.node.views.overview_types import MemberState, Overview
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
    """Shows, puts back and removes messages in quarantine. Belongs to one event loop."""

    __slots__ = ("_ask", "_others", "_overview")

    def __init__(self, overview: Overview, others: OtherMembers, ask: AskQuarantine) -> None:
        self._overview = overview
        self._others = others
        self._ask = ask

    async def local(self, request: pb.QuarantineRequest, timeout_s: float) -> pb.QuarantineReply:
        """Does what is asked with the fragments that this node serves."""
        act = _ACTS.get(request.act)
        if act is None:
            raise invalid("say what to do: list, requeue or discard")
        if len(request.positions) > ASIDES_PER_ANSWER_MAX:
            raise invalid(f"name at most {ASIDES_PER_ANSWER_MAX} positions")
        key = QueueKey(request.queue.vhost, request.queue.name)
        positions = dict.fromkeys(request.positions)
        found = await heard(partial(self._ask, key, act, positions), timeout_s)
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
        """Does what is asked with the whole queue, on all members."""
        key = QueueKey(request.queue.vhost, request.queue.name)
        if self._overview.queue(key) is None:
            raise not_found(
                f"no shared queue '{key.name}' in vhost '{key.vhost}'; `fedq queue list` shows "
                "those there are"
            )
        if request.act not in (pb.QUARANTINE_ACT_REQUEUE, pb.QUARANTINE_ACT_DISCARD):
            # A look, or nothing that there is.
            return await self._everywhere(request, timeout_s)
        act = pb.QuarantineAct.Name(request.act).removeprefix("QUARANTINE_ACT_").lower()
        with telling(f"{act} messages in quarantine of queue {key.name!r} in vhost {key.vhost!r}"):
            return await self._everywhere(request, timeout_s)

    async def _everywhere(
        self, request: pb.QuarantineRequest, timeout_s: float
    ) -> pb.QuarantineReply:
        merged = await self.local(request, timeout_s)
        own = self._overview.process()[0]
        members = [each for each in self._overview.members() if each.node != own]
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
