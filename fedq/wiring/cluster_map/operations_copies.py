"""The replicated operations by which a fragment is retired, or an operator names its copy.

With their forms, and that of `SetCopies`. A part of `fedq.wiring.cluster_map.operations`, which
carries them in commands; what they do is in `fedq.wiring.cluster_map.copies`.
"""

from dataclasses import dataclass
from typing import Final

from fedq.core.ids import Epoch, FragmentId, Incarnation, MapVersion, NodeId
from fedq.wiring.cluster_map.operation_fields import Check, copies, flag, name, nodes, number


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


ADOPT_FIELDS: Final[dict[str, Check]] = {
    "fragment": number,
    "expected_epoch": number,
    "node": name,
    "incarnation": number,
}
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
