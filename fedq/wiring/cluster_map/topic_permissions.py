"""Permissions of topics: what becomes of the map when they come, change and go (docs/adr/0112).

Inputs: the map and a committed operation, whose user and virtual host are there. Output: its
result; changes are appended to the map's. What is asked for and is so already is confirmed.

A user without any for an exchange may use all topics of it, as far as its permissions let it reach
the exchange at all; so it is in RabbitMQ. The exchange need not be there, and when it goes they
stay. They go with their user, and with their virtual host.
"""

from typing import Final

from fedq.core import limits
from fedq.core.errors import PRECONDITION_FAILED, RESOURCE_ERROR, Refused
from fedq.wiring.cluster_map.operations_topics import (
    TOPIC_PERMISSIONS,
    ClearTopicPermissions,
    SetTopicPermissions,
    TopicGrant,
    TopicKey,
    TopicPermissionsChanged,
)
from fedq.wiring.cluster_map.patterns import Pattern, PatternError, compile_text
from fedq.wiring.cluster_map.state import MapState, Ok

USERNAME: Final = "{username}"
VHOST: Final = "{vhost}"


def pattern_of(text: str, key: TopicKey) -> Pattern:
    """The compiled pattern of a user in a virtual host. Raises `PatternError`.

    Names that stand for a variable mean themselves: a user called ".*" matches nothing but that.
    """
    expanded = text.replace(USERNAME, _literal(key.user)).replace(VHOST, _literal(key.vhost))
    return compile_text(expanded)


def _literal(name: str) -> str:
    """The regular expression that a name, and nothing else, matches."""
    return "".join(
        f"\\{character}" if character.isascii() and not character.isalnum() else character
        for character in name
    )


def refuse_topic_permissions(wanted: SetTopicPermissions) -> Refused | None:
    """Why there can be no such permissions, whatever else there is; None: there can."""
    key = TopicKey(wanted.user, wanted.vhost, wanted.exchange)
    for what, text in (("write", wanted.write), ("read", wanted.read)):
        try:
            pattern_of(text, key)
        except PatternError as error:
            return Refused(
                PRECONDITION_FAILED, f"the {what} pattern is no regular expression to use: {error}"
            )
    return None


def refusal_text(exchange: str, key: str, vhost: str, user: str) -> str:
    """The sentence with which RabbitMQ refuses a topic."""
    return (
        f"access to topic '{key}' in exchange '{exchange}' in vhost '{vhost}' refused for user "
        f"'{user}'"
    )


def put(state: MapState, wanted: SetTopicPermissions) -> Ok | Refused:
    """Sets what a user may do with a topic exchange, or refuses it and changes nothing."""
    if refusal := refuse_topic_permissions(wanted):
        return refusal
    key = TopicKey(wanted.user, wanted.vhost, wanted.exchange)
    grant, known = TopicGrant(wanted.write, wanted.read), state.topic_permissions
    if known.get(key) == grant:
        return Ok()
    if key not in known and len(known) >= limits.PERMISSIONS_MAX:
        text = f"the cluster map holds at most {limits.PERMISSIONS_MAX} permissions of topics"
        return Refused(RESOURCE_ERROR, f"{text}: clear some that are unused")
    if refusal := state.refuse_if_heavy():
        return refusal
    known[key] = grant
    state.changes.append(TopicPermissionsChanged(TOPIC_PERMISSIONS, key))
    return Ok(1)


def clear(state: MapState, operation: ClearTopicPermissions) -> Ok:
    """Takes the limits of topics from a user."""
    if operation.everywhere:
        return Ok(int(_drop(state, operation.user, operation.vhost)))
    key = TopicKey(operation.user, operation.vhost, operation.exchange)
    if key not in state.topic_permissions:
        return Ok()
    del state.topic_permissions[key]
    state.changes.append(TopicPermissionsChanged(TOPIC_PERMISSIONS, key))
    return Ok(1)


def on_user_deleted(state: MapState, user: str) -> None:
    """Ends the permissions of topics of a user that goes."""
    _drop(state, user, None)


def on_vhost_deleted(state: MapState, vhost: str) -> None:
    """Ends the permissions of topics in a virtual host that goes."""
    _drop(state, None, vhost)


def _drop(state: MapState, user: str | None, vhost: str | None) -> bool:
    """Ends those of a user, in a virtual host; None: of all. Returns whether there were some."""
    known = state.topic_permissions
    gone = [key for key in known if user in (None, key.user) and vhost in (None, key.vhost)]
    for key in gone:
        del known[key]
        state.changes.append(TopicPermissionsChanged(TOPIC_PERMISSIONS, key))
    return bool(gone)
