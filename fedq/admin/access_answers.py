"""Virtual hosts, users and permissions: asked for, and changed.

Inputs: this node's view of them, a way to have the cluster map changed, requests, the time a call
may take. Outputs: replies, or AdminError. A change is answered when every live member has applied
it. Passwords come in clear and are hashed here, in a thread, since that takes its time; they are in
no reply, log line or error.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import grpc

from fedq.admin import changes, topology
from fedq.admin.paging import page_of
from fedq.admin.refusal import AdminError, invalid, not_found, too_often, unavailable
from fedq.core import limits
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, Refused
from fedq.node.cluster.proposals import GAVE_UP, Result
from fedq.node.records.budget import Budget
from fedq.node.views.access_overview import AccessOverview
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.access import refuse_pattern
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_access import (
    USER_LIMITS,
    VHOST_LIMITS,
    AddVhost,
    ClearPermissions,
    DeleteUser,
    DeleteVhost,
    PutUser,
    SetPassword,
    SetPermissions,
    SetTags,
    SetUserLimits,
    SetVhostLimits,
)
from fedq.wiring.cluster_map.passwords import (
    NOBODY,
    SALT_BYTES,
    make_record,
    refuse_password,
    verify,
)
from fedq.wiring.cluster_map.rabbit_hashes import record_of
from fedq.wiring.cluster_map.records import Grant, GrantKey

#: Has an operation proposed; the second argument hears the result once, on this event loop.
Ask: TypeAlias = Callable[[Operation, Callable[[Result], None]], None]

#: Passwords that are hashed at a time: each takes memory.
_HASHES_MAX: Final = 4


class AccessAnswers:
    """Answers about virtual hosts, users and permissions. Belongs to one event loop."""

    __slots__ = ("_ask", "_hashing", "_overview", "_wrong")

    def __init__(self, overview: AccessOverview, ask: Ask) -> None:
        self._overview = overview
        self._ask = ask
        self._hashing = asyncio.Semaphore(_HASHES_MAX)
        self._wrong = Budget(limits.ADMIN_FAILED_LOGINS_S, limits.ADMIN_FAILED_LOGINS_BURST)

    @property
    def overview(self) -> AccessOverview:
        """What this node knows of them."""
        return self._overview

    # --- virtual hosts ----------------------------------------------------------------------------

    async def add_vhost(self, request: pb.AddVhostRequest, timeout_s: float) -> pb.AddVhostReply:
        """Makes a virtual host."""
        name = name_of("name", request.name)
        created = await self.change(AddVhost(name), timeout_s)
        return pb.AddVhostReply(created=created)

    async def delete_vhost(
        self, request: pb.DeleteVhostRequest, timeout_s: float
    ) -> pb.DeleteVhostReply:
        """Deletes a virtual host."""
        await self.change(DeleteVhost(name_of("name", request.name)), timeout_s)
        return pb.DeleteVhostReply()

    async def list_vhosts(self, request: pb.ListVhostsRequest) -> pb.ListVhostsReply:
        """A page of virtual hosts."""
        keys = [(name,) for name in self._overview.vhosts()]
        page = page_of(keys, request.page_size, request.page_token)
        reply = pb.ListVhostsReply(next_page_token=page.next_token)
        for one in self._overview.counted([name for (name,) in page.keys]):
            reply.vhosts.append(
                pb.Vhost(name=one.name, exchanges=one.exchanges, queues=one.queues, users=one.users)
            )
        return reply

    async def list_exchanges(self, request: pb.ListExchangesRequest) -> pb.ListExchangesReply:
        """A page of exchanges."""
        return await topology.list_exchanges(self._overview.exchanges(), request)

    async def list_bindings(self, request: pb.ListBindingsRequest) -> pb.ListBindingsReply:
        """A page of bindings."""
        return await topology.list_bindings(self._overview.bindings(), request)

    # --- limits -----------------------------------------------------------------------------------

    async def set_limits(self, request: pb.SetLimitsRequest, timeout_s: float) -> pb.SetLimitsReply:
        """Sets the limits of a virtual host, or of a user."""
        wanted = request.limits
        if wanted.WhichOneof("of") == "user":
            limits = _limits(wanted, USER_LIMITS)
            await self.change(SetUserLimits(name_of("user", wanted.user), limits), timeout_s)
        else:
            limits = _limits(wanted, VHOST_LIMITS)
            await self.change(SetVhostLimits(name_of("vhost", wanted.vhost), limits), timeout_s)
        return pb.SetLimitsReply()

    async def list_limits(self, request: pb.ListLimitsRequest) -> pb.ListLimitsReply:
        """A page of limits."""
        found = {(str(each.is_user), each.name): each for each in self._overview.limits()}
        page = page_of(list(found), request.page_size, request.page_token)
        reply = pb.ListLimitsReply(next_page_token=page.next_token)
        for key in page.keys:
            each = found[key]
            one = reply.limits.add()
            if each.is_user:
                one.user = each.name
            else:
                one.vhost = each.name
            for name, value in each.limits:
                one.limits.add(name=name, value=value)
        return reply

    # --- users ------------------------------------------------------------------------------------

    async def put_user(self, request: pb.PutUserRequest, timeout_s: float) -> pb.PutUserReply:
        """Adds a user with a password, or changes one."""
        name, tags = name_of("name", request.name), _tags(request.tags)
        if not request.replace and self._overview.password_record(name) is not None:
            # No password is hashed in vain; the map has the last word.
            raise AdminError(grpc.StatusCode.ALREADY_EXISTS, f"user '{name}' already exists")
        if request.password_hash:
            record = _record_of_rabbit(request)
        else:
            record = await self._record(request.password)
        await self.change(PutUser(name, record, tags, request.replace), timeout_s)
        return pb.PutUserReply()

    async def delete_user(
        self, request: pb.DeleteUserRequest, timeout_s: float
    ) -> pb.DeleteUserReply:
        """Deletes a user."""
        await self.change(DeleteUser(name_of("name", request.name)), timeout_s)
        return pb.DeleteUserReply()

    async def list_users(self, request: pb.ListUsersRequest) -> pb.ListUsersReply:
        """A page of users."""
        keys = [(name,) for name in self._overview.users()]
        page = page_of(keys, request.page_size, request.page_token)
        reply = pb.ListUsersReply(next_page_token=page.next_token)
        for (name,) in page.keys:
            one = self._overview.user(name)
            reply.users.append(pb.User(name=name, tags=one.tags, has_password=one.has_password))
        return reply

    async def change_password(
        self, request: pb.ChangePasswordRequest, timeout_s: float
    ) -> pb.ChangePasswordReply:
        """Gives a user another password."""
        name = name_of("name", request.name)
        record = await self._record(request.password)
        await self.change(SetPassword(name, record), timeout_s)
        return pb.ChangePasswordReply()

    async def set_tags(
        self, request: pb.SetUserTagsRequest, timeout_s: float
    ) -> pb.SetUserTagsReply:
        """Replaces the tags of a user."""
        await self.change(SetTags(name_of("name", request.name), _tags(request.tags)), timeout_s)
        return pb.SetUserTagsReply()

    async def authenticate(self, request: pb.AuthenticateUserRequest) -> pb.AuthenticateUserReply:
        """Whether the password is right; for an unknown user it is not.

        Wrong ones have a budget, as those of logins have: nobody guesses here either.
        """
        known = self._overview.password_record(name_of("name", request.name))
        if not self._wrong.has_left(_now_ms()):
            raise too_often("too many wrong passwords, lately: ask again in a second")
        self._wrong.spend()
        async with self._hashing:
            right = await asyncio.to_thread(verify, known or NOBODY, request.password)
        if right and known:
            self._wrong.give_back()
        return pb.AuthenticateUserReply(authenticated=right and bool(known))

    async def _record(self, password: str) -> str:
        if not password:
            return ""
        wrong = refuse_password(password)
        if wrong is not None:
            raise invalid(wrong)
        async with self._hashing:
            return await asyncio.to_thread(make_record, password, os.urandom(SALT_BYTES))

    # --- permissions ------------------------------------------------------------------------------

    async def set_permissions(
        self, request: pb.SetPermissionsRequest, timeout_s: float
    ) -> pb.SetPermissionsReply:
        """Sets what a user may do in a virtual host."""
        wanted = request.permissions
        user, vhost = name_of("user", wanted.user), name_of("vhost", wanted.vhost)
        patterns = (wanted.configure, wanted.write, wanted.read)
        for what, text in zip(("configure", "write", "read"), patterns, strict=True):
            refused = refuse_pattern(what, text)
            if refused is not None:
                raise invalid(refused.text)
        await self.change(SetPermissions(user, vhost, *patterns), timeout_s)
        return pb.SetPermissionsReply()

    async def clear_permissions(
        self, request: pb.ClearPermissionsRequest, timeout_s: float
    ) -> pb.ClearPermissionsReply:
        """Takes from a user all permissions in a virtual host."""
        user, vhost = name_of("user", request.user), name_of("vhost", request.vhost)
        await self.change(ClearPermissions(user, vhost), timeout_s)
        return pb.ClearPermissionsReply()

    async def list_permissions(self, request: pb.ListPermissionsRequest) -> pb.ListPermissionsReply:
        """A page of permissions."""
        found = [
            key
            for key in self._overview.grants()
            if (not request.HasField("user") or key.user == request.user)
            and (not request.HasField("vhost") or key.vhost == request.vhost)
        ]
        page = page_of(found, request.page_size, request.page_token)
        reply = pb.ListPermissionsReply(next_page_token=page.next_token)
        for key in page.keys:
            reply.permissions.append(permissions_message(key, self._overview.grant(key)))
        return reply

    # --- changing ---------------------------------------------------------------------------------

    async def change(self, operation: Operation, timeout_s: float) -> bool:
        """Has the cluster map changed; returns whether something was different before."""
        answered: asyncio.Future[Result] = asyncio.get_running_loop().create_future()

        def on_answer(result: Result) -> None:
            if not answered.done():
                answered.set_result(result)

        self._ask(operation, on_answer)
        try:
            result = await asyncio.wait_for(answered, timeout_s)
        except TimeoutError as error:
            changes.tell_unknown(operation)
            raise unavailable(
                "the cluster has not answered in time; the change may still take effect: look, "
                "and ask again"
            ) from error
        except asyncio.CancelledError:
            changes.tell_unknown(operation, left=True)
            raise
        if isinstance(result, Refused):
            changes.tell_answer(operation, result)
            raise refusal_of(result)
        changes.tell_answer(operation, None)
        return bool(result.value)


def permissions_message(key: GrantKey, grant: Grant) -> pb.Permissions:
    """A grant of the map, as the admin service tells of it."""
    return pb.Permissions(
        user=key.user,
        vhost=key.vhost,
        configure=grant.configure,
        write=grant.write,
        read=grant.read,
    )


def refusal_of(refused: Refused) -> AdminError:
    """The refusal of a call whose change of the map was refused."""
    if refused is GAVE_UP:
        return unavailable(refused.text)
    if refused.reply_code == NOT_FOUND:
        return not_found(refused.text)
    if refused.reply_code == PRECONDITION_FAILED:
        return AdminError(grpc.StatusCode.ALREADY_EXISTS, refused.text)
    return AdminError(grpc.StatusCode.RESOURCE_EXHAUSTED, refused.text)


def name_of(what: str, value: str) -> str:
    """A name that a request gives, if it can be one."""
    if not value:
        raise invalid(f"{what} is empty; give a name")
    if len(value.encode()) > limits.NAME_BYTES_MAX:
        raise invalid(f"{what} is longer than {limits.NAME_BYTES_MAX} bytes")
    return value


def _record_of_rabbit(request: pb.PutUserRequest) -> str:
    """The record of a password that RabbitMQ has hashed."""
    if request.password:
        raise invalid("both password and password_hash are given: give one of them")
    record = record_of(request.hashing_algorithm, request.password_hash)
    if record is None:
        raise invalid(
            "password_hash is nothing that RabbitMQ keeps of a password: base64 of a salt of 4 "
            "bytes and of an MD5, SHA-256 or SHA-512 digest, as hashing_algorithm says"
        )
    return record


def _limits(wanted: pb.Limits, names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    found = {each.name: each.value for each in wanted.limits}
    for name in found:
        if name not in names:
            raise invalid(f"{name} is no limit of this; there are {' and '.join(names)}")
        if found[name] >= 1 << 31:
            raise invalid(f"{name} is more than {(1 << 31) - 1}")
    return tuple(sorted(found.items()))


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    if len(tags) > limits.TAGS_PER_USER_MAX:
        raise invalid(f"a user has at most {limits.TAGS_PER_USER_MAX} tags")
    return tuple(dict.fromkeys(name_of("tags", tag) for tag in tags))


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
