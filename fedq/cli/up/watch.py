"""What `fedq up` sees of its cluster, and what changed since it last looked.

`Watcher.look` asks the nodes' admin services; `compare` is pure: two pictures in, the events a
person should hear of out, each of them once.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import grpc
import grpc.aio

from fedq.admin.rows import OTHER
from fedq.cli.asking.forms import MEMBER_STATES, ROLES
from fedq.cli.up.plan import PlannedNode
from fedq.shell.config import admin_token
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc

_ANSWER_S: Final = 1.0
#: The node that is asked about all waits for the others itself.
_STATUS_S: Final = 2.5


@dataclass(frozen=True, slots=True)
class Event:
    """Something worth a line. `kind` is for scripts, `text` for people."""

    kind: str
    text: str
    node: str | None = None
    amqp_url: str | None = None


@dataclass(frozen=True, slots=True)
class NodePicture:
    """A node as it describes itself."""

    is_serving: bool
    role: str
    map_version: int
    connections: int


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster at one moment."""

    #: Nodes that answered.
    nodes: Mapping[str, NodePicture] = field(default_factory=dict)
    #: Node -> "up", "down" or "absent", as a node in contact with the majority has it.
    members: Mapping[str, str] = field(default_factory=dict)
    #: "" while no node in contact with the majority knows of one.
    leader: str = ""
    fragments: int = 0
    fragments_unavailable: int = 0
    fragments_short: int = 0
    problems: Sequence[str] = ()
    #: Why a node that was reached could not answer; "": all well.
    trouble: str = ""


class Watcher:
    """Asks the admin services of planned nodes. Belongs to one event loop."""

    __slots__ = ("_channels", "_data", "_stubs", "_trouble")

    def __init__(self, nodes: Sequence[PlannedNode]) -> None:
        options = [
            ("grpc.max_reconnect_backoff_ms", 250),
            ("grpc.initial_reconnect_backoff_ms", 50),
            ("grpc.enable_http_proxy", 0),
        ]
        self._channels = {
            str(node.name): grpc.aio.insecure_channel(node.admin, options) for node in nodes
        }
        self._stubs = {
            name: admin_pb2_grpc.AdminStub(channel)  # type: ignore[no-untyped-call]
            for name, channel in self._channels.items()
        }
        self._data = {str(node.name): node.data for node in nodes}
        self._trouble = ""

    def _metadata(self, name: str) -> tuple[tuple[str, str], ...]:
        """A node's token is another one after each start."""
        return admin_token.metadata(admin_token.read(self._data[name]))

    async def look(self, running: Sequence[str], before: Picture) -> Picture:
        """A new picture; what nobody can tell at present stays as it was `before`."""
        self._trouble = ""
        answers = await asyncio.gather(*(self._ask_node(name) for name in running))
        nodes = {
            name: answer
            for name, answer in zip(running, answers, strict=True)
            if answer is not None
        }
        serving = [name for name, node in nodes.items() if node.is_serving]
        status = None
        for name in serving:
            status = await self._ask_status(name)
            if status is not None:
                break
        if status is None:
            # Without a node that serves there is no majority, so no leader that counts.
            leader = before.leader if serving else ""
            return replace(before, nodes=nodes, leader=leader, trouble=self._trouble)
        return Picture(
            nodes,
            {member.node: MEMBER_STATES.get(member.state, OTHER) for member in status.members},
            status.leader,
            status.fragments,
            status.fragments_unavailable,
            status.fragments_short,
            tuple(status.problems),
            self._trouble,
        )

    async def _ask_node(self, name: str) -> NodePicture | None:
        try:
            reply = await self._stubs[name].LocalNode(
                pb.LocalNodeRequest(), timeout=_ANSWER_S, metadata=self._metadata(name)
            )
        except grpc.aio.AioRpcError as error:
            self._note(name, error)
            return None
        figures: pb.NodeFigures = reply.figures
        return NodePicture(
            figures.lease_held and not figures.stopping,
            ROLES.get(figures.raft_role, OTHER),
            figures.map_version,
            figures.connections,
        )

    async def _ask_status(self, name: str) -> pb.ClusterStatusReply | None:
        try:
            reply: pb.ClusterStatusReply = await self._stubs[name].ClusterStatus(
                pb.ClusterStatusRequest(), timeout=_STATUS_S, metadata=self._metadata(name)
            )
        except grpc.aio.AioRpcError as error:
            self._note(name, error)
            return None
        return reply

    def _note(self, name: str, error: grpc.aio.AioRpcError) -> None:
        """Notes a failure; no answer is none, as the node may be starting, stopping or stuck."""
        if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
            self._trouble = f"{name} failed to answer: {error.code().name}: {error.details()}"

    async def close(self) -> None:
        """Closes all channels."""
        for channel in self._channels.values():
            await channel.close()


def compare(plan: Sequence[PlannedNode], before: Picture, after: Picture) -> Iterator[Event]:
    """What happened between two pictures."""
    yield from _node_events(plan, before, after)
    yield from _member_events(before, after)
    if after.trouble and after.trouble != before.trouble:
        yield Event("trouble", after.trouble)
    if after.leader and after.leader != before.leader:
        yield Event("leader", f"{after.leader} leads", after.leader)
    if before.leader and not after.leader:
        yield Event("no-leader", "no leader: queues and bindings cannot be changed")
    was_whole, is_whole = (_is_whole(plan, picture) for picture in (before, after))
    if is_whole and not was_whole:
        count = f"all {len(plan)} nodes serve" if len(plan) > 1 else "the node serves"
        yield Event("whole", f"{count}, every queue fragment has all its copies")
    elif (after.fragments_unavailable, after.fragments_short) != (
        before.fragments_unavailable, before.fragments_short,
    ) and not is_whole:  # fmt: skip
        yield Event(
            "fragments",
            f"of {after.fragments} queue fragments {after.fragments_unavailable} are not served, "
            f"{after.fragments_short} lack copies",
        )


def _node_events(plan: Sequence[PlannedNode], before: Picture, after: Picture) -> Iterator[Event]:
    for node in plan:
        old, new = before.nodes.get(node.name), after.nodes.get(node.name)
        was_serving = old is not None and old.is_serving
        if new is not None and new.is_serving and not was_serving:
            places = " and ".join(filter(None, (node.amqp_url, node.http_url)))
            yield Event("ready", f"{node.name} is ready: {places}", node.name, node.amqp_url)
        elif was_serving and new is not None and not new.is_serving:
            yield Event(
                "fenced", f"{node.name} has no contact with the majority: it serves nobody",
                node.name,
            )  # fmt: skip


def _member_events(before: Picture, after: Picture) -> Iterator[Event]:
    for name, state in after.members.items():
        old = before.members.get(name)
        if state == "down" and old == "up":
            yield Event("down", f"the cluster counts {name} out", name)
        elif state == "up" and old == "down":
            yield Event("up", f"the cluster counts {name} in again", name)


def _is_whole(plan: Sequence[PlannedNode], picture: Picture) -> bool:
    return (
        not picture.fragments_unavailable
        and not picture.fragments_short
        and all((one := picture.nodes.get(node.name)) and one.is_serving for node in plan)
        and all(picture.members.get(each) == "up" for node in plan for each in node.members)
    )
