"""The replicated operation by which members say which versions they speak, and its form.

A part of `fedq.wiring.cluster_map.operations`, which carries it in commands; what it does is in
`fedq.wiring.cluster_map.releases`.
"""

from dataclasses import dataclass
from typing import Final

from fedq.core.ids import Incarnation, NodeId
from fedq.wiring.cluster_map.operation_fields import Check, name, number


@dataclass(frozen=True, slots=True)
class Speaks:
    """The process `incarnation` of `node` speaks these versions (`fedq.core.versions`)."""

    node: NodeId
    incarnation: Incarnation
    oldest: int
    newest: int


SPEAKS_FIELDS: Final[dict[str, Check]] = {
    "node": name,
    "incarnation": number,
    "oldest": number,
    "newest": number,
}
