"""What a user may do with the topics of an exchange, as RabbitMQ's topic permissions have it.

Inputs: users, exchanges, routing and binding keys; the cluster map's topic permissions. Output:
whether the key may be used, or None where nobody limits the user. Only exchanges of type topic are
limited. Patterns are compiled once, and verdicts on keys are kept, a bounded number of them, until
the map's users, virtual hosts or permissions change; what it costs to find one is charged.
"""

from typing import Final

from fedq.core.ids import MapVersion, QueueKey
from fedq.node.records.state import NodeState
from fedq.wiring.cluster_map.operations_topics import TopicGrant, TopicKey
from fedq.wiring.cluster_map.patterns import Pattern
from fedq.wiring.cluster_map.topic_permissions import pattern_of

WRITE: Final = "write"
READ: Final = "read"
#: Users and exchanges whose patterns are kept, and keys whose verdicts are kept of each.
EXCHANGES_KEPT_MAX: Final = 1_024
VERDICTS_KEPT_MAX: Final = 1_024
#: So many steps of a pattern, times characters of a key, are a unit of work, as a shift.
_STEPS_SHIFT: Final = 5
_TOPIC: Final = "topic"


class _Keys:
    """The keys that one pattern lets through, as far as they were asked for."""

    __slots__ = ("_pattern", "_verdicts", "steps")

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._verdicts: dict[str, bool] = {}
        self.steps = pattern.steps

    def known(self, key: str) -> bool | None:
        """The verdict on a key; None: it is still to be found."""
        return self._verdicts.get(key)

    def find(self, key: str) -> bool:
        """Finds the verdict on a key."""
        if len(self._verdicts) >= VERDICTS_KEPT_MAX:
            self._verdicts = {}
        verdict = self._verdicts[key] = self._pattern.matches(key)
        return verdict


class _Limits:
    """The limits of one user at one exchange."""

    __slots__ = ("read", "write")

    def __init__(self, key: TopicKey, grant: TopicGrant) -> None:
        self.write = _Keys(pattern_of(grant.write, key))
        self.read = _Keys(pattern_of(grant.read, key))


class Topics:
    """The topics that users may publish to, and bind by."""

    __slots__ = ("_limits", "_version", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._version = MapVersion(0)
        self._limits: dict[TopicKey, _Limits] = {}

    def may_use(self, user: str, vhost: str, exchange: str, right: str, key: str) -> bool | None:
        """Whether the user may write, or read (`right`), that topic; None: it may all of them."""
        cluster = self.state.map
        if not cluster.topic_permissions:
            return None
        grant = cluster.topic_permissions.get(TopicKey(user, vhost, exchange))
        found = cluster.exchanges.get(QueueKey(vhost, exchange))
        if grant is None or found is None or found.type != _TOPIC:
            return None
        limits = self._limits_of(TopicKey(user, vhost, exchange), grant)
        keys = limits.write if right == WRITE else limits.read
        verdict = keys.known(key)
        if verdict is None:
            verdict = keys.find(key)
            self.state.work.spend(1 + (keys.steps * len(key) >> _STEPS_SHIFT))
        return verdict

    def _limits_of(self, key: TopicKey, grant: TopicGrant) -> _Limits:
        version = self.state.map.access_version
        if self._version != version:
            self._version = version
            self._limits = {}
        limits = self._limits.get(key)
        if limits is None:
            if len(self._limits) >= EXCHANGES_KEPT_MAX:
                self._limits = {}
            limits = self._limits[key] = _Limits(key, grant)
            self.state.work.spend(limits.write.steps + limits.read.steps)
        return limits
