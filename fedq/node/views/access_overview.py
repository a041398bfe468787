"""Virtual hosts, users and permissions of a node's copy of the map, for the admin floor.

Reads only. Names in order; passwords only as records, and only to be compared.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fedq.core.errors import Refused
from fedq.core.ids import QueueKey
from fedq.node.node import Node
from fedq.node.requests.queue_refusals import refuse_too_new_change
from fedq.node.views.overview_types import LOOK_WORK_MAX
from fedq.wiring.cluster_map.operations import Operation
from fedq.wiring.cluster_map.operations_parameters import ParameterKey
from fedq.wiring.cluster_map.operations_policies import Policy
from fedq.wiring.cluster_map.operations_topics import TopicGrant, TopicKey
from fedq.wiring.cluster_map.operations_tracing import StartTrace, Trace
from fedq.wiring.cluster_map.policies import tables_of
from fedq.wiring.cluster_map.state import Binding, Exchange, Grant, GrantKey, Limits, MapState
from fedq.wiring.cluster_map.tracing import refuse_trace


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
    """The questions of the admin floor about virtual hosts and users."""

    def vhosts(self) -> Sequence[str]:
        """Names of all virtual hosts."""

    def counted(self, names: Sequence[str]) -> Sequence[VhostOverview]:
        """The virtual hosts of some names that `vhosts` gave, in that order."""

    def exchanges(self) -> Sequence[tuple[QueueKey, Exchange]]:
        """All exchanges, in any order."""

    def bindings(self) -> Sequence[Binding]:
        """All bindings, in any order."""

    def limits(self) -> Sequence[LimitsOverview]:
        """The limits of virtual hosts, then of users, in order of names."""

    def users(self) -> Sequence[str]:
        """Names of all users."""

    def user(self, name: str) -> UserOverview:
        """The user of a name that `users` gave."""

    def password_record(self, name: str) -> str | None:
        """The record of a user's password; None: no such user."""

    def grants(self) -> Sequence[GrantKey]:
        """All grants: who may do something where."""

    def grant(self, key: GrantKey) -> Grant:
        """The grant of a key that `grants` gave."""

    def grants_of(self, keys: Sequence[GrantKey]) -> Sequence[tuple[GrantKey, Grant]]:
        """The grants of some keys, as far as they are still there."""

    def topic_permissions(self) -> Sequence[tuple[TopicKey, TopicGrant]]:
        """All permissions of topics, in order of user, virtual host and exchange."""

    def vhosts_of(self, user: str) -> Sequence[str]:
        """The virtual hosts in which the user has permissions."""

    def traces(self) -> Sequence[tuple[str, Trace]]:
        """All traces, in order of names."""

    def firehose(self) -> Sequence[str]:
        """The virtual hosts whose firehose is on, in order."""

    def policies(self, operator: bool) -> Sequence[tuple[QueueKey, Policy]]:
        """All policies, or those of operators, in order of virtual host and name."""

    def parameters(self) -> Sequence[tuple[ParameterKey, str]]:
        """All runtime parameters with their values as JSON, in order, global ones first."""

    def policies_of_exchanges(self, keys: Sequence[QueueKey]) -> Sequence[str]:
        """The policy's name, "": none, of the first of these exchanges: of as many as cost little.

        Of one at least.
        """

    def refuse_too_new(self, wanted: Operation) -> Refused | None:
        """Why there can be no such change before all nodes are updated; None: there can."""

    def refuse_trace(self, wanted: StartTrace) -> Refused | None:
        """Why there can be no such trace; its stream is still to be declared. None: it can."""

    def has_queue(self, key: QueueKey) -> bool:
        """Whether there is a shared queue of that name."""


