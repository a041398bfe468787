"""Which nodes hold a fragment: on far hosts and zones, then where the least is, then by a hash.

Inputs: what is placed (a text), the nodes that may hold it with their sites and what each has,
those that already do. Output: nodes in order of preference. The hash (rendezvous hashing) is fixed
for ever (BLAKE2b), so every node and every version places alike; a node that comes or goes moves
only what it held or will hold.

Hosts are zones within zones (docs/adr/0098). A node's host is that of its peer address, so workers
of one host are known for what they are. Hosts come first: none gets a second copy while another one
has room. That takes nothing from zones: of those that have none yet, all hosts have none.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from fedq.core.ids import FragmentId, NodeId

NOTHING_HELD: Final[Mapping[NodeId, int]] = {}


class Site(NamedTuple):
    """Where a node is: its zone, and its host in that; "": all of a zone count as one host."""

    zone: str
    host: str = ""


def host_of(peer_address: str) -> str:
    """The host of "host:port", as nodes are reached there by their peers."""
    return peer_address.rpartition(":")[0].lower()


def weight(subject: str, node: NodeId) -> int:
    """How strongly `node` attracts `subject`; the highest weight wins."""
    text = f"{len(subject)}/{subject}/{node}".encode()
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def fragment_subject(fragment: FragmentId) -> str:
    """The subject under which a fragment's copies are placed."""
    return f"fragment {fragment}"


def choose(
    subject: str, sites: Mapping[NodeId, Site], taken: Sequence[NodeId], count: int,
    held: Mapping[NodeId, int] = NOTHING_HELD,
) -> list[NodeId]:  # fmt: skip
    """Up to `count` further nodes for what the nodes in `taken` already hold.

    `sites` has each node that may be chosen; it may also hold those in `taken`, whose hosts and
    zones are then avoided as long as there are others. `held`: how much each node has already; of
    several at equally good sites one with the least is chosen.
    """
    if count <= 0:
        return []
    hosts: dict[Site, int] = {}
    zones: dict[str, int] = {}

    def take(site: Site) -> None:
        hosts[site] = hosts.get(site, 0) + 1
        zones[site.zone] = zones.get(site.zone, 0) + 1

    def merit(node: NodeId) -> tuple[int, int, int, int, NodeId]:
        site = sites[node]
        load = hosts.get(site, 0), zones.get(site.zone, 0)
        return (*load, held.get(node, 0), -left[node], node)

    for node in taken:
        if node in sites:
            take(sites[node])
    left = {node: weight(subject, node) for node in sites if node not in taken}
    chosen: list[NodeId] = []
    while left and len(chosen) < count:
        best = min(left, key=merit)
        del left[best]
        take(sites[best])
        chosen.append(best)
    return chosen


class Spread(NamedTuple):
    """How far apart nodes are; more hosts are better, then more zones."""

    hosts: int
    zones: int


def spread(nodes: Iterable[NodeId], sites: Mapping[NodeId, Site]) -> Spread:
    """How many hosts and zones the given nodes lie in."""
    found = {sites[node] for node in nodes if node in sites}
    return Spread(len(found), len({site.zone for site in found}))
