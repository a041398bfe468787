"""The replicated operations on virtual hosts, users and permissions, and the form of each.

A part of `fedq.wiring.cluster_map.operations`, which carries them in commands; what they do is in
`fedq.wiring.cluster_map.access`. Invariant: every field of a decoded operation has its type and is
within its limit. Passwords appear only as records of `fedq.wiring.cluster_map.passwords`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from fedq.core import limits
from fedq.wiring.cluster_map.operation_fields import Check, bounded, flag, name, text
from fedq.wiring.cluster_map.operations_parameters import PARAMETER_FORMS, ParameterOperation
from fedq.wiring.cluster_map.operations_policies import POLICY_FORMS, PolicyOperation
from fedq.wiring.cluster_map.operations_topics import TOPIC_FORMS, TopicOperation
from fedq.wiring.cluster_map.passwords import is_record

#: What can be limited, in RabbitMQ's words.
MAX_CONNECTIONS: Final = "max-connections"
MAX_QUEUES: Final = "max-queues"
MAX_CHANNELS: Final = "max-channels"
VHOST_LIMITS: Final = (MAX_CONNECTIONS, MAX_QUEUES)
USER_LIMITS: Final = (MAX_CHANNELS, MAX_CONNECTIONS)


@dataclass(frozen=True, slots=True)
class AddVhost:
    """A virtual host with the exchanges that every one has; one that is there is confirmed."""

    vhost: str


@dataclass(frozen=True, slots=True)
class DeleteVhost:
    """The virtual host goes with all that is in it, and with the permissions in it."""

    vhost: str


@dataclass(frozen=True, slots=True)
class SetVhostLimits:
    """Sets the limits of the virtual host, and no others; names and numbers, in order of names."""

    vhost: str
    limits: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class SetUserLimits:
    """Sets the limits of the user, and no others; names and numbers, in order of names."""

    user: str
    limits: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class PutUser:
    """A user with this password record and these tags; `replace`: there may be one already."""

    user: str
    password: str
    tags: tuple[str, ...]
    replace: bool


@dataclass(frozen=True, slots=True)
class SetPassword:
    """A user that there is gets another password record."""

    user: str
    password: str


@dataclass(frozen=True, slots=True)
class SetTags:
    """A user that there is gets other tags."""

    user: str
    tags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeleteUser:
    """The user goes with its permissions."""

    user: str


@dataclass(frozen=True, slots=True)
class SetPermissions:
    """What a user may do in a virtual host: regular expressions of names."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


@dataclass(frozen=True, slots=True)
class ClearPermissions:
    """Takes from the user all permissions in that virtual host."""

    user: str
    vhost: str


@dataclass(frozen=True, slots=True)
class FirstUsers:
    """Pairs of user and password record with which the cluster begins, with all permissions in "/".

    Only the first one counts: who deletes a user does not find it back after a restart.
    """

    users: tuple[tuple[str, str], ...]


AccessOperation: TypeAlias = (
    AddVhost
    | DeleteVhost
    | SetVhostLimits
    | SetUserLimits
    | PutUser
    | SetPassword
    | SetTags
    | DeleteUser
    | SetPermissions
    | ClearPermissions
    | FirstUsers
    | PolicyOperation
    | TopicOperation
    | ParameterOperation
)


def _record(value: object) -> str:
    found = bounded(limits.PASSWORD_RECORD_BYTES_MAX)(value)
    if not is_record(found):
        raise ValueError("is no password record that this version of fedq knows")
    return found


def _tags(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > limits.TAGS_PER_USER_MAX:
        raise ValueError(f"is not a list of at most {limits.TAGS_PER_USER_MAX} tags")
    return tuple(dict.fromkeys(name(item) for item in value))


def _users(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, list) or len(value) > limits.FIRST_USERS_MAX:
        raise ValueError(f"is not a list of at most {limits.FIRST_USERS_MAX} users")
    found = []
    for item in value:
        if not isinstance(item, list) or len(item) != 2:
            raise ValueError("has an entry that is no pair of user and password record")
        found.append((name(item[0]), _record(item[1])))
    return tuple(found)


def _limits(names: tuple[str, ...]) -> Check:
    """Pairs of one of these names and a number from 0."""

    def check(value: object) -> tuple[tuple[str, int], ...]:
        if not isinstance(value, list) or len(value) > len(names):
            raise ValueError(f"is not a list of at most {len(names)} limits")
        found: dict[str, int] = {}
        for item in value:
            if not isinstance(item, list) or len(item) != 2 or item[0] not in names:
                raise ValueError(f"has an entry that is no pair of {' or '.join(names)} and number")
            number = item[1]
            if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < 1 << 31:
                raise ValueError("has a limit that is no number from 0")
            found[item[0]] = number
        return tuple(sorted(found.items()))

    return check


_pattern: Final = bounded(limits.PATTERN_BYTES_MAX)

#: Name on the wire -> the operation's class and the check of each field.
ACCESS_FORMS: Final[dict[str, tuple[Callable[..., AccessOperation], dict[str, Check]]]] = {
    "add_vhost": (AddVhost, {"vhost": name}),
    "delete_vhost": (DeleteVhost, {"vhost": text}),
    "set_vhost_limits": (SetVhostLimits, {"vhost": text, "limits": _limits(VHOST_LIMITS)}),
    "set_user_limits": (SetUserLimits, {"user": text, "limits": _limits(USER_LIMITS)}),
    "put_user": (PutUser, {"user": name, "password": _record, "tags": _tags, "replace": flag}),
    "set_password": (SetPassword, {"user": text, "password": _record}),
    "set_tags": (SetTags, {"user": text, "tags": _tags}),
    "delete_user": (DeleteUser, {"user": text}),
    "set_permissions": (
        SetPermissions,
        {"user": text, "vhost": text, "configure": _pattern, "write": _pattern, "read": _pattern},
    ),
    "clear_permissions": (ClearPermissions, {"user": text, "vhost": text}),
    "first_users": (FirstUsers, {"users": _users}),
    **POLICY_FORMS,
    **TOPIC_FORMS,
    **PARAMETER_FORMS,
}
