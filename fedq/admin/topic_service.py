"""The calls of the admin service about permissions of topics.

A part of `fedq.admin.service`; what is said and done is in `fedq.admin.topic_answers`.
"""

import grpc
import grpc.aio

from fedq.admin.bounds import CHANGE_MS
from fedq.admin.calls import reply, timeout_s
from fedq.admin.topic_answers import TopicAnswers
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc


class TopicService(admin_pb2_grpc.AdminServicer):
    """The calls about permissions of topics of one node's admin service."""

    #: Set by the whole service.
    _topics: TopicAnswers

    # The generated base class gives the methods their names.
    # ruff: noqa: N802

    async def SetTopicPermissions(
        self,
        request: pb.SetTopicPermissionsRequest,
        context: grpc.aio.ServicerContext[
            pb.SetTopicPermissionsRequest, pb.SetTopicPermissionsReply
        ],
    ) -> pb.SetTopicPermissionsReply:
        """Limits a user to topics of an exchange."""
        return await reply(context, self._topics.set(request, timeout_s(context, CHANGE_MS)))

    async def ClearTopicPermissions(
        self,
        request: pb.ClearTopicPermissionsRequest,
        context: grpc.aio.ServicerContext[
            pb.ClearTopicPermissionsRequest, pb.ClearTopicPermissionsReply
        ],
    ) -> pb.ClearTopicPermissionsReply:
        """Lets a user use all topics again."""
        return await reply(context, self._topics.clear(request, timeout_s(context, CHANGE_MS)))

    async def ListTopicPermissions(
        self,
        request: pb.ListTopicPermissionsRequest,
        context: grpc.aio.ServicerContext[
            pb.ListTopicPermissionsRequest, pb.ListTopicPermissionsReply
        ],
    ) -> pb.ListTopicPermissionsReply:
        """A page of permissions of topics."""
        return await reply(context, self._topics.list(request))
