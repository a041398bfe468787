"""The replicated operations on permissions of topics, their forms, and their records.

A part of `fedq.wiring.cluster_map.operations_access`, which carries their forms; what they do is in
`fedq.wiring.cluster_map.topic_permissions`. None is proposed before the cluster speaks
`versions.TOPIC_PERMISSIONS`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from fedq.core import limits
from fedq.wiring.cluster_map.operation_fields import Check, bounded, flag, text


class TopicKey(NamedTuple):
    """A user, and an exchange of a virtual host."""

    user: str
    vhost: str
    exchange: str


class TopicGrant(NamedTuple):
    """Regular expressions: the routing keys to publish with, and the binding keys to bind by.

    `{username}` and `{vhost}` in them stand for the names of the user and the virtual host.
    """

    write: str
    read: str


@dataclass(frozen=True, slots=True)
class SetTopicPermissions:
    """What a user may do with a topic exchange, which need not be there yet."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class ClearTopicPermissions:
    """Takes the limits of topics from a user: on one exchange, or on all of the virtual host."""

    user: str
    vhost: str
    exchange: str
    #: Those on all exchanges go; `exchange` means nothing.
    everywhere: bool


class TopicPermissionsChanged(NamedTuple):
    """What a user may do with a topic exchange changed: which table, and whose."""

    table: str
    key: TopicKey


#: The table of a map.
TOPIC_PERMISSIONS: Final = "topic_permissions"

TopicOperation: TypeAlias = SetTopicPermissions | ClearTopicPermissions

_pattern: Final = bounded(limits.PATTERN_BYTES_MAX)

#: Name on the wire -> the operation's class and the check of each field.
TOPIC_FORMS: Final[dict[str, tuple[Callable[..., TopicOperation], dict[str, Check]]]] = {
    "set_topic_permissions": (
        SetTopicPermissions,
        {"user": text, "vhost": text, "exchange": text, "write": _pattern, "read": _pattern},
    ),
    "clear_topic_permissions": (
        ClearTopicPermissions,
        {"user": text, "vhost": text, "exchange": text, "everywhere": flag},
    ),
}
