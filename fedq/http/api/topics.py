"""Permissions of topics over HTTP, as RabbitMQ's API has them.

Each function answers one path; all of them are an administrator's.
"""

from typing import Final

from fedq.admin.topic_answers import refuse_wanted, topic_row
from fedq.http.api.call import CHANGE_S, Call
from fedq.http.api.changing import CREATED, DONE, needed, text_of
from fedq.http.api.lists import list_answer, of_rows
from fedq.http.refusal import bad_request, not_there
from fedq.http.serving.exchange import Answer, Row
from fedq.wiring.cluster_map.operations_topics import ClearTopicPermissions, SetTopicPermissions

_FIELDS: Final = ("exchange", "write", "read")


async def rows(call: Call, user: str | None = None, vhost: str | None = None) -> list[Row]:
    """Rows of a user, in a virtual host, or all."""
    known = await call.node.look(call.served.answers.access.overview.topic_permissions)
    return [
        topic_row(key, grant)
        for key, grant in known
        if user in (None, key.user) and vhost in (None, key.vhost)
    ]


async def _list(call: Call, found: list[Row]) -> Answer:
    return await list_answer(of_rows(found), call.request.query)


async def all_permissions(call: Call) -> Answer:
    """All of them, or those in a virtual host."""
    return await _list(call, await rows(call, None, call.places.get("vhost")))


async def of_user(call: Call) -> Answer:
    """All of one user."""
    user = call.places["user"]
    if user not in await call.node.look(call.served.answers.access.overview.users):
        raise not_there()
    return await _list(call, await rows(call, user))


async def _own(call: Call) -> list[Row]:
    """Rows of the user in the virtual host; raises `HttpRefusal` 404 without any."""
    found = await rows(call, call.places["user"], call.vhost)
    exchange = call.places.get("exchange")
    if exchange is not None:
        found = [row for row in found if row["exchange"] == exchange]
    if not found:
        raise not_there()
    return found


async def permissions(call: Call) -> Answer:
    """All of one user in a virtual host."""
    return await _list(call, await _own(call))


async def put(call: Call) -> Answer:
    """Limits a user to topics of an exchange."""
    said = needed(await call.request.table(), _FIELDS)
    exchange, write, read = [
        text_of(name, value) for name, value in zip(_FIELDS, said, strict=True)
    ]
    access, user = call.served.answers.access, call.places["user"]
    if user not in await call.node.look(access.overview.users):
        raise bad_request("vhost_or_user_not_found")
    wanted = SetTopicPermissions(user, call.vhost, exchange, write, read)
    wrong = refuse_wanted(wanted)
    if wrong is not None:
        raise bad_request(wrong)
    known = await rows(call, user, call.vhost)
    await call.change(lambda: access.change(wanted, CHANGE_S))
    return DONE if known else CREATED


async def delete(call: Call) -> Answer:
    """Lets a user use all topics again: of one exchange, or of all of the virtual host."""
    await _own(call)
    exchange = call.places.get("exchange")
    operation = ClearTopicPermissions(
        call.places["user"], call.vhost, exchange or "", exchange is None
    )
    await call.change(lambda: call.served.answers.access.change(operation, CHANGE_S))
    return DONE
