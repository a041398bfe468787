"""The admin service of a node (`protos/admin.proto`): reads an `Overview`, has the map changed.

Inputs: calls of people, tools and other members. Outputs: replies, or a gRPC status with a
sentence. It runs on the node's own event loop, so every read of the overview sees the node
between two turns, and nothing needs a lock. Virtual hosts, users and permissions are in
`fedq.admin.access_service`.

The service is to be added to the server that other members reach (they ask each other) and to
the one that people reach; one object can serve on both.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import grpc
import grpc.aio

from fedq.admin.access_answers import AccessAnswers
from fedq.admin.access_service import AccessService
from fedq.admin.adopting import Adopting
from fedq.admin.bounds import CHANGE_MS
from fedq.admin.calls import Reply, Request, reply, timeout_s
from fedq.admin.client_answers import AskClose, ClientAnswers
from fedq.admin.cluster_answers import ClusterAnswers
from fedq.admin.local_answers import local_connections, local_fragments, local_node
from fedq.admin.log_levels import LogLevels
from fedq.admin.members import Connect, OtherMembers
from fedq.admin.moving import Moving
from fedq.admin.own_process import OwnProcess, Stopping
from fedq.admin.parameter_answers import ParameterAnswers
from fedq.admin.parameter_service import ParameterService
from fedq.admin.policy_answers import PolicyAnswers
from fedq.admin.policy_service import PolicyService
from fedq.admin.quarantine import AskQuarantine, QuarantineAnswers
from fedq.admin.releasing import AskRelease, Releasing
from fedq.admin.shovel_answers import ShovelAnswers
from fedq.admin.topic_answers import TopicAnswers
from fedq.admin.topic_service import TopicService
from fedq.admin.trace_answers import TraceAnswers
from fedq.admin.trace_service import TraceService
from fedq.node.views.overview_types import Overview
from fedq.node.views.shovel_view import LocalShovels, PlacedShovels, no_shovels
from fedq.shell.durations import Durations
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["Admin"].full_name
#: What members ask each other, each about itself.
MEMBER_METHODS: Final = (
    "LocalNode", "LocalFragments", "LocalConnections", "LocalQuarantine", "LocalReleaseReader",
    "BrowseConnections", "BrowseChannels", "BrowseConsumers", "BrowseSubscribers",
    "CloseConnections", "LocalShovels",
)  # fmt: skip


class Answers(NamedTuple):
    """What the service answers with, for others that speak for the same node on its loop."""

    cluster: ClusterAnswers
    clients: ClientAnswers
    access: AccessAnswers
    shovels: ShovelAnswers


class AdminService(AccessService, ParameterService, PolicyService, TopicService, TraceService):
    """One node's admin service; `connect` opens channels to those of the other members."""

    member_methods = frozenset(f"/{SERVICE_NAME}/{name}" for name in MEMBER_METHODS)

    def __init__(
        self, overview: Overview, connect: Connect, access: AccessAnswers, ask: AskQuarantine,
        ask_close: AskClose, ask_release: AskRelease, turns: Durations, process: OwnProcess,
        placed: PlacedShovels, own_shovels: LocalShovels = no_shovels,
    ) -> None:  # fmt: skip
        """`ask`: has the node do something with what is in quarantine; `ask_close`: end clients.

        `ask_release`: give back what is reserved for a reader.
        """
        super().__init__(access)
        self._overview = overview
        self._turns = turns
        self._process = process
        self._log_levels = LogLevels()
        self._stopping = Stopping(overview.process()[0], process)
        self._others = OtherMembers(connect, overview.members)
        self._quarantine = QuarantineAnswers(overview, self._others, ask)
        self._releasing = Releasing(overview, self._others, ask_release)
        self._cluster = ClusterAnswers(overview, self._others, turns, process)
        self._clients = ClientAnswers(overview, self._others, ask_close)
        self._traces = TraceAnswers(overview.process, access)
        self._policies = PolicyAnswers(access)
        self._topics = TopicAnswers(access)
        self._adopting = Adopting(overview, self._others, access.change)
        self._parameters = ParameterAnswers(access)
        self._shovels = ShovelAnswers(overview, placed, self._others, own_shovels)
        self.answers = Answers(self._cluster, self._clients, access, self._shovels)
        self._moving = Moving(overview, self._cluster, access.change)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Registers with `server`, which must not have been started yet."""
        admin_pb2_grpc.add_AdminServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """Closes the channels to other members."""
        await self._others.close()

    # The generated base class gives the methods their names.
    # ruff: noqa: N802

    async def ClusterStatus(
        self,
        request: pb.ClusterStatusRequest,
        context: grpc.aio.ServicerContext[pb.ClusterStatusRequest, pb.ClusterStatusReply],
    ) -> pb.ClusterStatusReply:
        """The cluster at a glance, and what is wrong with it."""
        return await reply(context, self._cluster.status(timeout_s(context)))

    async def Members(
        self,
        request: pb.MembersRequest,
        context: grpc.aio.ServicerContext[pb.MembersRequest, pb.MembersReply],
    ) -> pb.MembersReply:
        """Every member with its own figures."""
        members = await reply(context, self._cluster.members(timeout_s(context)))
        return pb.MembersReply(members=members)

    async def ListQueues(
        self,
        request: pb.ListQueuesRequest,
        context: grpc.aio.ServicerContext[pb.ListQueuesRequest, pb.ListQueuesReply],
    ) -> pb.ListQueuesReply:
        """A page of shared queues in order of virtual host and name."""
        return await reply(context, self._cluster.list_queues(request, timeout_s(context)))

    async def ShowQueue(
        self,
        request: pb.ShowQueueRequest,
        context: grpc.aio.ServicerContext[pb.ShowQueueRequest, pb.ShowQueueReply],
    ) -> pb.ShowQueueReply:
        """One shared queue with its fragments."""
        queue = await reply(context, self._cluster.show_queue(request, timeout_s(context)))
        return pb.ShowQueueReply(queue=queue)

    async def AdoptCopy(
        self,
        request: pb.AdoptCopyRequest,
        context: grpc.aio.ServicerContext[pb.AdoptCopyRequest, pb.AdoptCopyReply],
    ) -> pb.AdoptCopyReply:
        """Takes copies as in sync that an operator names, where all that were are gone."""
        return await reply(context, self._adopting.adopt(request, timeout_s(context, CHANGE_MS)))

    async def DrainNode(
        self,
        request: pb.DrainNodeRequest,
        context: grpc.aio.ServicerContext[pb.DrainNodeRequest, pb.DrainNodeReply],
    ) -> pb.DrainNodeReply:
        """Has a member hold nothing, and get no clients."""
        return await reply(context, self._moving.drain(request, timeout_s(context, CHANGE_MS)))

    async def UndrainNode(
        self,
        request: pb.UndrainNodeRequest,
        context: grpc.aio.ServicerContext[pb.UndrainNodeRequest, pb.UndrainNodeReply],
    ) -> pb.UndrainNodeReply:
        """Lets a member hold something again."""
        return await reply(context, self._moving.undrain(request, timeout_s(context, CHANGE_MS)))

    async def ForgetNode(
        self,
        request: pb.ForgetNodeRequest,
        context: grpc.aio.ServicerContext[pb.ForgetNodeRequest, pb.ForgetNodeReply],
    ) -> pb.ForgetNodeReply:
        """Takes a member that is down for good out of the cluster."""
        return await reply(context, self._moving.forget(request, timeout_s(context, CHANGE_MS)))

    async def MoveFragment(
        self,
        request: pb.MoveFragmentRequest,
        context: grpc.aio.ServicerContext[pb.MoveFragmentRequest, pb.MoveFragmentReply],
    ) -> pb.MoveFragmentReply:
        """Has a fragment led by another member."""
        return await reply(context, self._moving.move(request, timeout_s(context, CHANGE_MS)))

    async def ShapeQueue(
        self,
        request: pb.ShapeQueueRequest,
        context: grpc.aio.ServicerContext[pb.ShapeQueueRequest, pb.ShapeQueueReply],
    ) -> pb.ShapeQueueReply:
        """Sets in how many fragments a queue is."""
        return await reply(context, self._moving.shape(request, timeout_s(context, CHANGE_MS)))

    async def Rebalance(
        self,
        request: pb.RebalanceRequest,
        context: grpc.aio.ServicerContext[pb.RebalanceRequest, pb.RebalanceReply],
    ) -> pb.RebalanceReply:
        """Has members lead about as many fragments each."""
        return await reply(context, self._moving.rebalance(request, timeout_s(context, CHANGE_MS)))

    async def ListConnections(
        self,
        request: pb.ListConnectionsRequest,
        context: grpc.aio.ServicerContext[pb.ListConnectionsRequest, pb.ListConnectionsReply],
    ) -> pb.ListConnectionsReply:
        """Client connections of all members, or of one."""
        return await reply(context, self._cluster.list_connections(request, timeout_s(context)))

    async def BrowseConnections(
        self,
        request: pb.BrowseRequest,
        context: grpc.aio.ServicerContext[pb.BrowseRequest, pb.BrowseConnectionsReply],
    ) -> pb.BrowseConnectionsReply:
        """A page of client connections."""
        return await reply(context, self._clients.connections(request, timeout_s(context)))

    async def BrowseChannels(
        self,
        request: pb.BrowseRequest,
        context: grpc.aio.ServicerContext[pb.BrowseRequest, pb.BrowseChannelsReply],
    ) -> pb.BrowseChannelsReply:
        """A page of the channels of client connections."""
        return await reply(context, self._clients.channels(request, timeout_s(context)))

    async def BrowseConsumers(
        self,
        request: pb.BrowseRequest,
        context: grpc.aio.ServicerContext[pb.BrowseRequest, pb.BrowseConsumersReply],
    ) -> pb.BrowseConsumersReply:
        """A page of the consumers on those clients' channels."""
        return await reply(context, self._clients.consumers(request, timeout_s(context)))

    async def BrowseSubscribers(
        self,
        request: pb.BrowseRequest,
        context: grpc.aio.ServicerContext[pb.BrowseRequest, pb.BrowseSubscribersReply],
    ) -> pb.BrowseSubscribersReply:
        """A page of exclusive queues, with what waits there for their owners."""
        return await reply(context, self._clients.subscribers(request, timeout_s(context)))

    async def CloseConnections(
        self,
        request: pb.CloseConnectionsRequest,
        context: grpc.aio.ServicerContext[pb.CloseConnectionsRequest, pb.CloseConnectionsReply],
    ) -> pb.CloseConnectionsReply:
        """Ends client connections."""
        return await reply(context, self._clients.close_connections(request, timeout_s(context)))

    async def SetLogLevel(
        self,
        request: pb.SetLogLevelRequest,
        context: grpc.aio.ServicerContext[pb.SetLogLevelRequest, pb.SetLogLevelReply],
    ) -> pb.SetLogLevelReply:
        """Sets how much this node writes to its log."""
        return await reply(context, self._log_levels.set(request))

    async def ListLogLevels(
        self,
        request: pb.ListLogLevelsRequest,
        context: grpc.aio.ServicerContext[pb.ListLogLevelsRequest, pb.ListLogLevelsReply],
    ) -> pb.ListLogLevelsReply:
        """Tells how much this node writes to its log."""
        del request
        return await reply(context, self._log_levels.list())

    async def StopNode(
        self,
        request: pb.StopNodeRequest,
        context: grpc.aio.ServicerContext[pb.StopNodeRequest, pb.StopNodeReply],
    ) -> pb.StopNodeReply:
        """Stops this node."""
        return await reply(context, self._stopping.stop(request))

    async def Quarantine(
        self,
        request: pb.QuarantineRequest,
        context: grpc.aio.ServicerContext[pb.QuarantineRequest, pb.QuarantineReply],
    ) -> pb.QuarantineReply:
        """Shows the messages of a queue that were set aside, and does with them what is asked."""
        return await reply(context, self._quarantine.everywhere(request, timeout_s(context)))

    async def LocalQuarantine(
        self,
        request: pb.QuarantineRequest,
        context: grpc.aio.ServicerContext[pb.QuarantineRequest, pb.QuarantineReply],
    ) -> pb.QuarantineReply:
        """As `Quarantine`, with the fragments that this node serves."""
        return await reply(context, self._quarantine.local(request, timeout_s(context)))

    async def ReleaseReader(
        self,
        request: pb.ReleaseReaderRequest,
        context: grpc.aio.ServicerContext[pb.ReleaseReaderRequest, pb.ReleaseReaderReply],
    ) -> pb.ReleaseReaderReply:
        """What is reserved for a reader of a queue goes back to it."""
        return await reply(context, self._releasing.everywhere(request, timeout_s(context)))

    async def LocalReleaseReader(
        self,
        request: pb.ReleaseReaderRequest,
        context: grpc.aio.ServicerContext[pb.ReleaseReaderRequest, pb.ReleaseReaderReply],
    ) -> pb.ReleaseReaderReply:
        """As `ReleaseReader`, of the fragments that this node serves."""
        return await reply(context, self._releasing.local(request, timeout_s(context)))

    async def LocalNode(
        self,
        request: pb.LocalNodeRequest,
        context: grpc.aio.ServicerContext[pb.LocalNodeRequest, pb.LocalNodeReply],
    ) -> pb.LocalNodeReply:
        """Figures of this node."""
        return local_node(self._overview, self._turns, self._process)

    async def LocalFragments(
        self,
        request: pb.LocalFragmentsRequest,
        context: grpc.aio.ServicerContext[pb.LocalFragmentsRequest, pb.LocalFragmentsReply],
    ) -> pb.LocalFragmentsReply:
        """The fragments this node serves, and its clients' consumers."""
        return await reply(context, _now(local_fragments, self._overview, request))

    async def LocalConnections(
        self,
        request: pb.LocalConnectionsRequest,
        context: grpc.aio.ServicerContext[pb.LocalConnectionsRequest, pb.LocalConnectionsReply],
    ) -> pb.LocalConnectionsReply:
        """Client connections of this node."""
        return await reply(context, _now(local_connections, self._overview, request))


async def _now(
    answer: Callable[[Overview, Request], Reply], overview: Overview, request: Request
) -> Reply:
    """An answer that waits for nobody, in the form of those that do."""
    return answer(overview, request)
