"""Definitions, imported: all that is wrong is said before anything is changed.

Input: a call with a file in its body. Output: an answer; `HttpRefusal` 400 with each thing that is
wrong. What changes the cluster map goes through the admin service's answers; what is declared, over
AMQP as the user who imports, who gets all permissions in the virtual host for as long as it takes.

Nothing is changed unless the whole file can be. What fails all the same (a limit, no quorum) is
answered with what it was; what was made before stands, and the same file may be imported again:
whatever is there already as it says stays.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from typing import Final

from fedq.admin.rows import arguments_of
from fedq.amqp import method_types as m
from fedq.core.ids import QueueKey
from fedq.http.api.call import CHANGE_S, Call
from fedq.http.api.changing import DONE
from fedq.http.api.definitions.plan import Known, Permission, Plan, UserWanted, plan_of, queue_keys
from fedq.http.api.slices import slices
from fedq.http.bounds import HTTP_BODY_BYTES_MAX, HTTP_ROWS_AT_ONCE
from fedq.http.refusal import HttpRefusal
from fedq.http.serving.exchange import Answer, Row, json_answer, table_of
from fedq.node.views.overview_types import Overview, QueueOverview
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_access import PutUser
from fedq.wiring.cluster_map.operations_topics import ClearTopicPermissions, SetTopicPermissions
from fedq.wiring.cluster_map.rabbit_hashes import is_rabbit_hash

#: Sentences of one answer; there may be one for each thing of a file.
_TOLD: Final = 100
#: Declarations on one connection.
_AT_ONCE: Final = 100
_ANSWERS: Final[dict[type[m.Method], type[m.Method]]] = {
    m.ExchangeDeclare: m.ExchangeDeclareOk,
    m.QueueDeclare: m.QueueDeclareOk,
    m.QueueBind: m.QueueBindOk,
    m.ExchangeBind: m.ExchangeBindOk,
}


async def import_all(call: Call) -> Answer:
    """Imports a file for the whole cluster."""
    return await _import(call, None)


async def import_vhost(call: Call) -> Answer:
    """Imports a file into one virtual host."""
    return await _import(call, call.vhost)


async def _import(call: Call, vhost: str | None) -> Answer:
    data = await call.request.body(HTTP_BODY_BYTES_MAX)
    async with call.brokers.long_tables:
        imports, carried = call.brokers.imports, None
        await imports.acquire()
        try:
            plan = await _planned(call, table_of(data), vhost)
            # Whoever hangs up meanwhile leaves nothing half done, and lets nobody in between.
            carried = asyncio.ensure_future(_carry_out(call, plan))
            carried.add_done_callback(lambda _: imports.release())
            await asyncio.shield(carried)
        finally:
            if carried is None:
                imports.release()
    if not plan.differs:
        return DONE
    return json_answer({"imported": True, "differs": plan.differs})


async def _planned(call: Call, said: Row, vhost: str | None) -> Plan:
    """The plan of a file; raises `HttpRefusal` before anything is changed."""
    plan = await plan_of(said, vhost, await _known(call, queue_keys(said, vhost)))
    if plan.wrong:
        raise HttpRefusal(400, "bad_request", _together("nothing was imported", plan.wrong))
    await _check_version(call, plan)
    if plan.topology():
        call.brokers.check()
    return plan


async def _check_version(call: Call, plan: Plan) -> None:
    """Raises `HttpRefusal` 400 if the cluster does not know yet what the file asks for."""
    access = call.served.answers.access.overview
    changes: list[Operation] = [*plan.policies[:1], *plan.parameters[:1], *plan.topics[:1]]
    # One stands for all of its kind.
    changes += [_put_of(user) for user in plan.users if is_rabbit_hash(user.record or "")][:1]
    for wanted in changes:
        refused = await call.node.look(partial(access.refuse_too_new, wanted))
        if refused is not None:
            raise HttpRefusal(400, "bad_request", f"nothing was imported: {refused.text}")


def _together(first: str, sentences: Sequence[str]) -> str:
    more = f"; and {len(sentences) - _TOLD} more" if len(sentences) > _TOLD else ""
    return f"{first}: {'; '.join(sentences[:_TOLD])}{more}"


async def _known(call: Call, wanted: Sequence[QueueKey]) -> Known:
    access, overview = call.served.answers.access.overview, call.served.overview
    vhosts, users, exchanges = await call.node.look(
        lambda: (frozenset(access.vhosts()), frozenset(access.users()), access.exchanges())
    )
    queues: dict[QueueKey, tuple[bool, bool, Row]] = {}
    async for part in slices(wanted, HTTP_ROWS_AT_ONCE):
        for found in await call.node.look(partial(_looked, overview, part)):
            if found is not None:
                arguments = arguments_of(found.arguments)
                queues[found.key] = (found.durable, found.auto_delete, arguments)
    return Known(
        vhosts, users,
        {
            key: (each.type, each.durable, each.auto_delete, each.internal)
            for key, each in exchanges
        },
        queues,
    )  # fmt: skip


def _looked(overview: Overview, keys: Sequence[QueueKey]) -> list[QueueOverview | None]:
    return [overview.queue(key) for key in keys]


async def _carry_out(call: Call, plan: Plan) -> None:
    access = call.served.answers.access
    for name in plan.vhosts:
        request = pb.AddVhostRequest(name=name)
        await call.change(partial(access.add_vhost, request, CHANGE_S))
    # Before queues are declared, so that these begin with them.
    for policy in plan.policies:
        await call.change(partial(access.change, policy, CHANGE_S))
    # As whoever asks is now: the file may give that user another password.
    for vhost, requests in plan.topology().items():
        await _declare(call, vhost, requests)
    for user in plan.users:
        await _put_user(call, user)
    for permission in plan.permissions:
        await _grant(call, permission)
    for topic in plan.topics:
        await call.change(partial(access.change, topic, CHANGE_S))
    for vhost, limits in plan.limits.items():
        await _limit(call, pb.Limits(vhost=vhost), limits)
    for user in plan.users:
        await _limit(call, pb.Limits(user=user.name), user.limits)
    # Shovels begin at once: with the users, and between the queues, that the file has for them.
    for parameter in plan.parameters:
        await call.change(partial(access.change, parameter, CHANGE_S))


def _put_of(user: UserWanted) -> PutUser:
    """The operation that puts a user whose password's record the file has."""
    return PutUser(user.name, user.record or "", user.tags, True)


