"""The replicated operations on RabbitMQ's policies, their forms, and the record of a policy.

A part of `fedq.wiring.cluster_map.operations_access`, which carries their forms; what they do is in
`fedq.wiring.cluster_map.policies`. None is proposed before the cluster speaks `versions.POLICIES`.
(What a queue's arguments and policies come to for its fragments is `fedq.core.policy`.)
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from fedq.core import limits
from fedq.core.ids import QueueKey
from fedq.wiring.cluster_map.operation_fields import (
    Check,
    bounded,
    canonical_arguments,
    flag,
    integer,
    name,
    one_of,
    text,
)

#: What a policy is of.
QUEUES: Final = "queues"
EXCHANGES: Final = "exchanges"
ALL: Final = "all"
APPLY_TO: Final = (QUEUES, EXCHANGES, ALL)
#: The tables of a map: policies of users, and of operators.
POLICIES: Final = "policies"
OPERATOR_POLICIES: Final = "operator_policies"


@dataclass(frozen=True, slots=True)
class Policy:
    """What is asked of queues and exchanges of a virtual host whose names match."""

    #: A regular expression (`fedq.wiring.cluster_map.patterns`); "" matches every name.
    pattern: str
    #: One of `APPLY_TO`.
    apply_to: str
    #: Of several that match, the one with the highest counts, and no other.
    priority: int
    #: Names of settings and values, in canonical text.
    definition: str
    #: The steps of the program that its pattern is.
    steps: int


@dataclass(frozen=True, slots=True)
class PutPolicy:
    """A policy of this name, or the operators' (`operator`), comes or is replaced; see `Policy`."""

    vhost: str
    name: str
    operator: bool
    pattern: str
    apply_to: str
    priority: int
    definition: str


@dataclass(frozen=True, slots=True)
class DropPolicy:
    """The policy of this name, or the operators' (`operator`), goes."""

    vhost: str
    name: str
    operator: bool


class PolicyChanged(NamedTuple):
    """A policy came, changed or went: which table, and its virtual host and name."""

    table: str
    key: QueueKey


class RefusingNoted(NamedTuple):
    """A policy has made queues of a virtual host refuse publishes, for the first time."""

    table: str
    name: str


PolicyOperation: TypeAlias = PutPolicy | DropPolicy


def _definition(value: object) -> str:
    return canonical_arguments(bounded(limits.ARGUMENTS_BYTES_MAX)(value))


#: Name on the wire -> the operation's class and the check of each field.
POLICY_FORMS: Final[dict[str, tuple[Callable[..., PolicyOperation], dict[str, Check]]]] = {
    "put_policy": (
        PutPolicy,
        {
            "vhost": text,
            "name": name,
            "operator": flag,
            "pattern": bounded(limits.PATTERN_BYTES_MAX),
            "apply_to": one_of(APPLY_TO),
            "priority": integer,
            "definition": _definition,
        },
    ),
    "drop_policy": (DropPolicy, {"vhost": text, "name": name, "operator": flag}),
}
