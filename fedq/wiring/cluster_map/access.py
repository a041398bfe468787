"""Virtual hosts, users and permissions: what becomes of the map when they come, change and go.

Inputs: the map and a committed operation. Output: its result; changes are appended to the map's.

What is asked for and is so already is confirmed. A virtual host goes with all that is in it, and
the changes are those of deleting each thing singly, so whoever follows the map needs nothing new.
"""

from typing import assert_never

from fedq.core import limits
from fedq.core.errors import NOT_FOUND, PRECONDITION_FAILED, RESOURCE_ERROR, Refused
from fedq.core.ids import QueueKey
from fedq.wiring.cluster_map import parameters, policies, topic_permissions, tracing
from fedq.wiring.cluster_map.bindings import remove_exchange, remove_queue
from fedq.wiring.cluster_map.operations_access import (
    AccessOperation,
    AddVhost,
    ClearPermissions,
    DeleteUser,
    DeleteVhost,
    FirstUsers,
    PutUser,
    SetPassword,
    SetPermissions,
    SetTags,
    SetUserLimits,
    SetVhostLimits,
)
from fedq.wiring.cluster_map.operations_parameters import DropParameter, PutParameter
from fedq.wiring.cluster_map.operations_policies import DropPolicy, PutPolicy
from fedq.wiring.cluster_map.operations_topics import (
    ClearTopicPermissions,
    SetTopicPermissions,
    TopicOperation,
)
from fedq.wiring.cluster_map.patterns import PatternError, compile_text
from fedq.wiring.cluster_map.state import (
    DEFAULT_VHOST,
    PREDECLARED,
    ClaimReleased,
    ExchangeAdded,
    Grant,
    GrantKey,
    Limits,
    LimitsChanged,
    MapState,
    Ok,
    PermissionsChanged,
    User,
    UserChanged,
    VhostAdded,
    VhostRemoved,
)

#: What the first users may do: everything.
EVERYTHING = Grant(".*", ".*", ".*")


def apply(state: MapState, operation: AccessOperation) -> Ok | Refused:
    """Carries out one operation, or refuses it and changes nothing."""
    match operation:
        case AddVhost():
            return _add_vhost(state, operation.vhost)
        case DeleteVhost():
            return _delete_vhost(state, operation.vhost)
        case SetVhostLimits():
            return _set_vhost_limits(state, operation)
        case SetUserLimits():
            return _set_user_limits(state, operation)
        case PutUser():
            return _put_user(state, operation)
        case SetPassword() | SetTags():
            return _alter_user(state, operation)
        case DeleteUser():
            return _delete_user(state, operation.user)
        case SetPermissions():
            return _set_permissions(state, operation)
        case ClearPermissions():
            return _clear_permissions(state, operation)
        case FirstUsers():
            return _first_users(state, operation)
        case PutPolicy() | DropPolicy():
            return policies.apply(state, operation)
        case SetTopicPermissions() | ClearTopicPermissions():
            return _change_topic_permissions(state, operation)
        case PutParameter() | DropParameter():
            return parameters.apply(state, operation)
        case _:
            assert_never(operation)


# --- virtual hosts ---------------------------------------------------------------------------


def _add_vhost(state: MapState, vhost: str) -> Ok | Refused:
    if vhost in state.vhosts:
        return Ok()
    if len(state.vhosts) >= limits.VHOSTS_MAX:
        return _full("virtual hosts", limits.VHOSTS_MAX)
    if refusal := state.refuse_if_full(1 + len(PREDECLARED), by_operator=True):
        return refusal
    state.add_vhost(vhost)
    state.changes.append(VhostAdded(vhost))
    # The default exchange has no bindings, and so is nothing that anybody has to hear of.
    names = [key.name for key in state.exchanges if key.vhost == vhost and key.name]
    state.changes.extend(ExchangeAdded(QueueKey(vhost, name)) for name in names)
    return Ok(1)


def _delete_vhost(state: MapState, vhost: str) -> Ok | Refused:
    if vhost not in state.vhosts:
        return no_vhost(vhost)
    for key in [key for key in state.grants if key.vhost == vhost]:
        del state.grants[key]
        state.changes.append(PermissionsChanged(key))
    for queue in [key for key in state.queues if key.vhost == vhost]:
        remove_queue(state, queue)
    for exchange in [key for key in state.exchanges if key.vhost == vhost and key.name]:
        remove_exchange(state, exchange)
    del state.exchanges[QueueKey(vhost, "")]
    for name in [key for key in state.claims if key.vhost == vhost]:
        state.changes.append(ClaimReleased(name, state.claims.pop(name)))
    _change_limits(state, "vhost_limits", state.vhost_limits, vhost, ())
    tracing.on_vhost_deleted(state, vhost)
    policies.on_vhost_deleted(state, vhost)
    topic_permissions.on_vhost_deleted(state, vhost)
    parameters.on_vhost_deleted(state, vhost)
    del state.vhosts[vhost]
    state.changes.append(VhostRemoved(vhost))
    return Ok(1)


# --- limits ----------------------------------------------------------------------------------


def _set_vhost_limits(state: MapState, operation: SetVhostLimits) -> Ok | Refused:
    if operation.vhost not in state.vhosts:
        return no_vhost(operation.vhost)
    if refusal := state.refuse_if_heavy():
        return refusal
    table = state.vhost_limits
    return _change_limits(state, "vhost_limits", table, operation.vhost, operation.limits)


