"""The replicated operations about who is of the cluster, and their forms.

By `Speaks` members say which versions they speak (`fedq.wiring.cluster_map.releases`); by the
others nodes are named, let in, made voters and taken out (`fedq.wiring.cluster_map.roster`). A part
of `fedq.wiring.cluster_map.operations`, which carries them in commands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from fedq.core.ids import Incarnation, NodeId
from fedq.core.limits import VOTERS_MAX
from fedq.wiring.cluster_map.operation_fields import Check, count, name, number


@dataclass(frozen=True, slots=True)
class Speaks:
    """The process `incarnation` of `node` speaks these versions (`fedq.core.versions`)."""

    node: NodeId
    incarnation: Incarnation
    oldest: int
    newest: int


@dataclass(frozen=True, slots=True)
class NameVoters:
    """The voters by the configurations, each with its peer address: the roster begins with them.

    Not proposed before the cluster speaks `versions.MEMBERSHIP`, nor are those below.
    """

    voters: tuple[tuple[NodeId, str], ...]


@dataclass(frozen=True, slots=True)
class AdmitNode:
    """A node asks to be of the cluster, reached at "host:port", with a data directory of its own.

    `directory` is that directory's random id: a node that is started again goes on with it.
    """

    node: NodeId
    peer_address: str
    directory: str


@dataclass(frozen=True, slots=True)
class PromoteNode:
    """An observer is to vote."""

    node: NodeId


@dataclass(frozen=True, slots=True)
class ForgetNode:
    """A node that is gone for good is of the cluster no more.

    `incarnation`: its newest process, as the operator saw it; 0: it never came up.
    """

    node: NodeId
    incarnation: int


@dataclass(frozen=True, slots=True)
class ReplaceVoter:
    """An observer is to vote in the place of a node that is down, which observes from now on.

    `incarnation` and `by_incarnation`: the newest process of each, as the leader saw it; 0: the
    voter never came up. Not proposed before the cluster speaks `versions.VOTERS_REPLACED`.
    """

    node: NodeId
    incarnation: int
    by: NodeId
    by_incarnation: int


RosterOperation: TypeAlias = NameVoters | AdmitNode | PromoteNode | ForgetNode | ReplaceVoter


def voters_with_addresses(value: object) -> tuple[tuple[str, str], ...]:
    """Checks pairs of node and address, as many as may vote."""
    if not isinstance(value, list) or not 1 <= len(value) <= VOTERS_MAX:
        raise ValueError(f"is not a list of 1 to {VOTERS_MAX} voters")
    found = []
    for item in value:
        if not isinstance(item, list) or len(item) != 2:
            raise ValueError("has an entry that is no pair of node and address")
        found.append((name(item[0]), name(item[1])))
    if len(dict(found)) != len(found):
        raise ValueError("names a node twice")
    return tuple(found)


#: Name on the wire -> the operation's class and the check of each field.
MEMBER_FORMS: Final[dict[str, tuple[Callable[..., Speaks | RosterOperation], dict[str, Check]]]] = {
    "speaks": (
        Speaks,
        {"node": name, "incarnation": number, "oldest": number, "newest": number},
    ),
    "name_voters": (NameVoters, {"voters": voters_with_addresses}),
    "admit_node": (AdmitNode, {"node": name, "peer_address": name, "directory": name}),
    "promote_node": (PromoteNode, {"node": name}),
    "forget_node": (ForgetNode, {"node": name, "incarnation": count}),
    "replace_voter": (
        ReplaceVoter,
        {"node": name, "incarnation": count, "by": name, "by_incarnation": number},
    ),
}
