"""Answers for the whole cluster: this node's copy of the map, and what the other members say.

Inputs: an overview, requests, the time a call may take. Outputs: replies, or AdminError. While
others are asked the map may change; each answer is put together from the map as it was read last.
"""

import asyncio
from collections.abc import Sequence

from fedq.admin import messages
from fedq.admin.bounds import FRAGMENTS_PER_TURN
from fedq.admin.local_answers import connection_limit, local_connections, local_fragments
from fedq.admin.members import OtherMembers
from fedq.admin.merge import LocalAnswer, QueueMerger, read_answer
from fedq.admin.notes import find_notes
from fedq.admin.own_process import OwnProcess
from fedq.admin.paging import select, vhost_of
from fedq.admin.problems import find_problems, names, stale_sentence
from fedq.admin.refusal import invalid, not_found, unavailable
from fedq.core.ids import NodeId, QueueKey
from fedq.node.views.overview_types import (
    ClusterOverview,
    MemberOverview,
    MemberState,
    Overview,
    QueueOverview,
)
from fedq.shell.durations import Durations
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.policy_book import Standing

DEFAULT_VHOST = "/"


class ClusterAnswers:
    """What one member can say about all."""

    __slots__ = ("_others", "_overview", "_process", "_turns")

    def __init__(
        self, overview: Overview, others: OtherMembers, turns: Durations, process: OwnProcess
    ) -> None:
        self._process = process
        self._overview = overview
        self._others = others
        self._turns = turns

    # --- the cluster ------------------------------------------------------------------------------

    async def status(self, timeout_s: float) -> pb.ClusterStatusReply:
        """The cluster at a glance, and what is wrong with it."""
        members = await self.members(timeout_s)
        cluster = await self.cluster()
        node = self._overview.node()
        for member in members:
            name = NodeId(member.node)
            member.leads = cluster.leads.get(name, 0)
            member.copies = cluster.copies.get(name, 0)
            member.only_copies = cluster.only_copies.get(name, 0)
            member.single_copies = cluster.single_copies.get(name, 0)
            if (staying := cluster.staying.get(name)) is not None:
                member.copies_that_stay = staying.copies
        return pb.ClusterStatusReply(
            node=node.node,
            leader=node.leader or "",
            era=cluster.era,
            map_version=node.map_version,
            members=members,
            queues=cluster.queues,
            fragments=cluster.fragments,
            fragments_unavailable=cluster.fragments_unavailable,
            fragments_short=cluster.fragments_short,
            problems=find_problems(node, cluster, members),
            notes=find_notes(cluster, members),
            awaited=map(messages.awaited, cluster.awaited),
            moves=cluster.moves,
            cluster_version=cluster.version,
        )

    async def cluster(self) -> ClusterOverview:
        """Members and totals; turns of the node come between some fragments and the next."""
        tally, fragments = self._overview.cluster_tally(), self._overview.fragment_ids()
        for start in range(0, len(fragments), FRAGMENTS_PER_TURN):
            tally.add(fragments[start : start + FRAGMENTS_PER_TURN])
            await asyncio.sleep(0)
        return tally.found()

    async def members(self, timeout_s: float) -> list[pb.Member]:
        """Every member with what it says of itself."""
        replies = await self._others.ask(
            self._without_self(self._overview.members()),
            lambda stub, timeout: stub.LocalNode(pb.LocalNodeRequest(), timeout=timeout),
            timeout_s,
        )
        own = messages.figures(self._overview.node(), self._turns, self._process)
        figures: dict[str, pb.NodeFigures] = {own.node: own}
        for node, reply in replies.items():
            # An address may have passed to another node: its figures would be the wrong ones.
            if reply.figures.node == node:
                figures[node] = reply.figures
        members = self._overview.members()
        return [messages.member(member, figures.get(member.node)) for member in members]

    def _without_self(self, members: Sequence[MemberOverview]) -> list[MemberOverview]:
        node = self._overview.process()[0]
        return [member for member in members if member.node != node]

    # --- queues -----------------------------------------------------------------------------------

    async def list_queues(
        self, request: pb.ListQueuesRequest, timeout_s: float
    ) -> pb.ListQueuesReply:
        """One page of shared queues."""
        page = select(
            self._overview.queue_keys(),
            vhost_of(request),
            request.name_pattern,
            request.page_size,
            request.page_token,
        )
        return pb.ListQueuesReply(
            queues=await self.queues(page.keys, timeout_s), next_page_token=page.next_token
        )

    async def show_queue(self, request: pb.ShowQueueRequest, timeout_s: float) -> pb.Queue:
        """One shared queue with its fragments."""
        if not request.name:
            raise invalid("name is empty; give the name of a shared queue")
        key = QueueKey(request.vhost or DEFAULT_VHOST, request.name)
        merged = await self.queues([key], timeout_s)
        if merged:
            return merged[0]
        missing = f"no shared queue '{key.name}' in vhost '{key.vhost}'"
        stale = stale_sentence(self._overview.node())
        if stale is not None:
            raise unavailable(f"{missing} is known here, but {stale}")
        raise not_found(f"{missing}; `fedq queue list` shows those there are")

    async def queues(self, keys: Sequence[QueueKey], timeout_s: float) -> list[pb.Queue]:
        """The queues that exist among `keys`, each put together from all members' answers."""
        keys = [key for key in keys if self._overview.queue(key) is not None]
        if not keys:
            return []
        request = pb.LocalFragmentsRequest(queues=messages.queue_names(keys))
        replies = await self._others.ask(
            self._without_self(self._overview.members()),
            lambda stub, timeout: stub.LocalFragments(request, timeout=timeout),
            timeout_s,
        )
        answers: dict[NodeId, LocalAnswer] = {
            node: read_answer(reply) for node, reply in replies.items()
        }
        own = self._overview.process()[0]
        answers[own] = read_answer(local_fragments(self._overview, request))
        merger = QueueMerger(self._overview.members(), answers)
        standings = await self._standings(keys)
        queues: list[QueueOverview | None] = [self._overview.queue(key) for key in keys]
        return [
            merger.merge(queue, standing)
            for queue, standing in zip(queues, standings, strict=True)
            if queue is not None
        ]

    async def _standings(self, keys: Sequence[QueueKey]) -> list[Standing]:
        """The policies of queues, some at a time: the node serves others meanwhile."""
        found = [*self._overview.standings(keys)]
        while len(found) < len(keys):
            await asyncio.sleep(0)
            found += self._overview.standings(keys[len(found) :])
        return found

    # --- connections ------------------------------------------------------------------------------

    async def list_connections(
        self, request: pb.ListConnectionsRequest, timeout_s: float
    ) -> pb.ListConnectionsReply:
        """Client connections of all members, or of one."""
        local = pb.LocalConnectionsRequest(limit=connection_limit(request.limit))
        members = self._choose(request.node)
        replies: dict[NodeId, pb.LocalConnectionsReply] = dict(
            await self._others.ask(
                self._without_self(members),
                lambda stub, timeout: stub.LocalConnections(local, timeout=timeout),
                timeout_s,
            )
        )
        replies[self._overview.process()[0]] = local_connections(self._overview, local)
        merged = pb.ListConnectionsReply()
        for member in members:
            reply = replies.get(member.node)
            if reply is not None:
                merged.connections.extend(reply.connections)
                merged.total += reply.total
            elif member.state is MemberState.UP:
                merged.silent_members.append(member.node)
        return merged

    def _choose(self, node: str) -> Sequence[MemberOverview]:
        """The member with the given name, or all members for ""."""
        members = self._overview.members()
        if not node:
            return members
        chosen = [member for member in members if member.node == node]
        if not chosen:
            known = names([member.node for member in members])
            raise not_found(f"no member '{node}'; there are {known}")
        if chosen[0].state is not MemberState.UP:
            raise unavailable(f"{node} is {chosen[0].state.value}: it has no connections")
        return chosen
