"""The calls of the admin service about policies.

A part of `fedq.admin.service`; what is said and done is in `fedq.admin.policy_answers`.
"""

import grpc
import grpc.aio

from fedq.admin.bounds import CHANGE_MS
from fedq.admin.calls import reply, timeout_s
from fedq.admin.policy_answers import PolicyAnswers
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc


class PolicyService(admin_pb2_grpc.AdminServicer):
    """The calls about policies of one node's admin service."""

    #: Set by the whole service.
    _policies: PolicyAnswers

    # The generated base class gives the methods their names.
    # ruff: noqa: N802

    async def PutPolicy(
        self,
        request: pb.PutPolicyRequest,
        context: grpc.aio.ServicerContext[pb.PutPolicyRequest, pb.PutPolicyReply],
    ) -> pb.PutPolicyReply:
        """Puts a policy, or replaces one."""
        return await reply(context, self._policies.put(request, timeout_s(context, CHANGE_MS)))

    async def DropPolicy(
        self,
        request: pb.DropPolicyRequest,
        context: grpc.aio.ServicerContext[pb.DropPolicyRequest, pb.DropPolicyReply],
    ) -> pb.DropPolicyReply:
        """Takes a policy away."""
        return await reply(context, self._policies.drop(request, timeout_s(context, CHANGE_MS)))

    async def ListPolicies(
        self,
        request: pb.ListPoliciesRequest,
        context: grpc.aio.ServicerContext[pb.ListPoliciesRequest, pb.ListPoliciesReply],
    ) -> pb.ListPoliciesReply:
        """A page of policies."""
        return await reply(context, self._policies.list(request))
