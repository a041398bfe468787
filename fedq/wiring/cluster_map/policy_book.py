"""Which policies a queue, or an exchange, has: derived from the cluster map, and kept with it.

Inputs: a map's state; names. Outputs: the names of the user's and of the operator's policy, what
they ask together, and the arguments that come of it. A pure function of the map: all nodes that
have applied the same commands find the same.

A virtual host's policies are put in order when they are first asked for after a change
(`forget`). Of those that match and are for queues of its type, or for exchanges, the one with the
highest priority counts, and among equals the one whose name comes first; RabbitMQ leaves that open.
Patterns take steps that are bounded (`limits.POLICY_STEPS_MAX`); `walked` says what all questions
so far have cost.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fedq.core.ids import QueueKey
from fedq.wiring.cluster_map.operation_fields import arguments_of
from fedq.wiring.cluster_map.operations_policies import EXCHANGES, QUEUES, Policy
from fedq.wiring.cluster_map.patterns import Pattern
from fedq.wiring.cluster_map.policies import pattern_of
from fedq.wiring.cluster_map.policy_definitions import (
    exchange_arguments_by,
    is_for,
    merged,
    queue_arguments_by,
)
from fedq.wiring.cluster_map.queue_arguments import CLASSIC, QUORUM, STREAM, type_of
from fedq.wiring.cluster_map.state import MapState

#: So many steps of patterns, times characters of a name, are a unit of work, as a shift.
_STEPS_SHIFT: Final = 5
_TYPES: Final = (CLASSIC, QUORUM, STREAM)


class Standing(NamedTuple):
    """The policies that something has."""

    #: Names; "": none matches.
    policy: str
    operator_policy: str
    #: What both ask.
    definition: Mapping[str, Any]


NO_STANDING: Final = Standing("", "", {})


class _Entry:
    """One policy, ready to be asked."""

    __slots__ = ("definition", "kinds", "name", "pattern", "priority", "steps")

    def __init__(self, name: str, policy: Policy, pattern: Pattern) -> None:
        self.name = name
        self.priority = policy.priority
        self.pattern = pattern
        self.steps = policy.steps
        self.definition = arguments_of(policy.definition)
        #: What it is for: types of queues, and exchanges.
        self.kinds: list[str] = []
        if policy.apply_to != EXCHANGES:
            self.kinds += [kind for kind in _TYPES if is_for(self.definition, kind)]
        if policy.apply_to != QUEUES:
            self.kinds.append(EXCHANGES)


class _Shelf:
    """The policies of one virtual host, each kind in order: who comes first counts."""

    __slots__ = ("operators", "patterns", "users")

    def __init__(self) -> None:
        self.users: list[_Entry] = []
        self.operators: list[_Entry] = []
        #: By their texts, those in use.
        self.patterns: dict[str, Pattern] = {}


class PolicyBook:
    """The policies of a map; see the module's docstring."""

    __slots__ = ("_old", "_shelves", "_state", "walked")

    def __init__(self, state: MapState) -> None:
        self._state = state
        self._shelves: dict[str, _Shelf] = {}
        #: As they were before a change: their patterns need not be compiled again.
        self._old: dict[str, _Shelf] = {}
        #: In units of work (`fedq.core.work`).
        self.walked = 0

    def forget(self, vhost: str) -> None:
        """The policies of a virtual host have changed."""
        shelf = self._shelves.pop(vhost, None)
        if shelf is not None:
            self._old[vhost] = shelf
        if vhost not in self._state.vhosts:
            self._old.pop(vhost, None)

    def forget_all(self) -> None:
        """The whole map has changed."""
        self._shelves, self._old = {}, {}

    @property
    def is_empty(self) -> bool:
        """Whether there are no policies at all."""
        return not self._state.policies and not self._state.operator_policies

    def of_queue(self, key: QueueKey, arguments: Mapping[str, Any]) -> Standing:
        """The policies of a queue of that name that was declared with these arguments."""
        return NO_STANDING if self.is_empty else self._find(key, type_of(arguments))

    def of_exchange(self, key: QueueKey) -> Standing:
        """The policies of an exchange of that name; operators' ones have no say there."""
        # As in RabbitMQ, the default exchange has none.
        return NO_STANDING if self.is_empty or not key.name else self._find(key, EXCHANGES)

    def queue_arguments(self, key: QueueKey, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments that a queue declared with these has by its policies."""
        definition = self.of_queue(key, arguments).definition
        return queue_arguments_by(arguments, definition) if definition else arguments

    def exchange_arguments(self, key: QueueKey, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments that an exchange declared with these has by its policies."""
        definition = self.of_exchange(key).definition
        return exchange_arguments_by(arguments, definition) if definition else arguments

    def _find(self, key: QueueKey, kind: str) -> Standing:
        shelf = self._shelves.get(key.vhost)
        if shelf is None:
            shelf = self._shelves[key.vhost] = self._make(key.vhost)
        user = self._first(shelf.users, key.name, kind)
        operator = self._first(shelf.operators, key.name, kind)
        if user is None and operator is None:
            return NO_STANDING
        return Standing(
            user.name if user is not None else "",
            operator.name if operator is not None else "",
            merged(
                user.definition if user is not None else {},
                operator.definition if operator is not None else {},
            ),
        )

    def _first(self, entries: list[_Entry], name: str, kind: str) -> _Entry | None:
        steps, found = 0, None
        for entry in entries:
            if kind not in entry.kinds:
                continue
            steps += entry.steps
            if entry.pattern.matches(name):
                found = entry
                break
        self.walked += 1 + (steps * len(name) >> _STEPS_SHIFT)
        return found

    def _make(self, vhost: str) -> _Shelf:
        shelf, old = _Shelf(), self._old.pop(vhost, None)
        known = old.patterns if old is not None else {}
        for table, entries in (
            (self._state.policies, shelf.users),
            (self._state.operator_policies, shelf.operators),
        ):
            self.walked += len(table)
            for key, policy in table.items():
                if key.vhost != vhost:
                    continue
                text = policy.pattern
                pattern = shelf.patterns.get(text) or known.get(text)
                if pattern is None:
                    pattern = pattern_of(text)
                    self.walked += policy.steps
                shelf.patterns[text] = pattern
                entries.append(_Entry(key.name, policy, pattern))
            entries.sort(key=_order)
        return shelf


def _order(entry: _Entry) -> tuple[int, str]:
    return -entry.priority, entry.name
