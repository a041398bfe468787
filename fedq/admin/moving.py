"""Members that are drained or taken out, planned moves, plans that even out who leads what, shapes.

See docs/adr/0082, 0085 and 0086.

Inputs: this node's overview, what members say of themselves, a way to have the cluster map changed,
requests. Outputs: replies, or AdminError. A wish is answered when it is noted; how far it has come
is in `ClusterStatus` and `ShowQueue`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

import grpc

from fedq.admin.cluster_answers import DEFAULT_VHOST, ClusterAnswers
from fedq.admin.messages import text
from fedq.admin.refusal import AdminError, invalid, not_found
from fedq.core.ids import FragmentId, NodeId, QueueKey
from fedq.core.limits import FRAGMENTS_PER_QUEUE_MAX
from fedq.node.views.overview_types import (
    FragmentOverview,
    MemberState,
    Overview,
    QueueOverview,
)
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_copies import ShapeQueue
from fedq.wiring.cluster_map.operations_members import ForgetNode
from fedq.wiring.cluster_map.operations_moves import DrainNode, MoveFragment, UndrainNode

#: Moves of one plan.
PLAN_MOVES_MAX: Final = 200
#: Queues that are looked at without a pause.
_QUEUES_AT_A_TIME: Final = 200

#: What it is refused with if the plan is overtaken: something is gone, down or drained by now.
_OVERTAKEN: Final = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION)

#: Has the map changed within some seconds; raises AdminError if that is refused.
Change = Callable[[Operation, float], Awaitable[bool]]


class Move(NamedTuple):
    """A fragment that is to be led by another member."""

    queue: QueueKey
    fragment: FragmentId
    source: NodeId
    target: NodeId


class Moving:
    """Has members drained and fragments moved."""

    __slots__ = ("_change", "_cluster", "_overview")

    def __init__(self, overview: Overview, cluster: ClusterAnswers, change: Change) -> None:
        self._overview = overview
        self._cluster = cluster
        self._change = change

    async def drain(self, request: pb.DrainNodeRequest, timeout_s: float) -> pb.DrainNodeReply:
        """Drains a member."""
        operation = DrainNode(_node(request.node), request.close_clients)
        return pb.DrainNodeReply(changed=await self._wish(operation, timeout_s))

    async def undrain(
        self, request: pb.UndrainNodeRequest, timeout_s: float
    ) -> pb.UndrainNodeReply:
        """Undrains a member."""
        operation = UndrainNode(_node(request.node))
        return pb.UndrainNodeReply(changed=await self._wish(operation, timeout_s))

    async def forget(self, request: pb.ForgetNodeRequest, timeout_s: float) -> pb.ForgetNodeReply:
        """Takes a member that is down for good out of the cluster."""
        node = _node(request.node)
        known = {member.node: member.incarnation for member in self._overview.members()}
        # The process that is meant: another one that has come up since is not taken out.
        operation = ForgetNode(node, int(known.get(node, 0)))
        return pb.ForgetNodeReply(changed=await self._wish(operation, timeout_s))

    async def move(self, request: pb.MoveFragmentRequest, timeout_s: float) -> pb.MoveFragmentReply:
        """Has a fragment led by another member, or stay."""
        fragment = self._fragment(request)
        if request.node:
            await self._refuse_full(request.node, timeout_s / 2)
        operation = MoveFragment(fragment.fragment, NodeId(request.node))
        changed = await self._wish(operation, timeout_s / 2)
        return pb.MoveFragmentReply(changed=changed, fragment=fragment.fragment)

    async def shape(self, request: pb.ShapeQueueRequest, timeout_s: float) -> pb.ShapeQueueReply:
        """Sets in how many fragments a queue is to be."""
        key, most = self._queue(request.queue).key, FRAGMENTS_PER_QUEUE_MAX
        if request.fragments > most:
            raise invalid(f"a queue has {most} fragments at most, not {request.fragments}")
        operation = ShapeQueue(key.vhost, key.name, request.fragments)
        changed = await self._wish(operation, timeout_s)
        there = self._overview.queue(key)
        count = 0 if there is None else len(there.fragments)
        return pb.ShapeQueueReply(changed=changed, fragments=count)

    async def rebalance(self, request: pb.RebalanceRequest, timeout_s: float) -> pb.RebalanceReply:
        """Plans moves by which members lead about as many fragments each, and wishes them."""
        queues: list[QueueOverview] = []
        for number, key in enumerate(self._overview.queue_keys(), 1):
            queue = self._overview.queue(key)
            if queue is not None:
                queues.append(queue)
            if number % _QUEUES_AT_A_TIME == 0:
                # The node serves others meanwhile.
                await asyncio.sleep(0)
        able = [
            member.node for member in self._overview.members()
            if member.state is MemberState.UP and member.drained is None
        ]  # fmt: skip
        moves = plan(queues, able, PLAN_MOVES_MAX + 1)
        reply = pb.RebalanceReply(more=len(moves) > PLAN_MOVES_MAX)
        for move in moves[:PLAN_MOVES_MAX]:
            if not request.dry_run and not await self._still_wished(move, timeout_s):
                continue
            name = pb.QueueName(vhost=move.queue.vhost, name=move.queue.name)
            planned = pb.PlannedMove(queue=name, fragment=move.fragment, to=move.target)
            setattr(planned, "from", move.source)
            reply.moves.append(planned)
        return reply

    async def _still_wished(self, move: Move, timeout_s: float) -> bool:
        """Wishes a move of a plan; false if what came meanwhile has made it needless."""
        try:
            await self._wish(MoveFragment(move.fragment, move.target), timeout_s)
        except AdminError as refusal:
            if refusal.code not in _OVERTAKEN:
                raise
            return False
        return True

    async def _wish(self, operation: Operation, timeout_s: float) -> bool:
        try:
            return await self._change(operation, timeout_s)
        except AdminError as refusal:
            if refusal.code is not grpc.StatusCode.ALREADY_EXISTS:
                raise
            raise AdminError(grpc.StatusCode.FAILED_PRECONDITION, refusal.text) from refusal

    def _queue(self, name: pb.QueueName) -> QueueOverview:
        """The shared queue of this name."""
        if not name.name:
            raise invalid("the queue's name is empty; give the name of a shared queue")
        key = QueueKey(name.vhost or DEFAULT_VHOST, name.name)
        queue = self._overview.queue(key)
        if queue is None:
            raise not_found(
                f"no shared queue '{text(key.name)}' in vhost '{text(key.vhost)}'; `fedq queue "
                "list` shows those there are"
            )
        return queue

    def _fragment(self, request: pb.MoveFragmentRequest) -> FragmentOverview:
        queue = self._queue(request.queue)
        known = {each.fragment: each for each in queue.fragments}
        if not request.fragment and len(known) == 1:
            return queue.fragments[0]
        fragment = known.get(FragmentId(request.fragment))
        if fragment is None:
            there = ", ".join(str(number) for number in sorted(known))
            raise invalid(
                f"say which fragment of '{text(queue.key.name)}' it is; there are {there}"
            )
        return fragment

    async def _refuse_full(self, node: str, timeout_s: float) -> None:
        """Refuses a member that has no room; whether there is one of that name the map says."""
        for member in await self._cluster.members(timeout_s):
            alarms = member.figures.alarms
            if member.node == node and (alarms.memory or alarms.disk):
                short = "memory" if alarms.memory else "disk"
                raise AdminError(
                    grpc.StatusCode.FAILED_PRECONDITION,
                    f"node '{node}' is low on {short} and takes nothing in: make room there, or "
                    "move to another one",
                )


#: The fragments that a node leads and another one has a copy of in sync, with their queues.
_Between: TypeAlias = dict[tuple[NodeId, NodeId], list[tuple[QueueKey, FragmentId]]]


def plan(queues: Iterable[QueueOverview], able: Iterable[NodeId], most: int) -> list[Move]:
    """Moves to copies in sync, at most so many, each from who leads more to who leads fewer.

    `able`: the members that are up and not drained. Ends when no two of them between which
    something can move differ by two.
    """
    leads: dict[NodeId, int] = dict.fromkeys(sorted(able), 0)
    between: _Between = {}
    for queue in queues:
        for each in queue.fragments:
            if each.primary not in leads:
                continue
            leads[each.primary] += 1
            for other in each.in_sync:
                if other in leads and other != each.primary:
                    known = between.setdefault((each.primary, other), [])
                    known.append((queue.key, each.fragment))
    for movable in between.values():
        movable.reverse()
    moves: list[Move] = []
    moved: dict[FragmentId, None] = {}
    while len(moves) < most and (move := _next_move(leads, between, moved)) is not None:
        moves.append(move)
        moved[move.fragment] = None
        leads[move.source] -= 1
        leads[move.target] += 1
    return moves


def _next_move(
    leads: Mapping[NodeId, int], between: _Between, moved: Mapping[FragmentId, None]
) -> Move | None:
    """The move from whoever leads most to whoever leads least, as far as there are copies."""
    by_least = sorted(leads, key=lambda node: (leads[node], node))
    for source in reversed(by_least):
        for target in by_least:
            if leads[source] - leads[target] < 2:
                break
            movable = between.get((source, target), [])
            while movable:
                queue, fragment = movable.pop()
                # Each moves once.
                if fragment not in moved:
                    return Move(queue, fragment, source, target)
    return None


def _node(name: str) -> NodeId:
    if not name:
        raise invalid("node is empty; give the name of a member")
    return NodeId(name)
