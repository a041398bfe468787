"""Why a queue has the shape it has: why a fragment is there, stays, and is led where it is.

Input: a living node, and a fragment that it leads. Output: a `ShapeOverview`. What is said are the
very reasons by which the node decides (`fedq.node.cluster.retiring`, `handing_over`).
"""

from collections.abc import Iterator

from fedq.core.ids import NodeId
from fedq.core.ranges import count
from fedq.node.node import Node
from fedq.node.records.roles import Primary
from fedq.node.views.storage_types import FragmentCause, ShapeOverview
from fedq.wiring.cluster_map.records import FragmentInfo
from fedq.wiring.cluster_map.state import MapState


def cause_of(known: MapState, info: FragmentInfo) -> FragmentCause:
    """Why a fragment came."""
    if known.queues[info.queue].fragments[0] == info.id:
        return FragmentCause.DECLARED
    return FragmentCause.FIXED if known.is_fixed(info.queue) else FragmentCause.TRAFFIC


def shape_of(node: Node, primary: Primary) -> ShapeOverview | None:
    """Why a fragment that this node leads is as it is; None: it is not known here any more."""
    info = node.state.map.fragments.get(primary.fragment.fragment_id)
    if info is None:
        return None
    retiring = node.cluster.retiring
    return ShapeOverview(
        idle_ms=retiring.idle_ms(info.id),
        retiring=retiring.is_retiring(info.id),
        stays=tuple(retiring.reasons(primary, info)),
        waits=tuple(_waits(node, primary, info)),
    )


def _waits(node: Node, primary: Primary, info: FragmentInfo) -> Iterator[str]:
    """Why the fragment, or a copy of it, is not where it is wished to be."""
    cluster_map = node.state.map
    target = cluster_map.moves.get(info.id)
    if target is not None:
        yield from _of_target(node, info, target)
    elif node.state.me in cluster_map.drained:
        able = [copy for copy in info.in_sync if copy not in cluster_map.drained]
        if not able:
            yield f"{node.state.me} is drained, and no node that is not has a copy in sync"
    if target is not None or node.state.me in cluster_map.drained:
        yield from _of_hand_over(node, primary)
    for backup in info.backups:
        if backup in cluster_map.drained:
            yield f"{backup} is drained, and keeps its copy until another node has one in sync"


def _of_target(node: Node, info: FragmentInfo, target: NodeId) -> Iterator[str]:
    """Why the node that is to lead does not."""
    peer = node.state.peers.get(target)
    if target not in info.copies:
        yield f"{target} has no copy yet"
    elif target not in info.in_sync:
        yield f"the copy on {target} is not in sync yet"
    elif peer is not None and peer.leaving:
        yield f"{target} is being stopped"
    elif peer is not None and peer.stalls:
        yield f"the disk of {target} hangs"


def _of_hand_over(node: Node, primary: Primary) -> Iterator[str]:
    """Why the primary does not hand over."""
    messages = primary.fragment.messages
    if primary.replication.sparing:
        alone = count(messages.ranges()) - count(messages.persistent_ranges())
        if alone:
            yield (
                f"{alone} transient messages are on its primary alone (x-fedq-replicate: "
                "persistent): it moves once they are consumed"
            )
    if primary.dying:
        yield "dead letters of it are under way"
    rest_ms = node.cluster.handing.rests_for_ms(primary.fragment.fragment_id)
    if rest_ms:
        yield f"it could not be handed over quietly: tried again in {rest_ms // 1_000 + 1} s"
