"""Which nodes hold a fragment: rendezvous hashing, spread over zones first.

Inputs: what is placed (a text), the nodes that may hold it with their zones, those that already
do. Output: nodes in order of preference. The hash is fixed for ever (BLAKE2b), so every node and
every version places alike; a node that comes or goes moves only what it held or will hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from fedq.core.ids import FragmentId, NodeId


def weight(subject: str, node: NodeId) -> int:
    """How strongly `node` attracts `subject`; the highest weight wins."""
    text = f"{len(subject)}/{subject}/{node}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def fragment_subject(fragment: FragmentId) -> str:
    """The subject under which a fragment's copies are placed."""
    return f"fragment {fragment}"


def choose(
    subject: str, zones: Mapping[NodeId, str], taken: Sequence[NodeId], count: int
) -> list[NodeId]:
    """Up to `count` further nodes for what the nodes in `taken` already hold.

    `zones` maps each node that may be chosen to its zone; it may also hold those in `taken`, whose
    zones are then avoided as long as there are others.
    """
    load: dict[str, int] = {}
    for node in taken:
        if node in zones:
            load[zones[node]] = load.get(zones[node], 0) + 1
    left = {node: weight(subject, node) for node in zones if node not in taken}
    chosen: list[NodeId] = []
    while left and len(chosen) < count:
        best = min(left, key=lambda node: (load.get(zones[node], 0), -left[node], node))
        del left[best]
        load[zones[best]] = load.get(zones[best], 0) + 1
        chosen.append(best)
    return chosen


def zones_covered(nodes: Iterable[NodeId], zones: Mapping[NodeId, str]) -> int:
    """How many zones the given nodes lie in."""
    return len({zones[node] for node in nodes if node in zones})