def _set_user_limits(state: MapState, operation: SetUserLimits) -> Ok | Refused:
    if operation.user not in state.users:
        return no_user(operation.user)
    if refusal := state.refuse_if_heavy():
        return refusal
    table = state.user_limits
    return _change_limits(state, "user_limits", table, operation.user, operation.limits)


def _change_limits(
    state: MapState, table: str, known: dict[str, Limits], name: str, wanted: Limits
) -> Ok:
    """Changes the limits of one name; `known`: its table."""
    if known.get(name, ()) == wanted:
        return Ok()
    if wanted:
        known[name] = wanted
    else:
        del known[name]
    state.changes.append(LimitsChanged(table, name))
    return Ok(1)


# --- users -----------------------------------------------------------------------------------


def _put_user(state: MapState, operation: PutUser) -> Ok | Refused:
    name, user = operation.user, User(operation.password, operation.tags)
    known = state.users.get(name)
    if known is not None:
        if known != user and not operation.replace:
            return Refused(PRECONDITION_FAILED, f"user '{name}' already exists")
        return state.refuse_if_heavy() or _change_user(state, name, user)
    if len(state.users) >= limits.USERS_MAX:
        return _full("users", limits.USERS_MAX)
    if refusal := state.refuse_if_full(by_operator=True):
        return refusal
    return _change_user(state, name, user)


def _change_user(state: MapState, name: str, user: User) -> Ok:
    if state.users.get(name) == user:
        return Ok()
    state.users[name] = user
    state.changes.append(UserChanged(name))
    return Ok(1)


def _alter_user(state: MapState, operation: SetPassword | SetTags) -> Ok | Refused:
    known = state.users.get(operation.user)
    if known is None:
        return no_user(operation.user)
    if isinstance(operation, SetPassword):
        user = User(operation.password, known.tags)
    else:
        user = User(known.password, operation.tags)
    return state.refuse_if_heavy() or _change_user(state, operation.user, user)


def _delete_user(state: MapState, name: str) -> Ok | Refused:
    if name not in state.users:
        return no_user(name)
    for key in [key for key in state.grants if key.user == name]:
        del state.grants[key]
        state.changes.append(PermissionsChanged(key))
    _change_limits(state, "user_limits", state.user_limits, name, ())
    topic_permissions.on_user_deleted(state, name)
    del state.users[name]
    state.changes.append(UserChanged(name))
    return Ok(1)


def _first_users(state: MapState, operation: FirstUsers) -> Ok:
    if state.seeded:
        return Ok()
    state.seeded = True
    if state.users:
        return Ok()
    for name, password in operation.users:
        _change_user(state, name, User(password, ("administrator",)))
        if DEFAULT_VHOST in state.vhosts:
            key = GrantKey(name, DEFAULT_VHOST)
            state.grants[key] = EVERYTHING
            state.changes.append(PermissionsChanged(key))
    return Ok(1)


# --- permissions -----------------------------------------------------------------------------


def _set_permissions(state: MapState, operation: SetPermissions) -> Ok | Refused:
    if operation.user not in state.users:
        return no_user(operation.user)
    if operation.vhost not in state.vhosts:
        return no_vhost(operation.vhost)
    grant = Grant(operation.configure, operation.write, operation.read)
    for what, text in zip(Grant._fields, grant, strict=True):
        if refusal := refuse_pattern(what, text):
            return refusal
    key = GrantKey(operation.user, operation.vhost)
    known = state.grants.get(key)
    if known == grant:
        return Ok()
    if known is None:
        if len(state.grants) >= limits.PERMISSIONS_MAX:
            return _full("permissions", limits.PERMISSIONS_MAX)
        if refusal := state.refuse_if_full(by_operator=True):
            return refusal
    elif refusal := state.refuse_if_heavy():
        return refusal
    state.grants[key] = grant
    state.changes.append(PermissionsChanged(key))
    return Ok(1)


def _clear_permissions(state: MapState, operation: ClearPermissions) -> Ok | Refused:
    if operation.user not in state.users:
        return no_user(operation.user)
    if operation.vhost not in state.vhosts:
        return no_vhost(operation.vhost)
    key = GrantKey(operation.user, operation.vhost)
    if key not in state.grants:
        return Ok()
    del state.grants[key]
    state.changes.append(PermissionsChanged(key))
    return Ok(1)


def _change_topic_permissions(state: MapState, operation: TopicOperation) -> Ok | Refused:
    if operation.user not in state.users:
        return no_user(operation.user)
    if operation.vhost not in state.vhosts:
        return no_vhost(operation.vhost)
    if isinstance(operation, SetTopicPermissions):
        return topic_permissions.put(state, operation)
    return topic_permissions.clear(state, operation)


def refuse_pattern(what: str, text: str) -> Refused | None:
    """Why this may not be the `what` pattern of a permission; None if it may."""
    try:
        compile_text(text)
    except PatternError as error:
        return Refused(
            PRECONDITION_FAILED, f"the {what} pattern is no regular expression to use: {error}"
        )
    return None


# --- refusals --------------------------------------------------------------------------------


def no_user(name: str) -> Refused:
    """The refusal of a user that does not exist."""
    return Refused(NOT_FOUND, f"user '{name}' does not exist")


def no_vhost(name: str) -> Refused:
    """The refusal of a virtual host that does not exist."""
    return Refused(NOT_FOUND, f"virtual host '{name}' does not exist")


def _full(what: str, most: int) -> Refused:
    return Refused(
        RESOURCE_ERROR, f"the cluster map holds at most {most} {what}: delete some that are unused"
    )
