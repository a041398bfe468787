"""The calls of the admin service about runtime parameters and shovels.

A part of `fedq.admin.service`; what is said and done is in `fedq.admin.parameter_answers` and
`fedq.admin.shovel_answers`.
"""

import grpc
import grpc.aio

from fedq.admin.bounds import CHANGE_MS
from fedq.admin.calls import reply, timeout_s
from fedq.admin.parameter_answers import ParameterAnswers
from fedq.admin.shovel_answers import ShovelAnswers
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc


class ParameterService(admin_pb2_grpc.AdminServicer):
    """The calls about parameters and shovels of one node's admin service."""

    #: Set by the whole service.
    _parameters: ParameterAnswers
    _shovels: ShovelAnswers

    # The generated base class gives the methods their names.
    # ruff: noqa: N802

    async def PutParameter(
        self,
        request: pb.PutParameterRequest,
        context: grpc.aio.ServicerContext[pb.PutParameterRequest, pb.PutParameterReply],
    ) -> pb.PutParameterReply:
        """Puts a parameter, or replaces one."""
        return await reply(context, self._parameters.put(request, timeout_s(context, CHANGE_MS)))

    async def DropParameter(
        self,
        request: pb.DropParameterRequest,
        context: grpc.aio.ServicerContext[pb.DropParameterRequest, pb.DropParameterReply],
    ) -> pb.DropParameterReply:
        """Takes a parameter away."""
        return await reply(context, self._parameters.drop(request, timeout_s(context, CHANGE_MS)))

    async def ListParameters(
        self,
        request: pb.ListParametersRequest,
        context: grpc.aio.ServicerContext[pb.ListParametersRequest, pb.ListParametersReply],
    ) -> pb.ListParametersReply:
        """A page of parameters."""
        return await reply(context, self._parameters.list(request))

    async def ListShovels(
        self,
        request: pb.ListShovelsRequest,
        context: grpc.aio.ServicerContext[pb.ListShovelsRequest, pb.ListShovelsReply],
    ) -> pb.ListShovelsReply:
        """All shovels, and how they fare."""
        return await reply(context, self._shovels.everywhere(request, timeout_s(context)))

    async def LocalShovels(
        self,
        request: pb.ListShovelsRequest,
        context: grpc.aio.ServicerContext[pb.ListShovelsRequest, pb.ListShovelsReply],
    ) -> pb.ListShovelsReply:
        """The shovels that this node runs."""
        return await reply(context, self._shovels.local(request))
