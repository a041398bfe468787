"""Virtual hosts, users and permissions of a node's copy of the map, for the admin floor.

Reads only. Names in order; passwords only as records, and only to be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fedq.core.ids import QueueKey
from fedq.node.node import Node
from fedq.wiring.cluster_map.state import Binding, Exchange, Grant, GrantKey, Limits, MapState


@dataclass(frozen=True, slots=True)
class VhostOverview:
    """A virtual host, and how much is in it."""

    name: str
    exchanges: int
    queues: int
    users: int


@dataclass(frozen=True, slots=True)
class UserOverview:
    """A user."""

    name: str
    tags: tuple[str, ...]
    has_password: bool


class LimitsOverview(NamedTuple):
    """What a virtual host, or a user, may have at most: names and numbers."""

    is_user: bool
    name: str
    limits: Limits


class AccessOverview(Protocol):
    """What the admin floor asks."""

    def vhosts(self) -> Sequence[str]:
        """Names of all virtual hosts."""

    def vhost(self, name: str) -> VhostOverview:
        """One that `vhosts` named."""

    def exchanges(self) -> Sequence[tuple[QueueKey, Exchange]]:
        """All exchanges, in any order."""

    def bindings(self) -> Sequence[Binding]:
        """All bindings, in any order."""

    def limits(self) -> Sequence[LimitsOverview]:
        """Of virtual hosts, then of users, in order of names."""

    def users(self) -> Sequence[str]:
        """Names of all users."""

    def user(self, name: str) -> UserOverview:
        """One that `users` named."""

    def password_record(self, name: str) -> str | None:
        """The record of a user's password; None: no such user."""

    def grants(self) -> Sequence[GrantKey]:
        """Who may do something where."""

    def grant(self, key: GrantKey) -> Grant:
        """One that `grants` named."""


class AccessView:
    """The `AccessOverview` of one node; every call reads the present state."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    def vhosts(self) -> Sequence[str]:
        """See `AccessOverview`."""
        return sorted(self._node.state.map.vhosts)

    def vhost(self, name: str) -> VhostOverview:
        """See `AccessOverview`."""
        known = self._node.state.map
        return VhostOverview(
            name,
            sum(key.vhost == name for key in known.exchanges),
            sum(key.vhost == name for key in known.queues),
            sum(key.vhost == name for key in known.grants),
        )

    def exchanges(self) -> Sequence[tuple[QueueKey, Exchange]]:
        """See `AccessOverview`."""
        return list(self._node.state.map.exchanges.items())

    def bindings(self) -> Sequence[Binding]:
        """See `AccessOverview`."""
        return list(self._node.state.map.bindings)

    def limits(self) -> Sequence[LimitsOverview]:
        """See `AccessOverview`."""
        return limits_of(self._node.state.map)

    def users(self) -> Sequence[str]:
        """See `AccessOverview`."""
        return sorted(self._node.state.map.users)

    def user(self, name: str) -> UserOverview:
        """See `AccessOverview`."""
        user = self._node.state.map.users[name]
        return UserOverview(name, user.tags, bool(user.password))

    def password_record(self, name: str) -> str | None:
        """See `AccessOverview`."""
        user = self._node.state.map.users.get(name)
        return None if user is None else user.password

    def grants(self) -> Sequence[GrantKey]:
        """See `AccessOverview`."""
        return sorted(self._node.state.map.grants)

    def grant(self, key: GrantKey) -> Grant:
        """See `AccessOverview`."""
        return self._node.state.map.grants[key]


def limits_of(known: MapState) -> list[LimitsOverview]:
    """All limits in a map."""
    return [
        *(LimitsOverview(False, *each) for each in sorted(known.vhost_limits.items())),
        *(LimitsOverview(True, *each) for each in sorted(known.user_limits.items())),
    ]
