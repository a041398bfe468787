"""Runtime parameters, global ones, and shovels over HTTP, as RabbitMQ's API has them.

Each function answers one path. As in RabbitMQ parameters are for who is tagged policymaker, in
virtual hosts in which that user has permissions, and for administrators. No answer has passwords.
"""

from functools import partial
from typing import Any, Final

from fedq.admin.parameter_rows import (
    is_global,
    parameter_row,
    refuse_to_policymaker,
    shown_value,
    wanted_parameter,
)
from fedq.admin.shovel_answers import rows_of
from fedq.core.limits import NAME_BYTES_MAX
from fedq.http.api.call import ASK_S, CHANGE_S, Call
from fedq.http.api.changing import CREATED, DONE, needed
from fedq.http.api.lists import list_answer, of_rows, one_answer
from fedq.http.api.policies import check_maker, invalid
from fedq.http.api.routing import Right
from fedq.http.refusal import not_allowed, not_there
from fedq.http.serving.exchange import Answer, Row
from fedq.shell.pb import admin_pb2 as pb
from fedq.wiring.cluster_map.operations_parameters import DropParameter, ParameterKey
from fedq.wiring.cluster_map.parameters import value_of

_MAKER: Final = "policymaker"


def _check_sees(call: Call) -> None:
    """Raises `HttpRefusal` 401 if the user may see no parameters."""
    if call.user.right != Right.ADMINISTRATOR and _MAKER not in call.user.tags:
        raise not_allowed("User not authorised to access object")
    if "vhost" in call.places:
        check_maker(call)


async def _known(call: Call) -> list[tuple[ParameterKey, str]]:
    return [*await call.node.look(call.served.answers.access.overview.parameters)]


async def exported(call: Call, vhost: str | None) -> tuple[list[Row], list[Row]]:
    """Parameters and global ones for definitions, which have the passwords in them."""
    rows: tuple[list[Row], list[Row]] = ([], [])
    for key, value in await _known(call):
        if is_global(key) or vhost in (None, key.vhost):
            rows[is_global(key)].append(parameter_row(key, value_of(value)))
    return rows


def _key(call: Call) -> ParameterKey:
    return ParameterKey(call.places.get("vhost", ""), call.places.get("component", ""), call.name)


async def _one(call: Call) -> Answer:
    wanted = _key(call)
    for key, value in await _known(call):
        if key == wanted:
            return one_answer(parameter_row(key, shown_value(key, value)), call.request.query)
    raise not_there()


async def _put(call: Call) -> Answer:
    (value,) = needed(await call.request.table(), ("value",))
    return await _put_value(call, value)


async def _put_value(call: Call, value: Any) -> Answer:
    key = _key(call)
    for what, name in (("name", key.name), ("component", key.component)):
        if (not name and not is_global(key)) or len(name.encode()) > NAME_BYTES_MAX:
            raise invalid(f"{what} is empty, or longer than {NAME_BYTES_MAX} bytes")
    wanted = wanted_parameter(key, value)
    if isinstance(wanted, str):
        raise invalid(wanted)
    if call.user.right != Right.ADMINISTRATOR:
        refused = refuse_to_policymaker(wanted)
        if refused is not None:
            raise not_allowed(refused)
    known = key in [each for each, _ in await _known(call)]
    await call.change(lambda: call.served.answers.access.change(wanted, CHANGE_S))
    return DONE if known else CREATED


async def _delete(call: Call) -> Answer:
    key = _key(call)
    if key not in [each for each, _ in await _known(call)]:
        raise not_there()
    operation = DropParameter(*key)
    await call.change(lambda: call.served.answers.access.change(operation, CHANGE_S))
    return DONE


# --- parameters -----------------------------------------------------------------------------------


async def parameters(call: Call) -> Answer:
    """Parameters: all, of a component, or of a component in a virtual host."""
    _check_sees(call)
    component, vhost = call.places.get("component"), call.places.get("vhost")
    sees_all = call.user.right == Right.ADMINISTRATOR
    rows = [
        parameter_row(key, shown_value(key, value))
        for key, value in await _known(call)
        if not is_global(key)
        and component in (None, key.component)
        and (key.vhost == vhost if vhost is not None else sees_all or key.vhost in call.user.vhosts)
    ]
    return await list_answer(of_rows(rows), call.request.query)


async def parameter(call: Call) -> Answer:
    """One parameter."""
    _check_sees(call)
    return await _one(call)


async def put_parameter(call: Call) -> Answer:
    """Puts a parameter, or replaces one."""
    _check_sees(call)
    return await _put(call)


async def delete_parameter(call: Call) -> Answer:
    """Takes a parameter away."""
    _check_sees(call)
    return await _delete(call)


# --- global parameters ----------------------------------------------------------------------------


async def global_parameters(call: Call) -> Answer:
    """Global parameters."""
    _check_sees(call)
    known = await _known(call)
    rows = [parameter_row(key, value_of(value)) for key, value in known if is_global(key)]
    return await list_answer(of_rows(rows), call.request.query)


async def global_parameter(call: Call) -> Answer:
    """One global parameter."""
    _check_sees(call)
    return await _one(call)


async def put_global_parameter(call: Call) -> Answer:
    """Puts a global parameter, or replaces one."""
    _check_sees(call)
    return await _put(call)


async def delete_global_parameter(call: Call) -> Answer:
    """Takes a global parameter away."""
    _check_sees(call)
    return await _delete(call)


# --- shovels --------------------------------------------------------------------------------------


async def _shovels(call: Call) -> list[Row]:
    request = pb.ListShovelsRequest(vhost=call.places.get("vhost"))
    answers = call.served.answers.shovels
    found = await call.ask(partial(answers.everywhere, request, ASK_S))
    return [row for row in rows_of(found.shovels) if call.may_see(str(row["vhost"]))]


async def shovels(call: Call) -> Answer:
    """Shovels, and how they fare."""
    return await list_answer(of_rows(await _shovels(call)), call.request.query)


async def shovel(call: Call) -> Answer:
    """One shovel."""
    for row in await _shovels(call):
        if row["name"] == call.name:
            return one_answer(row, call.request.query)
    raise not_there()


async def delete_shovel(call: Call) -> Answer:
    """Takes a shovel away; what it has not moved stays where it was."""
    check_maker(call)
    call.places["component"] = "shovel"
    return await _delete(call)
