"""The replicated operations about who is up and who is of the cluster, and their forms.

By the first ones processes come, go, and know an era (`fedq.wiring.cluster_map.membership`). By
`Speaks` members say which versions they speak (`fedq.wiring.cluster_map.releases`); by the others
nodes are named, let in, made voters and taken out (`fedq.wiring.cluster_map.roster`). A part of
`fedq.wiring.cluster_map.operations`, which carries them in commands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from fedq.core.ids import Incarnation, NodeId
from fedq.core.limits import VOTERS_MAX
from fedq.wiring.cluster_map.operation_fields import Check, count, flag, name, number, text


@dataclass(frozen=True, slots=True)
class MemberUp:
    """The process `incarnation` of `node` runs and can be reached; "host:port" addresses.

    `known` is the process that the map names so far, as the proposer saw it (0: none).
    """

    node: NodeId
    incarnation: Incarnation
    peer_address: str
    amqp_address: str
    zone: str
    #: The process's own random id, and the wall clock when it began; "": of an earlier release,
    #: whose processes are told apart by their numbers alone.
    start: str = ""
    started_ms: int = 0
    known: int = 0
    known_start: str = ""
    #: Its data directory did not go on from the known process: its copies count as old.
    behind: bool = False
    #: That directory's random id; "": it is not said before the cluster speaks
    #: `versions.DIRECTORIES`.
    directory: str = ""


@dataclass(frozen=True, slots=True)
class MemberDown:
    """The process `incarnation` of `node` is gone, or silent for so long that it counts as gone."""

    node: NodeId
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class JoinEra:
    """The process has heard of the non-durable objects from one that knew them."""

    node: NodeId
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class NewEra:
    """Begins an era: every process that knew the non-durable objects is gone; forget them."""


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
MemberOperation: TypeAlias = MemberUp | MemberDown | JoinEra | NewEra | Speaks | RosterOperation


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


def _member_up_before(
    node: NodeId, incarnation: Incarnation, peer_address: str, amqp_address: str, zone: str
) -> MemberUp:
    """The form of `MemberUp` in releases that told processes apart by their numbers alone."""
    return MemberUp(node, incarnation, peer_address, amqp_address, zone)


def _process_up(
    node: NodeId, incarnation: Incarnation, peer_address: str, amqp_address: str, zone: str,
    start: str, started_ms: int, known: int, known_start: str, behind: bool,
) -> MemberUp:  # fmt: skip
    """The form of a process that does not say which data directory it has."""
    return MemberUp(
        node, incarnation, peer_address, amqp_address, zone, start, started_ms, known, known_start,
        behind,
    )  # fmt: skip


def form_of_process(operation: MemberUp) -> str:
    """The name on the wire of a process that came up."""
    return "process_of_directory_up" if operation.directory else "process_up"


_FIRST: Final[dict[str, Check]] = {
    "node": name,
    "incarnation": number,
    "peer_address": text,
    "amqp_address": text,
    "zone": text,
}
_PROCESS: Final[dict[str, Check]] = {
    **_FIRST,
    "start": text,
    "started_ms": count,
    "known": count,
    "known_start": text,
    "behind": flag,
}

#: Name on the wire -> the operation's class and the check of each field.
MEMBER_FORMS: Final[dict[str, tuple[Callable[..., MemberOperation], dict[str, Check]]]] = {
    "member_up": (_member_up_before, _FIRST),
    "process_up": (_process_up, _PROCESS),
    "process_of_directory_up": (MemberUp, {**_PROCESS, "directory": name}),
    "member_down": (MemberDown, {"node": name, "incarnation": number}),
    "join_era": (JoinEra, {"node": name, "incarnation": number}),
    "new_era": (NewEra, {}),
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
