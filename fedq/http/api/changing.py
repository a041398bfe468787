"""What RabbitMQ's API changes in the cluster map: virtual hosts, users, permissions, limits.

Each function answers one path, with the answers of the admin service: a change is answered when
every live member has applied it. And connections, which it closes.
"""

from typing import Any, Final

from fedq.http.api import gathering
from fedq.http.api.call import ASK_S, CHANGE_S, Call
from fedq.http.refusal import bad_request, not_allowed, not_there
from fedq.http.serving.exchange import Answer, Row
from fedq.shell.pb import admin_pb2 as pb

CREATED: Final = Answer(201)
DONE: Final = Answer(204)
_REASON_HEADER: Final = b"x-reason"


def needed(body: Row, names: tuple[str, ...]) -> list[Any]:
    """Values that a body must have; raises `HttpRefusal` in RabbitMQ's words."""
    missing = [f"{{key_missing,{name}}}" for name in names if name not in body]
    if missing:
        raise bad_request(f"[{','.join(missing)}]")
    return [body[name] for name in names]


def text_of(what: str, value: object) -> str:
    """A value that has to be text."""
    if not isinstance(value, str):
        raise bad_request(f"{what} is no text")
    return value


# --- virtual hosts --------------------------------------------------------------------------------


async def put_vhost(call: Call) -> Answer:
    """Makes a virtual host, in which its maker may do everything; one that is there stays."""
    await call.request.table()
    access = call.served.answers.access
    request = pb.AddVhostRequest(name=call.vhost)
    reply = await call.change(lambda: access.add_vhost(request, CHANGE_S))
    if not reply.created:
        return DONE
    everything = pb.Permissions(
        user=call.user.name, vhost=call.vhost, configure=".*", write=".*", read=".*"
    )
    grant = pb.SetPermissionsRequest(permissions=everything)
    await call.change(lambda: access.set_permissions(grant, CHANGE_S))
    return CREATED


async def delete_vhost(call: Call) -> Answer:
    """Deletes a virtual host with all that is in it."""
    await _is_there(call, call.served.answers.access.overview.vhosts, call.vhost)
    request = pb.DeleteVhostRequest(name=call.vhost)
    await call.change(lambda: call.served.answers.access.delete_vhost(request, CHANGE_S))
    return DONE


async def _is_there(call: Call, names: Any, name: str) -> None:
    if name not in await call.node.look(names):
        raise not_there()


# --- users ----------------------------------------------------------------------------------------


def _tags(body: Row) -> list[str]:
    """Tags, as text with commas or as a list."""
    if "tags" not in body:
        raise bad_request("tags_not_present")
    tags = body["tags"]
    found = tags.split(",") if isinstance(tags, str) else tags
    if not isinstance(found, list):
        raise bad_request("tags is neither text nor a list")
    return [tag for each in found if (tag := text_of("a tag", each).strip())]


async def put_user(call: Call) -> Answer:
    """Adds a user, or gives one another password and other tags."""
    body, name = await call.request.table(), call.places["user"]
    tags = _tags(body)
    if "password" in body and "password_hash" in body:
        raise bad_request("both_password_and_password_hash_are_provided")
    password = text_of("password", body.get("password", ""))
    hashed = text_of("password_hash", body.get("password_hash", ""))
    algorithm = text_of("hashing_algorithm", body.get("hashing_algorithm", ""))
    known = name in await call.node.look(call.served.answers.access.overview.users)
    request = pb.PutUserRequest(
        name=name, password=password, password_hash=hashed, hashing_algorithm=algorithm, tags=tags,
        replace=known,
    )  # fmt: skip
    await call.change(lambda: call.served.answers.access.put_user(request, CHANGE_S))
    return DONE if known else CREATED


async def delete_user(call: Call) -> Answer:
    """Deletes a user."""
    name = call.places["user"]
    await _is_there(call, call.served.answers.access.overview.users, name)
    request = pb.DeleteUserRequest(name=name)
    await call.change(lambda: call.served.answers.access.delete_user(request, CHANGE_S))
    return DONE


# --- permissions and limits -----------------------------------------------------------------------


async def put_permission(call: Call) -> Answer:
    """Sets what a user may do in a virtual host."""
    patterns = needed(await call.request.table(), ("configure", "write", "read"))
    access, user = call.served.answers.access, call.places["user"]
    if user not in await call.node.look(access.overview.users):
        raise bad_request("vhost_or_user_not_found")
    configure, write, read = [text_of("a pattern", each) for each in patterns]
    known = await call.node.look(lambda: access.overview.vhosts_of(user))
    request = pb.SetPermissionsRequest(
        permissions=pb.Permissions(
            user=user, vhost=call.vhost, configure=configure, write=write, read=read
        )
    )
    await call.change(lambda: access.set_permissions(request, CHANGE_S))
    return DONE if call.vhost in known else CREATED


async def delete_permission(call: Call) -> Answer:
    """Takes from a user all permissions in a virtual host."""
    access, user = call.served.answers.access, call.places["user"]
    await _is_there(call, lambda: access.overview.vhosts_of(user), call.vhost)
    request = pb.ClearPermissionsRequest(user=user, vhost=call.vhost)
    await call.change(lambda: access.clear_permissions(request, CHANGE_S))
    return DONE


async def put_limit(call: Call) -> Answer:
    """Sets one limit of a virtual host, or of a user."""
    (value,) = needed(await call.request.table(), ("value",))
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 1 << 31:
        raise bad_request("value is no number that can be a limit")
    return await _set_limit(call, value if value >= 0 else None)


async def delete_limit(call: Call) -> Answer:
    """Lifts one limit."""
    return await _set_limit(call, None)


async def _set_limit(call: Call, value: int | None) -> Answer:
    # What is set replaces all limits of a name: one after the other.
    async with call.brokers.changes:
        return await _replace_limits(call, value)


async def _replace_limits(call: Call, value: int | None) -> Answer:
    access, places = call.served.answers.access, call.places
    kind = "user" if "user" in places else "vhost"
    of = places[kind]
    known = await call.node.look(access.overview.limits)
    limits: dict[str, int] = {}
    for each in known:
        if each.name == of and each.is_user is (kind == "user"):
            limits = dict(each.limits)
    limits.pop(call.name, None)
    if value is not None:
        limits[call.name] = value
    message = pb.Limits(limits=[pb.Limit(name=name, value=limits[name]) for name in limits])
    setattr(message, kind, of)
    request = pb.SetLimitsRequest(limits=message)
    await call.change(lambda: access.set_limits(request, CHANGE_S))
    return DONE


# --- connections ----------------------------------------------------------------------------------


async def close_connection(call: Call) -> Answer:
    """Closes a client connection: one's own, or anybody's for an administrator."""
    rows = await gathering.connections(call, None)
    row = next((each for each in rows if each["name"] == call.name), None)
    if row is None:
        raise not_there()
    if "administrator" not in call.user.tags and row["user"] != call.user.name:
        raise not_allowed("User not authorised to access connection")
    reason = call.request.header(_REASON_HEADER) or "closed over HTTP"
    request = pb.CloseConnectionsRequest(name=call.name, reason=reason)
    await call.ask(lambda: call.served.answers.clients.close_connections(request, ASK_S))
    return DONE
