"""An operator names the copy that counts, of fragments whose copies in sync are gone (ADR 0071).

Inputs: this node's overview, the other members, a way to have the cluster map changed, a request
with what the operator was shown: epochs. Outputs: a reply, or AdminError. What would be lost is
shown by whoever asks (`ShowQueue` has all of it); here is made sure that it is still so, and that
the node that is named has a copy.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import grpc

from fedq.admin.local_answers import local_fragments
from fedq.admin.members import OtherMembers
from fedq.admin.merge import read_answer
from fedq.admin.messages import queue_names, text
from fedq.admin.problems import names
from fedq.admin.refusal import AdminError, invalid, not_found, unavailable
from fedq.core.ids import Epoch, FragmentId, NodeId, QueueKey
from fedq.core.limits import FRAGMENTS_PER_QUEUE_MAX
from fedq.node.views.overview_types import (
    FragmentOverview,
    MemberOverview,
    MemberState,
    Overview,
    QueueOverview,
)
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_copies import AdoptCopy

DEFAULT_VHOST: Final = "/"

#: Has the map changed within some seconds; raises AdminError if that is refused.
Change = Callable[[Operation, float], Awaitable[bool]]


class Adopting:
    """Has copies taken as in sync that an operator names."""

    __slots__ = ("_change", "_others", "_overview")

    def __init__(self, overview: Overview, others: OtherMembers, change: Change) -> None:
        self._overview = overview
        self._others = others
        self._change = change

    async def adopt(self, request: pb.AdoptCopyRequest, timeout_s: float) -> pb.AdoptCopyReply:
        """Takes the copies that are named as in sync, one fragment after the other."""
        queue = self._queue(request)
        members = {member.node: member for member in self._overview.members()}
        fragments = {fragment.fragment: fragment for fragment in queue.fragments}
        wanted: list[AdoptCopy] = []
        for choice in request.choices:
            fragment = fragments.pop(FragmentId(choice.fragment), None)
            if fragment is None:
                raise invalid(
                    f"fragment {choice.fragment} is none of '{text(queue.key.name)}', or named "
                    "twice"
                )
            wanted.append(self._operation(fragment, choice, members))
        await self._refuse_without_copy(queue.key, request, timeout_s)
        done = 0
        for operation in wanted:
            try:
                await self._change(operation, timeout_s)
            except AdminError as refusal:
                if not done:
                    raise
                raise AdminError(
                    refusal.code,
                    f"{done} of {len(wanted)} fragments are served now; {refusal.text}",
                ) from refusal
            done += 1
        return pb.AdoptCopyReply(adopted=done)

    def _queue(self, request: pb.AdoptCopyRequest) -> QueueOverview:
        if not request.name:
            raise invalid("name is empty; give the name of a shared queue")
        if not 0 < len(request.choices) <= FRAGMENTS_PER_QUEUE_MAX:
            raise invalid(
                f"{len(request.choices)} fragments are named; name 1 to {FRAGMENTS_PER_QUEUE_MAX}"
            )
        key = QueueKey(request.vhost or DEFAULT_VHOST, request.name)
        queue = self._overview.queue(key)
        if queue is None:
            raise not_found(
                f"no shared queue '{key.name}' in vhost '{key.vhost}'; `fedq queue list` shows "
                "those there are"
            )
        if not queue.durable:
            raise invalid(f"'{key.name}' is not durable: it begins again by itself, empty")
        return queue

    def _operation(
        self, fragment: FragmentOverview, choice: pb.CopyChoice,
        members: dict[NodeId, MemberOverview],
    ) -> AdoptCopy:  # fmt: skip
        """What is to be proposed, if that still is what the operator was shown."""
        number, node = fragment.fragment, NodeId(choice.node)
        if fragment.epoch != choice.epoch:
            raise unavailable(
                f"fragment {number} has changed (epoch {fragment.epoch}, not {choice.epoch}): look "
                "again"
            )
        up = [each for each in fragment.in_sync if _is_up(members.get(each))]
        if up:
            raise AdminError(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"fragment {number} needs no other copy: {names(up)}, with one in sync, is up; it "
                "serves, or will in a moment",
            )
        member = members.get(node)
        if member is None or not _is_up(member):
            known = names(sorted(members))
            raise not_found(
                f"node '{text(choice.node)}' is no member that is up; there are {known}"
            )
        return AdoptCopy(number, Epoch(choice.epoch), node, member.incarnation)

    async def _refuse_without_copy(
        self, key: QueueKey, request: pb.AdoptCopyRequest, timeout_s: float
    ) -> None:
        """Refuses if a node that is named has no copy, unless nothing is what is wanted."""
        ask = pb.LocalFragmentsRequest(queues=queue_names([key]))
        own = self._overview.process()[0]
        wanted = dict.fromkeys([NodeId(choice.node) for choice in request.choices])
        replies = dict(
            await self._others.ask(
                [
                    each
                    for each in self._overview.members()
                    if each.node in wanted and each.node != own
                ],
                lambda stub, timeout: stub.LocalFragments(ask, timeout=timeout),
                timeout_s,
            )
        )
        replies[own] = local_fragments(self._overview, ask)
        for choice in request.choices:
            reply = replies.get(NodeId(choice.node))
            if reply is None:
                raise unavailable(f"{choice.node} does not answer: nobody knows what it has")
            has_copy = FragmentId(choice.fragment) in read_answer(reply).copies
            if not has_copy and not choice.empty:
                raise not_found(f"{choice.node} has no copy of fragment {choice.fragment}")
            if has_copy and choice.empty:
                raise invalid(
                    f"{choice.node} has a copy of fragment {choice.fragment}: it would not be "
                    "empty; name that copy, or another node"
                )


def _is_up(member: MemberOverview | None) -> bool:
    return member is not None and member.state is MemberState.UP