async def _put_user(call: Call, user: UserWanted) -> None:
    access, tags = call.served.answers.access, list(user.tags)
    if user.record is not None:
        await call.change(lambda: access.change(_put_of(user), CHANGE_S))
    elif user.password is not None:
        put = pb.PutUserRequest(name=user.name, password=user.password, tags=tags, replace=True)
        await call.change(lambda: access.put_user(put, CHANGE_S))
    else:
        request = pb.SetUserTagsRequest(name=user.name, tags=tags)
        await call.change(lambda: access.set_tags(request, CHANGE_S))


async def _grant(call: Call, permission: Permission) -> None:
    request = pb.SetPermissionsRequest(permissions=pb.Permissions(**permission._asdict()))
    access = call.served.answers.access
    await call.change(lambda: access.set_permissions(request, CHANGE_S))


async def _limit(call: Call, message: pb.Limits, limits: Mapping[str, int]) -> None:
    access = call.served.answers.access
    for name, value in limits.items():
        message.limits.add(name=name, value=value)
    if not limits:
        return
    request = pb.SetLimitsRequest(limits=message)
    await call.change(lambda: access.set_limits(request, CHANGE_S))


async def _declare(call: Call, vhost: str, requests: Sequence[m.Method]) -> None:
    """Declares all that is in one virtual host, with permissions for as long as it takes."""
    name = call.user.name
    before = await _permission(call, vhost)
    limits = await _own_topics(call, vhost)
    access, everything = call.served.answers.access, _everything(name, vhost)
    try:
        if before != everything:
            await _grant(call, everything)
        if limits:
            lift = ClearTopicPermissions(name, vhost, "", True)
            await call.change(partial(access.change, lift, CHANGE_S))
        for start in range(0, len(requests), _AT_ONCE):
            part = requests[start : start + _AT_ONCE]
            async with call.brokers.open(name, call.user.password, vhost) as broker:
                for request in part:
                    broker.tell(request)
                for request in part:
                    await broker.expect(_ANSWERS[type(request)])
    finally:
        # Also what was asked for and not answered: it may have taken effect.
        await _restore(call, vhost, before, limits)


async def _restore(
    call: Call, vhost: str, before: Permission | None, limits: Sequence[SetTopicPermissions]
) -> None:
    """Gives the user who imports the rights from before; raises the first failure, at the end."""
    access, name = call.served.answers.access, call.user.name
    everything = _everything(name, vhost)
    failures: list[HttpRefusal] = []

    async def tried(change: Awaitable[object]) -> None:
        try:
            await change
        except HttpRefusal as failure:
            failures.append(failure)

    for limit in limits:
        await tried(call.change(partial(access.change, limit, CHANGE_S)))
    if before is None:
        clear = pb.ClearPermissionsRequest(user=name, vhost=vhost)
        await tried(call.change(lambda: access.clear_permissions(clear, CHANGE_S)))
    elif before != everything:
        await tried(_grant(call, before))
    if failures:
        raise failures[0]


def _everything(user: str, vhost: str) -> Permission:
    return Permission(user, vhost, ".*", ".*", ".*")


async def _own_topics(call: Call, vhost: str) -> list[SetTopicPermissions]:
    """The limits of topics of the user who imports, in a virtual host."""
    known = await call.node.look(call.served.answers.access.overview.topic_permissions)
    return [
        SetTopicPermissions(*key, *grant)
        for key, grant in known
        if key.user == call.user.name and key.vhost == vhost
    ]


async def _permission(call: Call, vhost: str) -> Permission | None:
    access, name = call.served.answers.access.overview, call.user.name

    def look() -> Permission | None:
        for key in access.grants():
            if key.user == name and key.vhost == vhost:
                grant = access.grant(key)
                return Permission(name, vhost, grant.configure, grant.write, grant.read)
        return None

    return await call.node.look(look)
