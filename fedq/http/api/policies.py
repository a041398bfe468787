"""Policies and operators' policies over HTTP, as RabbitMQ's API has them.

Each function answers one path. Who changes a policy is tagged policymaker, and has permissions in
its virtual host, or administrator, as in RabbitMQ; operators' policies are an administrator's.
"""

from typing import Final

from fedq.admin.policy_rows import policy_row, wanted_of
from fedq.core.ids import QueueKey
from fedq.core.limits import NAME_BYTES_MAX
from fedq.http.api.call import CHANGE_S, Call
from fedq.http.api.changing import CREATED, DONE, needed
from fedq.http.api.lists import list_answer, of_rows, one_answer
from fedq.http.api.routing import Right
from fedq.http.refusal import HttpRefusal, bad_request, not_allowed, not_there
from fedq.http.serving.exchange import Answer, Row
from fedq.wiring.cluster_map.operations_policies import DropPolicy

_MAKER: Final = "policymaker"


def invalid(text: str) -> HttpRefusal:
    """The refusal of a policy, in RabbitMQ's words."""
    return bad_request(f"Validation failed\n\n{text}\n")


def check_maker(call: Call) -> None:
    """Raises `HttpRefusal` 401 if the user may change no policies there.

    As in RabbitMQ, who sees everything and has no permissions there may not.
    """
    if call.user.right == Right.ADMINISTRATOR:
        return
    if _MAKER not in call.user.tags or call.vhost not in call.user.vhosts:
        raise not_allowed("User not authorised to access object")


async def rows(call: Call, vhost: str | None, operator: bool) -> list[Row]:
    """The policies of a virtual host, or of all that the user sees."""
    overview = call.served.answers.access.overview
    known = await call.node.look(lambda: overview.policies(operator))
    return [
        policy_row(key, policy)
        for key, policy in known
        if (call.may_see(key.vhost) if vhost is None else key.vhost == vhost)
    ]


async def _list(call: Call, operator: bool) -> Answer:
    found = await rows(call, call.places.get("vhost"), operator)
    return await list_answer(of_rows(found), call.request.query)


async def _one(call: Call, operator: bool) -> Answer:
    for row in await rows(call, call.vhost, operator):
        if row["name"] == call.name:
            return one_answer(row, call.request.query)
    raise not_there()


async def _is_there(call: Call, operator: bool) -> bool:
    return any(row["name"] == call.name for row in await rows(call, call.vhost, operator))


async def _put(call: Call, operator: bool) -> Answer:
    body = await call.request.table()
    needed(body, ("pattern", "definition"))
    if not call.name or len(call.name.encode()) > NAME_BYTES_MAX:
        raise invalid(f"name is empty, or longer than {NAME_BYTES_MAX} bytes")
    wanted = wanted_of(QueueKey(call.vhost, call.name), operator, body)
    if isinstance(wanted, str):
        raise invalid(wanted)
    known = await _is_there(call, operator)
    await call.change(lambda: call.served.answers.access.change(wanted, CHANGE_S))
    return DONE if known else CREATED


async def _delete(call: Call, operator: bool) -> Answer:
    if not await _is_there(call, operator):
        raise not_there()
    operation = DropPolicy(call.vhost, call.name, operator)
    await call.change(lambda: call.served.answers.access.change(operation, CHANGE_S))
    return DONE


# --- policies -------------------------------------------------------------------------------------


async def policies(call: Call) -> Answer:
    """Policies."""
    return await _list(call, False)


async def policy(call: Call) -> Answer:
    """One policy."""
    return await _one(call, False)


async def put_policy(call: Call) -> Answer:
    """Puts a policy, or replaces one."""
    check_maker(call)
    return await _put(call, False)


async def delete_policy(call: Call) -> Answer:
    """Takes a policy away."""
    check_maker(call)
    return await _delete(call, False)


# --- operators' policies --------------------------------------------------------------------------


async def operator_policies(call: Call) -> Answer:
    """Policies of operators."""
    return await _list(call, True)


async def operator_policy(call: Call) -> Answer:
    """One policy of operators."""
    return await _one(call, True)


async def put_operator_policy(call: Call) -> Answer:
    """Puts a policy of operators, or replaces one."""
    return await _put(call, True)


async def delete_operator_policy(call: Call) -> Answer:
    """Takes a policy of operators away."""
    return await _delete(call, True)
