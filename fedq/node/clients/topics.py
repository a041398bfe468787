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
#: Patterns (of a user, exchange and right) that are kept, keys whose verdicts are kept of each, and
#: of all together.
PATTERNS_KEPT_MAX: Final = 4_096
VERDICTS_KEPT_MAX: Final = 1_024
VERDICTS_OF_ALL_MAX: Final = 131_072
#: What AMQP has for a key; the headers CC and BCC may hold anything.
KEY_CHARACTERS_MAX: Final = 255
#: So many steps of a pattern, times characters of a key, are a unit of work, as a shift.
_STEPS_SHIFT: Final = 5
_TOPIC: Final = "topic"


class _Keys:
    """The keys that one pattern lets through, as far as they were asked for."""

    __slots__ = ("pattern", "verdicts")

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.verdicts: dict[str, bool] = {}


class Topics:
    """The topics that users may publish to, and bind by."""

    __slots__ = ("_kept", "_keys", "_version", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self._version = MapVersion(0)
        self._keys: dict[tuple[str, TopicKey], _Keys] = {}
        #: Verdicts of all patterns.
        self._kept = 0

    def may_use(self, user: str, vhost: str, exchange: str, right: str, key: str) -> bool | None:
        """Whether the user may write, or read (`right`), that topic; None: it may all of them.

        A key that is longer than AMQP's nobody may use who is limited at all: it would be looked at
        and kept at any length.
        """
        cluster = self.state.map
        if not cluster.topic_permissions:
            return None
        named = TopicKey(user, vhost, exchange)
        grant = cluster.topic_permissions.get(named)
        found = cluster.exchanges.get(QueueKey(vhost, exchange))
        if grant is None or found is None or found.type != _TOPIC:
            return None
        if len(key) > KEY_CHARACTERS_MAX:
            return False
        keys = self._keys_of(named, grant, right)
        verdict = keys.verdicts.get(key)
        if verdict is None:
            self.state.work.spend(1 + (keys.pattern.steps * len(key) >> _STEPS_SHIFT))
            verdict = keys.pattern.matches(key)
            self._keep(keys, key, verdict=verdict)
        return verdict

    def _keys_of(self, named: TopicKey, grant: TopicGrant, right: str) -> _Keys:
        version = self.state.map.access_version
        if self._version != version:
            self._version = version
            self._forget()
        keys = self._keys.get((right, named))
        if keys is None:
            if len(self._keys) >= PATTERNS_KEPT_MAX:
                self._forget()
            text = grant.write if right == WRITE else grant.read
            keys = self._keys[right, named] = _Keys(pattern_of(text, named))
            self.state.work.spend(keys.pattern.steps)
        return keys

    def _keep(self, keys: _Keys, key: str, *, verdict: bool) -> None:
        if len(keys.verdicts) >= VERDICTS_KEPT_MAX:
            self._kept -= len(keys.verdicts)
            keys.verdicts = {}
        if self._kept >= VERDICTS_OF_ALL_MAX:
            self.state.work.spend(len(self._keys))
            self._kept = 0
            for each in self._keys.values():
                each.verdicts = {}
        keys.verdicts[key] = verdict
        self._kept += 1

    def _forget(self) -> None:
        self._keys = {}
        self._kept = 0
