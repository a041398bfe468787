"""Which nodes hold a fragment: spread over zones, then where the least is, then by a hash.

Inputs: what is placed (a text), the nodes that may hold it with their zones and what each has,
those that already do. Output: nodes in order of preference. The hash (rendezvous hashing) is fixed
for ever (BLAKE2b), so every node and every version places alike; a node that comes or goes moves
only what it held or will hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from fedq.core.ids import FragmentId, NodeId

NOTHING_HELD: Final[Mapping[NodeId, int]] = {}


def weight(subject: str, node: NodeId) -> int:
    """How strongly `node` attracts `subject`; the highest weight wins."""
    text = f"{len(subject)}/{subject}/{node}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def fragment_subject(fragment: FragmentId) -> str:
    """The subject under which a fragment's copies are placed."""
    return f"fragment {fragment}"


def choose(
    subject: str, zones: Mapping[NodeId, str], taken: Sequence[NodeId], count: int,
    held: Mapping[NodeId, int] = NOTHING_HELD,
) -> list[NodeId]:  # fmt: skip
    """Up to `count` further nodes for what the nodes in `taken` already hold.

    `zones` maps each node that may be chosen to its zone; it may also hold those in `taken`, whose
    zones are then avoided as long as there are others. `held`: how much each node has already; of
    several in equally good zones one with the least is chosen.
    """
    load: dict[str, int] = {}
    for node in taken:
        if node in zones:
            load[zones[node]] = load.get(zones[node], 0) + 1
    left = {node: weight(subject, node) for node in zones if node not in taken}
    chosen: list[NodeId] = []
    while left and len(chosen) < count:
        best = min(
            left, key=lambda node: (load.get(zones[node], 0), held.get(node, 0), -left[node], node)
        )
        del left[best]
        load[zones[best]] = load.get(zones[best], 0) + 1
        chosen.append(best)
    return chosen


def zones_covered(nodes: Iterable[NodeId], zones: Mapping[NodeId, str]) -> int:
    """How many zones the given nodes lie in."""
    return len({zones[node] for node in nodes if node in zones})
