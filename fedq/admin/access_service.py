"""The calls of the admin service about virtual hosts, users and permissions.

A part of `fedq.admin.service`; what is said and done is in `fedq.admin.access_answers`.
"""

import grpc
import grpc.aio

from fedq.admin.access_answers import AccessAnswers
from fedq.admin.bounds import CHANGE_MS
from fedq.admin.calls import reply, timeout_s
from fedq.shell.pb import admin_pb2 as pb
from fedq.shell.pb import admin_pb2_grpc


class AccessService(admin_pb2_grpc.AdminServicer):
    """The calls about virtual hosts, users and permissions of one node's admin service."""

    def __init__(self, access: AccessAnswers) -> None:
        self._access = access

    # The generated base class gives the methods their names.
    # ruff: noqa: N802

    async def AddVhost(
        self,
        request: pb.AddVhostRequest,
        context: grpc.aio.ServicerContext[pb.AddVhostRequest, pb.AddVhostReply],
    ) -> pb.AddVhostReply:
        """Makes a virtual host."""
        return await reply(context, self._access.add_vhost(request, timeout_s(context, CHANGE_MS)))

    async def DeleteVhost(
        self,
        request: pb.DeleteVhostRequest,
        context: grpc.aio.ServicerContext[pb.DeleteVhostRequest, pb.DeleteVhostReply],
    ) -> pb.DeleteVhostReply:
        """Deletes a virtual host, with all that is in it."""
        return await reply(
            context, self._access.delete_vhost(request, timeout_s(context, CHANGE_MS))
        )

    async def ListVhosts(
        self,
        request: pb.ListVhostsRequest,
        context: grpc.aio.ServicerContext[pb.ListVhostsRequest, pb.ListVhostsReply],
    ) -> pb.ListVhostsReply:
        """A page of virtual hosts."""
        return await reply(context, self._access.list_vhosts(request))

    async def ListExchanges(
        self,
        request: pb.ListExchangesRequest,
        context: grpc.aio.ServicerContext[pb.ListExchangesRequest, pb.ListExchangesReply],
    ) -> pb.ListExchangesReply:
        """A page of exchanges."""
        return await reply(context, self._access.list_exchanges(request))

    async def ListBindings(
        self,
        request: pb.ListBindingsRequest,
        context: grpc.aio.ServicerContext[pb.ListBindingsRequest, pb.ListBindingsReply],
    ) -> pb.ListBindingsReply:
        """A page of bindings."""
        return await reply(context, self._access.list_bindings(request))

    async def SetLimits(
        self,
        request: pb.SetLimitsRequest,
        context: grpc.aio.ServicerContext[pb.SetLimitsRequest, pb.SetLimitsReply],
    ) -> pb.SetLimitsReply:
        """Sets what a virtual host, or a user, may have at most."""
        return await reply(context, self._access.set_limits(request, timeout_s(context, CHANGE_MS)))

    async def ListLimits(
        self,
        request: pb.ListLimitsRequest,
        context: grpc.aio.ServicerContext[pb.ListLimitsRequest, pb.ListLimitsReply],
    ) -> pb.ListLimitsReply:
        """A page of limits."""
        return await reply(context, self._access.list_limits(request))

    async def PutUser(
        self,
        request: pb.PutUserRequest,
        context: grpc.aio.ServicerContext[pb.PutUserRequest, pb.PutUserReply],
    ) -> pb.PutUserReply:
        """Adds a user, or changes one."""
        return await reply(context, self._access.put_user(request, timeout_s(context, CHANGE_MS)))

    async def DeleteUser(
        self,
        request: pb.DeleteUserRequest,
        context: grpc.aio.ServicerContext[pb.DeleteUserRequest, pb.DeleteUserReply],
    ) -> pb.DeleteUserReply:
        """Deletes a user."""
        return await reply(
            context, self._access.delete_user(request, timeout_s(context, CHANGE_MS))
        )

    async def ListUsers(
        self,
        request: pb.ListUsersRequest,
        context: grpc.aio.ServicerContext[pb.ListUsersRequest, pb.ListUsersReply],
    ) -> pb.ListUsersReply:
        """A page of users."""
        return await reply(context, self._access.list_users(request))

    async def ChangePassword(
        self,
        request: pb.ChangePasswordRequest,
        context: grpc.aio.ServicerContext[pb.ChangePasswordRequest, pb.ChangePasswordReply],
    ) -> pb.ChangePasswordReply:
        """Gives a user another password."""
        return await reply(
            context, self._access.change_password(request, timeout_s(context, CHANGE_MS))
        )

    async def SetUserTags(
        self,
        request: pb.SetUserTagsRequest,
        context: grpc.aio.ServicerContext[pb.SetUserTagsRequest, pb.SetUserTagsReply],
    ) -> pb.SetUserTagsReply:
        """Replaces the tags of a user."""
        return await reply(context, self._access.set_tags(request, timeout_s(context, CHANGE_MS)))

    async def AuthenticateUser(
        self,
        request: pb.AuthenticateUserRequest,
        context: grpc.aio.ServicerContext[pb.AuthenticateUserRequest, pb.AuthenticateUserReply],
    ) -> pb.AuthenticateUserReply:
        """Whether a password is right."""
        return await reply(context, self._access.authenticate(request))

    async def SetPermissions(
        self,
        request: pb.SetPermissionsRequest,
        context: grpc.aio.ServicerContext[pb.SetPermissionsRequest, pb.SetPermissionsReply],
    ) -> pb.SetPermissionsReply:
        """Sets what a user may do in a virtual host."""
        return await reply(
            context, self._access.set_permissions(request, timeout_s(context, CHANGE_MS))
        )

    async def ClearPermissions(
        self,
        request: pb.ClearPermissionsRequest,
        context: grpc.aio.ServicerContext[pb.ClearPermissionsRequest, pb.ClearPermissionsReply],
    ) -> pb.ClearPermissionsReply:
        """Takes from a user all permissions in a virtual host."""
        return await reply(
            context, self._access.clear_permissions(request, timeout_s(context, CHANGE_MS))
        )

    async def ListPermissions(
        self,
        request: pb.ListPermissionsRequest,
        context: grpc.aio.ServicerContext[pb.ListPermissionsRequest, pb.ListPermissionsReply],
    ) -> pb.ListPermissionsReply:
        """A page of permissions."""
        return await reply(context, self._access.list_permissions(request))
