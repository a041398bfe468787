"""Operations by which fragments are retired, or operators name copies, or numbers of fragments.

With their forms, and that of `SetCopies`. A part of `fedq.wiring.cluster_map.operations`, which
carries them in commands; what they do is in `fedq.wiring.cluster_map.copies`.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from fedq.core import limits
from fedq.core.ids import Epoch, FragmentId, Incarnation, MapVersion, NodeId, QueueKey
from fedq.wiring.cluster_map.operation_fields import (
    Check,
    copies,
    count,
    flag,
    name,
    nodes,
    number,
    text,
)


@dataclass(frozen=True, slots=True)
class RetireFragment:
    """The fragment goes, and the queue lives on in its others.

    In logs it may be; nobody proposes it, since it does not say when all were quiet: `RetireIdle`.
    """

    fragment: FragmentId
    expected_epoch: Epoch


@dataclass(frozen=True, slots=True)
class RetireIdle:
    """The fragment is empty and without traffic: it goes, and the queue lives on in its others.

    `since`: at this version of the map its primary began to ask everybody to keep quiet about it,
    and everybody does as long as nobody goes down or comes up (docs/adr/0100). Not proposed before
    the cluster speaks `versions.RETIRING`.
    """

    fragment: FragmentId
    expected_epoch: Epoch
    since: MapVersion


@dataclass(frozen=True, slots=True)
class AdoptCopy:
    """An operator has this process's copy count, as all that were in sync are gone (ADR 0071).

    Never proposed by a node of its own accord, nor before the cluster speaks `versions.ADOPTING`.
    """

    fragment: FragmentId
    expected_epoch: Epoch
    node: NodeId
    incarnation: Incarnation


@dataclass(frozen=True, slots=True)
class ShapeQueue:
    """An operator has the queue in so many fragments; 0: as many as its traffic asks for.

    It grows at once, as far as there are nodes, and shrinks as its last fragments are empty and
    quiet (docs/adr/0086). Its declaration stays as it is. Not proposed before the cluster speaks
    `versions.SHAPES`.
    """

    vhost: str
    name: str
    fragments: int


class ShapeChanged(NamedTuple):
    """An operator has set how many fragments a queue has, or it is gone: the table, and which."""

    table: str
    key: QueueKey


def _fragments(value: object) -> int:
    """Checks a number of fragments; 0 is one, too."""
    found = count(value)
    if found > limits.FRAGMENTS_PER_QUEUE_MAX:
        raise ValueError(f"is more than {limits.FRAGMENTS_PER_QUEUE_MAX}")
    return found


ADOPT_FIELDS: Final[dict[str, Check]] = {
    "fragment": number,
    "expected_epoch": number,
    "node": name,
    "incarnation": number,
}
SHAPE_FIELDS: Final[dict[str, Check]] = {"vhost": text, "name": text, "fragments": _fragments}
RETIRE_FIELDS: Final[dict[str, Check]] = {"fragment": number, "expected_epoch": number}
RETIRE_IDLE_FIELDS: Final[dict[str, Check]] = {**RETIRE_FIELDS, "since": number}
SET_COPIES_FIELDS: Final[dict[str, Check]] = {
    "fragment": number,
    "expected_epoch": number,
    "primary": name,
    "backups": nodes,
    "in_sync": copies,
    "restart": flag,
}