class AccessView:
    """The `AccessOverview` of one node; every call reads the present state."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    def vhosts(self) -> Sequence[str]:
        """The names of all virtual hosts."""
        return sorted(self._node.state.map.vhosts)

    def counted(self, names: Sequence[str]) -> Sequence[VhostOverview]:
        """Virtual hosts, and how much is in each: one walk for all of them."""
        known = self._node.state.map
        exchanges = Counter([key.vhost for key in known.exchanges])
        queues = Counter([key.vhost for key in known.queues])
        users = Counter([key.vhost for key in known.grants])
        return [VhostOverview(name, exchanges[name], queues[name], users[name]) for name in names]

    def exchanges(self) -> Sequence[tuple[QueueKey, Exchange]]:
        """All exchanges of the map."""
        return list(self._node.state.map.exchanges.items())

    def bindings(self) -> Sequence[Binding]:
        """All bindings of the map."""
        return list(self._node.state.map.bindings)

    def limits(self) -> Sequence[LimitsOverview]:
        """All limits of the map."""
        return limits_of(self._node.state.map)

    def users(self) -> Sequence[str]:
        """The names of all users."""
        return sorted(self._node.state.map.users)

    def user(self, name: str) -> UserOverview:
        """A user and its tags."""
        user = self._node.state.map.users[name]
        return UserOverview(name, user.tags, bool(user.password))

    def password_record(self, name: str) -> str | None:
        """The record of a user's password."""
        user = self._node.state.map.users.get(name)
        return None if user is None else user.password

    def grants(self) -> Sequence[GrantKey]:
        """The keys of all grants."""
        return sorted(self._node.state.map.grants)

    def grant(self, key: GrantKey) -> Grant:
        """A grant of the map."""
        return self._node.state.map.grants[key]

    def grants_of(self, keys: Sequence[GrantKey]) -> Sequence[tuple[GrantKey, Grant]]:
        """The grants of some keys, without those that are gone."""
        known = self._node.state.map.grants
        return [(key, grant) for key in keys if (grant := known.get(key)) is not None]

    def topic_permissions(self) -> Sequence[tuple[TopicKey, TopicGrant]]:
        """The permissions of topics in the map."""
        return sorted(self._node.state.map.topic_permissions.items())

    def vhosts_of(self, user: str) -> Sequence[str]:
        """The virtual hosts in which the user has permissions."""
        return [key.vhost for key in self._node.state.map.grants if key.user == user]

    def traces(self) -> Sequence[tuple[str, Trace]]:
        """The traces of the map."""
        return sorted(self._node.state.map.traces.items())

    def policies(self, operator: bool) -> Sequence[tuple[QueueKey, Policy]]:
        """The policies of the map, or those of operators."""
        _, found = tables_of(self._node.state.map, operator)
        return sorted(found.items(), key=lambda item: item[0])

    def parameters(self) -> Sequence[tuple[ParameterKey, str]]:
        """The parameters of the map."""
        return sorted(self._node.state.map.parameters.items())

    def policies_of_exchanges(self, keys: Sequence[QueueKey]) -> Sequence[str]:
        """The policies of some exchanges."""
        book, found = self._node.state.policies, list[str]()
        before = book.walked
        for key in keys:
            found.append(book.of_exchange(key).policy)
            if book.walked - before >= LOOK_WORK_MAX:
                break
        return found

    def firehose(self) -> Sequence[str]:
        """The virtual hosts whose firehose is on."""
        return sorted(self._node.state.map.firehose)

    def refuse_too_new(self, wanted: Operation) -> Refused | None:
        """Why there can be no such change before all nodes are updated."""
        return refuse_too_new_change(wanted, self._node.state.map)

    def refuse_trace(self, wanted: StartTrace) -> Refused | None:
        """Why there can be no such trace."""
        known = self._node.state.map
        return refuse_too_new_change(wanted, known) or refuse_trace(known, wanted)

    def has_queue(self, key: QueueKey) -> bool:
        """Whether the map has such a queue."""
        return key in self._node.state.map.queues


def limits_of(known: MapState) -> list[LimitsOverview]:
    """All limits in a map."""
    return [
        *(LimitsOverview(False, *each) for each in sorted(known.vhost_limits.items())),
        *(LimitsOverview(True, *each) for each in sorted(known.user_limits.items())),
    ]
