"""Which shovels there are by the map, and which node runs each (docs/adr/0114).

Reads only. Every node finds the same place for a shovel from the same map: of the members that are
up and not drained the one that draws the lowest number from the shovel's name and its own
(rendezvous hashing). So when a member goes, its shovels go to others, and no other one moves.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from fedq.core.ids import NodeId, QueueKey
from fedq.wiring.cluster_map.parameters import value_of
from fedq.wiring.cluster_map.shovel_definitions import SHOVEL, Shovel, shovel_of
from fedq.wiring.cluster_map.state import MapState

_DRAW_BYTES: Final = 8


class ShovelState(NamedTuple):
    """How one shovel of this node fares."""

    state: str
    since_ms: int = 0
    messages: int = 0
    bytes: int = 0
    unsettled: int = 0
    error: str = ""
    restarts: int = 0


#: What is known of a node's own shovels, by virtual host and name.
LocalShovels = Callable[[], dict[QueueKey, ShovelState]]


def no_shovels() -> dict[QueueKey, ShovelState]:
    """What a node knows that runs none."""
    return {}


class PlacedShovels(Protocol):
    """The questions about shovels of the floors above."""

    def shovels(self) -> Mapping[QueueKey, Shovel]:
        """All shovels of the map, by virtual host and name."""

    def values(self) -> dict[QueueKey, str]:
        """What the map says of them, as JSON."""

    def runners(self) -> Sequence[NodeId]:
        """The members that may run some, in order."""


class ShovelView:
    """The `PlacedShovels` of a map; every call reads its present state."""

    __slots__ = ("_known", "_map", "_said")

    def __init__(self, known: MapState) -> None:
        self._map = known
        #: What the map says of shovels, and what it meant when it was read.
        self._said: dict[QueueKey, str] = {}
        self._known: dict[QueueKey, Shovel] = {}

    def shovels(self) -> Mapping[QueueKey, Shovel]:
        """The shovels of the map."""
        said = self.values()
        if said != self._said:
            self._said = said
            self._known = {key: shovel_of(value_of(value)) for key, value in said.items()}
        return self._known

    def values(self) -> dict[QueueKey, str]:
        """The values of the parameters that are shovels."""
        return {
            QueueKey(key.vhost, key.name): value
            for key, value in self._map.parameters.items()
            if key.component == SHOVEL
        }

    def runners(self) -> Sequence[NodeId]:
        """Members that are up and not drained; if all are drained, whoever is up."""
        return sorted(self._map.open_sites())


def places(known: PlacedShovels) -> dict[QueueKey, NodeId]:
    """The member that has to run each shovel; none where no member is up."""
    runners = known.runners()
    if not runners:
        return {}
    return {
        key: min(runners, key=lambda node: (_drawn(key, node), node)) for key in known.shovels()
    }


def _drawn(key: QueueKey, node: NodeId) -> bytes:
    text = f"{key.vhost}\0{key.name}\0{node}"
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=_DRAW_BYTES).digest()
